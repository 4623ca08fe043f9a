r"""The value of W whose reading tells most of the risk."""

from typing import Any

import pytest
import torch
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP
from gpytorch.kernels import RBFKernel
from torch import Tensor

from botorch_risk.acquisition import select_value
from botorch_risk.constraints import RiskConstraint
from botorch_risk.environments import DiscreteEnvironment, InputPerturbation
from botorch_risk.gradients import condition
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MaximumMeanDiscrepancyBall,
    MeanVariance,
    ShareAbove,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.robust import robust
from tests.waves import model_of, waves

W = torch.tensor([[0.1], [0.3], [0.5], [0.9]], dtype=torch.double)
KNOWN = DiscreteEnvironment(W, torch.tensor([0.1, 0.5, 0.4, 0.0], dtype=torch.double))


def decisions(*batch: int) -> Tensor:
    return torch.rand(*batch, 3, 1, dtype=torch.double)


def test_the_reading_reduces_the_variance_of_the_mean_risk_most() -> None:
    r"""Against conditioning the model on a reading at each value, to 1e-10 of the variance."""
    model = model_of()
    X = decisions()
    found = select_value(model, KNOWN, Expectation(), X)
    for x, chosen in zip(X, found, strict=True):
        pairs = torch.cat([x.expand(len(W), 1), W], dim=-1)
        left = []
        for pair in pairs[:3]:  # the last has no weight
            with torch.no_grad():
                told: Any = condition(model, pair[None], torch.zeros(1, 1).double())
                covariance = told.posterior(pairs).distribution.covariance_matrix
            left.append(float(KNOWN.weights @ covariance @ KNOWN.weights))
        assert torch.equal(chosen, pairs[int(torch.tensor(left).argmin())])


@pytest.mark.parametrize(
    "measure",
    [
        Expectation(),
        ConditionalValueAtRisk(0.2),
        ValueAtRisk(0.2),
        WorstCase(),
        MeanVariance(1.0),
        TotalVariationBall(0.2),
        MaximumMeanDiscrepancyBall(0.1, RBFKernel()),
    ],
    ids=lambda each: type(each).__name__,
)
def test_each_replicate_chooses_as_if_alone_and_within_the_support(measure: Any) -> None:
    model = model_of(3)
    X = decisions(3)
    found = select_value(model, KNOWN, measure, X)
    assert found.shape == (3, 3, 2)
    assert torch.equal(found[..., :1], X)
    assert all(w in W[:3] for w in found[..., 1:].flatten())
    for row in range(3):
        inputs = model.train_inputs[0][row]
        alone = SingleTaskGP(inputs, waves(inputs).unsqueeze(-1))
        assert torch.equal(select_value(alone, KNOWN, measure, X[row]), found[row])


def test_a_value_that_was_read_often_is_not_chosen_again() -> None:
    model = model_of()
    x = torch.tensor([[0.4]], dtype=torch.double)
    pair = select_value(model, KNOWN, WorstCase(), x)
    for _ in range(3):
        with torch.no_grad():
            model = condition(model, pair, torch.zeros(1, 1).double())
    assert not torch.equal(select_value(model, KNOWN, Expectation(), x), pair)


@pytest.mark.parametrize(
    "measure", [ConditionalValueAtRisk(0.2), MeanVariance(0.5), ShareAbove(0.7)], ids=repr
)
def test_a_transform_says_which_outcome_is_the_objective_and_its_unit(measure: Any) -> None:
    r"""Against a model that was told the transformed outcome, with the same hyperparameters."""
    model, X = model_of(), torch.linspace(0, 1, 9, dtype=torch.double)[:, None]
    inputs = model.train_inputs[0]
    two = ModelListGP(SingleTaskGP(inputs, inputs[:, :1]), model)
    for weight, offset in ((1.0, 0.0), (-1.0, 0.0), (-2.0, 0.3)):
        outcomes = weight * waves(inputs).unsqueeze(-1) + offset
        told = SingleTaskGP(inputs, outcomes)
        for outer, inner in zip(told.parameters(), model.parameters(), strict=True):
            outer.data = inner.data.clone()
        told.mean_module.initialize(constant=weight / abs(weight) * model.mean_module.constant)
        weights = torch.tensor([0.0, weight], dtype=torch.double)
        transform = ScalarizedPosteriorTransform(weights, offset)
        found = select_value(two, KNOWN, measure, X, posterior_transform=transform)
        assert torch.equal(found, select_value(told, KNOWN, measure, X))


