r"""What fits to the data and to pseudo-data recover of hyperparameters that are known.

python -m bench.reproduction.uhe.recovery [NAME ...] [--functions 50] [--out results/uhe/recovery]

Functions are drawn from a zero-mean process of variance 1, exactly and jointly on 2048 Sobol
points, which GP-UCB and the uniform design choose from, and on 512 uniform points that are held
out. Outcomes have noise of standard deviation 0.05. GP-UCB fits its hyperparameters before each
point, by MAP under BoTorch's priors. All functions of a case are one batch; a case whose
results are in the folder is not run again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.utils.sampling import draw_sobol_samples
from botorch_risk_bench.campaigns.whole_files import write_text
from botorch_risk_bench.experiments.papers.models import matern_process
from botorch_risk_bench.metrics import INTERVAL, mean_and_standard_error
from matplotlib.figure import Figure
from torch import Tensor

from bench.reproduction.pictures import LOOKS, finish, panels
from bench.reproduction.results import writing_parser
from bench.reproduction.tables import cell, paired, table
from botorch_risk.engine import Belief
from botorch_risk.fit import Estimator, MaximumAPosteriori, PseudoData
from botorch_risk.papers.uhe_bo import PAPER_BETA
from botorch_risk.seeding import derive_seed, generators

NUM_DOMAIN, NUM_HELD_OUT = 2048, 512
NOISE = 0.05  # standard deviation
SIZES = (20, 50)
DESIGNS = ("GP-UCB", "uniform")
MAP, PSEUDO_DATA, SOBOL = "MAP", "pseudo-data", "Sobol pseudo-data"
ESTIMATORS: dict[str, Estimator] = {
    MAP: MaximumAPosteriori(),
    PSEUDO_DATA: PseudoData(),
    SOBOL: PseudoData(points="sobol", redraw=False),
}
Results = dict[tuple[str, ...], dict[str, Tensor]]
KERNELS = {2.5: "Matern-5/2", 1.5: "Matern-3/2", math.inf: "squared exponential"}
ModelFactory = Callable[[Tensor, Tensor], SingleTaskGP]


@dataclass(frozen=True)
class Truth:
    r"""A Matern process on the unit cube; of inputs to the power of `warp`, if that is not 1."""

    nu: float
    lengthscales: tuple[float, ...]
    warp: float = 1.0

    @property
    def dim(self) -> int:
        return len(self.lengthscales)

    @property
    def well_specified(self) -> bool:
        return self.nu == 2.5 and self.warp == 1.0

    def covariance(self, X: Tensor) -> Tensor:
        return matern(X**self.warp, torch.tensor(self.lengthscales).to(X), self.nu)


TRUTHS = {
    "short": Truth(2.5, (0.15, 0.15)),
    "long": Truth(2.5, (0.5, 0.5)),
    "rough-corner": Truth(2.5, (0.3, 0.3), warp=3.0),
    "four-inputs": Truth(2.5, (0.4, 0.4, 1.2, 1.2)),
    "matern-3-2": Truth(1.5, (0.3, 0.3)),
    "unequal": Truth(2.5, (0.15, 0.6)),
    "squared-exponential": Truth(math.inf, (0.2, 0.2)),
}
IN_WORDS = {  # in the picture, where the name is not a word
    "rough-corner": "rough corner",
    "four-inputs": "four inputs",
    "matern-3-2": "Matern-3/2",
    "squared-exponential": "squared exponential",
}


def botorch_process(X: Tensor, Y: Tensor) -> SingleTaskGP:
    r"""A Matern-5/2 ARD process with BoTorch's priors, of variance 1 once standardised."""
    kernel = get_covar_module_with_dim_scaled_prior(
        ard_num_dims=X.shape[-1], batch_shape=X.shape[:-2], use_rbf_kernel=False
    )
    return SingleTaskGP(X, Y, covar_module=kernel)


