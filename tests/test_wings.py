r"""The papers, and Ax, work without the wings: a wing is a folder that can be deleted."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import botorch_risk
from tests.test_layout import WINGS, imports, place_of

PACKAGE = Path(botorch_risk.__file__).parent

# One round of each paper: ask, tell, ask again and recommend.
ROUND = """
import torch
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.papers import Maximize, drbo_kde, rahbo, sbo_kde, truvar, uhe_bo, v_ucb

torch.manual_seed(0)
unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
weather = DiscreteEnvironment(torch.linspace(0, 1, 4, dtype=torch.double).unsqueeze(-1))
few = {"num_restarts": 2, "raw_samples": 16}
learnt = {"context_bounds": unit, "n_w": 16, "num_initial": 4, **few}
strategies = [
    rahbo(unit, 0, num_repeats=3, risk_aversion=1.0, num_initial=4, **few),
    sbo_kde(unit, 0, **learnt),
    drbo_kde(unit, 0, **learnt),
    v_ucb(unit, 0, environment=weather, risk_level=0.3, num_initial=4, **few),
    uhe_bo(unit, 0, num_initial=4, **few),
    truvar(torch.linspace(0, 1, 9).double().unsqueeze(-1), 0, goal=Maximize(), num_initial=4),
]
for index, strategy in enumerate(strategies):
    for _ in range(2):
        X = strategy.ask()
        if index in (1, 2):
            X = torch.cat([X, torch.rand_like(X)], dim=-1)
        k = 3 if index == 0 else 1
        noise = 0.1 * torch.randn(*X.shape[:-1], k, dtype=torch.double)
        strategy.tell(X, (4 * X).sin().sum(dim=-1, keepdim=True) + noise)
    assert strategy.recommend().isfinite().all()
"""

# Trials of an experiment in Ax: a paper's strategy, and one with an outcome constraint.
TRIALS = """
import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.exceptions.core import UnsupportedError
from botorch_risk.ax import best_arm, risk_averse, under_uncertain_context

def client_of(strategy, **limits):
    client = Client()
    client.configure_experiment([RangeParameterConfig("heat", (0.0, 1.0), "float")])
    client.configure_optimization("purity", **limits)
    client.configure_tracking_metrics(["humidity"])
    client.set_generation_strategy(strategy)
    for heat in (0.1, 0.5, 0.9):
        data = {"purity": heat - heat**2, "humidity": 0.3 + heat / 2, "cost": heat}
        client.complete_trial(client.attach_trial({"heat": heat}), data)
    return client

client = client_of(under_uncertain_context("purity", {"humidity": (0.0, 1.0)}, num_initial=3))
assert len(client.get_next_trials(max_trials=1)) == 1
assert best_arm(client).parameters == {"heat": 0.5}
limited = client_of(risk_averse("purity", num_initial=3), outcome_constraints=["cost <= 0.6"])
with pytest.raises(UnsupportedError, match="`botorch_risk.constraints` for outcome constraints"):
    limited.get_next_trials(max_trials=1)
"""


def play_without(
    left_out: list[str], path: Path, program: str = ROUND
) -> subprocess.CompletedProcess[str]:
    ignored = shutil.ignore_patterns("__pycache__", *left_out)
    shutil.copytree(PACKAGE, path / "botorch_risk", ignore=ignored)
    code = f"import sys; sys.path.insert(0, {str(path)!r})\n{program}"
    code += f"\nimport botorch_risk\nassert botorch_risk.__path__[0].startswith({str(path)!r})"
    command = [sys.executable, "-I", "-W", "ignore", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "wing",
    [
        pytest.param(wing, marks=[] if wing == "constraints" else [pytest.mark.slow])
        for wing in WINGS.split()
    ],
)
def test_every_paper_plays_without_a_wing(wing: str, tmp_path: Path) -> None:
    found = play_without([wing, "ax"], tmp_path)
    assert found.returncode == 0, found.stderr[-2000:]


def test_ax_works_without_any_wing(tmp_path: Path) -> None:
    found = play_without(WINGS.split(), tmp_path, TRIALS)
    assert found.returncode == 0, found.stderr[-2000:]


def test_neither_papers_nor_ax_nor_what_lies_below_imports_a_wing() -> None:
    wings = WINGS.split()
    found = {
        f"{name} -> {other}"
        for name, others in imports().items()
        if name.startswith("botorch_risk.") and place_of(name) not in wings
        for other in others
        if place_of(other) in wings and other.startswith("botorch_risk.")
    }
    assert found == set()
