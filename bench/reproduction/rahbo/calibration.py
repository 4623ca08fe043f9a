r"""Calibration of `MeanVarianceGP` on functions drawn from its own prior.

    python -m bench.reproduction.rahbo.calibration [--replicates 200] [--out FOLDER] [--picture]

All functions of a case are one batched model. Writes the tables into `calibration.md`
between its markers, and draws the picture `calibration.png` from them.
"""

import math
import platform
import time
import warnings
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import botorch
import gpytorch
import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch_risk_bench.campaigns.whole_files import write_text
from botorch_risk_bench.metrics import INTERVAL, MeanAndStandardError, mean_and_standard_error
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from bench.reproduction.pictures import finish, panels
from bench.reproduction.results import writing_parser
from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from botorch_risk.plot_style import COLORS

LENGTHSCALE = 0.3
BAND = 1.96**2
FLOOR = 1e-4  # min_noise_variance: a thousandth of the typical noise variance
# Prior of the noise variance: mean and standard deviation of its logarithm, and of itself.
LOG_PRIOR = (math.log(0.1), 1.0)
IDENTITY_PRIOR = (0.25, 0.1)
SETTINGS = {"d=1, n=20": (1, 20, 200), "d=2, n=40": (2, 40, 400)}
COUNTS = (2, 3, 5, 10)
VARIANTS = {
    "log": {"variance_link": "log", "noise_evidence": "spread"},
    "log, readings": {"variance_link": "log", "noise_evidence": "readings"},
    "identity, inferred": {"variance_link": "identity", "sample_variance_noise": "inferred"},
    "identity, bound": {"variance_link": "identity", "sample_variance_noise": "bound"},
    "identity, pointwise": {"variance_link": "identity", "sample_variance_noise": "pointwise"},
}
IN_WORDS = {
    "log": "log link, from the sample variances",
    "log, readings": "log link, from all readings",
    "identity, inferred": "identity link, one inferred level",
    "identity, bound": "identity link, bounded level",
    "identity, pointwise": "identity link, a level for each point",
}
STYLES: dict[str, Any] = {
    "known": {"linestyle": ":", "alpha": 0.5, "linewidth": 1.0},
    "fitted": {"linestyle": "-", "marker": "o", "markersize": 3},
}
AXES = {"f": "f", "noise": "the noise"}
LINKS = ("log", "identity")
HYPERPARAMETERS = ("known", "fitted", "fitted, before", "fitted, scaled", "fitted, moments")
CASE = ("prior", "setting", "k", "hyperparameters", "model")
MARKERS = ("<!-- tables: begin -->", "<!-- tables: end -->")
COLUMNS = {
    "f": "cover f",
    "f0": "cover f, noise_beta=0",
    "rmse_f": "RMSE f",
    "noise": "cover noise",
    "score": "score noise",
    "raw": "RMSE / s²",
    "pooled": "RMSE / constant",
    "grid": "RMSE / constant, grid",
    "bad": "Eq. (16) not positive",
    "bad0": "same, noise_beta=0",
}


@dataclass(frozen=True)
class Truth:
    r"""Functions and their repeats: `R x n x .` where observed, `R x m x .` on the grid."""

    train_X: Tensor
    f_train: Tensor
    noise_train: Tensor
    grid: Tensor
    f_grid: Tensor
    noise_grid: Tensor

    def repeats(self, k: int, generator: torch.Generator) -> Tensor:
        draws = torch.randn(*self.f_train.shape, k, generator=generator, dtype=torch.double)
        return self.f_train.unsqueeze(-1) + self.noise_train.sqrt().unsqueeze(-1) * draws


def draw(prior: str, d: int, n: int, m: int, replicates: int, seed: int) -> Truth:
    r"""Functions from the prior; with the identity link those whose noise is positive."""
    generator = torch.Generator().manual_seed(seed)
    grid = torch.quasirandom.SobolEngine(d, scramble=True, seed=seed).draw(m, dtype=torch.double)
    parts: list[tuple[Tensor, ...]] = []
    while len(parts) < replicates:
        X = torch.rand(n, d, generator=generator, dtype=torch.double)
        points = torch.cat([X, grid]) / LENGTHSCALE
        covariance = (-0.5 * torch.cdist(points, points).square()).exp()
        root = torch.linalg.cholesky(covariance + 1e-8 * torch.eye(n + m, dtype=torch.double))
        f = root @ torch.randn(n + m, generator=generator, dtype=torch.double)
        while True:
            noise = root @ torch.randn(n + m, generator=generator, dtype=torch.double)
            if prior == "log":
                noise = (LOG_PRIOR[0] + LOG_PRIOR[1] * noise).exp()
            else:
                noise = IDENTITY_PRIOR[0] + IDENTITY_PRIOR[1] * noise
            if (noise > FLOOR).all():
                break
        parts.append((X, f[:n], noise[:n], grid, f[n:], noise[n:]))
    return Truth(*(torch.stack(values) for values in zip(*parts, strict=True)))


