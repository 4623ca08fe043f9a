r"""The block of docs/faster_loops.md runs, and does what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "faster_loops.md"


def test_the_block_runs_and_later_fits_are_short() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    evaluations = names["fit"].num_evaluations
    assert len(evaluations) == 20
    assert evaluations[0] > 20
    assert median(evaluations[7:]) < 10
    assert names["X"].shape == (30, 2)
