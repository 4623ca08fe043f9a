r"""What the pages' code answers is near the truth of worlds that no page was written on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.jobs import jobs
from tests.jobs.pages import DOCS, FENCE, Figures, Job, Part, is_yours, play

WORLDS = range(200, 204)
pytestmark = pytest.mark.filterwarnings("ignore")  # of Ax, Optuna and BoTorch's optimiser

# What holds of the figures of a job in all worlds.
JUDGED = {
    jobs.a_table_with_repeats: (
        lambda found: found["regret"].mean() <= 0.4,
        lambda found: found["interval holds"].mean() >= 0.75,
        lambda found: (found["settings asked, of 2"] == 2).all(),
    ),
    jobs.one_objective_without_risk: (lambda found: found["share of the volume"].min() >= 0.95,),
    jobs.an_ax_client_with_trials: (lambda found: found["regret"].mean() <= 0.25,),
    jobs.a_limit_under_correlated_conditions: (
        lambda found: found["regret"].max() <= 0.05,
        lambda found: found["dry on"].min() >= 0.93,  # 64 points stand for the distribution
    ),
    jobs.a_level_set_with_instruments: (
        lambda found: found["wrong of the classified"].mean() <= 0.05,
        lambda found: found["unknown"].mean() <= 0.2,
        lambda found: found["wrong if every place is classified"].mean() <= 0.05,
    ),
    jobs.are_my_lengthscales_biased: (
        lambda found: (
            found["95 % intervals of the estimate hold in"][found["trusted"] > 0] >= 0.9
        ).all(),
        lambda found: found["of the samples"].mean() >= 0.9,
    ),
    jobs.a_colder_season_that_is_feared: (
        lambda found: found["loss: ball"].mean() < found["loss: before"].mean(),
    ),
    jobs.a_shift_that_is_known: (
        lambda found: found["loss: shift"].mean() <= 2.0,  # of a profit of about 110
        lambda found: found["loss: shift"].mean() < found["loss: before"].mean(),
    ),
    jobs.a_mixture: (
        lambda found: found["regret"].mean() <= 0.5,
        lambda found: found["farthest sum from 1"].max() <= 1e-9,
    ),
    jobs.settings_that_still_run: (
        lambda found: found["regret of the best of eight"].mean() <= 0.3,
        lambda found: (found["run twice"] == 0).all(),
        lambda found: (found["running, of 8"] == 8).all(),
    ),
    jobs.advice_on_a_study: (
        lambda found: found["regret"].mean() <= 0.2,
        lambda found: found["regret"].mean() < found["regret of the luckiest trial"].mean(),
    ),
}


def stacked(rows: list[Figures]) -> dict[str, Tensor]:
    return {name: torch.tensor([float(row[name]) for row in rows]) for name in rows[0]}


@pytest.mark.slow
@pytest.mark.parametrize("job", JUDGED, ids=lambda job: job.__name__)
def test_the_pages_answer_near_the_truth(job: Job, tmp_path: Path) -> None:
    if job is jobs.advice_on_a_study:
        pytest.importorskip("optuna")
    rows, pages = [], set()
    for world in WORLDS:
        figures, parts = play(job, world, tmp_path)
        rows.append(figures)
        pages |= {part.page for part in parts}
    assert len(pages) <= 2
    found = stacked(rows)
    assert all(holds(found) for holds in JUDGED[job]), found


def test_a_reader_replaces_whole_blocks_of_code() -> None:
    yours = [
        block
        for page in sorted(DOCS.glob("*.md"))
        for block in FENCE.findall(page.read_text(encoding="utf-8"))
        if "# Yours" in block
    ]
    assert len(yours) >= len(JUDGED)
    assert all(is_yours(block) and block.count("# Yours") == 1 for block in yours)


def test_a_part_names_what_a_page_lacks() -> None:
    for heading, num_blocks in (("Renamed", None), ("Three fractions", 9)):
        with pytest.raises(ValueError, match=f"code in '{heading}' of mixtures.md"):
            _ = Part("mixtures", heading, {}, num_blocks).code
