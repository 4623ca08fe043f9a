r"""The expected number of classified decisions, against readings that are played through."""

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.settings import validate_input_scaling
from torch import Tensor

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.level_sets import ExpectedClassification
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, ShareAbove

W = DiscreteEnvironment(
    torch.tensor([[0.1], [0.35], [0.9]]).double(), torch.tensor([0.2, 0.5, 0.3]).double()
)
COMPARED = torch.tensor([[0.05], [0.3], [0.55], [0.8]]).double()
LEVEL, BETA = 1.1, 2.0


def model(batch_shape: tuple[int, ...] = ()) -> SingleTaskGP:
    generator = torch.Generator().manual_seed(3)
    X = torch.rand(*batch_shape, 7, 2, generator=generator, dtype=torch.double)
    return process(X, (5 * X).sin().sum(dim=-1, keepdim=True))


def process(X: Tensor, Y: Tensor) -> SingleTaskGP:
    with validate_input_scaling(False):
        found = SingleTaskGP(X, Y, outcome_transform=None)
    found.covar_module.lengthscale, found.likelihood.noise = 0.4, 0.02
    return found.eval()


def build(known: SingleTaskGP, **options: object) -> ExpectedClassification:
    arguments = {"threshold": LEVEL, "beta": BETA, "variance_weight": 0.0, **options}
    return ExpectedClassification(known, W, Expectation(), COMPARED, **arguments)  # type: ignore[arg-type]


def classified(known: SingleTaskGP) -> Tensor:
    r"""How many expectations over W have an interval on one side of the level, `batch_shape`."""
    pairs, weights = W.expand(COMPARED)
    posterior = known.posterior(pairs.flatten(0, 1)).distribution
    mean = posterior.mean.unflatten(-1, (4, 3)) @ weights[0]
    covariance = posterior.covariance_matrix.unflatten(-1, (4, 3)).unflatten(-3, (4, 3))
    variance = torch.einsum("...pipj,i,j->...p", covariance, weights[0], weights[0])
    return ((mean - LEVEL).abs() > (BETA * variance).sqrt()).sum(dim=-1)


@torch.no_grad()
def played_through(known: SingleTaskGP, reading: Tensor, number: int = 1000) -> float:
    r"""The average count after many outcomes of the reading, less the count now."""
    before = known.posterior(reading, observation_noise=True)
    shares = (torch.arange(number, dtype=torch.double) + 0.5) / number
    outcomes = before.mean + torch.special.ndtri(shares).view(-1, 1, 1) * before.variance.sqrt()
    X = torch.cat([known.train_inputs[0], reading]).expand(number, -1, -1)
    Y = torch.cat([known.train_targets.unsqueeze(-1).expand(number, -1, -1), outcomes], dim=-2)
    return float(classified(process(X, Y)).double().mean() - classified(known))


def test_it_is_the_count_after_the_reading_less_the_count_now() -> None:
    known = model()
    acqf = build(known, w_is_chosen=True)
    X = torch.tensor([[0.2], [0.7]]).double()
    readings = W.expand(X)[0].flatten(0, 1)  # at each w
    oracle = torch.tensor([played_through(known, each[None]) for each in readings]).view(2, 3)
    best, index = oracle.max(dim=-1)
    torch.testing.assert_close(acqf.evaluate(X), best.double(), rtol=0, atol=0.01)
    torch.testing.assert_close(acqf.best_value(X)[:, 1], W.points[index, 0])
    observed = build(known)
    torch.testing.assert_close(observed.evaluate(X), oracle.double() @ W.weights, rtol=0, atol=0.01)


def test_counts_of_several_levels_are_added_up() -> None:
    known, X = model((2,)), torch.rand(2, 5, 1, dtype=torch.double)
    levels = torch.tensor([[0.7, 1.2], [0.9, 1.4]]).double()
    together = build(known, threshold=levels).evaluate(X)
    apart = [build(known, threshold=each).evaluate(X) for each in levels.mT]
    torch.testing.assert_close(together, apart[0] + apart[1])


def test_where_nothing_can_be_classified_the_explained_variance_decides() -> None:
    known = model()
    X = torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1)
    far = build(known, threshold=LEVEL, beta=400.0, variance_weight=0.0, w_is_chosen=True)
    assert (far.evaluate(X).abs() < 1e-6).all()
    weighted = build(known, threshold=LEVEL, beta=400.0, variance_weight=1.0, w_is_chosen=True)
    scores = weighted.evaluate(X)
    assert (scores > 1e-3).all() and (scores <= len(COMPARED)).all()


@pytest.mark.parametrize("measure", [ConditionalValueAtRisk(0.4), ShareAbove(1.0)], ids=repr)
def test_any_measure_can_be_maximised_by_botorch(measure: object) -> None:
    level = 0.5 if isinstance(measure, ShareAbove) else 0.8
    acqf = ExpectedClassification(model(), W, measure, COMPARED, level, w_is_chosen=True)  # type: ignore[arg-type]
    unit = torch.tensor([[0.0], [1.0]]).double()
    x, value = optimize_acqf(acqf, unit, q=1, num_restarts=2, raw_samples=16, options={"seed": 0})
    on_a_grid = acqf.evaluate(torch.linspace(0, 1, 101).double().unsqueeze(-1))
    assert value > on_a_grid.max() - 0.02
    assert acqf.best_value(x)[0, 1] in W.points


def test_bad_input() -> None:
    known = model()
    with pytest.raises(ValueError, match="Expected a finite `threshold`"):
        build(known, threshold=torch.nan)
    with pytest.raises(ValueError, match="variance_weight"):
        build(known, variance_weight=-1.0)
    for no_number in (None, "high"):
        with pytest.raises(TypeError, match="Expected `threshold` to be a tensor, or an array"):
            build(known, threshold=no_number)
    two = model((2,))
    for process_of, level in (
        (two, torch.ones(3)),
        (two, torch.ones(2, 0)),
        (known, []),
        (known, torch.ones(2, 2)),
    ):
        with pytest.raises(BotorchTensorDimensionError, match="`threshold` to be a number"):
            build(process_of, threshold=level)
