r"""Mixtures of distributions of any families, against their components."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import Cauchy, Normal

from botorch_risk.environments import Mixture

HALF = torch.tensor(0.5, dtype=torch.double)


COMPONENTS = [Normal(0.1 * HALF, 0.02), Normal(HALF, 0.1 * HALF), Cauchy(1.6 * HALF, 0.04 * HALF)]


@pytest.mark.parametrize("level", [1e-6, 0.1, 0.5, 0.95])
def test_quantiles_of_a_mixture_invert_its_cdf(level):
    mixture = Mixture(COMPONENTS)
    quantile = mixture.icdf(torch.tensor([level], dtype=torch.double))
    assert mixture.cdf(quantile).item() == pytest.approx(level, abs=1e-12)
    densities = [component.log_prob(quantile).exp().item() for component in COMPONENTS]
    assert mixture.log_prob(quantile).exp().item() == pytest.approx(np.mean(densities))


def test_quantiles_far_between_components_are_as_accurate_as_doubles_allow():
    mixture = Mixture([Normal(0.0 * HALF, 1.0), Normal(2e9 * HALF, 1.0)])
    quantile = mixture.icdf(torch.tensor([0.25], dtype=torch.double))
    assert quantile.item() == pytest.approx(0.0, abs=1e-7)


def test_density_is_the_mean_of_its_components():
    values = torch.linspace(-0.5, 1.5, 50, dtype=torch.double)
    expected = torch.stack([component.log_prob(values).exp() for component in COMPONENTS])
    torch.testing.assert_close(Mixture(COMPONENTS).log_prob(values).exp(), expected.mean(dim=0))


def test_refuses_components_that_do_not_fit():
    for components in ([], [Normal(HALF, 1.0), Normal(torch.zeros(2), 1.0)]):
        with pytest.raises(ValueError, match="Expected scalar distributions of one batch shape"):
            Mixture(components)
