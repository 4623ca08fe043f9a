r"""The papers work without any one of the wings: a wing is a folder that can be deleted."""

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


def play_without(wing: str | None, path: Path) -> subprocess.CompletedProcess[str]:
    left_out = shutil.ignore_patterns("__pycache__", "ax", *([wing] if wing else []))
    shutil.copytree(PACKAGE, path / "botorch_risk", ignore=left_out)
    code = f"import sys; sys.path.insert(0, {str(path)!r})\n{ROUND}"
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
    found = play_without(wing, tmp_path)
    assert found.returncode == 0, found.stderr[-2000:]


def test_neither_a_paper_nor_what_lies_below_imports_a_wing() -> None:
    wings = WINGS.split()
    found = {
        f"{name} -> {other}"
        for name, others in imports().items()
        if name.startswith("botorch_risk.") and place_of(name) not in (*wings, "ax")
        for other in others
        if place_of(other) in wings and other.startswith("botorch_risk.")
    }
    assert found == set()
