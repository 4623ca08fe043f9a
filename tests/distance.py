r"""How far a reader walks from `ask` to the formula: frames of ours, and files that a round enters.

    python -m tests.distance [--tree PATH]

For each paper's strategy, one round of `ask`, `tell`, `recommend` is traced after the first fit.
It prints the package's frames above the formula when `ask` reaches it, and the files that the round
enters. Both are counted as they are, and with the engine as one, since a reader does not open it.
`--tree` measures another checkout.
"""

import argparse
import inspect
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)


def outcomes(X: Tensor) -> Tensor:
    return X.sin().sum(dim=-1, keepdim=True)


def with_contexts(strategy: Any) -> tuple[Tensor, Tensor]:
    x = strategy.ask()
    X = torch.cat([x, torch.rand_like(x)], dim=-1)
    return X, outcomes(X)


def with_repeats(strategy: Any) -> tuple[Tensor, Tensor]:
    X = strategy.ask()
    return X, outcomes(X) + 0.1 * torch.randn(*X.shape[:-1], 5, dtype=torch.double)


def plain(strategy: Any) -> tuple[Tensor, Tensor]:
    X = strategy.ask()
    return X, outcomes(X)


def cases() -> dict[str, tuple[Callable[[], Any], Callable[[Any], tuple[Tensor, Tensor]], Any]]:
    r"""A strategy, how it is told, and where its formula stands, by the name of the strategy."""
    from botorch_risk import papers
    from botorch_risk.acquisition import RiskAverseUpperConfidenceBound, RiskUpperConfidenceBound
    from botorch_risk.environments import DiscreteEnvironment

    both = torch.cat([UNIT, UNIT], dim=-1)
    w = DiscreteEnvironment(torch.linspace(0, 1, 4, dtype=torch.double)[:, None])
    bound = RiskUpperConfidenceBound
    return {
        "sbo_kde": (
            lambda: papers.sbo_kde(UNIT, [0, 1], context_bounds=UNIT, num_initial=5),
            with_contexts,
            (bound, "pointwise_bounds"),
        ),
        "drbo_kde": (
            lambda: papers.drbo_kde(UNIT, [0, 1], context_bounds=UNIT, num_initial=5),
            with_contexts,
            (bound, "pointwise_bounds"),
        ),
        "v_ucb": (
            lambda: papers.v_ucb(UNIT, [0, 1], environment=w, risk_level=0.2, num_initial=5),
            plain,
            (bound, "pointwise_bounds"),
        ),
        "rahbo": (
            lambda: papers.rahbo(both, [0, 1], num_repeats=5, risk_aversion=1.0, num_initial=5),
            with_repeats,
            (RiskAverseUpperConfidenceBound, "_bound"),
        ),
        "uhe_bo": (lambda: papers.uhe_bo(UNIT, [0, 1], num_initial=5), plain, None),
        "truvar": (
            lambda: papers.truvar(
                torch.linspace(0, 1, 21, dtype=torch.double).unsqueeze(-1),
                [0, 1],
                goal=papers.Maximize(),
                num_initial=5,
            ),
            plain,
            (papers.TruncatedVarianceReduction, "score"),
        ),
    }


def frames_to(owner: type, name: str, run: Callable[[], Any], package: str) -> list[str]:
    r"""The frames of the package above the deepest call of a method while `run` runs."""
    found: list[list[str]] = []
    plain = getattr(owner, name)

    def watched(self: Any, *args: Any, **options: Any) -> Any:
        stack = [each for each in inspect.stack(0)[1:] if package in each.filename]
        found.append([f"{each.filename.partition(package)[2]}:{each.function}" for each in stack])
        return plain(self, *args, **options)

    setattr(owner, name, watched)
    try:
        run()
    finally:
        setattr(owner, name, plain)
    longest = max(found, key=len, default=[])
    return longest[::-1]


def without_inside(frames: list[str]) -> list[str]:
    r"""The frames with each visit of the engine as one."""
    kept: list[str] = []
    for each in frames:
        each = "engine" if each.startswith("engine/") else each
        if not (kept and each == kept[-1] == "engine"):
            kept.append(each)
    return kept


def one_round(strategy: Any, told: Callable[[Any], tuple[Tensor, Tensor]]) -> None:
    strategy.tell(*told(strategy))
    strategy.recommend()


def files_of(run: Callable[[], Any], package: str) -> set[str]:
    r"""The files of the package whose functions run."""
    entered: set[str] = set()

    def trace(frame: Any, event: str, _: Any) -> None:
        if event == "call" and package in frame.f_code.co_filename:
            entered.add(frame.f_code.co_filename.partition(package)[2])

    sys.setprofile(trace)
    try:
        run()
    finally:
        sys.setprofile(None)
    return entered


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[1])
    tree = parser.parse_args().tree.resolve()
    sys.path[:0] = [str(tree)]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    import botorch_risk

    package = str(Path(botorch_risk.__file__).parent) + "/"
    for name, (build, told, formula) in cases().items():
        torch.manual_seed(0)
        strategy = build()
        strategy.tell(*told(strategy))
        frames = [] if formula is None else frames_to(*formula, strategy.ask, package)
        files = files_of(lambda: one_round(strategy, told), package)  # noqa: B023
        outside = {"engine" if each.startswith("engine/") else each for each in files}
        short = without_inside(frames)
        lines = [
            f"{name}: {len(frames)} frames ({len(short)} with the engine as one), "
            f"{len(files)} files ({len(outside)} with the engine as one)",
            "    " + (" > ".join(short) or "its formula is BoTorch's, or a twin's in NumPy"),
            "    " + " ".join(sorted(outside)),
        ]
        sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
