r"""Find readings that are copies of another reading of their row.

Tables are often filled up: one reading is written down for all repeats of a row. Such a row says
nothing about the noise, but looks noise-free. In a row of `k` readings with standard deviation `s`
of the noise, `m` readings lie within a range `r` by chance with a probability of at most

    C(k, m) sqrt(m) (r / (s sqrt(2 pi)))^(m - 1),    2 <= m <= k,

the expected number of such groups of `m` independent normal readings for a small `r`. They are
copies if

1. they differ by less than `NEARLY_EQUAL` of the spread of other rows;
2. such a group in any row has a probability below `CHANCE`, with `r` enlarged by the step of the
   instrument, and `s` low among the rows whose readings differ, since noise varies; or so many rows
   consist of such a group alone that their number has a probability below `CHANCE`;
3. no other row has the same reading, as happens at an instrument's limits or if it rounds;
4. the instrument's rounding is too fine to explain equal readings.
"""

import math

import torch
from torch import Tensor

# Copies may differ by this share of a typical standard deviation, and no more.
NEARLY_EQUAL = 1e-4
# The probability at which one group of readings of a table is called copies.
CHANCE = 1e-3
# The shares of the rows whose readings differ that spread no more than the typical and the low one.
TYPICAL, LOW = 0.75, 0.1
# An instrument rounds if its step is a larger share of a typical standard deviation, or if readings
# of some row differ by so few steps: others may be equal then as well.
COARSE, FEW_STEPS = 0.003, 3
# The least gap between readings is up to so many steps of an instrument.
_MOST_STEPS = 6
# How far gaps may be from multiples of a step, in steps.
_OFF_STEP = 0.02


def find_copies(Y: Tensor) -> Tensor:
    r"""Which readings `batch_shape x n x k` (NaN if missing) repeat another one.

    One reading of each group of copies is not marked. Nothing is marked if no row has readings that
    differ, or if different rows share several readings that are not multiples of one step.
    """
    k = Y.shape[-1]
    found = torch.zeros_like(Y, dtype=torch.bool)
    if k < 2 or Y.numel() == 0:
        return found
    counts = Y.isfinite().sum(dim=-1, keepdim=True)
    spread = (Y - Y.nanmean(dim=-1, keepdim=True)).square().nansum(-1, keepdim=True)
    spread = (spread / (counts - 1).clamp_min(1)).sqrt()
    spread = spread.where((counts > 1) & (spread > 0), torch.nan)
    typical = spread.nanquantile(TYPICAL, dim=-2, keepdim=True)  # NaN without any
    near = NEARLY_EQUAL * typical
    ordered, order = Y.sort(dim=-1)  # NaN last
    most = 1 + _longest_run(ordered[..., 1:] - ordered[..., :-1] <= near)
    if most < 2:
        return found
    low = spread.where(spread > near, torch.nan).nanquantile(LOW, dim=-2, keepdim=True)
    step, shared = _instrument(Y)
    highest, lowest = Y.nan_to_num(-torch.inf).amax(-1, keepdim=True), ordered[..., :1]
    least = (highest - lowest).where(spread > near, torch.inf).amin(dim=-2, keepdim=True)
    rounds = (step > COARSE * typical) | (least <= FEW_STEPS * step)
    num_rows = (counts > 1).sum(dim=-2, keepdim=True)
    links = torch.zeros_like(found[..., 1:])  # of a reading and the next larger one
    of_rows = torch.full_like(spread, torch.inf)  # of all readings of a row
    for m in range(2, most + 1):
        width = ordered[..., m - 1 :] - ordered[..., : k - m + 1]
        ways = _log_binomial(counts.to(Y), m)
        relative = (width + step) / (low * math.sqrt(2 * math.pi))
        chance = num_rows.to(Y).log() + ways + 0.5 * math.log(m) + (m - 1) * relative.log()
        copied = (width <= near) & (chance <= math.log(CHANCE))  # False for NaN
        for i in range(m - 1):
            links[..., i : i + k - m + 1] |= copied
        is_row = (counts == m) & (width[..., :1] <= near)
        of_rows = chance[..., :1].where(is_row, of_rows)
    links |= of_rows <= _largest_of_many(of_rows)
    found = found.scatter(-1, order[..., 1:], links)
    return found & Y.isfinite() & ~shared & ~rounds


