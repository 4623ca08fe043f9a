r"""A user's own function: refused early, its optimum known later or never, its store drawn."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from botorch_risk_bench.campaigns import CampaignStore, ExperimentRecords, StoreError
from botorch_risk_bench.campaigns.records import best_seen
from botorch_risk_bench.cli import app
from botorch_risk_bench.reports import Regrets, board_markdown, plots, read_board
from botorch_risk_bench.reports.summary import regret_curves
from typer.testing import CliRunner, Result

from bench.tests.played import bytes_of

OWN = """
from dataclasses import replace
from functools import partial
from pathlib import Path
from botorch_risk.papers import rahbo
from botorch_risk_bench.baselines import heteroscedastic_gp_ucb as gp_ucb
from botorch_risk_bench.experiments import ExperimentDefinition
from bench.tests.experiments.noisy_quadratic import QUADRATIC, NoisyQuadratic
Path(__file__).with_suffix(".ran").touch()
weld = replace(QUADRATIC, name="weld", optimal_value=None, objective="mean - 2 x variance [$, $^2]")
EXPERIMENTS = [weld]
"""
SERIAL = ("--engine", "serial")


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


def refused(*words: object) -> str:
    result = invoke(*words)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), result
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    r"""The user's, with his module and a campaign of it."""
    monkeypatch.chdir(tmp_path)
    Path("weld.py").write_text(OWN)
    series = [{"experiments": ["weld"], "num_seeds": 3, "num_rounds": 2}]
    describe(series=series)
    return tmp_path


def describe(**changes: object) -> None:
    Path("first.json").write_text(json.dumps({"name": "first", "modules": ["weld.py"], **changes}))


def run(*words: object) -> None:
    result = invoke("campaign", "run", "first.json", *SERIAL, *words)
    assert result.exit_code == 0, result.stderr


def with_optimum(optimum: float | None) -> None:
    value = None if optimum is None else f"lambda problem: {optimum}"
    Path("weld.py").write_text(f"{OWN}EXPERIMENTS = [replace(weld, optimal_value={value})]\n")


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("partial(gp_ucb, num_repeats=3)", "no others, .* 'default'. Got no 'risk_aversion'."),
        ("gp_ucb", "Got no 'num_repeats' and 'risk_aversion'."),
        ("partial(gp_ucb, num_repeats=3, risk_aversion=1, colour=2)", "argument 'colour'."),
        ("partial(gp_ucb, num_repeats=3, risk_aversion=-1.0)", "Expected `risk_aversion`"),
        ("partial(gp_ucb, num_repeats=3, risk_aversion='1')", "'weld': Expected `risk_aversion`"),
    ],
)
def test_a_plan_refuses_what_a_run_refuses_by_the_label(strategy: str, message: str) -> None:
    changed = f"""
class Unplayed(NoisyQuadratic):
    def sample_repeats(self, *_):
        raise AssertionError("evaluated")
right = partial(rahbo, num_repeats=3, risk_aversion=1.0)
EXPERIMENTS = [replace(weld, problem=Unplayed, strategies={{"RAHBO": right, "GP-UCB": {strategy}}})]
"""
    Path("weld.py").write_text(OWN + changed)
    of_plan = refused("campaign", "plan", "first.json")
    assert of_plan == refused("campaign", "run", "first.json", *SERIAL)
    assert "'GP-UCB' of 'weld'" in of_plan and "rahbo" not in of_plan.lower()
    assert re.search(message, of_plan)
    assert not Path("first.sqlite").exists()


def test_a_plan_refuses_a_problem_that_lacks_an_argument() -> None:
    changed = "EXPERIMENTS = [replace(weld, problem=lambda depth: NoisyQuadratic())]\n"
    Path("weld.py").write_text(OWN + changed)
    assert "the problem of 'weld' to get all" in refused("campaign", "plan", "first.json")


def final_regrets(optimum: float | None = None) -> dict[str, list[float]]:
    with CampaignStore("first.sqlite") as store:
        curves = regret_curves(ExperimentRecords(store), optimum=optimum)
    return {label: curve.simple[:, -1].tolist() for label, curve in curves.items()}


@pytest.mark.parametrize("command", [("run", "first.json"), ("resume", "first.sqlite")])
def test_an_optimum_that_becomes_known_is_used_and_no_round_is_played_again(
    command: tuple[str, str],
) -> None:
    run()
    played = bytes_of(Path("first.sqlite"))
    assert "against the best seen" in invoke("campaign", "table", "first.sqlite").stdout
    for optimum in (0.5, 0.25, None):  # known, corrected, withdrawn
        with_optimum(optimum)
        assert invoke("campaign", *command, *SERIAL).exit_code == 0
        assert bytes_of(Path("first.sqlite")) == played
        if optimum is None:
            break
        assert final_regrets() == final_regrets(optimum)
        page = invoke("campaign", "table", "first.sqlite").stdout
        assert "against the known optimum" in page and "best seen" not in page
        assert invoke("campaign", "table", "first.sqlite", "--to", "a.csv").exit_code == 0
        for line in Path("a.csv").read_text().splitlines()[1:]:
            *_, objective, regret = map(float, line.split(",")[5:])
            assert regret == optimum - objective
        assert "best seen" not in invoke("campaign", "board", "first.sqlite").stdout
    assert "against the best seen" in invoke("campaign", "table", "first.sqlite").stdout