def noise_moments(prior: str, link: str) -> tuple[float, float]:
    r"""Mean and variance of the linked noise variance; exact but for the truncation."""
    mean, standard_deviation = LOG_PRIOR if prior == "log" else IDENTITY_PRIOR
    variance = standard_deviation**2
    if prior == link:
        return mean, variance
    if link == "log":
        log_variance = math.log1p(variance / mean**2)
        return math.log(mean) - log_variance / 2, log_variance
    return math.exp(mean + variance / 2), math.expm1(variance) * math.exp(2 * mean + variance)


def build(
    truth: Truth, Y: Tensor, prior: str, options: dict, hyperparameters: str
) -> MeanVarianceGP:
    r"""The model with known or fitted hyperparameters."""
    options = dict(options)
    if options.get("sample_variance_noise") == "bound":
        # What a careful user would assume: the level that 99.9 % of the prior stays below.
        mean, variance = noise_moments(prior, prior)
        bound = mean + 3.09 * math.sqrt(variance)
        options["max_noise_variance"] = math.exp(bound) if prior == "log" else bound
    shape, d = truth.train_X.shape[:-2], truth.train_X.shape[-1]
    if hyperparameters == "known":
        kernels = [ScaleKernel(RBFKernel(batch_shape=shape), batch_shape=shape) for _ in range(2)]
        options["outcome_transform"] = None
    else:
        scaled = [
            ScaleKernel(
                get_covar_module_with_dim_scaled_prior(ard_num_dims=d, batch_shape=shape),
                batch_shape=shape,
            )
            for _ in range(2)
        ]
        plain = get_covar_module_with_dim_scaled_prior(ard_num_dims=d, batch_shape=shape)
        kernels = {
            "fitted": [None, None],
            "fitted, before": [plain, None],
            "fitted, moments": [None, scaled[1]],
        }.get(hyperparameters, scaled)
        if hyperparameters == "fitted, before":  # the defaults of the first release
            options["noise_beta"] = 4.0
    model = MeanVarianceGP(
        truth.train_X,
        Y,
        covar_module=kernels[0],
        noise_covar_module=kernels[1],
        min_noise_variance=FLOOR,
        **options,
    )
    if hyperparameters == "known":
        set_known(model, prior, Y.shape[-1])
    else:
        if hyperparameters == "fitted, moments":
            fix_spread(model, Y.shape[-1])
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def set_known(model: MeanVarianceGP, prior: str, k: int) -> None:
    r"""Writes the prior's hyperparameters, in the units of each process, into the model."""
    mean_model, noise_model = model.mean_model, model.noise_model
    mean_model.covar_module.base_kernel.lengthscale = LENGTHSCALE
    mean_model.covar_module.outputscale = 1.0
    mean_model.mean_module.constant.data.zero_()
    link = "log" if model.noise.sampling.noise_kind is None else "identity"
    mean, variance = noise_moments(prior, link)
    scaling = noise_model.outcome_transform
    centre, scale = scaling.means.flatten(), scaling.stdvs.flatten()
    noise_model.covar_module.base_kernel.lengthscale = LENGTHSCALE
    noise_model.covar_module.outputscale = variance / scale.square()
    noise_model.mean_module.constant.data = (mean - centre) / scale
    if model.noise.sampling.noise_kind == "inferred":
        level = 2 * (mean**2 + variance) / (k - 1)  # E[2 rho^4 / (k - 1)]
        noise_model.likelihood.noise = (level / scale.square()).unsqueeze(-1)
    elif model.noise.sampling.noise_kind == "pointwise":
        model.noise.refresh_pointwise_noise()
    model.refresh_noise()


