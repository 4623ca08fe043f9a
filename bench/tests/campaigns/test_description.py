import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from botorch_risk_bench.campaigns import Block, Campaign, Series, best_block_size
from botorch_risk_bench.campaigns.description import changed, experiments_of
from botorch_risk_bench.campaigns.store import identity_of
from botorch_risk_bench.campaigns.worker import versions
from botorch_risk_bench.experiments import get_experiment

from bench.tests.campaigns.small import MODULE, small

YAML = """
name: first
block_size: 3
series:
  - experiments: sine
    strategies: [RAHBO, GP-UCB]
    num_seeds: 4
    num_rounds: 5
    settings:
      default: {}
      three: {num_repeats: 3, strategy: {num_repeats: 3}}
"""


def test_blocks_cover_every_seed_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "first.yaml"
    path.write_text(YAML)
    blocks = Campaign.read(path).blocks()
    assert [(*block.series, block.seeds) for block in blocks] == [
        ("sine", label, setting, seeds)
        for setting in ("default", "three")
        for label in ("RAHBO", "GP-UCB")
        for seeds in ((0, 1, 2), (3,))
    ]
    assert {block.num_rounds for block in blocks} == {5}


def test_strategies_and_rounds_are_the_experiments_own_by_default() -> None:
    blocks = Campaign("all", [Series("quadratic", num_seeds=1)], modules=(MODULE,)).blocks()
    assert [block.strategy for block in blocks] == ["neutral", "averse"]
    assert {block.num_rounds for block in blocks} == {6}


def test_files_of_each_kind_describe_the_same(tmp_path: Path) -> None:
    campaign = small()
    (tmp_path / "small.json").write_text(json.dumps(campaign.to_json()))
    (tmp_path / "small.py").write_text(
        "from bench.tests.campaigns.small import small\nCAMPAIGN = small()\n"
    )
    assert Campaign.read(tmp_path / "small.json").to_json() == campaign.to_json()
    assert Campaign.read(tmp_path / "small.py").to_json() == campaign.to_json()


