r"""Experiments on mixed decisions run by name, from the command line too."""

from pathlib import Path
from typing import Any

import pytest
import torch
from botorch_risk_bench.cli import app
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.reports.replay import final_strategy
from typer.testing import CliRunner

from bench.tests.played import records_in


@pytest.mark.slow
def test_the_mixed_newsvendor_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "results.sqlite"

    def invoke(*arguments: Any) -> str:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "mixed-newsvendor: Newsvendor (3, 1)" in invoke("list")
    for rounds in (1, 3):  # the second call resumes
        invoke("run", "mixed-newsvendor", "--seeds", 2, "--rounds", rounds, "--out", out)
    assert "CVaR-UCB: 3 rounds after the initial design" in invoke("status", out)
    invoke("plot", out, "--to", tmp_path)
    assert "| CVaR-UCB |" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    definition = get_experiment("mixed-newsvendor")
    with records_in(out) as store:
        for label in definition.strategies:
            records = store.rounds(label)
            for record in records:
                assert torch.equal(record.X[..., 1:3], record.X[..., 1:3].round())
            replayed = final_strategy(store, definition, label)
            assert torch.equal(replayed.recommend(), records[-1].recommendation)
