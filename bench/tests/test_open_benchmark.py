r"""The experiments of bench/studies/open_benchmark; their optima are in test_certificates.py."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch_risk_bench.campaigns import (
    Campaign,
    CampaignStore,
    Options,
    Serial,
    Series,
    run_campaign,
)
from botorch_risk_bench.experiments.problem import decision_space
from botorch_risk_bench.problems import TabularProblem
from botorch_risk_bench.problems.tabular import FOLDER, TABLES
from botorch_risk_bench.reports import Regrets, board_markdown, read_board

from bench.studies.open_benchmark import (
    all_pairs,
    axbo,
    best_reading,
    chosen_pairs,
    default_pairs,
    make_tables,
    noise_pairs,
    outside_pairs,
    twelve_pairs,
)
from bench.studies.open_benchmark.experiments import EXPERIMENTS, NOISE, OF_BOTORCH
from bench.studies.open_benchmark.more_noise import NOISY_HILL
from bench.studies.open_benchmark.noise_forms import NOISE_FORMS, values_of
from bench.studies.open_benchmark.others import (
    OTHERS,
    LogNoisyExpectedImprovement,
    Uniform,
    as_numbers,
)
from bench.studies.open_benchmark.pairs import DEVELOPMENT, FIRST_JUDGING_SEED, JUDGING
from bench.tests.campaign_files import ROOT
from botorch_risk.seeding import generators
from botorch_risk.strategies import VALUE_RULES, Box
from botorch_risk.test_functions.certified import RISKS, certificates
from botorch_risk.test_functions.environmental import risk_over

PROVED = {**NOISE_FORMS, "noisy-hill": NOISY_HILL}


def needs(module: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"needs {module}, the extra `peers`")


def test_every_certified_pair_is_an_experiment() -> None:
    pairs = {(form, risk) for form, risks in certificates().items() for risk in risks}
    pairs |= {(table, risk) for table in TABLES for risk in RISKS}
    pairs |= {(name, NOISE) for name in NOISE_FORMS}
    assert {(each.settings["form"], each.settings["risk"]) for each in EXPERIMENTS} == pairs
    assert len(EXPERIMENTS) == len(pairs) == 116
    for each in EXPERIMENTS:
        expected = {"confidence-bound", "qLogNEI-robust", "random", *OTHERS}
        if each.settings["risk"] == NOISE:
            expected |= {"knowledge-gradient"}
        else:
            expected |= {"confidence-bound-KDE", "chosen-former", "chosen-joint"}
            expected |= {"expected-risk", "chosen", "expected-random"}
            expected |= {f"{how}-{label}" for how in ("expected", "chosen") for label in OTHERS}
            expected |= {f"chosen-{rule}" for rule in VALUE_RULES}
            expected |= {"knowledge-gradient", "chosen-knowledge-gradient"}
        if each.settings["risk"] in OF_BOTORCH:
            expected |= {"qLogNEI-BoTorch"}
        assert set(each.strategies) == expected


def test_the_problem_and_the_strategies_have_one_risk() -> None:
    for each in EXPERIMENTS[: -len(NOISE_FORMS) : len(RISKS) + 1]:
        problem: Any = each.problem()
        known, learnt = (each.strategies[label] for label in ("random", "confidence-bound-KDE"))
        assert learnt.keywords["risk_measure"] is known.keywords["risk_measure"]
        X = problem.optimal_decision.unsqueeze(0)
        risk = known.keywords["risk_measure"]
        found = risk_over(known.keywords["environment"], X, problem.evaluate_true, risk)
        assert abs(found.item() - problem.optimal_risk) < 1e-6


def test_twelve_pairs_have_every_risk_and_no_function_twice() -> None:
    certified = [form for form, risk in twelve_pairs.PAIRS if risk != NOISE]
    assert len(set(certified)) == len(certified) == 10
    assert {risk for _, risk in twelve_pairs.PAIRS} == {*RISKS, NOISE}
    assert len(twelve_pairs.PAIRS) == 12 and len(twelve_pairs.WITH_BOTORCH) == 7


def test_development_pairs_and_judging_pairs_are_never_mixed() -> None:
    with_w = {each.name for each in EXPERIMENTS if each.settings["risk"] != NOISE}
    assert len(DEVELOPMENT) == len({*DEVELOPMENT}) == 12 and len(JUDGING) == 100
    assert {*DEVELOPMENT, *JUDGING} == with_w and not {*DEVELOPMENT} & {*JUDGING}
    for campaign in (all_pairs.CAMPAIGN, twelve_pairs.CAMPAIGN):
        assert all(max(block.seeds) < FIRST_JUDGING_SEED for block in campaign.blocks())
    blocks = chosen_pairs.CAMPAIGN.blocks()
    assert {block.experiment for block in blocks} == {*JUDGING}
    assert {block.seeds for block in blocks} == {tuple(range(100, 120))}
    assert len(blocks) == 4 * 100 + 85 + 70
    later = default_pairs.CAMPAIGN.blocks()
    assert {block.seeds for block in later} == {tuple(range(120, 140))}
    assert len(later) == 5 * 85 + 4 * 15 and {block.experiment for block in later} == {*JUDGING}
    outside = outside_pairs.CAMPAIGN.blocks()
    assert {block.seeds for block in outside} == {tuple(range(120, 140))}
    assert {block.experiment for block in outside} < {block.experiment for block in later}


def test_other_packages_are_run_on_two_pairs_of_each_risk() -> None:
    risks = [outside_pairs.RISK_OF[name] for name in outside_pairs.PAIRS]
    assert sorted(risks) == sorted(2 * [risk for risk in RISKS if risk != chosen_pairs.MMD])
    assert len({*outside_pairs.PAIRS}) == 12 and len(outside_pairs.CAMPAIGN.blocks()) == 12 * 9


def test_lacing_is_run_where_it_is_there() -> None:
    found = set()
    for each in EXPERIMENTS[: -len(NOISE_FORMS)][-len(RISKS) :]:  # one table, every risk
        strategy = each.build("chosen-lacing", decision_space(each.problem()), [20])
        problem: Any = each.problem()
        X = strategy.ask()
        strategy.tell(X, problem(X).unsqueeze(-1))
        try:
            strategy.ask()
            found.add(each.settings["risk"])
        except UnsupportedError:
            assert each.settings["risk"] in chosen_pairs.WITHOUT_LACING
    assert found == {*RISKS} - {*chosen_pairs.WITHOUT_LACING}


def test_noise_is_compared_on_six_problems_and_seeds_of_their_own() -> None:
    blocks = noise_pairs.CAMPAIGN.blocks()
    assert len({block.experiment for block in blocks}) == 6 and len(blocks) == 18
    assert {block.seeds for block in blocks} == {tuple(range(200, 220))}


def test_campaigns_are_what_their_blocks_say() -> None:
    campaigns: list[Campaign] = [all_pairs.CAMPAIGN, twelve_pairs.CAMPAIGN]
    assert [len(each.blocks()) for each in campaigns] == [116 * 2 + 96, 12 * 7 - 2 + 9 + 7]
    assert {len(block.seeds) for block in campaigns[0].blocks()} == {20}
    assert {len(block.seeds) for block in campaigns[1].blocks()} == {10}


def test_the_expected_improvement_of_a_seed_is_one_point_near_the_best() -> None:
    box = Box(torch.tensor([[-1.0], [3.0]], dtype=torch.double))
    X = torch.linspace(-1, 3, 9, dtype=torch.double).unsqueeze(-1)
    Y = -(X - 1.2).square()
    asked = []
    for _ in range(2):
        optimizer = LogNoisyExpectedImprovement(box, seed=5)
        optimizer.tell(torch.cat([X, X], dim=-1), Y)  # decisions and what came of W
        asked.append(optimizer.ask(1))
    assert torch.equal(*asked) and asked[0].shape == (1, 1)
    assert abs(asked[0].item() - 1.2) < 0.2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of other packages
@pytest.mark.parametrize(
    "label",
    [
        pytest.param(label, marks=needs(module))
        for label, module in (("Ax", "ax"), ("Optuna", "optuna"), ("hetGPy", "hetgpy"))
    ],
)
def test_other_packages_ask_near_the_best_alike_for_a_seed(label: str) -> None:
    box = Box(torch.tensor([[-1.0, 0.0], [3.0, 4.0]], dtype=torch.double), integers=[1])
    grid = torch.cartesian_prod(torch.linspace(-1, 3, 6), torch.arange(5.0)).double()
    W = torch.rand(len(grid), 1, generator=torch.Generator().manual_seed(1)).double()
    best = torch.tensor([1.2, 3.0], dtype=torch.double)
    Y = -(grid - best).square().sum(dim=-1, keepdim=True)
    asked = []
    for _ in range(2):
        optimizer = OTHERS[label](box, seed=5)
        optimizer.tell(torch.cat([grid, W], dim=-1), Y)  # a decision and what came of W
        asked.append(optimizer.ask(1))
    assert torch.equal(*asked) and asked[0].shape == (1, 2)
    assert abs(asked[0][0, 0] - 1.2) < 0.6 and asked[0][0, 1] in (2, 3, 4)


# The strategies of each stored board, what it is made of, and how.
BOARDS: dict[str, tuple[str, list[str], dict[str, Any], str | None]] = {
    "known": ("all_pairs", ["confidence-bound", "random"], {"by": "risk"}, None),
    "learnt": (
        "all_pairs",
        ["confidence-bound", "confidence-bound-KDE", "random"],
        {"by": "risk"},
        None,
    ),
    "twelve": ("twelve_pairs", ["confidence-bound", *OTHERS, "random"], {"by": "risk"}, None),
    "ten": (
        "twelve_pairs",
        ["confidence-bound", *OTHERS, "random"],
        {"by": "risk", "without": [NOISE]},
        "random",
    ),
    "noise": ("noise_pairs", list(noise_pairs.LABELS), {"by": "form"}, "random"),
}


def test_the_best_reading_hands_over_what_a_store_says(tmp_path: Path) -> None:
    name, path = outside_pairs.PAIRS[0], tmp_path / "store.sqlite"
    series = Series(name, "expected-qLogNEI", num_seeds=2, num_rounds=1, first_seed=120)
    modules = ["bench.studies.open_benchmark.experiments"]
    campaign = Campaign("one round", [series], modules=modules)
    assert run_campaign(campaign, path, Serial(), Options(progress=False)) == 0
    with CampaignStore(path) as store:
        found, rows = best_reading.regrets(store), list(store.rows())
        optimum = store.identity["experiments"][name]["default"]["optimal_value"]
    (each,) = found.experiments
    for seed in (120, 121):
        pairs: list[Any] = []
        for row in (row for row in rows if row[3] == seed):
            pairs += zip(json.loads(row[6]), json.loads(row[7]), strict=True)
            _, best = max(pairs, key=lambda pair: pair[0][0])
            left = each.runs["reading-qLogNEI"][seed][row[4]]
            assert left == pytest.approx(optimum - best, rel=1e-5)
    Y = torch.tensor([1.0, torch.nan, 2.0, 2.0])
    assert best_reading.handed_over(Y, torch.arange(4)).tolist() == [0, 0, 2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("name", BOARDS)
def test_the_boards_are_made_of_the_regrets(name: str) -> None:
    folder = ROOT / "bench" / "studies" / "open_benchmark"
    regrets, labels, options, baseline = BOARDS[name]
    board = read_board(
        Regrets.read(folder / "regrets" / f"{regrets}.json.gz"), strategies=labels, **options
    )
    page = (folder / name / "board.md").read_text(encoding="utf-8")
    assert board_markdown(board, baseline) == page


@pytest.mark.parametrize("name", PROVED)
def test_the_optima_of_noise_are_proved(name: str) -> None:
    form = PROVED[name]
    problem = form.problem()
    lower, upper = problem.bounds
    unit = torch.rand(200, problem.dim, generator=torch.manual_seed(0), dtype=torch.double)
    X = lower + (upper - lower) * unit
    torch.testing.assert_close(values_of(form, X), problem.objective(X))
    found, value = form.prove()
    assert found.best <= value + found.tolerance and found.tolerance == 1e-6
    assert problem.objective(X).max() <= value


def test_others_are_recommended_by_the_model_of_the_noise() -> None:
    each = next(one for one in EXPERIMENTS if one.name == f"sine-{NOISE}")
    problem: Any = each.problem()
    strategies = [each.build(label, problem.bounds, [0, 1]) for label in ("random", "qLogNEI")]
    X = strategies[0].ask()
    Y = problem.sample_repeats(X, 5, generators([0, 1], "test"))
    for strategy in strategies:
        strategy.tell(X, Y)
    assert torch.equal(*(strategy.recommend() for strategy in strategies))
    random, improving = (strategy.ask() for strategy in strategies)
    assert random.shape == improving.shape == (2, 1, 1) and not torch.equal(random, improving)


@pytest.mark.parametrize(("name", "number"), [("momentum", 40), ("diabetes", 77), ("cancer", 100)])
def test_rows_of_the_tables_can_be_made_again(name: str, number: int) -> None:
    lines = (FOLDER / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    names, (first, second), row = make_tables.TABLES[name]()
    assert ",".join(names) == lines[0] and len(lines) == 1 + len(first) * len(second)
    decision = first[number // len(second)], second[number % len(second)]
    found = [*decision, *row(*decision)]
    assert found == pytest.approx(
        [float(value) for value in lines[1 + number].split(",")], rel=1e-4
    )


@pytest.mark.parametrize("optimizer", [Uniform, LogNoisyExpectedImprovement])
def test_others_ask_for_whole_numbers_where_decisions_are(optimizer: Any) -> None:
    problem = TabularProblem("digits", "worst-case")
    box = decision_space(problem)
    assert isinstance(box, Box)
    made = optimizer(box, 3)
    X = box.initial([0], 8)[0]
    made.tell(torch.cat([X, X[:, :1] / 11], dim=-1), X.sum(dim=-1, keepdim=True))
    asked = made.ask(2)
    assert asked.shape == (2, 2) and torch.equal(asked, asked.round())
    assert as_numbers(asked, box)[0] == [int(value) for value in asked[0]]


def test_the_report_on_axbo_says_who_is_ahead(capsys: pytest.CaptureFixture[str]) -> None:
    def row(seed: int) -> dict[str, Any]:
        rounds = axbo.NUM_ROUNDS + 1
        of = {"search": [1.0, *(rounds - 1) * [0.01 * (seed + 1)]], "ours": rounds * [1.0]}
        of |= {"client": of["search"], "surrogate": [1.0, *(rounds - 1) * [0.001]]}
        return {"pair": axbo.PAIRS[0], "seed": seed, **of} | dict.fromkeys(
            ("seconds", "search_seconds"), rounds * [2.0]
        )

    axbo.report([row(0), row(1)])
    (line,) = (line for line in capsys.readouterr().out.splitlines() if " 2 " in line)
    assert re.findall("ours|axbo|undecided", line) == ["undecided", "undecided", "undecided"]
    assert line.endswith(" 1.0") and "-1.85 ± 1.91" in line and "+1.15 ± 1.91" in line
    axbo.report([row(seed) for seed in range(8)])
    (line,) = (line for line in capsys.readouterr().out.splitlines() if " 8 " in line)
    assert re.findall("ours|axbo|undecided", line) == ["undecided", "axbo", "ours"]
