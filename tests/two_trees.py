r"""Compare what the code before a change and the code after it decide from the same histories.

    python -m tests.two_trees BEFORE [AFTER] [--only rahbo sbo_kde] [--rounds 4]
    make two-trees BEFORE=main~1

BEFORE and AFTER are checkouts, or commits of this one; AFTER is this checkout by default. On one
machine, with one thread, the code before plays every case of `tests/strategies/cases.py`, and the
code after is told the same histories. In each round

- the points asked for agree to 1e-6 of the range of their column, or every maximisation that ended
  elsewhere found the same acquisition value to 1e-9;
- the recommendations agree likewise;
- the state that the code before saved is loaded by the code after, which asks for the same next.

A state of another format is refused, not translated; the table says so. Exits with 1 if anything
else differs. Results are kept in a temporary folder only: a stored trajectory would compare
processors, not code.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

HERE = Path(__file__).resolve().parents[1]
SEEDS = (11, 12, 13)
SAME_POINT, SAME_VALUE = 1e-6, 1e-9
# Maximisers of acquisition functions, by the module that defines them.
MAXIMISERS = {
    "botorch_risk.optim": ("optimize_acqf_replicates",),
    "botorch_risk.engine": ("optimize_acqf_replicates",),
    "botorch.optim": ("optimize_acqf", "optimize_acqf_mixed_alternating"),
}


class Decision(NamedTuple):
    r"""What was decided, `R x ...`, and the maximisations on the way to it.

    Args:
        chosen: The points that were asked for, or the recommendation.
        maxima: The points and the value or values that each maximisation found.
    """

    chosen: Tensor
    maxima: list[tuple[Tensor, Tensor]]


class Played(NamedTuple):
    r"""A case, played round by round.

    Args:
        ranges: The range of each column of the decision, `d_x`.
        told: What was told in each round.
        asked: What was asked for in each round, and after the last one.
        reported: The recommendation after each round, where there is one.
        state: The state after the last round.
    """

    ranges: Tensor
    told: list[tuple[Tensor, Tensor]]
    asked: list[Decision]
    reported: list[Decision]
    state: dict[str, Any]


def as_plain(value: Any) -> Any:
    r"""Containers of Python's own, which `torch.load` reads without running code."""
    if isinstance(value, dict):
        return {key: as_plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        kind = list if isinstance(value, list) else tuple
        return kind(as_plain(one) for one in value)
    return value


def as_played(value: Any) -> Any:
    r"""A played case from plain containers; what a case failed with stays a text."""
    if isinstance(value, str):
        return value
    ranges, told, asked, reported, state = value
    decisions = ([Decision(*one) for one in each] for each in (asked, reported))
    return Played(ranges, told, *decisions, state)


def loaded(file: Path) -> dict[str, Any]:
    stored = torch.load(file, weights_only=True)
    return {name: as_played(value) for name, value in stored.items()}


# -- in one tree ---------------------------------------------------------------------------------


@contextlib.contextmanager
def maxima_of() -> Iterator[list[tuple[Tensor, Tensor]]]:
    r"""Collects what the maximisers find, in whichever module they were imported."""
    found: list[tuple[Tensor, Tensor]] = []

    def watched(maximise: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            result = maximise(*args, **options)
            found.append(tuple(torch.as_tensor(part).detach().clone() for part in result[:2]))
            return result

        return run

    modules, replaced = list(sys.modules.values()), []
    for home, names in MAXIMISERS.items():
        for name in names:
            original = getattr(sys.modules.get(home), name, None)
            if original is None:
                continue
            instead = watched(original)
            for module in modules:
                if getattr(module, name, None) is original:
                    replaced.append((module, name, original))
                    setattr(module, name, instead)
    try:
        yield found
    finally:
        for module, name, original in replaced:
            setattr(module, name, original)


def decided(decide: Callable[[], Tensor]) -> Decision:
    with maxima_of() as maxima:
        return Decision(decide().detach().clone(), maxima)


def play(case: Any, rounds: int, before: Played | None) -> Played:
    r"""Play a case from the start; after each round, hear what `before` was told."""
    from tests.strategies.loops import evaluate, meet

    torch.manual_seed(0)
    strategy = case.build(SEEDS)
    bounds = strategy.space.bounds
    played = Played(bounds[1] - bounds[0], [], [decided(strategy.ask)], [], {})
    for index in range(rounds):
        if before is None:
            X = meet(strategy, played.asked[-1].chosen, index, case.problem)
            told = X, evaluate(strategy, X, index, case.problem)
        else:
            told = before.told[index]
        played.told.append(told)
        strategy.tell(*told)
        played.asked.append(decided(strategy.ask))
        played.reported.append(decided(strategy.recommend))
    return played._replace(state=strategy.state_dict())


def next_of_state(case: Any, state: dict[str, Any]) -> Decision | str:
    r"""What is asked for after a state was loaded, or why it was refused."""
    strategy = case.build(SEEDS)
    try:
        strategy.load_state_dict(state)
    except ValueError as error:
        return str(error)
    return decided(strategy.ask)


def run_in_this_tree(file: Path, only: Sequence[str], rounds: int, known: Path | None) -> None:
    r"""Play the cases of the tree that Python imports from, writing after each."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    from tests.strategies.cases import STRATEGIES

    before = {} if known is None else loaded(known)
    results: dict[str, Any] = {}
    for case in STRATEGIES:
        if (only and case.name not in only) or (known is not None and case.name not in before):
            continue
        try:
            results[case.name] = play(case, rounds, before.get(case.name))
            if known is not None:
                following = next_of_state(case, before[case.name].state)
                results[case.name] = results[case.name], following
        except Exception as error:  # a strategy that fails is a difference, not the end
            results[case.name] = f"{type(error).__name__}: {error}"
        torch.save(as_plain(results), file)
        sys.stderr.write(".")
        sys.stderr.flush()
    sys.stderr.write("\n")


# -- of both trees -------------------------------------------------------------------------------


def rows_apart(found: Tensor, expected: Tensor, ranges: Tensor | None) -> Tensor | None:
    r"""Which replicates decided otherwise, a mask `R`; None if the shapes differ."""
    if found.shape != expected.shape:
        return None
    unit = torch.ones_like(found[..., :1]).expand_as(found).clone()
    if ranges is not None:
        unit[..., : len(ranges)] = ranges
    away = (found - expected).abs().nan_to_num(torch.inf) > SAME_POINT * unit
    away &= ~(found.isnan() & expected.isnan())
    return away.flatten(1).any(dim=-1)


def ended_elsewhere_at_the_same_value(found: Decision, expected: Decision) -> bool:
    r"""Whether each maximisation that ended elsewhere found the same value.

    What follows in a replicate from another point is not compared.
    """
    if len(found.maxima) != len(expected.maxima):
        return False
    parted: Tensor | None = None
    for (X, value), (X_before, value_before) in zip(found.maxima, expected.maxima, strict=True):
        if X.shape != X_before.shape or value.shape != value_before.shape:
            return False
        away = (X - X_before).abs().flatten(max(value.dim(), 0)) > SAME_POINT
        away = away.any(dim=-1) if away.dim() > value.dim() else away.any()
        if parted is not None and parted.shape == away.shape:
            away = away & ~parted
        gap = (value - value_before).abs() / (1 + value_before.abs())
        if (gap[away] > SAME_VALUE).any():
            return False
        parted = away if parted is None or parted.shape != away.shape else parted | away
    return parted is not None and bool(parted.any())


def difference(found: Decision, expected: Decision, ranges: Tensor) -> str:
    r"""How decisions differ: "" if they agree, "tie" if they are equally good."""
    away = rows_apart(found.chosen, expected.chosen, ranges)
    if away is None:
        return f"shape {tuple(found.chosen.shape)} for {tuple(expected.chosen.shape)}"
    if not away.any():
        return ""
    if ended_elsewhere_at_the_same_value(found, expected):
        return "tie"
    distance = (found.chosen - expected.chosen).abs().nan_to_num(torch.inf).max().item()
    replicates = [SEEDS[row] for row in away.nonzero().flatten().tolist()]
    return f"seeds {replicates} differ, by up to {distance:.1e}"


def is_exact(found: Decision, expected: Decision) -> bool:
    r"""Whether two decisions agree to the last bit."""
    return torch.equal(found.chosen.nan_to_num(torch.inf), expected.chosen.nan_to_num(torch.inf))


class Verdict(NamedTuple):
    differences: list[str]
    ties: int
    state: str
    exact: bool = False


def compare(found: Played, following: Decision | str, expected: Played) -> Verdict:
    differences, ties, exact = [], 0, True
    for name in ("asked", "reported"):
        pairs = zip(getattr(found, name), getattr(expected, name), strict=True)
        for index, (now, then) in enumerate(pairs):
            said = difference(now, then, expected.ranges)
            exact &= is_exact(now, then)
            if said == "tie":
                ties += 1
            elif said:
                differences.append(f"{name} in round {index}: {said}")
    if isinstance(following, str):
        return Verdict(differences, ties, f"refused: {following[:80]}", exact)
    said = difference(following, expected.asked[-1], expected.ranges)
    if said not in ("", "tie"):
        differences.append(f"asked after loading the state: {said}")
    exact &= is_exact(following, expected.asked[-1])
    return Verdict(differences, ties, "loaded", exact)


def run_in(tree: Path, file: Path, options: Sequence[str]) -> None:
    r"""Run this program, as it stands here, on the code of a tree."""
    path = os.pathsep.join([str(tree), str(tree / "bench")])
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--play", str(file), *options]
    subprocess.run(command, cwd=tree, env=os.environ | threads | {"PYTHONPATH": path}, check=True)


@contextlib.contextmanager
def checkout(place: str) -> Iterator[Path]:
    r"""A folder with the code of a checkout, or of a commit of this one."""
    if Path(place).is_dir():
        yield Path(place).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["git", "archive", place], cwd=HERE, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "x", "-C", folder], input=packed, check=True)
        yield Path(folder)


def compare_trees(before: Path, after: Path, only: Sequence[str], rounds: int) -> bool:
    r"""Print a line for each case; whether all agree."""
    options = ["--rounds", str(rounds), *(["--only", *only] if only else [])]
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "before.pt"), Path(folder, "after.pt")
        run_in(before, first, options)
        run_in(after, second, [*options, "--known", str(first)])
        expected = loaded(first)
        found = torch.load(second, weights_only=True) if second.exists() else {}
    agree, total, exact = True, 0, 0
    for name, then in expected.items():
        now = found.get(name, "has no case any more")
        if isinstance(then, str) or isinstance(now, str):
            same = then == now
            said = f"before: {then if isinstance(then, str) else 'played'}; after: {now}"
            verdict = Verdict([] if same else [said], 0, "-")
        else:
            played, following = now
            if not isinstance(following, str):
                following = Decision(*following)
            verdict = compare(as_played(played), following, then)
        agree &= not verdict.differences
        total += bool(verdict.differences)
        exact += verdict.exact
        said = "differs" if verdict.differences else "agrees"
        ties = f", {verdict.ties} ties" if verdict.ties else ""
        bits = ", to the last bit" if verdict.exact else ""
        print(f"{said:8} {name}{bits}{ties}; state {verdict.state}")
        for line in verdict.differences[:3]:
            print(f"           {line}")
    print(f"{len(expected) - total} of {len(expected)} agree, {exact} to the last bit")
    if unknown := sorted(set(only) - set(expected)):
        print(f"Expected cases of the code before. Got {', '.join(unknown)}.")
    return agree and bool(expected) and not unknown


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("before", nargs="?")
    parser.add_argument("after", nargs="?", default=str(HERE))
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--play", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--known", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.play is not None:
        # The tree in which this runs comes first, not the folder of this file.
        sys.path[:] = [str(Path.cwd()), *(p for p in sys.path if Path(p) != HERE / "tests")]
        run_in_this_tree(given.play, given.only, given.rounds, given.known)
        return 0
    if given.before is None:
        parser.error("Expected the code before: a checkout or a commit.")
    with checkout(given.before) as before, checkout(given.after) as after:
        return 0 if compare_trees(before, after, given.only, given.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