@pytest.mark.parametrize(
    "transform",
    [
        ScalarizedPosteriorTransform(torch.ones(2, dtype=torch.double)),
        ExpectationPosteriorTransform(2),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_transform_that_mixes_outcomes_is_refused(transform: Any) -> None:
    model = ModelListGP(model_of(), model_of())
    with pytest.raises(UnsupportedError, match=r"one weight that is not 0, and one risk. Got"):
        select_value(model, KNOWN, Expectation(), decisions(), posterior_transform=transform)


@pytest.mark.parametrize("form", [Tensor.float, Tensor.numpy, Tensor.tolist], ids=["f", "n", "l"])
def test_w_is_the_environments_own_value_whatever_the_form_of_the_decisions(form: Any) -> None:
    model = model_of()
    two = ModelListGP(model, model_of())
    X = torch.tensor([[0.25], [0.75]], dtype=torch.double)  # exact in single precision
    for each, measures in ((model, Expectation()), (two, [Expectation(), WorstCase()])):
        found = select_value(each, KNOWN, measures, form(X))
        assert torch.equal(found, select_value(each, KNOWN, measures, X))
        assert (found[:, 1:, None] == W).any(dim=-2).all()


def test_a_perturbed_decision_is_what_is_queried() -> None:
    model = model_of()
    errors = InputPerturbation(torch.tensor([[-0.1, 0.0], [0.1, 0.0]], dtype=torch.double))
    x = torch.rand(4, 2, dtype=torch.double)
    found = select_value(model, errors, ConditionalValueAtRisk(0.3), x)
    assert ((found - x).abs() - torch.tensor([0.1, 0.0], dtype=torch.double)).abs().amax() < 1e-12


def constraint(threshold: float, environment: Any = KNOWN) -> RiskConstraint:
    return RiskConstraint(environment, Expectation(), threshold, outcome=1)


@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not")
def test_a_constraint_counts_as_far_as_it_is_in_doubt() -> None:
    one, two = model_of(), model_of()
    model = ModelListGP(one, two)
    X = torch.linspace(0, 1, 9, dtype=torch.double)[:, None]
    alone = select_value(one, KNOWN, Expectation(), X)
    for certain in (-1e3, 1e3):
        with_constraint = select_value(
            model, KNOWN, Expectation(), X, constraints=[constraint(certain)]
        )
        assert torch.equal(with_constraint, alone)
    both = ModelListGP(one, one)
    same = select_value(both, KNOWN, Expectation(), X, constraints=[constraint(0.0)])
    assert torch.equal(same, alone)  # what tells of the objective tells of the constraint
    sure = ModelListGP(_known(one), two)  # nothing is left to learn of the objective
    for x in X.split(1):
        inputs, weights = KNOWN.expand(x)
        with torch.no_grad():
            doubt = (two.posterior(inputs[0]).mean.squeeze(-1) @ weights[0]).item()
        found = select_value(sure, KNOWN, Expectation(), x, constraints=[constraint(doubt)])
        assert torch.equal(found, select_value(two, KNOWN, Expectation(), x))


def _known(model: SingleTaskGP) -> SingleTaskGP:
    r"""A model without uncertainty to speak of."""
    X = torch.rand(80, 2, dtype=torch.double)
    known = SingleTaskGP(X, X.sum(dim=-1, keepdim=True), torch.full((80, 1), 1e-5).double(),
                         outcome_transform=None)  # fmt: skip
    known.covar_module.lengthscale = 3.0
    return known


def test_a_constraint_may_be_over_other_values() -> None:
    r"""Of an environment of its own, which holds the same points, nothing is different."""
    model = ModelListGP(model_of(), model_of())
    X = torch.linspace(0, 1, 9, dtype=torch.double)[:, None]
    other = DiscreteEnvironment(KNOWN.points, KNOWN.weights)
    one, two = (
        select_value(model, KNOWN, Expectation(), X, constraints=[constraint(0.0, environment)])
        for environment in (KNOWN, other)
    )
    assert torch.equal(one, two)


def test_the_reductions_of_several_objectives_are_added_up_in_their_spreads() -> None:
    r"""Against conditioning each model on a reading: often another w than for one of them alone."""
    X_told = torch.rand(2, 9, 2, generator=torch.Generator().manual_seed(3)).double()
    told = [scale * waves(X).unsqueeze(-1) for scale, X in zip((1.0, 200.0), X_told, strict=True)]
    models = [SingleTaskGP(X, Y) for X, Y in zip(X_told, told, strict=True)]
    models[1].covar_module.lengthscale = torch.tensor([0.2, 0.4]).double()
    X = torch.linspace(0, 1, 25).double().unsqueeze(-1)

    def reductions(model: SingleTaskGP, Y: Tensor, pairs: Tensor) -> Tensor:
        def variance(posterior: Any) -> float:
            return float(KNOWN.weights @ posterior.distribution.covariance_matrix @ KNOWN.weights)

        with torch.no_grad():
            before = variance(model.posterior(pairs))
            after = [
                variance(condition(model, pair[None], Y[:1]).posterior(pairs)) for pair in pairs[:3]
            ]
        return (before - torch.tensor(after)) / Y.var()

    expected, alone = [], []
    for x in X:
        pairs = torch.cat([x.expand(len(W), 1), W], dim=-1)
        each = [reductions(model, Y, pairs) for model, Y in zip(models, told, strict=True)]
        expected.append(pairs[int((each[0] + each[1]).argmax())])
        alone.append(pairs[int(each[0].argmax())])
    both = ModelListGP(*models)
    found = select_value(both, KNOWN, [Expectation(), Expectation()], X)
    assert torch.equal(found, torch.stack(expected))
    assert (found != torch.stack(alone)).any(dim=-1).sum() >= 3


def test_wrong_arguments_are_named() -> None:
    model = model_of()
    X = decisions()
    with pytest.raises(TypeError, match=r"`model` to be a model of BoTorch. Got None"):
        select_value(None, KNOWN, Expectation(), X)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one `risk_measure`"):
        select_value(model, KNOWN, [], X)
    with pytest.raises(TypeError, match=r"`constraints` such as `RiskConstraint`. Got 0.3"):
        select_value(model, KNOWN, Expectation(), X, constraints=[0.3])  # type: ignore[list-item]
    with pytest.raises(BotorchTensorDimensionError, match=r"`batch_shape x n x d_x`.* Got \(1,\)"):
        select_value(model, KNOWN, Expectation(), X[0])
    with pytest.raises(InputDataError, match=r"Expected finite `X`. Got \[nan\] at \(0,\)"):
        select_value(model, KNOWN, Expectation(), X * torch.nan)
    with pytest.raises(ValueError, match=r"even number for `num_samples`. Got 3"):
        select_value(model, KNOWN, Expectation(), X, num_samples=3)
    with pytest.raises(BotorchTensorDimensionError, match=r"the 2 inputs of the model. Got 3"):
        select_value(model, KNOWN, Expectation(), torch.rand(3, 2).double())
    risks, _ = robust(model, KNOWN, Expectation())
    with pytest.raises(UnsupportedError, match="reduced twice"):
        select_value(risks, KNOWN, Expectation(), X)
