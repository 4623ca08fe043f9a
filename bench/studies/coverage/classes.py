r"""Classes of `level_set_search` and predictions of `truvar`: how many are wrong.

    python -m bench.studies.coverage.classes --to FOLDER

The functions of development, and a level that a quarter of the decisions exceed. The fit chooses
the readings, and both beliefs learn from the same ones. A search is written to a file of its own
once: the command goes on where it was stopped, and prints the tables in the end.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from botorch_risk_bench.campaigns.whole_files import write_text
from torch import Generator, Tensor
from torch.quasirandom import SobolEngine

from bench.reproduction.tables import table
from bench.studies.coverage.looks import BELIEFS, DEVELOPMENT, MODES, NOISE, SEEDS, drawn_w, share
from bench.studies.coverage.report import (
    Row,
    by_pair,
    chosen,
    mean_and_half_widths,
    share_and_half_widths,
)
from botorch_risk.level_sets import level_set_search
from botorch_risk.papers import LevelSet, Maximize, truvar
from botorch_risk.strategies import Strategy
from botorch_risk.test_functions import CertifiedProblem
from botorch_risk.test_functions.environmental import draw_outcomes

RISKS = ("expectation", "value-at-risk", "conditional-value-at-risk")
LEVEL = 0.75  # the quantile of the risks, or of f
SIDES = {1: 101, 2: 11}  # of the grid of decisions, by its dimension
LOOKS = {"level_set_search": (10, 20, 40), "truvar": (10, 25)}
GOALS, SCHEDULES = ("level", "maximum"), (5, None)  # `refit_every`
NUM_POINTS, SURE = 256, 0.95  # of the domain of `truvar`


def grid(bounds: Tensor, side: int) -> Tensor:
    r"""Decisions at equal steps between bounds `2 x d_x`."""
    axes = [torch.linspace(*each, side, dtype=torch.double) for each in bounds.mT.tolist()]
    return torch.cartesian_prod(*axes).reshape(-1, len(axes))


def looks_at(
    strategies: Sequence[Strategy],
    read: Callable[[Tensor], tuple[Tensor, Tensor]],
    rounds: Sequence[int],
) -> Iterator[int]:
    r"""Tell all strategies the readings that the first one chooses, and stop at some rounds."""
    for t in range(rounds[-1] + 1):
        Z, Y = read(strategies[0].ask())
        for strategy in strategies:
            strategy.tell(Z, Y)
        if t in rounds:
            yield t


def streams_of(seeds: Sequence[int]) -> list[Generator]:
    r"""The draws of W and of the noise."""
    return [torch.Generator().manual_seed(10_000 + seed) for seed in seeds]


def with_noise(values: Tensor, streams: Sequence[Generator]) -> Tensor:
    r"""One reading of each value, `R x n x 1`."""
    return draw_outcomes(values.unsqueeze(-1), [NOISE], 1, streams).squeeze(-1)


def rows_of_search(form: str, risk: str, mode: str, seeds: Sequence[int]) -> list[Row]:
    r"""The classes by both beliefs in a level set search, as shares of the decisions by seed."""
    problem, streams = CertifiedProblem(form, risk), streams_of(seeds)
    d_x = problem.num_decision
    decisions = grid(problem.bounds[:, :d_x], SIDES[d_x])
    risks = problem.objective(decisions)
    level = float(risks.quantile(LEVEL))
    above = risks > level
    strategies = {
        belief: level_set_search(
            decisions,
            seeds,
            environment=problem.environment,
            risk_measure=problem.risk_measure,
            goal=LevelSet(level),
            w_is_chosen=mode == "chosen",
            num_initial=2 * problem.dim + 2,
            num_samples=num_samples,
        )
        for belief, num_samples in BELIEFS.items()
    }

    def read(Z: Tensor) -> tuple[Tensor, Tensor]:
        if mode == "observed":
            Z = torch.cat([Z, drawn_w(problem, Z.shape[1], streams)], dim=-1)
        return Z, with_noise(problem.evaluate_true(Z), streams)

    rows = []
    for t in looks_at([*strategies.values()], read, LOOKS["level_set_search"]):
        for belief, strategy in strategies.items():
            classes = strategy.classify()
            wrong = (classes.high & ~above) | (classes.low & above)
            names = {"form": form, "risk": risk, "mode": mode, "round": t, "belief": belief}
            shares = {
                "classified": share(~classes.unclassified),
                "wrong": share(wrong),
                "lost": share(classes.low[:, above]),  # of the level set
            }
            rows.append({"of": "level_set_search", **names, **shares})
    return rows


def rows_of_truvar(
    form: str, goal: str, refit_every: int | None, seeds: Sequence[int]
) -> list[Row]:
    r"""What both beliefs predict on the domain, as shares of its points by seed."""
    problem, streams = CertifiedProblem(form, RISKS[0]), streams_of(seeds)
    domain = SobolEngine(problem.dim, scramble=True, seed=1).draw(NUM_POINTS, dtype=torch.double)
    f = problem.evaluate_true(domain)
    level = float(f.quantile(LEVEL))
    above = f > level
    strategies = {
        belief: truvar(
            domain,
            seeds,
            goal=LevelSet(level) if goal == "level" else Maximize(),
            refit_every=refit_every,
            num_initial=2 * problem.dim + 4,
            num_samples=num_samples,
        )
        for belief, num_samples in BELIEFS.items()
    }

    def read(X: Tensor) -> tuple[Tensor, Tensor]:
        Y = with_noise(problem.evaluate_true(X.nan_to_num()), streams)
        return X, Y.masked_fill(X.isnan().any(dim=-1, keepdim=True), torch.nan)  # it has finished

    rows = []
    for t in looks_at([*strategies.values()], read, LOOKS["truvar"]):
        for belief, strategy in strategies.items():
            names = {"form": form, "goal": goal, "refit_every": refit_every}
            row = {"of": "truvar", **names, "round": t, "belief": belief}
            row["f"] = contained(strategy, domain, f)
            rows.append({**row, **(of_level(strategy, above) if goal == "level" else {})})
    return rows


def contained(strategy: Strategy, domain: Tensor, f: Tensor) -> list[float]:
    r"""The share of the domain where f is in its 95 % interval, by seed."""
    shares = torch.empty(len(strategy.seeds), dtype=torch.double)
    for replicates, view in strategy.views:
        X = domain.expand(len(replicates), *domain.shape)
        of_f = strategy.method.predict(view, X).outcome
        within = (of_f.lower[..., 0] <= f) & (f <= of_f.upper[..., 0])
        shares[replicates] = within.double().mean(dim=-1)
    found: list[float] = shares.tolist()
    return found


def of_level(strategy: Strategy, above: Tensor) -> Row:
    r"""The points that are sure to be on one side by their probability, and those in the sets."""
    classes = strategy.classify()
    sure = (classes.probability - 0.5).abs() > SURE - 0.5
    return {
        "sure": share(sure),
        "sure and wrong": share(sure & ((classes.probability > 0.5) != above)),
        "in sets": share(~classes.unclassified),
        "in wrong set": share((classes.high & ~above) | (classes.low & above)),
    }


def of_search(rows: Sequence[Row]) -> str:
    r"""Classes of `level_set_search` with 95 % confidence; half-widths over seeds, over pairs."""
    cells = []
    for mode in reversed(MODES):
        for belief in BELIEFS:
            for t in LOOKS["level_set_search"]:
                some = chosen(rows, of="level_set_search", mode=mode, belief=belief, round=t)
                wrong, classified = (by_pair(some, name) for name in ("wrong", "classified"))
                lost = by_pair(some, "lost") > 0.5
                cells.append([mode, belief, str(t), share_and_half_widths(wrong, classified)])
                cells[-1] += [mean_and_half_widths(classified)]
                cells[-1] += [f"{int(lost.sum())} of {lost.numel()}"]
    header = ["w", "belief", "round", "wrong, of the classified", "classified"]
    return table([*header, "most of the level set is below"], cells)


def of_truvar(rows: Sequence[Row]) -> str:
    r"""What `truvar` predicts on its domain; half-widths over seeds and over searches."""
    cells = []
    for refit_every in SCHEDULES:
        for belief in BELIEFS:
            for t in LOOKS["truvar"]:
                names = {"refit_every": refit_every, "belief": belief, "round": t}
                some = chosen(rows, of="truvar", **names)
                f, level = by_pair(some, "f"), chosen(some, goal="level")
                pairs = (("sure and wrong", "sure"), ("in wrong set", "in sets"))
                cells.append([str(refit_every), belief, str(t), mean_and_half_widths(f)])
                of_searches = f.mean(dim=-1)
                cells[-1].append(f"{of_searches.min():.2f} to {of_searches.max():.2f}")
                cells[-1] += [
                    share_and_half_widths(*(by_pair(level, name) for name in pair), digits=3)
                    for pair in pairs
                ]
    header = ["`refit_every`", "belief", "round", "f at 95 %", "of a search"]
    return table([*header, "wrong, of sure points", "wrong, of the sets"], cells)


def written(folder: Path, parts: Mapping[str, Callable[[], list[Row]]]) -> list[Row]:
    r"""The rows of all parts; one that is not in the folder is computed and written there."""
    rows = []
    for name, rows_of in parts.items():
        path = folder / f"{name}.json"
        if not path.exists():
            write_text(path, json.dumps(rows_of()))
            print(path.name, flush=True)
        rows += json.loads(path.read_text("utf-8"))
    return rows


def searches(seeds: Sequence[int]) -> dict[str, Callable[[], list[Row]]]:
    r"""All searches by the names of their files."""
    found: dict[str, Callable[[], list[Row]]] = {}
    for form in DEVELOPMENT:
        for mode in MODES:
            for risk in RISKS:
                found[f"{form}.{risk}.{mode}"] = partial(rows_of_search, form, risk, mode, seeds)
        for goal in GOALS:
            for refit_every in SCHEDULES:
                name = f"truvar.{form}.{goal}.{refit_every}"
                found[name] = partial(rows_of_truvar, form, goal, refit_every, seeds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = written(arguments.to, searches(SEEDS[True]))
    for part in (of_search, of_truvar):
        print(f"{part.__doc__}\n\n{part(rows)}")


if __name__ == "__main__":
    main()
