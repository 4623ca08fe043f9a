r"""Priors whose densities have a closed form."""

import numpy as np
import pytest
import torch
from gpytorch.priors import (
    GammaPrior,
    HalfCauchyPrior,
    LogNormalPrior,
    NormalPrior,
    Prior,
    SmoothedBoxPrior,
)

from botorch_risk.engine.fit.priors import draw, log_density, normal_precision
from botorch_risk.seeding import Draws

BATCH = torch.Size([3])
SHAPE = torch.Size([3, 1, 2])

PRIORS = {
    "log normal": lambda: LogNormalPrior(0.3, 3**0.5),
    "gamma": lambda: GammaPrior(3.0, 6.0),
    "normal": lambda: NormalPrior(0.2, 0.7),
    "per replicate": lambda: LogNormalPrior(torch.arange(3.0).view(3, 1, 1), torch.tensor(0.7)),
    "half cauchy": lambda: HalfCauchyPrior(0.8),
    "smoothed box": lambda: SmoothedBoxPrior(0.1, 2.0),
    "transformed": lambda: NormalPrior(0.0, 1.0, transform=torch.log),
}


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("rows", [[0, 1, 2], [2], [0, 1, 2, 3, 4, 5], [1, 5]])
def test_value_and_gradient_equal_those_of_gpytorch(name: str, rows: list[int]) -> None:
    prior = PRIORS[name]().double()
    index = np.array(rows)
    x = np.random.default_rng(0).uniform(0.2, 2.0, (len(rows), 2))
    value, gradient = log_density(prior, SHAPE, BATCH)(x, index)
    whole = torch.ones(SHAPE).double()
    for row, values in enumerate(x):
        whole[rows[row] % 3, 0] = torch.tensor(values)
        natural = whole.clone().requires_grad_()
        expected = prior.log_prob(natural).reshape(3, -1).sum(-1)[rows[row] % 3]
        (slope,) = torch.autograd.grad(expected, natural)
        np.testing.assert_allclose(value[row], expected.item(), atol=1e-12)
        np.testing.assert_allclose(gradient[row], slope[rows[row] % 3, 0], atol=1e-12)


@pytest.mark.parametrize(
    ("prior", "median"), [(GammaPrior(3.0, 6.0), 0.4457), (NormalPrior(0.2, 0.7), 0.2),
                          (LogNormalPrior(-4.0, 1.0), np.exp(-4.0))]
)  # fmt: skip
def test_draws_are_of_the_prior(prior: Prior, median: float) -> None:
    batch = torch.Size([4000])
    drawn = draw(prior, torch.Size([4000, 1, 2]), batch, Draws(range(4000)))
    assert drawn is not None and drawn.shape == (4000, 2)
    np.testing.assert_allclose((drawn < median).mean(axis=0), 0.5, atol=0.03)
    mean, variance = prior.mean.item(), prior.variance.item()
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=4 * (variance / 4000) ** 0.5)


def test_each_replicate_is_drawn_from_its_own_prior() -> None:
    prior = LogNormalPrior(torch.arange(3.0).view(3, 1, 1), torch.tensor(1e-3))
    drawn = draw(prior, SHAPE, BATCH, Draws([5, 6, 7]))
    np.testing.assert_allclose(np.log(drawn), np.tile(np.arange(3.0)[:, None], 2), atol=0.01)


def test_other_priors_are_not_drawn_from() -> None:
    assert draw(HalfCauchyPrior(1.0), SHAPE, BATCH, Draws([0, 1, 2])) is None


def test_only_normal_priors_have_a_precision() -> None:
    location, precision = normal_precision([NormalPrior(0.2, 0.5)], SHAPE, BATCH)
    assert (location == np.float32(0.2)).all() and (precision == 4.0).all()
    with pytest.raises(ValueError, match=r"Expected normal `priors`\. Got HalfCauchyPrior"):
        normal_precision([HalfCauchyPrior(1.0)], SHAPE, BATCH)
