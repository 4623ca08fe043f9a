r"""The experiment on portfolios runs by name, on whole numbers, one strategy a risk aversion."""

from pathlib import Path

import torch
from botorch_risk_bench.cli import app
from botorch_risk_bench.experiments.portfolio import (
    EXPERIMENTS,
    JUDGED_BY,
    NEUTRAL,
    RISK_AVERSIONS,
    label_of,
)
from botorch_risk_bench.experiments.problem import decision_space
from botorch_risk_bench.problems import PortfolioPolicy
from typer.testing import CliRunner

from bench.tests.played import records_in

(DEFINITION,) = EXPERIMENTS


def test_strategies_differ_in_their_risk_aversion_alone() -> None:
    assert JUDGED_BY in RISK_AVERSIONS and label_of(0.0) == NEUTRAL
    space = decision_space(PortfolioPolicy())
    built = {label: DEFINITION.build(label, space, [0, 5]) for label in DEFINITION.strategies}
    weights = {label: each.method.weights for label, each in built.items()}
    assert [each.risk_aversion for each in weights.values()] == [0.0, *RISK_AVERSIONS]
    assert len({(each.beta, each.noise_beta) for each in weights.values()}) == 1


def test_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "results.sqlite"
    listed = CliRunner().invoke(app, ["list"]).stdout
    assert "portfolio-policy: Momentum portfolio on real prices" in listed
    assert "forest: Random forest on breast-cancer data, a flat task" in listed
    label = label_of(JUDGED_BY)
    arguments = ["run", DEFINITION.name, "--strategy", label, "--seeds", "2", "--rounds", "2"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(out)])
    assert result.exit_code == 0, result.output
    with records_in(out) as store:
        assert store.identity["optimal_value"] == PortfolioPolicy().optimal_mean_variance(2.0)[1]
        for record in store.rounds(label):
            assert torch.equal(record.X[..., :2], record.X[..., :2].round())
            assert record.Y.shape[-1] == DEFINITION.num_repeats
