r"""Models of risks, and the reductions that they apply."""

import copy
import pickle
from typing import Any

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import AppendFeatures
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Tensor

from botorch_risk.environments import InputPerturbation
from botorch_risk.models import MeanVarianceGP
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.outcomes import check_outcomes
from botorch_risk.models.risk_posterior import Reduction, Reductions
from botorch_risk.models.robust_model import RobustModel
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MaximumMeanDiscrepancyBall,
    RiskMeasure,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from tests.models.risks import (
    ENVIRONMENT,
    DecisionDependent,
    EnsembleGP,
    W,
    batched,
    decisions,
    gp,
    shifts,
    two_outcomes,
    two_outputs,
)

MEASURES = [Expectation(), ValueAtRisk(0.3), ConditionalValueAtRisk(0.5), TotalVariationBall(0.3)]
ENVIRONMENTS = {"discrete": ENVIRONMENT, "dependent": DecisionDependent(), "shifts": shifts()}


def sampler(size: int = 32) -> SobolQMCNormalSampler:
    return SobolQMCNormalSampler(torch.Size([size]), seed=5)


def robust(model: Any, *measures: RiskMeasure, environment: Any = ENVIRONMENT) -> RobustModel:
    return RobustModel(model, [Reduction(0, environment, measure) for measure in measures])


def by_hand(model: Any, X: Tensor, environment: Any, measure: RiskMeasure) -> Tensor:
    r"""Risks of BoTorch's samples at all points of all decisions, in a loop."""
    inputs, weights = environment.expand(X)
    samples = sampler()(model.posterior(inputs.flatten(-3, -2)))[..., 0]
    weights = weights.expand(inputs.shape[:-1])
    rows = []
    for b in range(len(X)):
        for i in range(X.shape[1]):
            values = samples[:, b, i * weights.shape[-1] : (i + 1) * weights.shape[-1]]
            rows.append(torch.stack([measure(value, weights[b, i]) for value in values]))
    return torch.stack(rows, dim=-1).reshape(-1, *X.shape[:2])


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: type(m).__name__)
def test_samples_are_risks_of_samples(environment: str, measure: RiskMeasure) -> None:
    distribution, X = (
        ENVIRONMENTS[environment],
        decisions(3, 2, d=3 if environment == "shifts" else 2),
    )
    expected = by_hand(gp(), X, distribution, measure)
    samples = sampler()(robust(gp(), measure, environment=distribution).posterior(X))
    torch.testing.assert_close(samples[..., 0], expected, rtol=1e-10, atol=1e-10)


def test_models_without_a_closed_form_go_through_their_own_posterior() -> None:
    X = decisions(3, 2)
    model = two_outputs()
    reductions = [Reduction(1, ENVIRONMENT, Expectation(), minimized=True)]
    samples = sampler()(RobustModel(model, reductions).posterior(X))
    raw = sampler()(model.posterior(ENVIRONMENT.expand(X)[0].flatten(-3, -2)))
    expected = (raw[..., 1].unflatten(-1, (2, 4)) * ENVIRONMENT.weights).sum(dim=-1)
    torch.testing.assert_close(samples[..., 0], -expected)


def test_models_that_learn_the_noise() -> None:
    X = torch.rand(8, 3, dtype=torch.float64)
    Y = X.sum(dim=-1, keepdim=True) + 0.1 * torch.randn(8, 4, dtype=torch.float64)
    model = MeanVarianceGP(X, Y)
    samples = sampler()(robust(model, Expectation()).posterior(decisions(3, 2)))
    expected = by_hand(model, decisions(3, 2), ENVIRONMENT, Expectation())
    torch.testing.assert_close(samples[..., 0], expected, rtol=1e-6, atol=1e-6)


def test_evaluated_points_in_front_do_not_change_the_distribution() -> None:
    r"""Where few points determine the others other samples are drawn, of the same distribution."""
    model = SingleTaskGP(torch.rand(9, 3).double(), torch.rand(9, 1).double()).eval()
    front, X = decisions(4), decisions(3, 1, seed=8)
    every = torch.cat([front.expand(3, 4, 2), X], dim=-2)
    robust_model = robust(model, Expectation())
    posterior = robust_model.posterior(every)
    assert posterior.shared is not None
    risks = sampler(2048)(posterior)[..., 0]  # 2048 x 3 x 5
    points = ENVIRONMENT.expand(every)[0].flatten(-3, -2)
    exact = model.posterior(points).distribution
    blocks = torch.block_diag(*[ENVIRONMENT.weights] * 5)
    covariance = blocks @ exact.covariance_matrix @ blocks.mT
    centred = risks - risks.mean(dim=0)
    sampled = torch.einsum("sbi,sbj->bij", centred, centred) / len(risks)
    torch.testing.assert_close(sampled, covariance, rtol=0, atol=0.02 * covariance.max().item())
    alone = sampler(2048)(robust_model.posterior(every[1:2]))[..., 0]
    torch.testing.assert_close(alone, risks[:, 1:2])  # the shared ones were remembered


