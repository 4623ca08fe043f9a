r"""What the loops ask of a GPU, counted: kernels, and how often the host waits for one.

On the second device; on a GPU each wait costs about as much as three kernels. A limit is what was
counted, with a little room: line searches end elsewhere on other processors. A decision waits at
most 40 times, however many replicates there are.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from torch import Tensor

from botorch_risk import papers
from botorch_risk.acquisition import gp_ucb
from botorch_risk.engine import fit_exact_gp, optimize_acqf_replicates
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.robust import robust
from tests.second_device import SIM, Count, counted, only_without_gpu

pytestmark = only_without_gpu


def unit(d: int) -> Tensor:
    return torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.double, device=SIM)


def waves(X: Tensor) -> Tensor:
    return (5 * X).sin().sum(dim=-1, keepdim=True)


def gp(R: int) -> SingleTaskGP:
    X = torch.rand(R, 16, 2, dtype=torch.double).to(SIM)
    return SingleTaskGP(X, waves(X))


def multi_start(R: int) -> Callable[[], Any]:
    def prepared() -> Callable[[], Any]:
        acqf = gp_ucb(gp(R).eval(), 1, beta=4.0)
        return lambda: optimize_acqf_replicates(acqf, unit(2), seeds=list(range(R)))

    return third(prepared)


def fit(R: int) -> Callable[[], Any]:
    return third(lambda: partial(fit_exact_gp, gp(R)))


def third(prepared: Callable[[], Callable[[], Any]]) -> Callable[[], Any]:
    r"""A program after two of its kind, which made the recordings."""
    for _ in range(2):
        prepared()()
    return prepared()


def late_ask(strategy: Any, observe: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Any:
    r"""An `ask` for whose shapes there are recordings."""
    for _ in range(7):
        strategy.tell(*observe(strategy.ask()))
    return strategy.ask


def rahbo(R: int) -> Callable[[], Any]:
    def observe(X: Tensor) -> tuple[Tensor, Tensor]:
        return X, waves(X) + 0.3 * torch.randn(*X.shape[:-1], 5, dtype=torch.double).to(X)

    seeds, options = list(range(R)), {"num_repeats": 5, "risk_aversion": 1.0, "num_initial": 14}
    return late_ask(papers.rahbo(unit(2), seeds, **options), observe)


def sbo_kde(R: int) -> Callable[[], Any]:
    def observe(X: Tensor) -> tuple[Tensor, Tensor]:
        pairs = torch.cat([X, torch.rand(*X.shape[:-1], 1, dtype=torch.double).to(X)], dim=-1)
        return pairs, waves(pairs)

    seeds, options = list(range(R)), {"context_bounds": unit(1), "num_initial": 14}
    return late_ask(papers.sbo_kde(unit(1), seeds, **options), observe)


def v_ucb(R: int) -> Callable[[], Any]:
    w = DiscreteEnvironment(torch.linspace(0, 1, 100, dtype=torch.double, device=SIM)[:, None])
    options = {"environment": w, "risk_level": 0.1, "num_initial": 14}
    strategy = papers.v_ucb(unit(1), list(range(R)), **options)
    return late_ask(strategy, lambda X: (X, waves(X)))


def robust_log_nei(q: int) -> Callable[[], Any]:
    X = torch.rand(20, 2, dtype=torch.double).to(SIM)
    model = SingleTaskGP(X, waves(X)).eval()
    w = DiscreteEnvironment(torch.linspace(0, 1, 33, dtype=torch.double, device=SIM)[:, None])

    def run() -> None:
        risks, options = robust(model, w, ConditionalValueAtRisk(0.1))
        acqf = qLogNoisyExpectedImprovement(risks, X_baseline=X[:, :1], **options)
        optimize_acqf(acqf, unit(1), q=q, num_restarts=4, raw_samples=64)

    return run


LIMITS = {
    "multi-start, R = 1": (multi_start, 1, 420, 12),
    "multi-start, R = 512": (multi_start, 512, 540, 15),
    "fit, R = 1": (fit, 1, 250, 9),
    "RAHBO, R = 1": (rahbo, 1, 1_500, 30),
    "RAHBO, R = 32": (rahbo, 32, 1_600, 40),
    "RAHBO, R = 512": (rahbo, 512, 2_300, 40),  # a shape of its late starts is new
    "SBO-KDE, R = 1": (sbo_kde, 1, 1_150, 30),
    "SBO-KDE, R = 32": (sbo_kde, 32, 1_200, 32),
    "SBO-KDE, R = 512": (sbo_kde, 512, 1_250, 34),
    "V-UCB, R = 1": (v_ucb, 1, 1_350, 34),
    "V-UCB, R = 32": (v_ucb, 32, 1_350, 36),
    "V-UCB, R = 512": (v_ucb, 512, 1_450, 38),
    "CVaR in qLogNEI, q = 1": (robust_log_nei, 1, 5_000, 180),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if "512" in name else []) for name in LIMITS],
)
def test_loops_ask_little_of_a_gpu(name: str) -> None:
    program, size, launches, waits = LIMITS[name]
    torch.manual_seed(0)
    run = program(size)
    with counted() as count:
        run()
    assert count.launches <= launches, _said(count)
    assert sum(count.synchronisations.values()) <= waits, _said(count)
    assert not count.one_by_one


def _said(count: Count) -> str:
    return f"{count.launches} launches; waits by line: {count.sites.most_common(8)}"


# The last of all rows ends later if there are more of them; nothing else may run more often.
CALLS = {"RAHBO": rahbo, "SBO-KDE": sbo_kde, "V-UCB": v_ucb}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("size", [64, pytest.param(512, marks=pytest.mark.slow)])
def test_python_does_not_run_for_each_replicate(name: str, size: int) -> None:
    counts = []
    for replicates in (1, size):
        torch.manual_seed(0)
        run = CALLS[name](replicates)
        with counted(calls=True) as count:
            run()
        counts.append(count.calls)
    few, many = counts
    more = (many - few).most_common(12)
    assert many.total() <= 1.5 * few.total(), f"{few.total()} -> {many.total()}: {more}"
