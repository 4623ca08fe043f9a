r"""A user's first minutes, without the repository: `python release_outside.py`."""

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_risk.acquisition import RiskAverseUpperConfidenceBound, RiskUpperConfidenceBound
from botorch_risk.environments import KernelDensityEnvironment
from botorch_risk.models import MeanVarianceGP
from botorch_risk.papers import rahbo
from botorch_risk.recommend import recommend
from botorch_risk.risk import ConditionalValueAtRisk, TotalVariationBall
from botorch_risk.test_functions import HeteroscedasticBranin

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
QUICK = {"q": 1, "num_restarts": 2, "raw_samples": 32}


def own_loop() -> None:
    r"""The quiet half of a function that scatters on the other is recommended."""
    X = torch.linspace(0, 1, 12, dtype=torch.double).unsqueeze(-1)
    Y = 0.2 * X + (0.02 + 2 * (X > 0.5)) * torch.randn(12, 8, dtype=torch.double)
    model = MeanVarianceGP(X, Y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    acqf = RiskAverseUpperConfidenceBound(model, beta=4.0, risk_aversion=1.0)
    candidate, _ = optimize_acqf(acqf, UNIT, **QUICK)
    assert candidate.shape == (1, 1) and bool(candidate.isfinite().all())
    assert recommend(acqf, X, rule="lower_confidence_bound").point.item() < 0.6


def conditions() -> None:
    r"""A risk under a density that is learnt has a maximiser, by value and gradient."""
    X = torch.rand(15, 2, dtype=torch.double)
    model = SingleTaskGP(X, (5 * X).sin().sum(dim=-1, keepdim=True))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    environment = KernelDensityEnvironment(X[:, 1:], bounds=UNIT, n_w=32, seeds=0)
    for measure in (ConditionalValueAtRisk(0.2), TotalVariationBall(0.3)):
        acqf = RiskUpperConfidenceBound(model, environment, measure, beta=2.25)
        decision, value = optimize_acqf(acqf, UNIT, **QUICK)
        assert 0 <= decision.item() <= 1 and bool(value.isfinite())


def many_seeds() -> None:
    r"""A strategy runs, and its state goes on elsewhere as it would have gone on here."""
    problem = HeteroscedasticBranin()
    options = {"num_repeats": 4, "risk_aversion": 1.0, "num_initial": 5}
    first = rahbo(problem.bounds, range(3), **options)
    X = first.ask()
    first.tell(X, X.sum(dim=-1, keepdim=True) + torch.randn(3, 5, 4, dtype=torch.double))
    second = rahbo(problem.bounds, range(3), **options)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.ask(), second.ask())


if __name__ == "__main__":
    torch.manual_seed(0)
    for part in (own_loop, conditions, many_seeds):
        part()
    print("works from the outside")
