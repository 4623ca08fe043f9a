r"""Decisions under contexts whose distribution moves between the data and the use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from botorch_risk.seeding import derive_seed
from botorch_risk.test_functions import EnvironmentalBranin, EnvironmentalHartmann, Newsvendor

OBSERVED, DEPLOYED = 40, 1024  # contexts of the data; of the use, in which decisions are judged
MOVES = {  # of the deployed distribution: standard deviations of the mean, factor of the spread
    "mean -1": (-1.0, 1.0),
    "mean -0.5": (-0.5, 1.0),
    "none": (0.0, 1.0),
    "mean +0.5": (0.5, 1.0),
    "mean +1": (1.0, 1.0),
    "spread x0.5": (0.0, 0.5),
    "spread x2": (0.0, 2.0),
}
CUTS = ("low third unseen", "high third unseen")
WEATHER = (
    "a colder season follows",
    "the same season, next year",
    "a warmer season follows",
    "only winter seen",
    "only summer seen",
)


@dataclass(frozen=True)
class Data:
    r"""What is observed, and what decisions then meet.

    Attributes:
        observed: `t x d_w` contexts, in the order of time.
        deployed: For the name of each shift, `n x d_w` contexts.
    """

    observed: Tensor
    deployed: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    r"""Outcomes that are known, on a list of decisions.

    Attributes:
        decisions: `m x d_x`.
        outcome: From pairs (x, w), `... x d`, to outcomes to be maximised.
        data: From a seed to what is observed and deployed, one entry for each sample of contexts.
        num_nodes: Of the quadrature over the unit cube of the contexts.
        bandwidth_floor: The least bandwidth of the density, which the nodes have to resolve.
        num_draws: Resamples, or splits, of a rule for the radius.
    """

    decisions: Tensor
    outcome: Callable[[Tensor], Tensor]
    data: Callable[[int], list[Data]]
    num_nodes: int = 96
    bandwidth_floor: float = 0.012
    num_draws: int = 60

    def outcomes(self, contexts: Tensor) -> Tensor:
        r"""`m x n` outcomes of all decisions at `n x d_w` contexts."""
        m, n = len(self.decisions), len(contexts)
        pairs = [self.decisions[:, None].expand(m, n, -1), contexts.expand(m, n, -1)]
        return self.outcome(torch.cat(pairs, dim=-1))


Sampler = Callable[[int, torch.Generator], Tensor]


def simulated(name: str, sample: Sampler) -> Callable[[int], list[Data]]:
    r"""Contexts drawn from one distribution, which then moves, or of which a third was not seen."""

    @cache
    def nominal() -> Tensor:
        return sample(DEPLOYED, torch.Generator().manual_seed(derive_seed(0, name, "deployed")))

    def data(seed: int) -> list[Data]:
        generator = torch.Generator().manual_seed(derive_seed(seed, name, "observed"))
        drawn, use = sample(3 * OBSERVED, generator), nominal()
        mean, deviation = use.mean(dim=0), use.std(dim=0)
        moved = {
            move: (mean + spread * (use - mean) + shift * deviation).clamp(0, 1)
            for move, (shift, spread) in MOVES.items()
        }
        first = use[:, 0].quantile(torch.tensor([1 / 3, 2 / 3]).double())
        cut = {
            CUTS[0]: drawn[drawn[:, 0] > first[0]][:OBSERVED],
            CUTS[1]: drawn[drawn[:, 0] < first[1]][:OBSERVED],
        }
        return [
            Data(drawn[:OBSERVED], moved),
            *(Data(seen, {name: use}) for name, seen in cut.items()),
        ]

    return data


def newsvendor(
    price: float = 9.0, cost: float = 5.0, salvage: float = 1.0
) -> Callable[..., Tensor]:
    r"""Profit of `x` units bought when `w` are demanded."""

    def profit(X: Tensor) -> Tensor:
        x, w = X.unbind(dim=-1)
        return price * torch.minimum(x, w) + salvage * (x - w).clamp_min(0) - cost * x

    return profit


def on_grid(size: int, d_x: int, upper: float = 1.0) -> Tensor:
    axis = torch.linspace(0, upper, size, dtype=torch.double)
    return torch.cartesian_prod(*[axis] * d_x).reshape(-1, d_x)


def of_test_function(problem: Newsvendor | EnvironmentalBranin | EnvironmentalHartmann) -> Sampler:
    return lambda n, generator: problem.sample_environment(n, generator).double()


def gamma_demand(n: int, generator: torch.Generator) -> Tensor:
    r"""Demand of shape 4 and mean 0.4, as a sum of exponential variables, at most 1."""
    uniforms = torch.rand(n, 4, generator=generator, dtype=torch.double)
    return (-0.1 * uniforms.log()).sum(dim=-1, keepdim=True).clamp_max(1.0)


# Heat for a day, bought ahead: in degree days, the degrees that the mean temperature is below 18
# Celsius, which utilities bill by. The unit is 45 degree days; temperatures are from -10 to 35.
RANGE, BASE = (-10.0, 35.0), 18.0


def heat(X: Tensor) -> Tensor:
    x, w = X.unbind(dim=-1)
    low, high = RANGE
    need = ((BASE - low) / (high - low) - w).clamp_min(0)
    return -(x + 3 * (need - x).clamp_min(0) - 0.2 * (x - need).clamp_min(0))


def daily_means(csv: str) -> Any:
    r"""Daily mean temperatures in degrees Celsius of a data set of the package vega_datasets."""
    import pandas as pd
    import vega_datasets

    table = pd.read_csv(Path(vega_datasets.__file__).parent / "_data" / f"{csv}.csv")
    if csv == "seattle-weather":
        days = pd.to_datetime(table["date"])
        return pd.Series(((table["temp_max"] + table["temp_min"]) / 2).to_numpy(), index=days)
    celsius = (table["temp"] - 32) / 1.8
    return celsius.groupby(pd.to_datetime(table["date"]).dt.normalize()).mean()


WINDOW = 60  # days


def seattle(seed: int) -> list[Data]:
    r"""Sixty days, then the sixty days after, the same days a year on, or a whole year.

    The seed sets the first day, in one of three years; seeds are 0 to 19.
    """
    import pandas as pd

    degrees = daily_means("seattle-weather")

    def unit(first: Any, days: int) -> Tensor:
        found = degrees[first : first + pd.Timedelta(days=days - 1)].to_numpy()
        scaled = (torch.tensor(found).double() - RANGE[0]) / (RANGE[1] - RANGE[0])
        return scaled.clamp(0, 1).unsqueeze(-1)

    def start(month: int) -> Any:
        return pd.Timestamp(2012 + seed % 3, month, 1) + pd.Timedelta(days=9 * (seed // 3))

    def ahead(month: int) -> tuple[Tensor, Tensor]:
        first = start(month)
        return unit(first, WINDOW), unit(first + pd.Timedelta(days=WINDOW), WINDOW)

    autumn, spring = ahead(8), ahead(2)
    winter, summer = (unit(start(month), WINDOW) for month in (11, 6))
    year = pd.Timedelta(days=365)
    return [
        Data(autumn[0], {WEATHER[0]: autumn[1], WEATHER[1]: unit(start(8) + year, WINDOW)}),
        Data(spring[0], {WEATHER[2]: spring[1]}),
        Data(winter, {WEATHER[3]: unit(start(11), 365)}),
        Data(summer, {WEATHER[4]: unit(start(6), 365)}),
    ]


def san_francisco(seed: int) -> list[Data]:
    r"""Sixty days of 2010 and the sixty after, to choose a rule on; seeds begin with 1000."""
    degrees = torch.tensor(daily_means("sf-temps").to_numpy()).double()
    unit = ((degrees - RANGE[0]) / (RANGE[1] - RANGE[0])).clamp(0, 1).unsqueeze(-1)
    first = 12 * (seed % 20)
    return [Data(unit[first : first + WINDOW], {"next": unit[first + WINDOW :][:WINDOW]})]


def problems() -> dict[str, Problem]:
    r"""The three that judge, then the three on which the rule for the radius is chosen."""
    vendor, branin, hartmann = Newsvendor(), EnvironmentalBranin(), EnvironmentalHartmann()
    draws = torch.Generator().manual_seed(0)
    some = torch.rand(150, 5, generator=draws, dtype=torch.double)
    near = hartmann.optimal_decision + 0.15 * torch.randn(150, 5, generator=draws).double()
    return {
        "newsvendor": Problem(
            on_grid(401, 1), vendor._evaluate_true, simulated("nv", of_test_function(vendor))
        ),
        "branin": Problem(
            on_grid(15, 2),
            branin._evaluate_true,
            simulated("br", of_test_function(branin)),
            144,
            0.08,
            8,
        ),
        "heating": Problem(on_grid(401, 1, 0.7), heat, seattle),
        "gamma newsvendor": Problem(
            on_grid(401, 1), newsvendor(9, 3, 1), simulated("gn", gamma_demand)
        ),
        "hartmann": Problem(
            torch.cat([some, near.clamp(0, 1)]),
            hartmann._evaluate_true,
            simulated("hm", of_test_function(hartmann)),
        ),
        "heating, San Francisco": Problem(on_grid(401, 1, 0.7), heat, san_francisco),
    }


JUDGES, CHOOSERS = (
    ("newsvendor", "branin", "heating"),
    ("gamma newsvendor", "hartmann", "heating, San Francisco"),
)