def _longest_run(mask: Tensor) -> int:
    r"""The largest number of neighbours that are all True in the last dimension."""
    place = torch.arange(1, mask.shape[-1] + 1, device=mask.device).expand(mask.shape)
    last = place.where(~mask, torch.zeros_like(place)).cummax(dim=-1).values
    return int((place - last).max())


def _largest_of_many(chance: Tensor) -> Tensor:
    r"""The largest expected number at which the rows are too many for chance, `... x 1 x 1`.

    If at most `e` rows with such close readings are expected, at least `j` of them have a
    probability of at most `e^j / j!`. Logarithms are given and returned; -inf without.
    """
    ordered = chance.sort(dim=-2).values
    number = torch.arange(1, ordered.shape[-2] + 1, device=chance.device).to(chance).unsqueeze(-1)
    is_rare = number * ordered - torch.lgamma(number + 1) <= math.log(CHANCE)
    return ordered.where(is_rare, -torch.inf).amax(dim=-2, keepdim=True)


def _log_binomial(counts: Tensor, m: int) -> Tensor:
    r"""The logarithm of the number of ways to choose `m`; -inf if there are fewer."""
    rest = counts - m
    enough = rest >= 0
    ways = torch.lgamma(counts + 1) - math.lgamma(m + 1) - torch.lgamma(rest.clamp_min(0) + 1)
    return ways.where(enough, -torch.inf)


def _instrument(Y: Tensor) -> tuple[Tensor, Tensor]:
    r"""The step of the instrument, `batch_shape x 1 x 1`, and which readings other rows share.

    The step is the resolution of the dtype if readings are not multiples of a larger step. It is
    infinite if, moreover, different rows share several readings.
    """
    k = Y.shape[-1]
    flat, order = Y.flatten(-2).sort(dim=-1)  # NaN last
    row = order // k
    rounding = 8 * torch.finfo(Y.dtype).eps * flat.abs().nan_to_num().amax(dim=-1, keepdim=True)
    gaps = flat[..., 1:] - flat[..., :-1]  # NaN next to NaN
    is_new = ~(gaps <= rounding)
    first = torch.ones_like(is_new[..., :1])
    value = torch.cat([first, is_new], dim=-1).cumsum(dim=-1) - 1
    # A value is shared if its readings are in several rows.
    empty = torch.zeros_like(row)
    low = empty.scatter_reduce(-1, value, row, "amin", include_self=False)
    high = empty.scatter_reduce(-1, value, row, "amax", include_self=False)
    is_shared = low < high
    shared = is_shared.gather(-1, value) & flat.isfinite()
    shared_in_place = torch.zeros_like(shared).scatter(-1, order, shared).reshape(Y.shape)
    gaps = gaps.where(is_new & gaps.isfinite(), torch.nan)
    least = gaps.nan_to_num(torch.inf).amin(dim=-1, keepdim=True)
    step = rounding
    for parts in range(_MOST_STEPS, 0, -1):
        one = least / parts
        off = (gaps / one - (gaps / one).round()).abs().nan_to_num(0.0)
        fits = (off <= _OFF_STEP).all(dim=-1, keepdim=True) & (one > 100 * rounding)
        step = one.where(fits & one.isfinite(), step)
    irregular = (is_shared.sum(dim=-1, keepdim=True) > 1) & (step == rounding)
    step = torch.where(irregular, torch.inf, step)
    return step.unsqueeze(-1), shared_in_place


def describe_copies(copies: Tensor, rows: Tensor) -> str:
    r"""A text that names rows with copies: at most ten rows in each of at most ten replicates.

    `copies` is `batch_shape x n x k`; `rows: n x k` holds each reading's row in the user's table.
    """
    parts = []
    for index in copies.flatten(-2).any(dim=-1).reshape(copies.shape[:-2]).nonzero().tolist():
        named = sorted(set(rows[copies[tuple(index)]].tolist()))
        some = ", ".join(map(str, named[:_MOST_NAMED]))
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        replicate = tuple(index) if len(index) > 1 else index[0] if index else None
        of_replicate = "" if replicate is None else f" of replicate {replicate}"
        parts.append(f"{'rows' if len(named) > 1 else 'row'} {some}{more}{of_replicate}")
    some = "; ".join(parts[:_MOST_NAMED])
    return some + ("; ..." if len(parts) > _MOST_NAMED else "")


_MOST_NAMED = 10