def fix_spread(model: MeanVarianceGP, k: int) -> None:
    r"""Prior variance of the noise process: that of its observations less their own noise."""
    noise_model, link = model.noise_model, model.noise.link
    mean = model.train_variances.mean(dim=-2, keepdim=True)
    counts = torch.full_like(mean, k)
    scale = noise_model.outcome_transform.stdvs.square().flatten()
    observed = noise_model.train_targets.var(dim=-1)
    own = link.observation_noise(mean, counts).flatten() / scale
    noise_model.covar_module.outputscale = (observed - own).clamp_min(0.05 * observed)
    noise_model.covar_module.raw_outputscale.requires_grad_(False)


def rmse(values: Tensor, truth: Tensor) -> Tensor:
    return (values - truth).square().mean(dim=-1).sqrt()


def measure(model: MeanVarianceGP, truth: Truth, Y: Tensor) -> dict[str, Tensor]:
    r"""One number per function and column."""

    def inside(bounds: tuple[Tensor, Tensor], values: Tensor) -> Tensor:
        return ((bounds[0] <= values) & (values <= bounds[1])).double().mean(dim=-1)

    with torch.no_grad():
        results = {"f": inside(model.confidence_bounds(truth.grid, BAND), truth.f_grid)}
        results["rmse_f"] = rmse(model.mean_marginals(truth.grid).mean, truth.f_grid)
        lower, upper = model.noise_confidence_bounds(truth.grid, BAND)
        results["noise"] = inside((lower, upper), truth.noise_grid)
        missed = (lower - truth.noise_grid).clamp_min(0) + (truth.noise_grid - upper).clamp_min(0)
        # The interval score (Gneiting and Raftery 2007, Eq. 43) over the mean noise variance.
        score = (upper - lower + 2 / 0.05 * missed).mean(dim=-1)
        results["score"] = score / truth.noise_grid.mean(dim=-1)
        predicted = model.predicted_noise(truth.train_X).squeeze(-1)
        sample_variances = RepeatedOutcomes.from_repeats(Y).variances.squeeze(-1)
        pooled = sample_variances.mean(dim=-1, keepdim=True)
        error = rmse(predicted, truth.noise_train)
        results["raw"] = error / rmse(sample_variances, truth.noise_train)
        results["pooled"] = error / rmse(pooled, truth.noise_train)
        on_grid = model.predicted_noise(truth.grid).squeeze(-1)
        results["grid"] = rmse(on_grid, truth.noise_grid) / rmse(pooled, truth.noise_grid)
        for name, beta in (("bad", model.noise_beta), ("bad0", 0.0)):
            unlimited = model.noise.bounds(truth.train_X, beta)[1]
            results[name] = (unlimited <= 0).any(dim=-1).double()
        model.noise_beta = 0.0
        model.refresh_noise()
        results["f0"] = inside(model.confidence_bounds(truth.grid, BAND), truth.f_grid)
    return results


def run(replicates: int, seed: int) -> list[dict]:
    r"""All cases, one row each; the values of a column are those of the functions."""
    rows = []
    for prior in LINKS:
        for setting, (d, n, m) in SETTINGS.items():
            truth = draw(prior, d, n, m, replicates, seed)
            for k in COUNTS:
                Y = truth.repeats(k, torch.Generator().manual_seed(1000 * seed + k))
                for hyperparameters in HYPERPARAMETERS:
                    for name, options in VARIANTS.items():
                        start = time.perf_counter()
                        values = measure(build(truth, Y, prior, options, hyperparameters), truth, Y)
                        case = (prior, setting, k, hyperparameters, name)
                        rows.append({**dict(zip(CASE, case, strict=True)), **values})
                        print(*case, f"{time.perf_counter() - start:.1f} s", sep=", ", flush=True)
    return rows


def interval(values: Tensor) -> MeanAndStandardError:
    return mean_and_standard_error(values.flatten())


def cell(values: Tensor) -> str:
    value = interval(values)
    kind = ".3f" if abs(value.mean) < 1e5 else ".1e"  # a predicted noise that has no bound
    return f"{value.mean:{kind}} ± {value.half_width:{kind}}"