def test_gradients_of_candidates_beside_shared_decisions() -> None:
    front, X = decisions(4), decisions(2, 1, seed=8).requires_grad_()
    model = robust(gp(), ConditionalValueAtRisk(0.5))

    def risks(X: Tensor) -> Tensor:
        posterior = model.posterior(torch.cat([front.expand(2, 4, 2), X], dim=-2))
        assert posterior.shared is not None
        return sampler(4)(posterior)

    assert torch.autograd.gradcheck(risks, X)


def test_gradients_of_environments_that_move() -> None:
    model = robust(gp(), TotalVariationBall(0.3), environment=DecisionDependent())
    X = decisions(2, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: sampler(4)(model.posterior(x)), X)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtypes(dtype: torch.dtype) -> None:
    shared = robust(gp(), ConditionalValueAtRisk(0.5))
    model = copy.deepcopy(shared).to(dtype)  # its environment belongs to all tests
    samples = sampler()(model.posterior(decisions(3, 2).to(dtype)))
    assert samples.dtype == dtype
    expected = sampler()(shared.posterior(decisions(3, 2)))
    torch.testing.assert_close(samples.double(), expected, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("t_batch", [(), (4,), (4, 2)], ids=str)
@pytest.mark.parametrize("kind", ["single", "batched", "ensemble"])
@pytest.mark.parametrize("environment", ["discrete", "dependent"])
def test_batch_shapes(kind: str, environment: str, t_batch: tuple[int, ...]) -> None:
    model = {"single": gp, "batched": batched, "ensemble": EnsembleGP}[kind]()
    batch = (*t_batch, 3) if kind == "batched" else t_batch
    risks = robust(model, Expectation(), environment=ENVIRONMENTS[environment])
    posterior = risks.posterior(decisions(*batch, 2))
    shape = (*batch, 4, 2, 1) if kind == "ensemble" else (*batch, 2, 1)
    assert sampler()(posterior).shape == (32, *shape)
    assert posterior.mean.shape == posterior.variance.shape == shape
    assert risks.batch_shape == model.batch_shape
    assert risks._is_ensemble == risks._is_fully_bayesian == (kind == "ensemble")


def test_a_transform_of_the_outcome_comes_before_the_risk() -> None:
    transform = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.float64))
    X, measure = decisions(3, 2), ConditionalValueAtRisk(0.5)
    samples = sampler()(robust(gp(), measure).posterior(X, posterior_transform=transform))
    points = ENVIRONMENT.expand(X)[0].flatten(-3, -2)
    raw = sampler()(gp().posterior(points, posterior_transform=transform))
    expected = measure(raw.squeeze(-1).unflatten(-1, (2, 4)), ENVIRONMENT.weights)
    torch.testing.assert_close(samples[..., 0], expected)


def test_the_wrapped_model_stays_as_it_is() -> None:
    model = gp()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    wrapped = robust(model, Expectation())
    wrapped.posterior(decisions(3, 2)).rsample()
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert wrapped.model is model
    before = wrapped.posterior(decisions(3, 2)).mean
    model.covar_module.lengthscale = 0.1
    assert not torch.allclose(wrapped.posterior(decisions(3, 2)).mean, before)


def test_pickle_copy_and_state() -> None:
    model = robust(gp(), ConditionalValueAtRisk(0.5))
    X = decisions(3, 2)
    expected = model.posterior(X).mean
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(other.posterior(X).mean, expected)
    other = robust(gp(3), ConditionalValueAtRisk(0.5))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.model.covar_module.lengthscale, model.model.covar_module.lengthscale)


def test_subsets() -> None:
    model = robust(gp(), Expectation(), ConditionalValueAtRisk(0.5))
    X = decisions(3, 2)
    both = model.posterior(X).mean
    torch.testing.assert_close(model.posterior(X, output_indices=[1]).mean, both[..., 1:])
    torch.testing.assert_close(model.subset_output([0]).posterior(X).mean, both[..., :1])
    assert model.num_outputs == 2
    assert len(model.reductions) == 2


def test_observations_are_of_outcomes() -> None:
    model, X = robust(gp(), Expectation()), torch.rand(1, 3, dtype=torch.float64)
    model.posterior(decisions(1, 1))
    model.model.posterior(X)
    conditioned = model.condition_on_observations(X, torch.ones(1, 1, dtype=torch.float64))
    assert conditioned.model.train_targets.shape == (11,)
    imagined = model.fantasize(X, SobolQMCNormalSampler(torch.Size([4]), seed=0))
    assert imagined.posterior(decisions(4, 1)).mean.shape == (4, 1, 1)
    with pytest.raises(BotorchTensorDimensionError, match=r"3 columns.*qMultiFidelityKnowledge"):
        model.fantasize(X[:, :2], sampler())