def test_experiments_of_a_file_beside_the_description(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(f"from {MODULE} import EXPERIMENTS\n")
    description = {"name": "own", "modules": "own.py", "series": [{"experiments": "quadratic"}]}
    (tmp_path / "c.json").write_text(json.dumps(description))
    campaign = Campaign.read(tmp_path / "c.json")
    assert campaign.definition("quadratic", {}).name == "quadratic"
    assert campaign.to_json()["modules"] == ["own.py"]  # wherever it is


def test_modules_and_files_are_found_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_laboratory.py").write_text(
        f"from {MODULE} import EXPERIMENTS\n"
        "from botorch_risk_bench.campaigns import Campaign, Series\n"
        "CAMPAIGN = Campaign('mine', [Series('quadratic')], modules='my_laboratory')\n"
    )
    (tmp_path / "campaign.py").write_text("from my_laboratory import CAMPAIGN\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    assert Campaign.read("campaign.py").definition("quadratic", {}).name == "quadratic"


def test_a_part_has_no_other_experiments_and_no_more_seeds_and_rounds() -> None:
    series = [
        Series(("quadratic", "sine"), num_seeds=5),
        Series("branin", "RAHBO", num_seeds=1, num_rounds=3),
    ]
    whole = Campaign("all", series, block_size=3, modules=(MODULE,))
    assert whole.part() == whole
    trial = whole.part(num_seeds=2, num_rounds=4)
    assert [(each.experiments, each.num_seeds, each.num_rounds) for each in trial.series] == [
        (("quadratic", "sine"), 2, 4),
        (("branin",), 1, 3),
    ]
    long = whole.part(["sine", "quadratic"], num_rounds=7)  # quadratic has 6
    assert [(each.experiments, each.num_rounds) for each in long.series] == [
        (("quadratic",), 6),
        (("sine",), 7),
    ]
    assert {block.experiment for block in whole.part(["branin"]).blocks()} == {"branin"}
    assert (trial.name, trial.block_size, trial.modules) == ("all", 3, (MODULE,))
    with pytest.raises(ValueError, match=r"experiments of 'all' .*Got \['camel'\]"):
        whole.part(["camel"])
    for numbers in ({"num_seeds": 0}, {"num_rounds": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            whole.part(**numbers)


def test_a_setting_changes_the_problem_and_the_strategies() -> None:
    setting = {
        "num_initial": 3,
        "num_repeats": 2,
        "problem": {"risk_aversion": 2.0},
        "strategy": {"num_repeats": 2, "risk_aversion": 2.0},
    }
    original = get_experiment("sine")
    found = changed(original, setting)
    assert (found.num_initial, found.num_repeats) == (3, 2)
    assert found.problem().risk_aversion == 2.0  # type: ignore[union-attr]
    strategy = found.build("RAHBO", found.problem().bounds, [0])
    assert strategy.ask().shape == (1, 3, 1)
    assert (
        strategy.state_dict()["arguments"]
        != original.build("RAHBO", found.problem().bounds, [0]).state_dict()["arguments"]
    )
    assert found.settings["changed"] == setting
    assert changed(original, {}) is original


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], r"Expected a campaign to have some of the keys .* Got \[\]"),
        ({"name": "a", "series": [], "colour": 1}, r"Got \['colour'\]"),
        ({"name": "a"}, r"a `name` and a list of `series`\. Got \['name'\]"),
        ({"name": "a", "series": [{"experiment": "sine"}]}, r"a series .* Got \['experiment'\]"),
        ({"name": "a", "series": [{"num_seeds": 2}]}, r"have `experiments`\. Got \['num_seeds'\]"),
        ({"name": "a", "series": []}, "at least 1 series"),
        ({"name": "a", "series": [{"experiments": "sine", "num_seeds": 0}]}, "num_seeds=0"),
        (
            {"name": "a", "series": [{"experiments": "sine", "settings": {"b": {"k": 3}}}]},
            r"setting 'b' to have keys of .* Got \['k'\]",
        ),
        ({"name": "a", "series": [{"experiments": "sine", "num_rounds": "4"}]}, r"whole .*'4'"),
        ({"name": "a", "series": [{"experiments": "sine"}], "block_size": 2.5}, r"whole .*2\.5"),
        ({"name": "a", "series": [{"experiments": "sine", "settings": ["k"]}]}, "by their names"),
        ({"name": "a", "series": [{"experiments": [3]}]}, r"`experiments` to be names. Got \(3,\)"),
    ],
)
def test_a_wrong_description_is_refused_by_name(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Campaign.from_json(values)


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ([Series("sines")], r"not found: 'sines'\. Did you mean 'sine'\?"),
        ([Series("sine", "RABO")], r"strategies of 'sine' \(RAHBO.*\)\. Got \['RABO'\]"),
        ([Series("sine", "RAHBO"), Series("sine", "RAHBO", 1, 9)], r"run once.*'default', 9\)"),
        (
            [
                Series("sine", "RAHBO", settings={"a": {}}),
                Series("sine", "GP-UCB", settings={"a": {"num_repeats": 3}}),
            ],
            "one setting 'a' of 'sine'",
        ),
    ],
)
def test_what_cannot_be_run_is_found_before_anything_is(series: list[Series], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Campaign("a", series).blocks()


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"File not found: .*gone\.yaml"):
        Campaign.read(tmp_path / "gone.yaml")
    for name, text, message in (
        ("a.toml", "", "Expected a .yaml, .json or .py file"),
        ("a.yaml", "name: [", "to be YAML"),
        ("a.py", "CAMPAIGN = 3", "set CAMPAIGN to a Campaign. Got int"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=message):
            Campaign.read(tmp_path / name)
    with pytest.raises(ValueError, match=r"'tests\.nowhere' to be a module with EXPERIMENTS"):
        experiments_of(["tests.nowhere"])


def test_names() -> None:
    block = Block("sine", "RAHBO", "default", (4, 5), 20)
    assert block.key == ("sine", "RAHBO", "default", 4)
    assert str(Block("sine", "RAHBO", "default", (4,), 20)).endswith("seeds 4")
    others = [
        Block("sine", "RAHBO", "default", (6, 7), 20),
        Block("sine", "GP", "default", (4,), 1),
    ]
    assert len({each.folder_name for each in (block, *others)}) == 3
    assert block.folder_name == Block("sine", "RAHBO", "default", (4, 5), 30).folder_name


def schedule(num_seeds: int, num_series: int, num_workers: int, size: int) -> float:
    r"""The time of the last worker, each block to the first worker that is free."""
    sizes = [min(size, num_seeds - first) for first in range(0, num_seeds, size)] * num_series
    ends = [0.0] * num_workers
    for each in sizes:
        free = ends.index(min(ends))
        ends[free] += 0.95 + 0.05 * each
    return max(ends)


@pytest.mark.parametrize("num_seeds", [1, 7, 20])
@pytest.mark.parametrize("num_series", [1, 3, 40])
@pytest.mark.parametrize("num_workers", [1, 2, 16])
def test_the_best_size_is_near_that_of_a_schedule(
    num_seeds: int, num_series: int, num_workers: int
) -> None:
    size = best_block_size(num_seeds, num_series, num_workers)
    best = min(schedule(num_seeds, num_series, num_workers, n) for n in range(1, num_seeds + 1))
    assert schedule(num_seeds, num_series, num_workers, size) <= 1.1 * best
    assert math.ceil(num_seeds / size) <= max(num_workers, 1)  # no more blocks than can help


def test_errors() -> None:
    with pytest.raises(ValueError, match="`num_workers` to be at least 1"):
        best_block_size(1, 1, 0)


def test_it_is_json_of_the_campaign_and_what_it_runs() -> None:
    identity = identity_of(small(), "cpu")
    assert json.loads(json.dumps(identity)) == identity
    assert identity["campaign"] == small().to_json() and identity["versions"] == versions()
    assert list(identity["experiments"]["quadratic"]) == ["default", "more"]
    assert identity["experiments"]["quadratic"]["more"]["num_repeats"] == 5
    assert [Series(**each) for each in identity["spelled_out"]] == small().spelled_out()


def test_what_cannot_be_built_is_found_before_anything_has_run() -> None:
    with pytest.raises(ValueError, match="Expected `num_repeats` to be"):
        identity_of(small(settings={"none": {"num_repeats": 0}}), "cpu")
