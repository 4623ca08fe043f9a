r"""Draws the pictures of the concept pages: `python docs/draw_pictures.py` writes docs/pictures."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch
from botorch.fit import fit_gpytorch_mll
from botorch_risk_bench.baselines import gp_ucb
from botorch_risk_bench.metrics import cumulative_regret, simple_regret
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from botorch_risk.acquisition import RiskAverseUpperConfidenceBound
from botorch_risk.models import MeanVarianceGP
from botorch_risk.papers import rahbo
from botorch_risk.recommend import recommend
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MeanVariance,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.seeding import generators
from botorch_risk.test_functions import HeteroscedasticSine

FOLDER = Path(__file__).parent / "pictures"
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "0.55"
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "legend.frameon": False,
}


def save(figure: Any, name: str) -> None:
    figure.savefig(FOLDER / f"{name}.png", dpi=150, metadata={"Software": None})
    plt.close(figure)


def mean(x: Tensor) -> Tensor:
    r"""A low peak on the left, a high one on the right."""
    return 0.8 * torch.exp(-(((x - 0.25) / 0.12) ** 2)) + torch.exp(-(((x - 0.75) / 0.12) ** 2))


def deviation(x: Tensor) -> Tensor:
    r"""Readings scatter on the right."""
    return 0.05 + 0.6 * torch.sigmoid(25 * (x - 0.5))


def noise_or_environment() -> None:
    x = torch.linspace(0, 1, 201, dtype=torch.double)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2), sharey=True)
    draws = torch.Generator().manual_seed(0)
    points = torch.linspace(0.05, 0.95, 13, dtype=torch.double)
    readings = mean(points) + deviation(points) * torch.randn(5, 13, generator=draws).double()
    left.plot(points.repeat(5, 1), readings, ".", color=GREY, ms=4)
    left.plot(x, mean(x), color="black", label="mean")
    value = mean(x) - 2 * deviation(x) ** 2
    for curve, color, name in ((mean(x), ORANGE, "best mean"), (value, BLUE, "best mean - 2 var")):
        best = curve.argmax()
        left.plot(x[best], mean(x)[best], "o", color=color, ms=9, label=name)
    left.set(xlabel="decision x", ylabel="outcome", title="noise: readings of one x scatter")
    w = torch.linspace(-1, 1, 41, dtype=torch.double)[:, None]
    f = mean(x) + 0.8 * w * torch.sigmoid(25 * (x - 0.5))  # n_w x n
    for row in range(0, 41, 8):
        right.plot(x, f[row], color=plt.cm.viridis(row / 40), lw=1)
    right.plot(x, f.mean(dim=0), color="black", label="mean over w")
    tail = ConditionalValueAtRisk(0.2)(f.mT, torch.full((41,), 1 / 41).double())
    for curve, color, name in ((f.mean(dim=0), ORANGE, "best mean"), (tail, BLUE, "best CVaR")):
        best = curve.argmax()
        right.plot(x[best], f.mean(dim=0)[best], "o", color=color, ms=9, label=name)
    right.set(xlabel="decision x", title="environment: each line is one condition w")
    for axes in (left, right):
        axes.legend(loc="upper left", fontsize=8, bbox_to_anchor=(0, 1.02))
        axes.set_ylim(-1.3, 3.2)
    save(figure, "noise_or_environment")


def risk_measures() -> None:
    draws = torch.Generator().manual_seed(1)
    normal = torch.randn(4_000, generator=draws).double()
    lucky = torch.rand(4_000, generator=draws) < 0.8
    values = torch.where(lucky, 3 + 0.6 * normal, 0.2 + normal)  # now and then it goes wrong
    weights = torch.full((4_000,), 1 / 4_000).double()
    figure, axes = plt.subplots(figsize=(8.4, 3.0))
    axes.hist(values, bins=70, color="0.85", density=True)
    measures = {
        "worst case": WorstCase(),
        "CVaR(0.1)": ConditionalValueAtRisk(0.1),
        "VaR(0.1)": ValueAtRisk(0.1),
        "mean - variance": MeanVariance(1.0),
        "mean": Expectation(),
    }
    for (name, measure), color in zip(
        measures.items(), ("black", BLUE, GREEN, "#cc79a7", ORANGE), strict=True
    ):
        risk = measure(values, weights).item()
        axes.axvline(risk, color=color, label=f"{name}: {risk:.1f}")
    axes.set(xlabel="outcome of one decision, over w", yticks=[], xlim=(-6.5, 5.5))
    axes.legend(loc="upper left", fontsize=9)
    save(figure, "risk_measures")


def balls() -> None:
    values = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0], dtype=torch.double)
    weights = torch.tensor([0.05, 0.15, 0.3, 0.3, 0.2], dtype=torch.double)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.0))
    leaf = values.clone().requires_grad_()
    TotalVariationBall(0.4)(leaf, weights).backward()  # its gradient is the worst distribution
    left.bar(values - 0.2, weights, 0.38, color=GREY, label="estimated")
    left.bar(values + 0.2, leaf.grad, 0.38, color=BLUE, label="worst in a ball of radius 0.4")
    left.set(xlabel="outcome at each w", ylabel="probability", ylim=(0, 0.42))
    left.legend(fontsize=8)
    radii = torch.linspace(0, 2, 41)
    risks = [TotalVariationBall(radius.item())(values, weights) for radius in radii]
    right.plot(radii, risks, color=BLUE)
    right.set(xlabel="radius of the total-variation ball", ylabel="worst expectation")
    right.annotate("the mean", (0, risks[0]), (0.25, 2.35), color=ORANGE)
    right.annotate("the worst case", (2, 0), (1.45, 0.5), color=ORANGE)
    save(figure, "balls")


def reporting_rules() -> None:
    draws = torch.Generator().manual_seed(28)
    X = torch.linspace(0.04, 0.96, 13, dtype=torch.double)[:, None]
    Y = mean(X) + deviation(X) * torch.randn(13, 2, generator=draws).double()
    model = MeanVarianceGP(X, Y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    bound = RiskAverseUpperConfidenceBound(model, beta=4.0, risk_aversion=0.5)
    figure, axes = plt.subplots(figsize=(8.4, 3.2))
    x = torch.linspace(0, 1, 201, dtype=torch.double)[:, None]
    with torch.no_grad():
        axes.fill_between(
            x.squeeze(-1),
            bound.lower(x),
            bound.evaluate(x),
            color="0.9",
            label="bounds of the risk",
        )
        axes.plot(x, mean(x) - 0.5 * deviation(x) ** 2, "--", color="black", lw=1, label="truth")
        axes.plot(X.expand(13, 2), Y, ".", color=GREY, ms=4)
        for rule, color, size in (
            ("best_observed", ORANGE, 16),
            ("posterior_mean", GREEN, 11),
            ("lower_confidence_bound", BLUE, 6),
        ):
            point = recommend(bound, X, rule=rule).point.unsqueeze(0)
            axes.plot(point, bound.mean(point), "o", color=color, ms=size, label=rule)
    axes.set(xlabel="decision x", ylabel="mean - 0.5 variance", ylim=(-2.2, 2.2))
    axes.legend(fontsize=8, loc="lower left")
    save(figure, "reporting_rules")


def regret() -> None:
    problem, seeds = HeteroscedasticSine(risk_aversion=1.0), range(8)
    _, optimum = problem.optimal_mean_variance(risk_aversion=1.0)
    methods = {
        "RAHBO": (partial(rahbo, num_repeats=5, risk_aversion=1.0), BLUE),
        "GP-UCB": (gp_ucb, ORANGE),
    }
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.0))
    for name, (build, color) in methods.items():
        strategy = build(problem.bounds, seeds=seeds, num_initial=5)
        played, recommended = [], []
        for t in range(16):
            X = strategy.ask()
            draws = generators(strategy.seeds, "noise", t)
            strategy.tell(X, problem.sample_repeats(X, 5, draws))
            if t:
                played.append(problem.objective(X).squeeze(-1))
                recommended.append(problem.objective(strategy.recommend()))
        for axes, curve in zip(
            panels,
            (
                cumulative_regret(torch.stack(played, dim=-1), optimum),
                simple_regret(torch.stack(recommended, dim=-1), optimum),
            ),
            strict=True,
        ):
            axes.plot(range(1, 16), curve.mT, color=color, lw=0.5, alpha=0.4)
            axes.plot(range(1, 16), curve.mean(dim=0), color=color, label=name)
    panels[0].set(xlabel="round", title="cumulative: what the rounds cost")
    panels[1].set(xlabel="round", title="simple: what you hand over")
    panels[0].legend(fontsize=8)
    save(figure, "regret")


def decisions_on_a_gpu() -> None:
    r"""Time of a decision against replicates, from the table of `bench/speed/README.md`."""
    table = Path(__file__).parents[1] / "bench" / "speed" / "README.md"
    rows: dict[str, list[tuple[float, ...]]] = {}
    for line in table.read_text().splitlines():
        found = re.match(r"\| ([A-Z-]+).*, R = ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|", line)
        if found:
            numbers = tuple(float(each.replace(",", "")) for each in found.groups()[1:])
            rows.setdefault(found.group(1), []).append(numbers)
    figure, panels = plt.subplots(1, 3, figsize=(8.4, 2.8), sharey=True)
    for axes, name in zip(panels, ("RAHBO", "SBO-KDE", "V-UCB"), strict=True):
        R, gpu, cpu = zip(*rows[name], strict=True)
        axes.loglog(R, cpu, "o-", color=ORANGE, label="one CPU thread")
        axes.loglog(R, gpu, "o-", color=BLUE, label="H100")
        axes.set(xlabel="replicates R", title=name)
    panels[0].set_ylabel("one decision, ms")
    panels[0].legend(fontsize=8)
    save(figure, "decisions_on_a_gpu")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    torch.manual_seed(0)
    with plt.rc_context(STYLE):
        for draw in (
            noise_or_environment,
            risk_measures,
            balls,
            reporting_rules,
            regret,
            decisions_on_a_gpu,
        ):
            draw()