def test_an_error_says_how_many_values_fit() -> None:
    model = RobustModel(gp(), [Reduction(0, ENVIRONMENT, Expectation())], memory_limit=1e-4)
    X = decisions(1, 20)
    with pytest.raises(UnsupportedError, match=r"at most 0.0001 GiB.* 1 x 20 .* 3 values fit"):
        model.posterior(X)
    fits = RobustModel(
        gp(), [Reduction(0, type(ENVIRONMENT)(W[:3]), Expectation())], memory_limit=1e-4
    )
    assert fits.posterior(X).mean.shape == (1, 20, 1)
    ensemble = RobustModel(EnsembleGP(), [Reduction(0, ENVIRONMENT, Expectation())], 1e-4)
    with pytest.raises(UnsupportedError, match=r"GiB for 4 x 20"):
        ensemble.posterior(X)


def test_bad_models_are_refused() -> None:
    reduction = Reduction(0, ENVIRONMENT, Expectation())
    several = SingleTaskGP(
        torch.rand(5, 3).double(), torch.rand(5, 1).double(), input_transform=AppendFeatures(W)
    )
    with pytest.raises(UnsupportedError, match=r"without an input transform .* AppendFeatures"):
        RobustModel(several, [reduction])
    with pytest.raises(UnsupportedError, match="Got a RobustModel"):
        RobustModel(robust(gp(), Expectation()), [reduction])
    with pytest.raises(UnsupportedError, match=r"call `robust`.* ModelListGP"):
        RobustModel(two_outcomes(), [reduction])
    with pytest.raises(ValueError, match="at least one reduction"):
        RobustModel(gp(), [])
    with pytest.raises(ValueError, match=r"outcome in 0\.\.0.* Got 1"):
        RobustModel(gp(), [reduction._replace(outcome=1)])
    with pytest.raises(ValueError, match=r"`memory_limit` > 0"):
        RobustModel(gp(), [reduction], memory_limit=0)


def test_bad_calls_are_refused() -> None:
    model = robust(gp(), Expectation())
    with pytest.raises(BotorchTensorDimensionError, match=r"make the 3 inputs"):
        model.posterior(decisions(3, 2, d=3))
    with pytest.raises(UnsupportedError, match="risks are not"):
        model.posterior(decisions(3, 2), observation_noise=True)
    transform = ScalarizedPosteriorTransform(torch.ones(2, dtype=torch.float64))
    with pytest.raises(UnsupportedError, match="several outcomes"):
        robust(two_outputs(), Expectation()).posterior(
            decisions(3, 2), posterior_transform=transform
        )


def test_environments_are_laid_side_by_side() -> None:
    other = DecisionDependent()
    risks = Reductions(
        [
            Reduction(0, ENVIRONMENT, Expectation()),
            Reduction(1, other, WorstCase(), minimized=True),
            Reduction(1, ENVIRONMENT, WorstCase()),
        ]
    )
    X = decisions(5, 2)
    inputs, weights, columns = risks.expand(X, [0, 1, 2], (3,))
    assert inputs.shape == (5, 2, 8, 3)  # two of the three share their points
    assert torch.equal(inputs[..., 4:, :], other.expand(X)[0])
    assert [(c.outcome, c.start, c.stop, c.sign) for c in columns] == [
        (0, 0, 4, 1),
        (1, 4, 8, -1),
        (1, 0, 4, 1),
    ]
    assert weights[1].shape == (5, 2, 4)
    assert len(risks.expand(X, [2], (3,)).columns) == 1
    assert not risks.batched


def test_other_inputs_than_the_model_has_are_refused() -> None:
    risks = Reductions([Reduction(0, ENVIRONMENT, Expectation())])
    with pytest.raises(BotorchTensorDimensionError, match=r"make the 3 inputs .* Got 4"):
        risks.expand(decisions(2, d=3), [0], (3,))
    assert risks.expand(decisions(2, d=3), [0], None).inputs.shape == (2, 4, 4)


def test_bad_reductions_are_refused() -> None:
    environment: Any = "sunny"
    measure: Any = "CVaR"
    with pytest.raises(ValueError, match="at least one reduction"):
        Reductions([])
    with pytest.raises(TypeError, match=r"Expected an `Environment`.*'sunny'"):
        parts_of(environment, Expectation())
    with pytest.raises(TypeError, match=r"Expected a `RiskMeasure`.*'CVaR'"):
        parts_of(ENVIRONMENT, measure)
    with pytest.raises(ValueError, match=r"outcome in 0\.\.1, .* Got 2"):
        check_outcomes([0, 2], 2)
    perturbation = InputPerturbation(torch.zeros(1, 2))
    ball = MaximumMeanDiscrepancyBall(0.1, lambda v, w: v @ w.T)
    with pytest.raises(UnsupportedError, match="no fixed `points`"):
        Reductions([Reduction(0, perturbation, ball)])
