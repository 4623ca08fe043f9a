r"""BoTorch's own loop with a line changed: the model's view, the ascent, the optimizer of the fit.

`optimize_acqf` (10 restarts, 256 raw points) of BoTorch's `LogExpectedImprovement` and
`UpperConfidenceBound` on a model and on `FastMarginals` of it, each by BoTorch's L-BFGS-B and by
`gen_candidates=gen_candidates_quasi_newton`, and `fit_gpytorch_mll` with its own
optimizer and with `fit_gpytorch_mll_closed_form`, one start and two. CPU times of one thread, in
turns, in the median of `num_data_sets` data sets for the ascents, with quartiles; in how many the
value found with both changes equals BoTorch's within 1e-3, is higher or lower.
With `botorch-rust` installed, also a whole step of both: build, fit, and maximise.
Run `python -m bench.speed.botorch_loop`.
"""

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement, UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.generation import gen_candidates_scipy
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Generator, Tensor

from bench.speed.timing import environment, interleaved
from botorch_risk.engine import FastMarginals, fit_exact_gp, gen_candidates_quasi_newton
from botorch_risk.faster import fit_gpytorch_mll_closed_form

SIZES = ((40, 2), (40, 6), (200, 2), (200, 6), (1000, 6))


def data(n: int, d: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    r"""Noisy sums of sines on the unit cube."""
    generator = Generator().manual_seed(seed)
    X = torch.rand(n, d, generator=generator, dtype=torch.float64)
    noise = torch.randn(n, 1, generator=generator, dtype=torch.float64)
    return X, (5 * X).sin().sum(dim=-1, keepdim=True) + 0.05 * noise


def acquisitions(best: Tensor) -> dict[str, Callable[[Model], AcquisitionFunction]]:
    return {
        "LogEI": lambda model: LogExpectedImprovement(model, best_f=best),
        "UCB": lambda model: UpperConfidenceBound(model, beta=4.0),
    }


def compare_views(n: int, d: int, num_data_sets: int) -> None:
    r"""Prints a row for each acquisition function: medians over data sets, and quartiles."""
    bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()
    rows: dict[str, list[tuple[dict[str, float], float]]] = {}
    for seed in range(num_data_sets):
        X, Y = data(n, d, seed)
        model = SingleTaskGP(X, Y)
        fit_exact_gp(model)
        for name, make in acquisitions(Y.max()).items():
            rows.setdefault(name, []).append(_in_turn(model, make, bounds))
    for name, found in rows.items():
        seconds, gains = zip(*found, strict=True)
        own = np.array([each["model"] for each in seconds])
        cells = [f"{1e3 * np.median(own):.1f}"]
        for way in ("model, ascent", "view", "view, ascent"):
            ratios = own / np.array([each[way] for each in seconds])
            low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
            cells.append(f"{middle:.1f} ({low:.1f} to {high:.1f})")
        print(
            f"| {name} | {n} | {d} | {' | '.join(cells)} | {_ends(np.array(gains))} |", flush=True
        )


def _in_turn(
    model: Model, make: Callable[[Model], AcquisitionFunction], bounds: Tensor
) -> tuple[dict[str, float], float]:
    r"""CPU seconds of four ways on one data set, and what both changes gain in value."""
    found: dict[str, Tensor] = {}

    def maximise(way: str, view: Model, gen_candidates: Callable) -> None:
        torch.manual_seed(0)  # BoTorch draws the starts among the raw points: the same ones
        search = {"q": 1, "num_restarts": 10, "raw_samples": 256, "options": {"seed": 0}}
        _, found[way] = optimize_acqf(make(view), bounds, gen_candidates=gen_candidates, **search)

    views = {"model": model, "view": FastMarginals(model)}
    ascents = {"": gen_candidates_scipy, ", ascent": gen_candidates_quasi_newton}
    ways = {
        view + ascent: partial(maximise, view + ascent, views[view], ascents[ascent])
        for view in views
        for ascent in ascents
    }
    seconds = interleaved(ways, 3, clock=time.process_time)
    return seconds, float(found["view, ascent"] - found["model"])


def _ends(gains: np.ndarray) -> str:
    r"""In how many data sets the values found are equal within 1e-3, higher and lower."""
    higher, lower = (gains >= 1e-3).sum(), (gains <= -1e-3).sum()
    return f"{len(gains) - higher - lower}, {higher}, {lower}"


def compare_fits(n: int, d: int, repeats: int) -> None:
    r"""Prints a row."""
    X, Y = data(n, d)
    ended: dict[str, float] = {}

    def fit(way: str, **options: object) -> None:
        model = SingleTaskGP(X, Y)
        mll = ExactMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(mll, **options)
        mll.train()
        with torch.no_grad():
            ended[way] = float(mll(model(*model.train_inputs), model.train_targets))

    ours = {"optimizer": fit_gpytorch_mll_closed_form}
    ways = {
        "BoTorch": lambda: fit("BoTorch"),
        "two starts": lambda: fit("two starts", **ours),
        "one": lambda: fit("one", **ours, optimizer_kwargs={"rough_start": False}),
    }
    seconds = interleaved(ways, repeats, clock=time.process_time)
    own = seconds["BoTorch"]
    print(
        f"| {n} | {d} | {1e3 * own:.0f} | {1e3 * seconds['two starts']:.0f} | "
        f"{1e3 * seconds['one']:.0f} | {own / seconds['two starts']:.1f}, "
        f"{own / seconds['one']:.1f} | {ended['two starts'] - ended['BoTorch']:+.0e}, "
        f"{ended['one'] - ended['BoTorch']:+.0e} |"
    )


def compare_steps(name: str, n: int, d: int, repeats: int) -> None:
    r"""Prints a row: a step of ours in parts, and the same step of `botorch-rust`."""
    import botorch_rs
    from botorch_rs.acquisition import LogExpectedImprovement as RustImprovement
    from botorch_rs.acquisition import UpperConfidenceBound as RustBound
    from botorch_rs.fit import fit_gpytorch_mll as rust_fit
    from botorch_rs.mlls import ExactMarginalLogLikelihood as RustLikelihood
    from botorch_rs.optim import optimize_acqf as rust_optimize

    botorch_rs.set_num_threads(1)
    bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()
    search = {"q": 1, "num_restarts": 10, "raw_samples": 256, "options": {"seed": 0}}
    times = np.zeros((repeats, 5))  # build, fit, maximise, all of botorch-rust, what we gain
    for seed in range(repeats):
        X, Y = data(n, d, seed)
        marks = [time.process_time()]
        model = SingleTaskGP(X, Y)
        marks.append(time.process_time())
        fit_exact_gp(model)
        marks.append(time.process_time())
        acqf = acquisitions(Y.max())[name](FastMarginals(model))
        own = {**search, "gen_candidates": gen_candidates_quasi_newton}
        _, found = optimize_acqf(acqf, bounds, **own)
        marks.append(time.process_time())
        rust = botorch_rs.SingleTaskGP(X, Y)
        rust_fit(RustLikelihood(rust.likelihood, rust))
        rust_acqf = (
            RustBound(rust, beta=4.0)
            if name == "UCB"
            else RustImprovement(rust, best_f=float(Y.max()))
        )
        _, other = rust_optimize(rust_acqf, bounds=bounds, **search)
        marks.append(time.process_time())
        times[seed] = [*np.diff(marks), float(found) - float(other)]
    build, fit, maximise, rust_step, _ = 1e3 * np.median(times, axis=0)
    ratio = np.median(times[:, :3].sum(axis=1) / times[:, 3])
    print(
        f"| {name} | {n} | {d} | {build:.1f}, {fit:.1f}, {maximise:.1f} | "
        f"{rust_step:.1f} | {ratio:.1f} | {_ends(times[:, 4])} |"
    )


def main(repeats: int = 9, num_data_sets: int = 30) -> None:
    print(f"\n## BoTorch's loop, one line changed\n\n{environment('cpu')}, CPU times.\n")
    print(
        "| `optimize_acqf` | n | d | as it is, ms | our ascent | the view | both | "
        "equal, higher, lower |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for n, d in SIZES:
        compare_views(n, d, num_data_sets)
    print("\n| n | d | `fit_gpytorch_mll`, ms | two starts, ms | one, ms | ratios | gain |")
    print("|---|---|---|---|---|---|---|")
    for n, d in SIZES[:-1]:
        compare_fits(n, d, repeats)
    if importlib.util.find_spec("botorch_rs") is None:
        return
    print(
        "\n| | n | d | build, fit, maximise, ms | `botorch-rust`, ms | ratio | "
        "equal, higher, lower |"
    )
    print("|---|---|---|---|---|---|---|")
    for n, d in SIZES[:2]:
        for name in ("LogEI", "UCB"):
            compare_steps(name, n, d, max(100, repeats))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--num-data-sets", type=int, default=30)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
