r"""Coordinates that are cut off at bounds, or moved to them, against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from scipy.stats import kstest, norm, truncnorm
from torch.distributions import Normal, Uniform

from botorch_risk.environments import BoundedMarginals

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
NORMAL = Normal(torch.tensor(0.4, dtype=torch.double), 0.3)


def test_truncated_is_scipys_truncated_normal():
    bounded = BoundedMarginals(NORMAL, UNIT)
    scipys = truncnorm((0 - 0.4) / 0.3, (1 - 0.4) / 0.3, 0.4, 0.3)
    levels = torch.linspace(0.01, 0.99, 30, dtype=torch.double).unsqueeze(-1)
    np.testing.assert_allclose(bounded.from_uniforms(levels), scipys.ppf(levels), rtol=1e-9)
    values = torch.linspace(0, 1, 30, dtype=torch.double).unsqueeze(-1)
    np.testing.assert_allclose(bounded.log_prob(values), scipys.logpdf(values.flatten()))
    assert (bounded.log_prob(values + 1.01) == -torch.inf).all()
    assert (bounded.atoms == 0).all()
    assert kstest(bounded.sample((5000,)).flatten().numpy(), scipys.cdf).pvalue > 1e-3


def test_clipped_mass_is_that_of_scipys_tails():
    bounded = BoundedMarginals(NORMAL, UNIT, beyond="clip")
    tails = [norm(0.4, 0.3).cdf(0.0), norm(0.4, 0.3).sf(1.0)]
    assert bounded.atoms.flatten().tolist() == pytest.approx(tails)
    draws = bounded.sample((20_000,)).flatten()
    found = [(draws == bound).double().mean().item() for bound in (0.0, 1.0)]
    assert found == pytest.approx(tails, abs=0.01)
    inside = torch.tensor([[0.7]], dtype=torch.double)
    assert bounded.interior_log_density(inside).item() == pytest.approx(norm(0.4, 0.3).logpdf(0.7))
    with pytest.raises(UnsupportedError, match="its bounds carry probability"):
        bounded.log_prob(inside)


def test_each_coordinate_has_its_own_box_and_distribution():
    loc = torch.tensor([0.0, 10.0], dtype=torch.double)
    box = torch.tensor([[-1.0, 9.0], [0.0, 12.0]], dtype=torch.double)
    bounded = BoundedMarginals(Normal(loc, 1.0), box)
    draws = bounded.sample((200,))
    assert draws.shape == (200, 2)
    assert ((draws >= box[0]) & (draws <= box[1])).all()
    values = torch.tensor([[-0.5, 11.0]], dtype=torch.double)
    each = [BoundedMarginals(Normal(loc[i], 1.0), box[:, i : i + 1]) for i in range(2)]
    expected = sum(one.log_prob(values[:, i : i + 1]) for i, one in enumerate(each))
    torch.testing.assert_close(bounded.log_prob(values), expected)


def test_refuses_a_box_without_mass():
    with pytest.raises(ValueError, match="Expected mass within the bounds"):
        BoundedMarginals(Normal(0.0, 1.0), UNIT + 50)
    with pytest.raises(ValueError, match="within the support"):
        BoundedMarginals(Uniform(0.0, 1.0), UNIT + 2)
    with pytest.raises(ValueError, match="Expected `beyond` to be one of"):
        BoundedMarginals(NORMAL, UNIT, beyond="fold")