def test_rounds_in_a_journal_are_found_when_the_optimum_becomes_known() -> None:
    for optimum in (None, 0.5):
        with_optimum(optimum)
        run("--journals", "journals")
    assert len(list(Path("journals").iterdir())) == 1


def test_anything_else_still_tells_experiments_apart() -> None:
    run()
    Path("weld.py").write_text(f"{OWN}EXPERIMENTS = [replace(weld, objective='mean')]\n")
    assert "experiments.weld.default.objective=" in refused("campaign", "run", "first.json")


def test_more_rounds_and_the_optimum_at_once() -> None:
    run()
    with_optimum(0.5)
    describe(series=[{"experiments": ["weld"], "num_seeds": 3, "num_rounds": 3}])
    run("--extend")
    assert final_regrets() == final_regrets(0.5)


def test_the_best_seen_is_of_all_strategies_and_seeds() -> None:
    few = {"experiments": ["weld"], "strategies": ["neutral"], "num_seeds": 2, "num_rounds": 2}
    many = {**few, "strategies": ["averse"], "num_seeds": 9}
    describe(series=[few, many])
    run()
    with CampaignStore("first.sqlite") as store:
        records, best = ExperimentRecords(store), best_seen(store, "weld")
        seen = [json.loads(row[7]) for row in store.rows()]
        assert best == max(max(values) for values in seen)  # also of seeds that only one has
        assert best > max(float(each.objective.max()) for each in records.rounds("averse"))
        recommended = records.rounds("averse")[-1].recommended_objective
        curves, board = regret_curves(records), read_board(store)
        (entry,) = board.entries
        for label, curve in curves.items():
            assert curve.simple.tolist() == entry.regret[label].tolist()
        assert curves["averse"].simple[:, -1].tolist() == (best - recommended).tolist()
        assert board.against_best_seen and "against the best seen" in board_markdown(board)


def test_differences_do_not_depend_on_the_optimum_and_the_order_neither() -> None:
    run()
    best, known = final_regrets(), final_regrets(0.5)
    pairs = zip(best["averse"], best["neutral"], strict=True)
    of_known = zip(known["averse"], known["neutral"], strict=True)
    differences = [[a - b for a, b in each] for each in (pairs, of_known)]
    assert differences[0] == pytest.approx(differences[1])
    assert min(min(each) for each in best.values()) >= 0


def test_regrets_of_two_stores_are_joined_against_the_better_best(tmp_path: Path) -> None:
    run()
    with CampaignStore("first.sqlite") as store:
        one = Regrets.of(store)
    describe(series=[{"experiments": ["weld"], "num_seeds": 3, "num_rounds": 2, "first_seed": 3}])
    run("--out", "second.sqlite")
    with CampaignStore("second.sqlite") as store:
        two = Regrets.of(store)
    describe(series=[{"experiments": ["weld"], "num_seeds": 6, "num_rounds": 2}], block_size=3)
    run("--out", "both.sqlite")
    with CampaignStore("both.sqlite") as store:
        both = Regrets.of(store)
    one.write(tmp_path / "one.json.gz")
    (joined,), (whole,) = (Regrets.read("one.json.gz") + two).experiments, both.experiments
    assert joined.best_seen == whole.best_seen
    for label, by_seed in whole.runs.items():
        for seed, regrets in by_seed.items():
            assert joined.runs[label][seed] == pytest.approx(regrets)
    known = replace(two, experiments=(replace(two.experiments[0], best_seen=None),))
    with pytest.raises(StoreError, match=r"the optimum of weld to be known in both .* or in neit"):
        one + known


def test_a_board_does_not_average_over_known_and_unknown_optima() -> None:
    Path("weld.py").write_text(
        f"{OWN}EXPERIMENTS = [weld, replace(QUADRATIC, name='known'), replace(weld, name='other')]"
    )
    names = ["weld", "known", "other"]
    describe(series=[{"experiments": names, "num_seeds": 3, "num_rounds": 2}])
    run()
    page = invoke("campaign", "board", "first.sqlite").stdout
    assert "1 experiments, 3 seeds" in page and "best seen" not in page
    assert "- weld: its optimum is unknown, and others' are known" in page
    refused_plot = refused("plot", "first.sqlite")
    assert "Expected one experiment in first.sqlite" in refused_plot
    assert invoke("plot", "first.sqlite", "--experiment", "other").exit_code == 0


def test_an_own_experiment_is_drawn_without_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    Path("weld.ran").unlink()
    drawn = []
    of_plots = plots.plot_regret
    monkeypatch.setattr(
        plots, "plot_regret", lambda *words: drawn.append(words) or of_plots(*words)
    )
    result = invoke("plot", "first.sqlite", "--to", "pictures")
    assert result.exit_code == 0, result.stderr
    names = {"cumulative_regret.png", "simple_regret.png", "summary.md"}
    assert {each.name for each in Path("pictures").iterdir()} == names
    assert not Path("weld.ran").exists()
    titles = {words[-1] for words in drawn}
    assert titles == {"weld, 3 seeds; regret against the best seen"}
    page = Path("pictures/summary.md").read_text()
    assert page.startswith("# weld: regret against the best seen after 2 rounds\n")


def test_each_setting_is_drawn() -> None:
    settings = {"default": {}, "five readings": {"num_repeats": 5}}
    describe(series=[{"experiments": ["weld"], "num_seeds": 3, "settings": settings}])
    run()
    result = invoke("plot", "first.sqlite", "--setting", "five readings", "--to", "five")
    assert result.exit_code == 0 and Path("five/simple_regret.png").exists()
