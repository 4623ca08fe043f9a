r"""The program that counts how far a reader walks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_a_round_of_each_paper_is_walked() -> None:
    command = [sys.executable, "-m", "tests.distance"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    walks = re.findall(r"^(\w+): \d+ frames .*, (\d+) files \((\d+) with", said, re.MULTILINE)
    papers = ["sbo_kde", "drbo_kde", "v_ucb", "rahbo", "uhe_bo", "truvar"]
    assert [name for name, *_ in walks] == papers
    for _, every, with_one_engine in walks:
        assert int(every) > int(with_one_engine) > 10
