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
    ("prior", "mean"), [(GammaPrior(3.0, 6.0), 0.5), (NormalPrior(0.2, 0.7), 0.2)]
)
def test_draws_have_the_mean_of_the_prior(prior: Prior, mean: float) -> None:
    generator = np.random.default_rng(0)
    drawn = [draw(prior, SHAPE, BATCH, generator, replicate=1) for _ in range(2000)]
    np.testing.assert_allclose(np.mean(drawn), mean, atol=0.05)


def test_draws_of_a_log_normal_have_its_median() -> None:
    prior, generator = LogNormalPrior(-4.0, 1.0), np.random.default_rng(0)
    drawn = [draw(prior, SHAPE, BATCH, generator, replicate=0) for _ in range(2000)]
    np.testing.assert_allclose(np.median(np.log(drawn)), -4.0, atol=0.1)


def test_other_priors_are_not_drawn_from() -> None:
    generator = np.random.default_rng(0)
    assert draw(HalfCauchyPrior(1.0), SHAPE, BATCH, generator, replicate=0) is None


def test_only_normal_priors_have_a_precision() -> None:
    location, precision = normal_precision([NormalPrior(0.2, 0.5)], SHAPE, BATCH)
    assert (location == np.float32(0.2)).all() and (precision == 4.0).all()
    with pytest.raises(ValueError, match=r"Expected normal `priors`\. Got HalfCauchyPrior"):
        normal_precision([HalfCauchyPrior(1.0)], SHAPE, BATCH)