PRIORS: dict[str, ModelFactory] = {
    "BoTorch's priors": botorch_process,
    "Gamma(1e-3, 10)": partial(matern_process, reading="rate"),  # the paper's
}


def matern(X: Tensor, lengthscales: Tensor, nu: float) -> Tensor:
    scaled = X / lengthscales
    r = torch.cdist(scaled, scaled, compute_mode="donot_use_mm_for_euclid_dist")
    if nu == math.inf:
        return torch.exp(-0.5 * r.square())
    r = math.sqrt(2 * nu) * r
    return (1 + r + (r.square() / 3 if nu == 2.5 else 0)) * torch.exp(-r)


def closest_lengthscales(truth: Truth) -> Tensor:
    r"""Those of the Matern-5/2 process that the truth is nearest to, `d`.

    In Kullback-Leibler divergence, of the outcomes at 128 uniform points; the truth's own where it
    is such a process.
    """
    lengthscales = torch.tensor(truth.lengthscales).double()
    if truth.well_specified:
        return lengthscales
    X = torch.rand(128, truth.dim, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    identity = torch.eye(len(X)).double()
    outcomes = truth.covariance(X) + NOISE**2 * identity
    start = torch.cat([lengthscales.log(), torch.tensor([0.0, 2 * math.log(NOISE)]).double()])
    parameters = start.requires_grad_()
    optimizer = torch.optim.LBFGS([parameters], max_iter=300, line_search_fn="strong_wolfe")

    def divergence() -> Tensor:
        optimizer.zero_grad()
        *_, scale, noise = parameters.exp()
        K = scale * matern(X, parameters[:-2].exp(), 2.5) + noise * identity
        factor = torch.linalg.cholesky(K)
        value = 2 * factor.diagonal().log().sum() + torch.cholesky_solve(outcomes, factor).trace()
        value.backward()
        return value

    optimizer.step(divergence)
    return parameters[:-2].detach().exp()


@dataclass(frozen=True)
class Functions:
    r"""Functions of a truth, on the points to choose from and on those held out."""

    domain: Tensor  # N x d
    values: Tensor  # R x N
    held_out: Tensor  # m x d
    held_out_values: Tensor  # R x m

    @classmethod
    def draw(cls, name: str, truth: Truth, seeds: list[int]) -> Functions:
        box = torch.tensor([[0.0], [1.0]]).double().expand(2, truth.dim)
        seed = derive_seed(0, "recovery", truth.dim)
        domain = draw_sobol_samples(box, n=NUM_DOMAIN, q=1, seed=seed).squeeze(-2)
        uniform = torch.Generator().manual_seed(seed)
        held_out = torch.rand(NUM_HELD_OUT, truth.dim, generator=uniform, dtype=torch.double)
        covariance = truth.covariance(torch.cat([domain, held_out]))
        covariance.diagonal().add_(1e-7)
        factor = torch.linalg.cholesky(covariance)
        draws = [torch.randn(len(factor), generator=g).double() for g in generators(seeds, name)]
        values = torch.stack(draws) @ factor.T
        return cls(domain, values[:, :NUM_DOMAIN], held_out, values[:, NUM_DOMAIN:])


def collect(
    functions: Functions, design: str, seeds: list[int], most: int = max(SIZES)
) -> tuple[Tensor, Tensor]:
    r"""Data `R x n x d` and `R x n x 1`; both designs begin with the same uniform points."""
    d = functions.domain.shape[-1]
    streams = generators(seeds, "uniform design")
    rows = torch.stack([torch.randperm(NUM_DOMAIN, generator=g)[:most] for g in streams])
    streams = generators(seeds, "noise")
    noise = NOISE * torch.stack([torch.randn(most, generator=g).double() for g in streams])
    each = torch.arange(len(seeds)).unsqueeze(-1)
    if design == "GP-UCB":
        estimate = MaximumAPosteriori()
        for n in range(5 * d // 2, most):
            seen = rows[:, :n]
            Y = (functions.values[each, seen] + noise[:, :n]).unsqueeze(-1)
            model = estimate(botorch_process(functions.domain[seen], Y), seeds, n)
            mean, variance = Belief(model)(functions.domain.expand(len(seeds), -1, -1))
            rows[:, n] = (mean + math.sqrt(PAPER_BETA) * variance.sqrt()).argmax(dim=-1)
    return functions.domain[rows], (functions.values[each, rows] + noise).unsqueeze(-1)


def measure(model: Any, functions: Functions, lengthscales: Tensor) -> dict[str, Tensor]:
    r"""One number a function; predictions are those of the function without noise."""
    kernel = getattr(model.covar_module, "base_kernel", model.covar_module)
    error = (kernel.lengthscale.detach().squeeze(-2) / lengthscales).log()  # R x d
    noise = model.likelihood.noise.detach() * model.outcome_transform._stdvs_sq.squeeze(-1)
    held_out = functions.held_out.expand(len(error), -1, -1)
    mean, variance = (moment.detach() for moment in Belief(model)(held_out))
    squared = (functions.held_out_values - mean).square()
    return {
        "bias": error.mean(dim=-1),
        "error": error.square().mean(dim=-1).sqrt(),
        "noise": 0.5 * (noise.squeeze(-1) / NOISE**2).log(),
        "z": (squared / variance).mean(dim=-1).sqrt(),
        "nlpd": 0.5 * ((2 * math.pi * variance).log() + squared / variance).mean(dim=-1),
        "rmse": squared.mean(dim=-1).sqrt(),
    }


def run(name: str, num_functions: int) -> Results:
    r"""All figures of a truth, by design, size, prior and estimator."""
    truth, seeds = TRUTHS[name], list(range(num_functions))
    functions = Functions.draw(name, truth, seeds)
    results: Results = {}
    lengthscales = closest_lengthscales(truth)
    for design in DESIGNS:
        X, Y = collect(functions, design, seeds)
        for n, (prior, build), (label, estimate) in product(
            SIZES, PRIORS.items(), ESTIMATORS.items()
        ):
            model = estimate(build(X[:, :n], Y[:, :n]), seeds, n)
            results[design, str(n), prior, label] = measure(model, functions, lengthscales)
    return results


def rows(collected: dict[str, Results], prior: str, columns: list[tuple[str, ...]]) -> list[Any]:
    r"""A row for each truth, design and size; a column is a figure, an estimator, a reference."""
    lines = []
    for (name, results), n, design in product(collected.items(), SIZES, DESIGNS):
        found = {label: results[design, str(n), prior, label] for label in ESTIMATORS}
        line = [name, str(n), design]
        for figure, label, *reference in columns:
            values = found[label][figure]
            against = [found[each][figure] for each in reference]
            line.append(paired(values, against[0]) if against else cell(values))
        lines.append(line)
    return lines


def bias_of_the_design(collected: dict[str, Results]) -> list[list[str]]:
    r"""MAP's error after GP-UCB minus that after uniform data, a row for each truth and size."""
    return [
        [
            name,
            str(n),
            *(
                paired(*(results[design, str(n), prior, MAP]["bias"] for design in DESIGNS))
                for prior in PRIORS
            ),
        ]
        for (name, results), n in product(collected.items(), SIZES)
    ]


def report(collected: dict[str, Results]) -> str:
    first = ["truth", "n", "design"]
    pairs = ((PSEUDO_DATA, MAP), (SOBOL, MAP), (SOBOL, PSEUDO_DATA))
    header = [*ESTIMATORS, *(f"{label} - {reference}" for label, reference in pairs)]
    page = ["## Truths\n"]
    lines = [
        [
            name,
            KERNELS[truth.nu],
            str(truth.lengthscales),
            f"x^{truth.warp:g}" if truth.warp != 1 else "",
            ", ".join(f"{value:.3g}" for value in closest_lengthscales(truth).tolist()),
        ]
        for name, truth in ((name, TRUTHS[name]) for name in collected)
    ]
    page.append(table(["truth", "kernel", "lengthscales", "warped", "compared with"], lines))
    for prior in PRIORS:
        for title, figure in (
            ("Root mean square error of the log lengthscales", "error"),
            ("Error of the log lengthscales: below 0, too short", "bias"),
            ("Error of the log standard deviation of the noise", "noise"),
            ("Negative log predictive density, held out", "nlpd"),
            ("Root mean square of (f - mean) / standard deviation, held out", "z"),
            ("Root mean square error, held out", "rmse"),
        ):
            columns: list[tuple[str, ...]] = [(figure, label) for label in ESTIMATORS]
            columns += [(figure, *pair) for pair in pairs]
            lines = rows(collected, prior, columns)
            page += [f"## {title}: {prior}\n", table([*first, *header], lines)]
    title = f"## Error of the log lengthscales by MAP: after {' minus after '.join(DESIGNS)} data\n"
    page += [title, table(["truth", "n", *PRIORS], bias_of_the_design(collected))]
    return "\n".join(page)


def picture(collected: dict[str, Results], prior: str) -> Figure:
    r"""Bias of the lengthscales, and what pseudo-data are worth in prediction, at the largest n."""
    figure, every = panels(2 * len(DESIGNS), columns=2, height=3.0, width=5.2)
    for axes in every[1:]:
        axes.sharey(every[0])
    for left, right in (every[:2], every[2:]):
        right.sharex(left)
    for place, design in enumerate(DESIGNS):
        column = every[place::2]
        for axes, name in zip(column, ("bias", "nlpd"), strict=True):
            for index, label in enumerate(ESTIMATORS):
                shift = 0.18 * (index - 1)
                for position, results in enumerate(collected.values()):
                    found = {
                        each: results[design, str(max(SIZES)), prior, each][name]
                        for each in ESTIMATORS
                    }
                    values = found[label] - (found[MAP] if name == "nlpd" else 0)
                    value = mean_and_standard_error(values)
                    axes.errorbar(
                        value.mean,
                        position + shift,
                        xerr=value.half_width,
                        color=LOOKS[label][0],
                        marker="o",
                        markersize=4,
                        label=label if position == 0 else None,
                    )
            axes.axvline(0.0, color="black", linewidth=0.8)
            axes.set_yticks(range(len(collected)), [IN_WORDS.get(each, each) for each in collected])
        column[0].set(title=f"{max(SIZES)} points, {design}", xlabel="bias of log lengthscales")
        column[1].set_xlabel("negative log predictive density minus MAP's")
    every[0].invert_yaxis()
    return figure


def main() -> None:
    parser = writing_parser(__doc__, "results/uhe")
    parser.add_argument("names", nargs="*", choices=[*TRUTHS, []])
    parser.add_argument("--functions", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("results/uhe/recovery"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    collected = {}
    for name in arguments.names or TRUTHS:
        path = arguments.out / f"{name}-{arguments.functions}.pt"
        if not path.exists():
            start = time.process_time()
            results = run(name, arguments.functions)
            torch.save(results, path)
            print(f"{name}: {time.process_time() - start:.0f} s of CPU time", flush=True)
        collected[name] = torch.load(path, weights_only=True)
    text = (
        "Mean ± half-width of the 95 % Student-t interval over "
        f"{arguments.functions} functions, paired.\n\n"
    )
    write_text(arguments.to / "recovery.md", text + report(collected))
    prior = next(iter(PRIORS))
    title = f"{prior}, {arguments.functions} functions: mean and {INTERVAL}"
    finish(picture(collected, prior), arguments.to / "recovery", title)


if __name__ == "__main__":
    main()
