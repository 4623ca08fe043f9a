r"""The policy of a portfolio on real prices: return is bought with risk."""

import csv
import math
from importlib import resources
from os import PathLike
from pathlib import Path

import torch
from botorch.exceptions.errors import InputDataError
from torch import Generator, Tensor

from botorch_risk.arguments import check_nonnegative
from botorch_risk.chunks import ChunkSize
from botorch_risk.test_functions.repeats import RepeatedTestProblem

TRAINING_YEARS, HELD_OUT_YEARS = (1991, 2006), (2007, 2022)
WEEKS_A_YEAR, WEEKS_BETWEEN_TRADES = 52, 4
LOOK_BACKS, HOLDINGS, LEVERAGES = (4, 52), (1, 10), (0.25, 2.0)
# The search for the optimum: leverages in steps of 0.05, then ever closer at the best pairs.
_COARSE, _FINE, _ZOOMS, _NUM_PAIRS = 36, 9, 7, 32
_CHUNK = ChunkSize(cpu=2**20)  # entries of policies x windows x trades


class PortfolioPolicy(RepeatedTestProblem):
    r"""Return of a portfolio that holds the recent winners, over a year drawn at random.

        x = (look-back in weeks, number of holdings, leverage)
        outcome(x) = prod_{j=0}^{12} max(0, 1 + leverage r_j) - 1

    on `{4, ..., 52} x {1, ..., 10} x [0.25, 2]`. Every fourth week the policy ranks 20 stocks by
    their returns over the look-back, which it has seen, and puts `leverage` times its wealth into
    the best of them in equal shares, for four weeks; `r_j` is the mean return of these. A reading
    is the return of one year of 52 weeks, 0.1 for 10 %, whose first week is drawn uniformly among
    the weeks whose year lies within `years`. A wealth of 0 stays there.

    The years are finitely many, so that mean and variance of a reading are known exactly, and with
    them the best mean minus weighted variance. Averse to risk, one holds more stocks at less
    leverage. Optimise on `TRAINING_YEARS`, and measure on `HELD_OUT_YEARS` what is recommended.

    It is an example of the method, not advice: the 20 stocks are large companies of today that have
    survived, so that all returns are too good to be true; trades cost nothing; money is lent and
    borrowed at no interest; prices are weekly closes, at which one is assumed to trade. They are
    adjusted prices from 1990 to 2022 that come with the package skfolio under the BSD 3-clause
    licence, for tests and examples only; `weekly_closes.md` beside the table has source and terms.

    Example:
        >>> problem = PortfolioPolicy()
        >>> X = torch.tensor([[8.0, 1.0, 2.0], [30.0, 10.0, 0.5]], dtype=torch.double)
        >>> problem.evaluate_true(X), problem.noise_variance(X).sqrt()
        (tensor([1.8284, 0.0981], dtype=torch.float64),
         tensor([2.8890, 0.0932], dtype=torch.float64))
        >>> problem.sample_repeats(X, num_repeats=5, generator=torch.Generator()).shape
        torch.Size([2, 5])
    """

    dim = 3
    continuous_inds: list[int] = [2]  # noqa: RUF012 as in BoTorch
    discrete_inds: list[int] = [0, 1]  # noqa: RUF012
    _bounds: list[tuple[float, float]] = [LOOK_BACKS, HOLDINGS, LEVERAGES]  # noqa: RUF012
    four_weeks: Tensor

    def __init__(
        self,
        risk_aversion: float = 1.0,
        years: tuple[int, int] = TRAINING_YEARS,
        table: str | PathLike[str] | None = None,
        dtype: torch.dtype = torch.double,
    ) -> None:
        r"""Reads the table and ranks its stocks, which takes half a second.

        Args:
            risk_aversion: The weight of the variance in the objective.
            years: The first and the last calendar year; readings begin and end within them.
                Look-backs may reach further back.
            table: The path of a table of your own, in the form of the bundled one: a heading, then
                a row for each week of its date, such as 1990-01-05, and at least 10 prices.

        Raises:
            InputDataError: If the table has too few stocks, prices that are not positive, or no
                year of 52 weeks within `years` with another before it.
        """
        check_nonnegative(risk_aversion=risk_aversion)
        super().__init__(dtype=dtype)
        self.risk_aversion, self.years = risk_aversion, years
        dates, closes = _read(table)
        weeks = _first_weeks(dates, years)
        last = weeks.stop - 1 + WEEKS_A_YEAR
        four_weeks = _four_week_returns(closes[: last + 1])[..., weeks.start : last]
        self.register_buffer("four_weeks", four_weeks.to(dtype), persistent=False)
        self._optima: dict[float, tuple[list[float], float]] = {}

    @property
    def num_windows(self) -> int:
        r"""How many years a reading may be of."""
        return self.four_weeks.shape[-1] - WEEKS_A_YEAR + WEEKS_BETWEEN_TRADES

    def returns(self, X: Tensor) -> Tensor:
        r"""The returns of all years, by their first weeks.

        Returns:
            `... x num_windows`.
        """
        self._validate(X)
        return self._returns(X)

    def noise_variance(self, X: Tensor) -> Tensor:
        r"""The variance of one reading, `... x 3 -> ...`, exactly."""
        self._validate(X)
        return self._moments(X)[1]

    def mean_variance(self, X: Tensor, risk_aversion: float) -> Tensor:
        r"""Mean minus weighted variance of a reading, `... x 3 -> ...`, exactly."""
        check_nonnegative(risk_aversion=risk_aversion)
        self._validate(X)
        mean, variance = self._moments(X)
        return mean - risk_aversion * variance

    def objective(self, X: Tensor) -> Tensor:
        r"""`mean_variance` with the weight of this problem, `... x 3 -> ...`."""
        return self.mean_variance(X, self.risk_aversion)

    def policies(self, num_leverages: int) -> Tensor:
        r"""All pairs of look-back and holdings at evenly spaced leverages, `n x 3`.

        Args:
            num_leverages: How many, both bounds included.
        """
        leverages = torch.linspace(*LEVERAGES, num_leverages, dtype=torch.double)
        pairs = _pairs()
        rows = pairs.repeat_interleave(num_leverages, dim=0)
        return torch.cat([rows, leverages.repeat(len(pairs)).unsqueeze(-1)], dim=-1).to(self.bounds)

    def optimal_mean_variance(self, risk_aversion: float) -> tuple[Tensor, float]:
        r"""The optimum of `mean_variance`, by enumeration, and kept.

        All 490 pairs of look-back and holdings are tried at 36 leverages, 0.05 apart; the leverage
        of the best 32 pairs is then found to 1e-6 by grids that are laid ever closer.

        Returns:
            The policy, a `3`-tensor with the dtype and device of the bounds, and its value.
        """
        check_nonnegative(risk_aversion=risk_aversion)
        if risk_aversion not in self._optima:
            self._optima[risk_aversion] = self._search(risk_aversion)
        policy, value = self._optima[risk_aversion]
        return self.bounds.new_tensor(policy), value

    def _search(self, risk_aversion: float) -> tuple[list[float], float]:
        lowest, highest = LEVERAGES
        pairs, steps = _pairs().to(self.bounds), torch.linspace(0, 1, _COARSE).to(self.bounds)
        low = self.bounds.new_full((len(pairs), 1), lowest)
        high = self.bounds.new_full((len(pairs), 1), highest)
        for _ in range(1 + _ZOOMS):
            leverages = low + (high - low) * steps  # pairs x steps
            X = torch.cat([pairs.unsqueeze(1).expand(-1, len(steps), -1), leverages[..., None]], -1)
            mean, variance = self._moments(X)
            values, index = (mean - risk_aversion * variance).max(dim=-1)
            kept = values.topk(min(_NUM_PAIRS, len(pairs))).indices
            best = leverages.gather(1, index.unsqueeze(-1))[kept]
            width = (high - low)[kept] * (steps[1] - steps[0])
            pairs, low, high = pairs[kept], best - width, best + width
            low, high = low.clamp_min(lowest), high.clamp_max(highest)
            steps = torch.linspace(0, 1, _FINE).to(self.bounds)
        return [*pairs[0].tolist(), best[0].item()], values[kept[0]].item()

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self._moments(X)[0]

    def _moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Mean and variance over all years, two `...` tensors."""
        rows = X.reshape(-1, self.dim)
        trades = WEEKS_A_YEAR // WEEKS_BETWEEN_TRADES
        size = max(1, _CHUNK.entries(X.device) // (self.num_windows * trades))
        parts = [self._returns(part) for part in rows.split(size)]
        mean = torch.cat([part.mean(dim=-1) for part in parts]).reshape(X.shape[:-1])
        variance = torch.cat([part.var(dim=-1, correction=0) for part in parts])
        return mean, variance.reshape(X.shape[:-1])

    def _returns(self, X: Tensor) -> Tensor:
        look_back, holdings = (X[..., i].round().long() for i in self.discrete_inds)
        rows = self.four_weeks[look_back - LOOK_BACKS[0], holdings - HOLDINGS[0]]  # ... x weeks
        between = WEEKS_BETWEEN_TRADES
        windows = rows.unfold(-1, WEEKS_A_YEAR - between + 1, 1)[..., ::between]  # ... x n x 13
        growth = 1 + X[..., 2, None, None] * windows.to(X)
        return growth.clamp_min(0).prod(dim=-1) - 1

    def _draw(self, shape: tuple[int, ...], generator: Generator | None) -> Tensor:
        return torch.randint(self.num_windows, shape, generator=generator, device="cpu")

    def _observe(self, X: Tensor, draws: Tensor) -> Tensor:
        return self._returns(X).gather(-1, draws.to(X.device))  # ... x k


def _pairs() -> Tensor:
    r"""All look-backs and numbers of holdings, `490 x 2`."""
    axes = [torch.arange(low, high + 1).double() for low, high in (LOOK_BACKS, HOLDINGS)]
    return torch.cartesian_prod(*axes)


def _four_week_returns(closes: Tensor) -> Tensor:
    r"""Returns of the recent winners over the four weeks after each week.

    Args:
        closes: Prices, `weeks x stocks`.

    Returns:
        `look_backs x holdings x (weeks - 4)`; NaN in weeks before the first look-back.
    """
    gains = closes[WEEKS_BETWEEN_TRADES:] / closes[:-WEEKS_BETWEEN_TRADES] - 1  # weeks x stocks
    number = torch.arange(1, HOLDINGS[1] + 1)
    found = closes.new_full((LOOK_BACKS[1] - LOOK_BACKS[0] + 1, HOLDINGS[1], len(gains)), math.nan)
    for row, look_back in enumerate(range(LOOK_BACKS[0], LOOK_BACKS[1] + 1)):
        past = (closes[look_back:] / closes[:-look_back])[: len(gains) - look_back]
        winners = past.argsort(dim=-1, descending=True, stable=True)[:, : HOLDINGS[1]]
        best = gains[look_back:].gather(-1, winners)  # weeks x holdings, the best first
        found[row, :, look_back:] = (best.cumsum(dim=-1) / number).T
    return found


def _read(table: str | PathLike[str] | None) -> tuple[list[str], Tensor]:
    r"""Dates, and prices `weeks x stocks`."""
    if table is None:
        text = (resources.files(__package__) / "weekly_closes.csv").read_text(encoding="utf-8")
    else:
        text = Path(table).read_text(encoding="utf-8")
    _, *rows = csv.reader(text.splitlines())
    closes = torch.tensor([[float(each) for each in row[1:]] for row in rows], dtype=torch.double)
    if closes.shape[-1] < HOLDINGS[1] or not ((closes > 0) & closes.isfinite()).all():
        raise InputDataError(
            f"Expected positive prices of at least {HOLDINGS[1]} stocks. "
            f"Got {closes.shape[-1]} stocks, the lowest price {closes.min().item():g}."
        )
    return [row[0] for row in rows], closes


def _first_weeks(dates: list[str], years: tuple[int, int]) -> range:
    r"""The weeks with which a year of 52 weeks within `years` begins."""
    calendar = [int(date[:4]) for date in dates]
    starts = [
        week
        for week in range(LOOK_BACKS[1], len(dates) - WEEKS_A_YEAR)
        if calendar[week] >= years[0] and calendar[week + WEEKS_A_YEAR] <= years[1]
    ]
    if not starts:
        raise InputDataError(
            f"Expected {WEEKS_A_YEAR} weeks within `years` and {LOOK_BACKS[1]} before them. "
            f"Got {years=} of a table from {dates[0]} to {dates[-1]}."
        )
    return range(starts[0], starts[-1] + 1)
