r"""BoTorch's expected improvement of a risk with constraints."""

from collections.abc import Callable

import pytest
import torch
from botorch.acquisition.logei import qLogExpectedImprovement, qLogProbabilityOfFeasibility
from botorch_risk_bench.baselines.constrained_log_ei import log_ei
from torch import Tensor

from botorch_risk.risk import Expectation
from botorch_risk.robust import robust
from tests.constraints.test_constrained_bound import CHANCE
from tests.models.risks import ENVIRONMENT, decisions, two_outcomes


def parts(shift: float = 0.0) -> tuple[object, dict[str, object], list[Callable[[Tensor], Tensor]]]:
    model, options = robust(two_outcomes(), ENVIRONMENT, Expectation(), constraints=[CHANCE])
    (constraint,) = options["constraints"]
    return model, options, [lambda samples: constraint(samples) + shift]


def test_it_improves_on_the_best_feasible_risk_of_the_mean() -> None:
    model, options, constraints = parts()
    X = decisions(30)
    with torch.no_grad():
        mean = model.posterior(X.unsqueeze(-2)).mean.squeeze(-2)
    holds = constraints[0](mean) <= 0
    assert holds.any()
    assert not holds.all()
    objective = options["objective"]
    acqf = log_ei(model, X, objective=objective, constraints=constraints)
    assert isinstance(acqf, qLogExpectedImprovement)
    values = objective(mean)
    in_spreads = values[holds].max() / values.std(correction=0)
    torch.testing.assert_close(acqf.best_f, in_spreads)
    torch.testing.assert_close(acqf.objective(mean[holds]).max(), in_spreads)
    pending = decisions(2, seed=5)
    acqf = log_ei(model, X, X_pending=pending, objective=objective, constraints=constraints)
    assert torch.equal(acqf.X_pending, pending)


def test_without_constraints_it_improves_on_the_best_risk_of_the_mean() -> None:
    model, _ = robust(two_outcomes().models[0], ENVIRONMENT, Expectation())
    X = decisions(30)
    acqf = log_ei(model, X)
    with torch.no_grad():
        mean = model.posterior(X.unsqueeze(-2)).mean
    torch.testing.assert_close(acqf.best_f, mean.max() / mean.std(correction=0))


def test_where_nothing_is_feasible_it_looks_for_feasibility() -> None:
    model, options, constraints = parts(shift=100.0)
    with pytest.warns() if False else torch.no_grad():
        acqf = log_ei(model, decisions(10), objective=options["objective"], constraints=constraints)
    assert isinstance(acqf, qLogProbabilityOfFeasibility)
