r"""Eleven jobs, each in several worlds; the twelfth is `bench/tests/campaigns/test_guide.py`.

`regret` is the true value that a job loses, as a share of what the median of all settings loses.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator
from itertools import product
from types import SimpleNamespace

import pandas as pd
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from torch import Tensor

from botorch_risk.engine import fit_exact_gp
from botorch_risk.environments import DiscreteEnvironment
from tests.jobs.pages import Figures, Part

Steps = Generator[Part, SimpleNamespace, Figures]


def regret(value: float | Tensor, all_values: Tensor) -> float:
    best, typical = all_values.max(), all_values.median()
    return float((best - value) / (best - typical))


def draws_of(world: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 + world)


def normal(draws: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=draws, dtype=torch.double)


def uniform(draws: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=draws, dtype=torch.double)


def a_table_with_repeats(world: int) -> Steps:
    r"""About 40 rows, one to four readings of each setting; hot batches scatter."""
    draws = draws_of(world)
    hot, fast = 30 + 20 * float(uniform(draws)), 1 + 4 * float(uniform(draws))

    def mean(heat: float, stir: float, solvent: str) -> float:
        return 70 - ((heat - hot) / 10) ** 2 - (stir - fast) ** 2 - 5 * (solvent == "water")

    def scatter(heat: float) -> float:
        return 1.0 if heat < 60 else 5.0

    def value(heat: float, stir: float, solvent: str) -> float:
        return mean(heat, stir, solvent) - 0.3 * scatter(heat) ** 2

    settings = [*product(range(20, 81, 5), range(1, 6), ("water", "ethanol"))]
    rows = []
    for index in torch.randperm(len(settings), generator=draws)[:16].tolist():
        setting = settings[index]
        for _ in range(int(torch.randint(1, 5, (), generator=draws))):
            reading = mean(*setting) + scatter(setting[0]) * float(normal(draws))
            rows.append([*setting, round(reading, 1)])
    table = pd.DataFrame(rows, columns=["heat", "stir", "solvent", "yield"])
    table.to_csv("readings.csv", index=False)
    found = yield Part("own_csv", "From the file to the next setting", {})
    truth = torch.tensor([value(*each) for each in settings])
    best = found.best
    taken = value(best["heat"], best["stir"], best["solvent"])
    return {
        "regret": regret(taken, truth),
        "interval holds": best["yield_risk_lower"] <= taken <= best["yield_risk_upper"],
        "settings asked, of 2": len(found.settings.drop_duplicates()),
    }


def one_objective_without_risk(world: int) -> Steps:
    r"""The CVaR of one outcome, and a known one; two decisions a round."""
    draws = draws_of(world)
    slope = 3 + 2 * float(uniform(draws))
    points = torch.linspace(0, 1, 8, dtype=torch.double).unsqueeze(-1)

    def strength(x: Tensor, w: Tensor) -> Tensor:
        return (slope * x).sin() - x * w

    def saving(x: Tensor) -> Tensor:
        return -x.square()

    own = {
        "days": DiscreteEnvironment(points),
        "box": torch.tensor([[0.0], [1.0]], dtype=torch.double),
        "strength": strength,
        "saving": saving,
    }
    page = "risk_in_botorch"
    yield Part(page, "", {}, num_blocks=2)  # what it imports
    found = yield Part(page, "One of them without a risk", own)

    def true_values(x: Tensor) -> Tensor:  # n x 1 to n x 2: the worst of 8 days is the lowest tenth
        worst = torch.stack([strength(x, w) for w in points]).amin(dim=0)
        return torch.cat([worst, saving(x)], dim=-1)

    def volume(values: Tensor) -> float:  # above -1.1 of both
        total, height = 0.0, -1.1
        for first, second in sorted(values.tolist(), reverse=True):
            total += (first + 1.1) * max(second - height, 0.0)
            height = max(height, second)
        return total

    grid = torch.linspace(0, 1, 1001, dtype=torch.double).unsqueeze(-1)
    front = found.pairs[found.front, :1]
    return {"share of the volume": volume(true_values(front)) / volume(true_values(grid))}


def an_ax_client_with_trials(world: int) -> Steps:
    r"""Six trials without the context, then three at a time, by a value-at-risk."""
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig

    draws = random.Random(world)
    best, low = draws.uniform(0.6, 1.1), draws.uniform(5, 30)

    def harvest(water: float, humidity: float) -> float:
        return 10 - 20 * (water + humidity / 100 - best) ** 2

    def grow(parameters: dict[str, float]) -> dict[str, float]:
        humidity = draws.uniform(low, low + 40)
        return {"harvest": harvest(parameters["water"], humidity), "humidity": humidity}

    client = Client()
    client.configure_experiment(
        [RangeParameterConfig(name="water", bounds=(0.0, 1.0), parameter_type="float")]
    )
    client.configure_optimization(objective="harvest")
    for _ in range(6):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            client.complete_trial(index, {"harvest": grow(parameters)["harvest"]})
    heading = "A client that has trials already, and several at once"
    found = yield Part("ax", heading, {"client": client, "grow": grow}, num_blocks=1)
    humidity = low + 40 * torch.arange(0.5, 200) / 200

    def value(water: Tensor) -> Tensor:
        outcomes = 10 - 20 * (water.unsqueeze(-1) + humidity / 100 - best) ** 2
        return outcomes.quantile(0.1, dim=-1)

    taken = value(torch.tensor(found.found.parameters["water"]))
    return {"regret": regret(taken, value(torch.linspace(0, 1, 501)))}


def a_limit_under_correlated_conditions(world: int) -> Steps:
    r"""Three decisions, two correlated conditions that are observed, a limit on 95 % of days."""
    draws = draws_of(world)
    mean = 20 + 20 * uniform(draws, 2)
    root = torch.tensor([[2.0, 0.0], [-2.5, 1.5]]) * (0.5 + uniform(draws, 1))
    centre = 0.3 + 0.4 * uniform(draws, 2)

    def grow(x: Tensor, w: Tensor) -> Tensor:
        first, second, water = x.split(1, dim=-1)
        warm, humid = ((w - mean) / 5).split(1, dim=-1)
        harvest = 3 * water * (1 + 0.3 * warm) - 4 * (first - centre[0]) ** 2
        harvest = harvest - 4 * (second - centre[1]) ** 2
        return torch.cat([harvest, water + 0.4 * humid + 0.3 * first], dim=-1)

    own = {"torch": torch, "mean": mean, "covariance": root @ root.mT}
    found = yield Part("contexts", "The conditions are correlated", own, num_blocks=1)
    bounds = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.double)
    own = {"days": found.days, "bounds": bounds, "wettest": 0.8, "num_rounds": 45, "grow": grow}
    found = yield Part("constraints", "", own)
    many = mean + normal(draws, 4000, 2) @ root.mT

    def true_values(x: Tensor) -> tuple[Tensor, Tensor]:  # n x 3 to n and n
        outcomes = grow(x.unsqueeze(-2).expand(-1, len(many), -1), many.expand(len(x), -1, -1))
        worst = outcomes[..., 0].topk(len(many) // 5, largest=False).values.mean(dim=-1)
        return worst, (outcomes[..., 1] <= 0.8).double().mean(dim=-1)

    parts = [true_values(x) for x in uniform(draws, 6000, 3).split(500)]
    values, dry = (torch.cat(each) for each in zip(*parts, strict=True))
    (taken,), (held,) = true_values(found.best)
    return {"regret": regret(taken, values[dry >= 0.95]), "dry on": float(held)}


def a_level_set_with_instruments(world: int) -> Steps:
    r"""Two plumes in 900 places, three instruments, and a bill with the way between places."""
    draws = draws_of(world)
    (east, north), (x0, y0, x1, y1) = torch.linspace(0, 5, 30).expand(2, -1), uniform(draws, 4)
    domain = torch.cartesian_prod(east, north).double()

    def plume(X: Tensor) -> Tensor:
        at = torch.stack([1 + 1.5 * x0, 2 + 2 * y0]), torch.stack([3 + 1.5 * x1, 1 + 2 * y1])
        squares = [((X - each) / 1.2).square().sum(dim=-1, keepdim=True) for each in at]
        return 20 + 80 * (-squares[0]).exp() + 60 * (-squares[1]).exp()

    variances, prices = (36.0, 9.0, 1.0), torch.tensor([1.0, 3.0, 15.0], dtype=torch.double)

    def read(X: Tensor, probe: Tensor) -> Tensor:
        scatter = torch.tensor(variances, dtype=torch.double)[probe].sqrt()
        return plume(X) + (scatter * normal(draws, *probe.shape)).unsqueeze(-1)

    def trip(X: Tensor, previous: Tensor | None, probe: Tensor) -> Tensor:
        return prices[probe] + (0 if previous is None else (X - previous).norm(dim=-1))

    own = {"torch": torch, "domain": domain, "threshold": 50.0, "variances": variances}
    own |= {"budget": 300.0, "trip": trip, "read": read}
    found = yield Part("level_sets", "Several instruments", own)
    sure, above = found.sure, (plume(domain) >= 50).squeeze(-1)
    wrong = (sure.high & ~above) | (sure.low & above)
    return {
        "wrong of the classified": float(wrong.sum() / (~sure.unclassified).sum()),
        "unknown": float(sure.unclassified.double().mean()),
        "wrong if every place is classified": float(
            ((sure.probability >= 0.5) != above).double().mean()
        ),
    }


def are_my_lengthscales_biased(world: int) -> Steps:
    r"""Twenty readings that LogEI chose, of a function with two lengthscales."""
    draws = draws_of(world)
    frequencies = normal(draws, 500, 2) / torch.tensor([0.25, 0.6])
    phases, weights = 2 * math.pi * uniform(draws, 500), normal(draws, 500, 1)

    def f(X: Tensor) -> Tensor:
        return (X @ frequencies.mT + phases).cos() @ weights / math.sqrt(250)

    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    X = uniform(draws, 6, 2)
    for _ in range(20):
        model = SingleTaskGP(X, f(X))
        fit_exact_gp(model)
        acqf = LogExpectedImprovement(model, f(X).max())
        X = torch.cat([X, optimize_acqf(acqf, bounds, 1, num_restarts=2, raw_samples=32)[0]])
    own = {"torch": torch, "bounds": bounds, "X": X, "Y": f(X) + 0.02 * normal(draws, 26, 1)}
    first = yield Part("lengthscales", "", own)
    then = yield Part("lengthscales", "What to do about it", {}, num_blocks=1)
    grid = uniform(draws, 2000, 2)

    def share(mean: Tensor, variance: Tensor) -> float:
        return float(((f(grid) - mean).abs() <= 1.96 * variance.sqrt()).double().mean())

    with torch.no_grad():
        estimate = then.model.posterior(grid)
        samples = then.known.posterior(grid.unsqueeze(-2))
    sampled = (samples.mixture_mean.squeeze(-2), samples.mixture_variance.squeeze(-2))
    return {
        "trusted": first.verdict(first.found).kind == "trusted",
        "95 % intervals of the estimate hold in": share(estimate.mean, estimate.variance),
        "of the samples": share(*sampled),
    }


def kiosk(world: int) -> tuple[SimpleNamespace, dict[str, object]]:
    r"""A newsvendor whose demand follows the weather, and what the page needs to know."""
    draws = draws_of(world)
    warm, per_degree = 15 + 5 * float(uniform(draws)), 8 + 4 * float(uniform(draws))

    def profit(order: Tensor, degrees: Tensor) -> Tensor:
        return 4 * torch.minimum(order, per_degree * degrees) - 3 * order

    def expected(order: float) -> float:  # two degrees colder
        degrees = warm - 2 + 3 * normal(torch.Generator().manual_seed(1), 100_000)
        return profit(torch.tensor(order), degrees).mean().item()

    best = max(expected(float(order)) for order in range(50, 301, 2))

    def losses(**orders: float) -> Figures:
        return {f"loss: {name}": best - expected(order) for name, order in orders.items()}

    own = {
        "torch": torch,
        "observed": warm + 3 * normal(draws, 100, 1),
        "possible": torch.tensor([[0.0], [40.0]], dtype=torch.double),
        "orders": torch.tensor([[50.0], [300.0]], dtype=torch.double),
        "profit": profit,
    }
    other = warm - 2 + 3 * normal(draws, 100, 1)
    return SimpleNamespace(losses=losses, other=other), own


def a_colder_season_that_is_feared(world: int) -> Steps:
    r"""A ball with the distance of two years, if the other year comes again."""
    truth, own = kiosk(world)
    yield Part("balls", "You know the shift: no ball", own)
    heading = "Two histories: a ball that holds the other one"
    found = yield Part("balls", heading, {"other": truth.other})
    return truth.losses(ball=found.order, before=found.as_before)


def a_shift_that_is_known(world: int) -> Steps:
    r"""Two degrees colder than the last hundred days: the history is shifted."""
    truth, own = kiosk(world)
    found = yield Part("balls", "You know the shift: no ball", own)
    return truth.losses(shift=found.if_colder, before=found.as_before)


def a_mixture(world: int) -> Steps:
    r"""Four fractions, ten blends with two readings each."""
    draws = draws_of(world)
    names = ["cotton", "wool", "silk", "flax"]
    alone, together = 10 + 5 * uniform(draws, 4), 12 * normal(draws, 4, 4).triu(1)

    def mean(blend: Tensor) -> Tensor:  # ... x 4 to ...: Scheffe's quadratic polynomial
        return blend @ alone + ((blend @ together) * blend).sum(dim=-1)

    blends = [(i / 2 + j / 2) for i in torch.eye(4) for j in torch.eye(4)]
    blends = torch.stack(blends).unique(dim=0).double()
    rows = blends.repeat(2, 1)
    readings = pd.DataFrame(rows.numpy(), columns=names)
    readings["elongation"] = (mean(rows) + 0.5 * normal(draws, len(rows))).numpy()
    found = yield Part("mixtures", "Three fractions", {"pd": pd, "readings": readings})
    taken = torch.tensor(found.best[names].to_numpy(dtype=float))
    asked = mean(torch.tensor(found.settings[names].to_numpy()))
    return {
        "regret": regret(mean(taken), mean(blends)),  # below 0 if better than all that were tried
        "best one asked, less the best one tried": float(asked.max() - mean(blends).max()),
        "farthest sum from 1": float((found.settings[names].sum(axis=1) - 1).abs().max()),
    }


def settings_that_still_run(world: int) -> Steps:
    r"""Readings come as they come; two ovens work ahead."""
    draws = draws_of(world)
    hot, fast = 30 + 20 * float(uniform(draws)), 1 + 4 * float(uniform(draws))

    def mean(table: pd.DataFrame) -> pd.Series:
        far = ((table["heat"] - hot) / 10) ** 2 + (table["stir"] - fast) ** 2
        return 70 - far - 5 * (table["solvent"] == "water")

    def measured(settings: pd.DataFrame, seed: int) -> pd.DataFrame:
        twice = pd.concat(2 * [settings], ignore_index=True)
        scatter = (1 + 4 * (twice["heat"] >= 60)) * normal(draws, len(twice)).numpy()
        return twice.assign(**{"yield": mean(twice) + scatter})

    own = {"pd": pd, "torch": torch, "measured": measured}
    found = yield Part("batches", "A laboratory", own, num_blocks=2)
    all_settings = product(range(20, 81, 5), range(1, 6), ("water", "ethanol"))
    table = pd.DataFrame(all_settings, columns=["heat", "stir", "solvent"])

    def value(settings: pd.DataFrame) -> Tensor:
        risk = 0.3 * (1 + 4 * (settings["heat"] >= 60)) ** 2
        return torch.tensor((mean(settings) - risk).to_numpy())

    columns = [*table]
    running = [found.eight.iloc[2:-1], found.others, found.more]
    settings = pd.concat([each[columns] for each in running])
    return {
        "regret of the best of eight": regret(value(found.eight).max(), value(table)),
        "run twice": len(settings) - len(settings.drop_duplicates()),
        "running, of 8": len(found.lab.running),
    }


def advice_on_a_study(world: int) -> Steps:
    r"""Forty trials of Optuna's default sampler; the quiet part is the better one."""
    import optuna

    draws = draws_of(world)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    at = torch.stack([0.2 + 0.6 * uniform(draws), 0.2 + 0.6 * uniform(draws)])

    def mean(X: Tensor) -> Tensor:
        return 10 - 30 * ((X - at) ** 2 * torch.tensor([1.0, 0.4])).sum(dim=-1)

    def reading(trial: optuna.Trial) -> float:
        x = torch.tensor([trial.suggest_float(name, 0, 1) for name in ("dose", "rate")])
        return float(mean(x.double()) + (0.5 + 3 * x[0]) * normal(draws))

    sampler = optuna.samplers.TPESampler(seed=world)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(reading, n_trials=40)
    found = yield Part("bridges", "Advice on a study of Optuna", {"study": study})
    grid = mean(uniform(draws, 4000, 2))

    def lost(setting: dict[str, float]) -> float:
        return regret(mean(torch.tensor([setting["dose"], setting["rate"]]).double()), grid)

    return {"regret": lost(found.take), "regret of the luckiest trial": lost(study.best_params)}
