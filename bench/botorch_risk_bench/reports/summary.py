r"""Report regret with error bars: as numbers, as a page and as comma-separated values."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from botorch_risk_bench.campaigns.database import NoResultsError, StoreError
from botorch_risk_bench.campaigns.journal import RoundRecord
from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.campaigns.store import CampaignStore
from botorch_risk_bench.campaigns.stored_values import number_of
from botorch_risk_bench.campaigns.whole_files import replacing
from botorch_risk_bench.metrics import (
    INTERVAL,
    cumulative_regret,
    format_with_error,
    mean_and_standard_error,
    note_on_comparisons,
    simple_regret,
)

COLUMNS = ("experiment", "setting", "strategy", "seed", "round", "objective", "regret")

AGAINST_BEST_SEEN = " against the best seen"
BEST_SEEN = (
    "the best seen, the largest true objective of any point that a strategy of the store evaluated "
    "or recommended for any seed, as the optimum is unknown"
)


@dataclass(frozen=True)
class RegretCurves:
    r"""The regret of one strategy, in units of the risk objective.

    Args:
        cumulative: The sum over the rounds after the initial design of
            `optimum - objective(x)`, over all points of a round: `R x T`. NaN from the first
            round in which a replicate asked for nothing, as in `metrics`. `R x 0` where sets of
            decisions have an objective, and a single one has none.
        simple: `optimum - objective(recommendation)` after the initial design and after
            each round, `R x (T + 1)`.
    """

    cumulative: Tensor
    simple: Tensor

    @property
    def names(self) -> list[str]:
        return ["cumulative", "simple"] if self.cumulative.numel() else ["simple"]

    @property
    def num_rounds(self) -> int:
        return self.simple.shape[-1] - 1


def regret_curves(
    store: ExperimentRecords, *others: ExperimentRecords, optimum: float | None = None
) -> dict[str, RegretCurves]:
    r"""The regret of each strategy over its completed rounds.

    Args:
        store: The store of an experiment whose problem knows its true risk objective.
        others: Stores of other strategies of the same experiment.
        optimum: What to take the regret against. By default the experiment's optimal value if it
            is known, else the best seen in the stores; see `campaigns.records.best_seen`.

    Raises:
        NoResultsError: If no strategy has completed a round after the initial design, or if
            the true risk objective is unknown. It is a ValueError.
    """
    completed: dict[str, tuple[list[Tensor], list[Tensor]]] = {}
    for each in (store, *others):
        for label in each.labels():
            records = each.rounds(label)
            if len(records) > 1:
                completed[label] = _true_values(records)
    if not completed:
        raise NoResultsError(
            f"Expected a completed round after the initial design in {store.path}. Got none."
        )
    if optimum is None:
        optimum = store.identity.get("optimal_value")
    if optimum is None:
        optimum = max(each.best_seen for each in (store, *others))
    return {
        label: RegretCurves(
            cumulative=_by_round(at_X[1:], optimum, like=recommended[0]),
            simple=simple_regret(torch.stack(recommended, dim=-1), optimum),
        )
        for label, (at_X, recommended) in completed.items()
    }


def summary_markdown(store: ExperimentRecords) -> str:
    r"""Tabulate the final regret, paired differences and the regret by round.

    All values belong to the last round that all listed strategies have completed.

    Returns:
        Markdown; the mean and its Student-t interval, 95 %, over the replicates.
    """
    identity, curves = store.identity, regret_curves(store)
    last = min(curve.num_rounds for curve in curves.values())
    names = next(iter(curves.values())).names
    against, reference = "", "the known optimum"
    if identity.get("optimal_value") is None:
        against, reference = AGAINST_BEST_SEEN, BEST_SEEN
    parts = [
        f"# {identity['experiment']}: regret{against} after {last} rounds",
        f"Risk objective: {identity['objective']}. Regret is measured against {reference}; "
        f"{len(identity['seeds'])} replicates, mean ± {INTERVAL}. {_on_rounds(identity, names)}",
        table(["strategy", *names], _final_rows(curves, last)),
    ]
    if len(curves) > 1:
        first = next(iter(curves))
        parts += [
            f"## Paired differences to {first}, seed by seed",
            comparison_table(["strategy", *names], _paired_rows(curves, last)),
        ]
    for name in names:
        parts += [
            f"## {name.capitalize()} regret by round",
            table(["round", *curves], _rows_by_round(curves, name, last)),
        ]
    return "\n\n".join(parts) + "\n"


def write_table(store: CampaignStore, path: str | Path) -> int:
    r"""Write one line per round and seed, in the order of their keys.

    The columns are `COLUMNS`; `objective` is the true risk objective of the recommendation, and
    `regret` the known optimum minus it. Unknown values are empty. The file depends on the results
    only: workers and interruptions leave no trace in it.

    Returns:
        The number of lines below the header.
    """
    optima = {
        (name, setting): identity.get("optimal_value")
        for name, settings in store.identity["experiments"].items()
        for setting, identity in settings.items()
    }
    number = 0
    with replacing(path) as written, written.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in store.rows():
            experiment, strategy, setting, seed, index = row[:5]
            values = _objective_and_regret(row[9], optima[experiment, setting], store.path)
            names = map(_inert, (experiment, setting, strategy))
            writer.writerow((*names, seed, index, *values))
            number += 1
    return number


def campaign_markdown(store: CampaignStore) -> str:
    r"""Tabulate the regret of each experiment in each setting.

    Returns:
        Markdown; for an experiment that cannot be tabulated, the reason.

    Raises:
        StoreError: If something is damaged or missing.
    """
    pages = []
    for page in experiment_pages(store):
        if isinstance(page, StoreError):
            raise page
        pages.append(page)
    return "\n".join(pages)


def experiment_pages(store: CampaignStore) -> Iterator[str | StoreError]:
    r"""The regret of each experiment in each setting, as Markdown, or what is damaged in it."""
    for name, settings in store.identity["experiments"].items():
        for setting in settings:
            try:
                page = summary_markdown(ExperimentRecords(store, name, setting))
            except NoResultsError as error:
                page = f"# {name}\n\nNo table: {error}\n"
            except StoreError as error:
                yield error
                continue
            if len(settings) > 1:
                page = page.replace("\n", f"\n\nSetting: {setting}.\n", 1)
            yield page


def _on_rounds(identity: Mapping[str, Any], names: Sequence[str]) -> str:
    r"""Say what round 0 is, and what the regrets leave out."""
    design = f"The initial design of {identity['num_initial']} points is round 0"
    if "cumulative" not in names:
        return (
            f"{design}. The objective is of the recommended set of decisions: a single one has "
            "none, and there is no cumulative regret."
        )
    return (
        f"{design} and not part of the cumulative regret. From a round that it did not play, a "
        "replicate has no cumulative regret, and is left out."
    )


def failed_points(records: Sequence[RoundRecord]) -> int:
    r"""Count the points, over all replicates, whose repeats have all failed."""
    return sum(
        int((record.Y.isnan().flatten(2).all(dim=-1) & ~record.X.isnan().any(dim=-1)).sum())
        for record in records
    )


def _true_values(records: list[RoundRecord]) -> tuple[list[Tensor], list[Tensor]]:
    r"""The true objective at the points, `R x q` a round, and at the recommendations, `R`.

    At the points there is none where the objective is of sets of decisions.
    """
    at_X = [record.objective for record in records if record.objective is not None]
    recommended = [
        record.recommended_objective
        for record in records
        if record.recommended_objective is not None
    ]
    of_sets = not at_X and all(record.recommendation.dim() == 3 for record in records)
    if len(recommended) != len(records) or not (of_sets or len(at_X) == len(records)):
        raise NoResultsError(
            "Expected a problem that knows its true objective. Got it in "
            f"{len(recommended if of_sets else at_X)} of {len(records)} rounds."
        )
    return at_X, recommended


def _by_round(values: list[Tensor], optimum: float, like: Tensor) -> Tensor:
    r"""The cumulative regret after each round, `R x T`, of values `R x q` a round.

    `R x 0` without values, in the dtype of the `R` values that are like them.
    """
    if not values:
        return like.new_empty(len(like), 0)
    last = torch.tensor([value.shape[-1] for value in values]).cumsum(dim=0) - 1
    return cumulative_regret(torch.cat(values, dim=-1), optimum)[:, last]


def _after(curve: RegretCurves, name: str, round: int) -> Tensor:
    values: Tensor = getattr(curve, name)
    return values[:, round - 1 if name == "cumulative" else round]


def _final_rows(curves: Mapping[str, RegretCurves], last: int) -> list[list[str]]:
    return [
        [label, *(cell(_after(curve, name, last)) for name in curve.names)]
        for label, curve in curves.items()
    ]


def _paired_rows(curves: Mapping[str, RegretCurves], last: int) -> list[list[str]]:
    first, *others = curves
    base = curves[first]
    return [
        [
            label,
            *(
                cell(_after(curves[label], name, last) - _after(base, name, last))
                for name in base.names
            ),
        ]
        for label in others
    ]


def _rows_by_round(curves: Mapping[str, RegretCurves], name: str, last: int) -> list[list[str]]:
    first = 1 if name == "cumulative" else 0
    return [
        [str(index), *(cell(_after(curve, name, index)) for curve in curves.values())]
        for index in range(first, last + 1)
    ]


def cell(values: Tensor) -> str:
    r"""Mean and half of its Student-t interval, 95 %, and of how many replicates if not of all."""
    value = mean_and_standard_error(values)
    shown = format_with_error(value.mean.item(), value.half_width.item())
    count = int(value.num_replicates)
    return shown if count == len(values) else f"{shown} ({count} of {len(values)})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def comparison_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""A table of differences, one in each column but the first, and how many it holds."""
    number = sum(len(row) - 1 for row in rows)
    return f"{table(header, rows)}\n\n{note_on_comparisons(number)}"


def _inert(name: str) -> str:
    r"""A name as a spreadsheet shows it; one that begins like a formula would be computed."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


def _objective_and_regret(value: str | None, optimum: float | None, path: Path) -> tuple[Any, Any]:
    if value is None:
        return "", ""
    objective = number_of(value, path)
    return objective, "" if optimum is None else optimum - objective
