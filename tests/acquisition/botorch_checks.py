r"""What the cells of the tables of `docs/risk_in_botorch.md` run."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from botorch.acquisition import qKnowledgeGradient
from botorch.acquisition.knowledge_gradient import qMultiFidelityKnowledgeGradient
from botorch.acquisition.logei import (
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
    qLogProbabilityOfFeasibility,
)
from botorch.acquisition.multi_objective.logei import (
    qLogExpectedHypervolumeImprovement,
    qLogNoisyExpectedHypervolumeImprovement,
)
from botorch.generation import MaxPosteriorSampling
from botorch.models import ModelList, SingleTaskGP
from botorch.models.transforms.input import AppendFeatures
from botorch.optim import optimize_acqf
from botorch.sampling.pathwise import get_matheron_path_model
from botorch.utils.multi_objective.box_decompositions.non_dominated import (
    FastNondominatedPartitioning,
)
from torch import Tensor

from botorch_risk.models import MeanVarianceGP
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.robust import robust
from tests.devices import home
from tests.finite_differences import assert_gradient
from tests.models.risks import ENVIRONMENT, W, batched, decisions, gp, shifts, two_outcomes

MEASURE = ConditionalValueAtRisk(0.3)
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 8, "options": {"maxiter": 3}}


# An acquisition function, and points whose gradient is compared with finite differences.
Scored = tuple[Any, Tensor]


@dataclass(frozen=True)
class Setup:
    r"""Reduced models of one environment.

    Args:
        environment: Of W, or of perturbations.
        d_x: The number of decision variables.
    """

    environment: Any
    d_x: int

    @property
    def one(self) -> Any:
        return _reduced(gp, self.environment, home())

    @property
    def two(self) -> Any:
        return _reduced(two_outcomes, self.environment, home())

    @property
    def bounds(self) -> Tensor:
        return torch.tensor([[0.0] * self.d_x, [1.0] * self.d_x]).double().to(home())

    @property
    def baseline(self) -> Tensor:
        return decisions(6, d=self.d_x)

    def candidates(self, *shape: int) -> Tensor:
        return decisions(*shape, d=self.d_x, seed=11)

    def scored(self, acqf: Any, q: int = 2) -> Scored:
        r"""Values of the right shape, and the same for a part of the t-batch."""
        X = self.candidates(3, q)
        values = acqf(X)
        assert values.shape == (3,)
        assert values.isfinite().all()
        torch.testing.assert_close(acqf(X[1:]), values[1:], rtol=1e-4, atol=1e-4)
        return acqf, X


@cache
def _reduced(build: Callable[[], Any], environment: Any, device: torch.device) -> Any:
    r"""The reduced model of a device, which is built once."""
    return robust(build(), deepcopy(environment), MEASURE).model  # BoTorch may move its parts


APPENDED, PERTURBED = Setup(ENVIRONMENT, 2), Setup(shifts(), 3)
SETUPS = {"w appended to x": APPENDED, "x perturbed": PERTURBED}


def nei(setup: Setup, **options: Any) -> Any:
    return qLogNoisyExpectedImprovement(setup.one, setup.baseline, **options)


def hypervolume(setup: Setup) -> Any:
    reference = torch.tensor([-2.0, -2.0], dtype=torch.float64, device=home())
    known = FastNondominatedPartitioning(reference, setup.two.posterior(setup.baseline).mean)
    return qLogExpectedHypervolumeImprovement(setup.two, reference, known)


def knowledge_gradient() -> Scored:
    acqf = qKnowledgeGradient(PERTURBED.one, num_fantasies=4)
    optimize_acqf(acqf, PERTURBED.bounds, q=1, **FAST)
    return PERTURBED.scored(acqf, q=5)


def with_fidelity() -> Scored:
    acqf = qMultiFidelityKnowledgeGradient(
        APPENDED.one, num_fantasies=4, project=lambda X: X[..., :2]
    )
    X = decisions(3, 5, d=3)
    assert acqf(X).shape == (3,)
    point, _ = optimize_acqf(acqf, PERTURBED.bounds, q=1, **FAST)  # a box of x and w
    assert point.shape == (1, 3)
    return acqf, X


def thompson(setup: Setup, size: int, paths: bool = False) -> None:
    model = get_matheron_path_model(setup.one) if paths else setup.one
    assert MaxPosteriorSampling(model)(setup.candidates(size), 1).shape == (1, setup.d_x)


def with_model(build: Callable[[], Any], d_x: int = 2, **options: Any) -> Callable[[], Scored]:
    def check() -> Scored:
        reduced, chosen = robust(build(), ENVIRONMENT, MEASURE, objectives=[0])
        setup = Setup(ENVIRONMENT, d_x)
        acqf = qLogNoisyExpectedImprovement(reduced, setup.baseline, **chosen, **options)
        return setup.scored(acqf)

    return check


def of_batches(prune: bool) -> Callable[[], Scored]:
    def check() -> Scored:
        reduced, _ = robust(batched(), ENVIRONMENT, MEASURE)
        X = decisions(3, 6)
        acqf = qLogNoisyExpectedImprovement(reduced, X, prune_baseline=prune)
        candidates = decisions(4, 3, 2, seed=11)
        assert acqf(candidates).shape == (4, 3)
        return acqf, candidates

    return check


def noisy() -> MeanVarianceGP:
    X = torch.rand(8, 3, dtype=torch.float64).to(home())
    return MeanVarianceGP(X, X.sum(-1, keepdim=True) + 0.1 * torch.randn(8, 4).to(X))


def appended_already() -> SingleTaskGP:
    X = decisions(8, d=3)
    return SingleTaskGP(X, X[:, :1], input_transform=AppendFeatures(W.to(X)))


def constrained(build: Callable[[], Any], constraint: Any) -> Callable[[], Scored]:
    def check() -> Scored:
        reduced, options = robust(build(), ENVIRONMENT, MEASURE, constraints=[constraint])
        improvement = qLogExpectedImprovement(reduced, best_f=0.0, **options)
        assert_gradient(*APPENDED.scored(improvement))
        return APPENDED.scored(qLogNoisyExpectedImprovement(reduced, APPENDED.baseline, **options))

    return check


def pending() -> Scored:
    improvement = qLogExpectedImprovement(APPENDED.one, 0.0, X_pending=decisions(2, seed=5))
    assert_gradient(*APPENDED.scored(improvement))
    return APPENDED.scored(nei(APPENDED, X_pending=decisions(2, seed=5)))


def found(optimise: Callable[[Any], Any], shape: tuple[int, int] = (1, 2)) -> Callable[[], Scored]:
    def check() -> Scored:
        acqf = nei(APPENDED)
        point, value = optimise(acqf)
        assert point.shape == shape
        assert value.isfinite().all()
        return acqf, APPENDED.candidates(3, 1)  # the one that was found may lie on a kink

    return check


def nonlinear(acqf: Any) -> Any:
    return optimize_acqf(
        acqf,
        APPENDED.bounds,
        q=1,
        num_restarts=1,
        batch_initial_conditions=torch.full((1, 1, 2), 0.2, dtype=torch.float64, device=home()),
        nonlinear_inequality_constraints=[(lambda x: 1 - x.square().sum(dim=-1), True)],
        options={"maxiter": 3, "batch_limit": 1},
    )


def linear(acqf: Any) -> Any:
    half = (torch.tensor([0, 1]).to(home()), torch.tensor([-1.0, -1.0]).to(decisions(1)), -1.0)
    return optimize_acqf(acqf, APPENDED.bounds, q=1, inequality_constraints=[half], **FAST)


def raw_constraint() -> Scored:
    raw = [lambda samples: samples[..., 1] - 0.2]
    reduced, _ = robust(two_outcomes(), ENVIRONMENT, MEASURE)
    objective = robust(two_outcomes(), ENVIRONMENT, MEASURE, objectives=[0]).model
    assert objective.num_outputs == 1
    acqf = qLogProbabilityOfFeasibility(reduced, raw, objective=lambda s, X=None: s[..., 0])
    return APPENDED.scored(acqf)


def beside_another() -> Scored:
    plain = SingleTaskGP(decisions(7), decisions(7).sum(dim=-1, keepdim=True)).eval()
    both = ModelList(APPENDED.one, plain)
    acqf = qLogNoisyExpectedHypervolumeImprovement(both, [-2.0, -2.0], APPENDED.baseline)
    return APPENDED.scored(acqf)


def noise_asked_for() -> None:
    APPENDED.one.posterior(decisions(3, 1), observation_noise=True)
