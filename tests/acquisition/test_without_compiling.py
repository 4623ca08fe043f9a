r"""BoTorch's kernel of hypervolume improvements: not compiled by us, and no lock is waited for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from botorch.acquisition.multi_objective import logei

from botorch_risk.acquisition.without_compiling import without_compiling
from botorch_risk.risk import Expectation
from botorch_risk.robust import HypervolumeImprovement, robust
from tests.models.risks import ENVIRONMENT, decisions, two_outcomes

ASK = """
import torch
from botorch_risk import DiscreteEnvironment
from botorch_risk.risk import Expectation
from botorch_risk.robust import pareto_search

weather = DiscreteEnvironment(torch.tensor([[0.0], [1.0]]).double())
strategy = pareto_search(
    torch.tensor([[0.0], [1.0]]).double(), 0, environment=weather, risk_measure=Expectation(),
    reference_point=[-2.0, -2.0], num_initial=4, num_restarts=1, raw_samples=2, max_iterations=1,
)
w = weather.points[torch.tensor([0, 1, 0, 1])].unsqueeze(0)
X = strategy.ask()
strategy.tell(torch.cat([X, w], dim=-1), torch.stack([-(X - w).square(), X - w], dim=-1))
print(0 <= strategy.ask().item() <= 1)
"""


@pytest.mark.slow
def test_a_stale_lock_stops_no_search_and_nothing_is_compiled(tmp_path: Path) -> None:
    lock = tmp_path / "logei_fused_ext" / "lock"  # of a process that was killed while it compiled
    lock.parent.mkdir()
    lock.touch()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ASK],
        env={**os.environ, "TORCH_EXTENSIONS_DIR": str(tmp_path)},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert [*tmp_path.rglob("*")] == [lock.parent, lock]


def test_the_choice_of_the_process_comes_back() -> None:
    for before in (False, True):
        logei._load_attempted = before
        try:
            with without_compiling():
                assert logei._load_attempted
            with pytest.raises(ZeroDivisionError), without_compiling():
                _ = 1 / 0
            assert logei._load_attempted is before
        finally:
            logei._load_attempted = False


def test_an_improvement_is_built_alone_as_well() -> None:
    evaluated, X = decisions(4, seed=1), decisions(3, 1)
    risks = robust(two_outcomes(), ENVIRONMENT, Expectation()).model
    found = HypervolumeImprovement((-9.0, -9.0), 8)(risks, evaluated)
    with torch.no_grad():
        scores = found(X)
    assert scores[0] > 0 and (scores[1:] < -10).all()  # the risks of the others are dominated
    assert not logei._load_attempted
