r"""The gate between the code before a change and the code after it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.two_trees import Decision, Played, compare, difference

ROOT = Path(__file__).parents[1]
RANGES = torch.tensor([1.0, 100.0], dtype=torch.double)


def decision(x: float, y: float, value: float, scale: float = 100.0) -> Decision:
    r"""Two replicates, the second of which always decides (0, 0)."""
    chosen = torch.tensor([[[x, y]], [[0.0, 0.0]]], dtype=torch.double)
    values = torch.tensor([value, 0.5], dtype=torch.double)
    return Decision(chosen, [(chosen / torch.tensor([1.0, scale]), values)])


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (decision(0.3, 40.0, 1.0), ""),
        (decision(0.3 + 1e-7, 40.0 + 1e-5, 1.0), ""),  # in units of the ranges
        (decision(0.8, 40.0, 1.0 + 1e-10), "tie"),
        (decision(0.8, 40.0, 1.0 + 1e-8), r"seeds [11] differ, by up to 5.0e-01"),
        (decision(0.3, 40.1, 1.5), r"seeds [11] differ, by up to 1.0e-01"),
        (Decision(decision(0.8, 40.0, 1.0).chosen, []), r"seeds [11] differ, by up to 5.0e-01"),
        (Decision(torch.zeros(2, 2, 2), []), "shape (2, 2, 2) for (2, 1, 2)"),
    ],
)
def test_a_difference_is_of_points_and_then_of_values(found: Decision, said: str) -> None:
    assert difference(found, decision(0.3, 40.0, 1.0), RANGES) == said


def test_missing_decisions_agree_only_with_missing_ones() -> None:
    missing = Decision(torch.full((2, 1, 2), torch.nan, dtype=torch.double), [])
    assert difference(missing, missing, RANGES) == ""
    assert "seeds [11, 12] differ" in difference(missing, decision(0.3, 40.0, 1.0), RANGES)


def test_the_state_has_to_lead_to_the_same_decision() -> None:
    asked = decision(0.3, 40.0, 1.0)
    played = Played(RANGES, [], [asked], [], {})
    assert compare(played, asked, played) == ([], 0, "loaded", True)
    nearly = played._replace(asked=[decision(0.3 + 1e-9, 40.0, 1.0)])
    assert compare(nearly, asked, played) == ([], 0, "loaded", False)
    assert compare(played, decision(0.9, 40.0, 2.0), played).differences
    assert compare(played, "another format", played).state == "refused: another format"


@pytest.mark.slow
@pytest.mark.parametrize("width", ["beta", "2 * beta"])
def test_another_width_of_a_bound_is_seen(tmp_path: Path, width: str) -> None:
    after = tmp_path / "after"
    after.mkdir()
    for shared in ("tests", "bench", "conftest.py"):
        (after / shared).symlink_to(ROOT / shared)
    shutil.copytree(ROOT / "botorch_risk", after / "botorch_risk")
    changed = after / "botorch_risk/papers/uhe_bo.py"
    source = changed.read_text()
    assert source.count("partial(gp_ucb, beta=beta)") == 1
    changed.write_text(source.replace("gp_ucb, beta=beta", f"gp_ucb, beta={width}"))
    command = [sys.executable, "-m", "tests.two_trees", str(ROOT), str(after)]
    done = subprocess.run(
        [*command, "--only", "uhe_bo", "random_search", "--rounds", "2"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'bench'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    is_same = width == "beta"
    assert done.returncode == (0 if is_same else 1), done.stdout + done.stderr
    assert ("agrees   uhe_bo" in done.stdout) == is_same
    assert "agrees   random_search, to the last bit; state loaded" in done.stdout