def table(rows: list[dict], keys: list[str]) -> str:
    r"""A table in Markdown: mean +- Student-t interval, 95 %, over the functions of each row."""
    lines = ["| " + " | ".join([*keys, *COLUMNS.values()]) + " |"]
    lines.append("|" + "---|" * (len(keys) + len(COLUMNS)))
    for row in rows:
        cells = [str(row[key]) for key in keys] + [cell(row[column]) for column in COLUMNS]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def average(rows: list[dict], over: tuple[str, ...]) -> list[dict]:
    r"""Rows that differ in `over` only, averaged function by function."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in CASE if key not in over), []).append(row)
    return [
        {
            **{key: group[0][key] for key in CASE if key not in over},
            **{c: torch.stack([row[c] for row in group]).mean(dim=0) for c in COLUMNS},
        }
        for group in groups.values()
    ]


def report(rows: list[dict], command: str) -> str:
    r"""All tables."""
    parts = [
        f"Made by `{command}` with botorch {botorch.__version__}, gpytorch "
        f"{gpytorch.__version__}, torch {torch.__version__}, Python {platform.python_version()}."
    ]
    parts += [
        "### Averages over both settings and all k",
        table(average(rows, over=("setting", "k")), ["prior", "hyperparameters", "model"]),
    ]
    for prior in LINKS:
        for hyperparameters in HYPERPARAMETERS[:3]:
            chosen = [
                r for r in rows if (r["prior"], r["hyperparameters"]) == (prior, hyperparameters)
            ]
            parts += [
                f"### Noise drawn from the {prior} prior, hyperparameters {hyperparameters}",
                table(chosen, ["setting", "k", "model"]),
            ]
    return "\n\n".join(parts)


def coverage(
    page: str, prior: str, hyperparameters: str, column: str
) -> dict[tuple[str, str], dict[int, list[float]]]:
    r"""Mean and half-width by k, from the tables of a page: `setting, model -> k -> (m, h)`."""
    heading = f"### Noise drawn from the {prior} prior, hyperparameters {hyperparameters}\n"
    section = page.partition(heading)[2].partition("\n#")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    found: dict[tuple[str, str], dict[int, list[float]]] = {}
    for row in lines[2:]:
        value = row[lines[0].index(COLUMNS[column])]
        by_k = found.setdefault((row[0], row[2]), {})
        by_k[int(row[1])] = [float(each) for each in value.split(" ± ")]
    return found


def draw_picture(page: str, path: Path) -> None:
    r"""Coverage against k: a column for each prior and setting, rows for f and the noise."""
    columns = len(LINKS) * len(SETTINGS)
    figure, every = panels(2 * columns, columns=columns)
    for row in (every[:columns], every[columns:]):
        for axes in row[1:]:
            axes.sharey(row[0])
    places = [(measured, *case) for measured in ("f", "noise") for case in product(LINKS, SETTINGS)]
    for axes, (measured, prior, setting) in zip(every, places, strict=True):
        for hyperparameters, style in STYLES.items():
            found = coverage(page, prior, hyperparameters, measured)
            for i, (variant, words) in enumerate(IN_WORDS.items()):
                by_k = found[setting, variant]
                mean, half_width = zip(*by_k.values(), strict=True)
                axes.errorbar(
                    [k * (1 + 0.012 * (i - 2)) for k in by_k],
                    mean,
                    half_width,
                    color=COLORS[i],
                    label=words if hyperparameters == "fitted" else "_",
                    **style,
                )
        axes.axhline(0.95, color="black", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_xticks(COUNTS, map(str, COUNTS))
        axes.minorticks_off()
        axes.set(xlabel="repeats of each point", title=f"noise from the {prior} prior, {setting}")
        axes.set_ylabel(f"coverage of the 95 % band of {AXES[measured]}")
    title = f"mean and {INTERVAL}; hyperparameters fitted (solid) and known (dotted)"
    finish(figure, path, title)


def main() -> None:
    parser = writing_parser(__doc__.splitlines()[0], "results/rahbo")
    parser.add_argument("--replicates", type=int, default=200, help="functions of each prior")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", action="store_true", help="draw the tables there are")
    arguments = parser.parse_args()
    path: Path = arguments.to / "calibration.md"
    if not arguments.picture:
        torch.set_num_threads(1)
        # A function with a constant or badly scaled part warns; nothing is hidden in the counts.
        warnings.simplefilter("ignore", InputDataWarning)
        write_tables(path, arguments.replicates, arguments.seed)
    draw_picture(path.read_text(encoding="utf-8"), arguments.to / "calibration")


def write_tables(path: Path, replicates: int, seed: int) -> None:
    rows = run(replicates, seed)
    before, after = "", "\n"
    if path.exists():
        before, rest = path.read_text().split(MARKERS[0])
        after = rest.split(MARKERS[1])[1]
    command = f"python -m bench.reproduction.rahbo.calibration --replicates {replicates}"
    body = report(rows, f"{command} --seed {seed}")
    write_text(path, f"{before}{MARKERS[0]}\n\n{body}\n\n{MARKERS[1]}{after}")


if __name__ == "__main__":
    main()
