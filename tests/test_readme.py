r"""The README runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, object] = {}
    exec(compile(block, str(README), "exec"), namespace)
    expected = re.findall(r"print\(.*\)  # (.*)", block)
    assert capsys.readouterr().out.splitlines() == expected
    if "candidate" in namespace:
        assert namespace["candidate"].shape == (1, 2)  # type: ignore[attr-defined]
        assert namespace["handed_over"].shape == torch.Size([2])  # type: ignore[attr-defined]


def test_every_block_is_known() -> None:
    assert len(BLOCKS) == 5


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert links
    missing = [link for link in links if not (README.parent / link).exists()]
    assert not missing
