r"""Every public piece under every kind of hard input: the figure it gives, or how it refuses.

A piece maps data (inputs `n x 2`, repeats `n x 4`, query points `m x 2`) to numbers in the units of
the outcome. A hardship changes the data. Where the numbers must follow the change (units, copies,
layout in memory, modes of PyTorch) they are compared with those of the plain data; where nothing
sensible can be said the message is compared.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchError
from botorch.exceptions.warnings import InputDataWarning
from gpytorch.utils.warnings import NumericalWarning
from torch import Tensor

from tests.pieces import LEARNS_NOISE, OF_DATA_ALONE, PIECES, Data, plain

REFUSALS = (BotorchError, ValueError)


# Hardships


@dataclass(frozen=True)
class Hardship:
    r"""A change of the data, and what every piece makes of it.

    Args:
        name: Names it.
        change: Makes the hard data.
        refused: What a refusal says; `None` where the figures are those of the plain data.
        tolerance: Of the figures, relative to the scale of the outcome.
        exceptions: Pieces that make something else of it: what they say, or `None` for figures.
        finite: Pieces whose figures need only be finite, since other data have other figures.
    """

    name: str
    change: Callable[[Data], Data]
    refused: str | None = None
    tolerance: float = 1e-6
    exceptions: dict[str, str | None] = field(default_factory=dict)
    finite: frozenset[str] | set[str] = frozenset()


def only(pieces: Any, value: str | None) -> dict[str, str | None]:
    return dict.fromkeys(pieces, value)


EVERY = frozenset(PIECES)
SINGLE_GPS = EVERY - LEARNS_NOISE
COLUMNS = "column|shape|inputs of the model|environment"


def with_item(tensor: Tensor, index: Any, value: float) -> Tensor:
    tensor = tensor.clone()
    tensor[index] = value
    return tensor


def rescaled(scale: float, shift: float = 0.0) -> Callable[[Data], Data]:
    return lambda data: replace(data, Y=scale * data.Y + shift, scale=scale, shift=shift)


HARDSHIPS = [
    # Units
    Hardship("outcomes x 1e-12", rescaled(1e-12)),
    Hardship("outcomes x 1e8", rescaled(1e8)),
    Hardship("outcomes x -1e3 + 1e5", rescaled(1e3, 1e5), tolerance=1e-5),
    # Copies
    Hardship(
        "rows in another order",
        lambda data: replace(data, X=data.X.flip(0), Y=data.Y.flip(0)),
        exceptions=only({"pseudo_data"}, None),
        finite={"kernel_density", "pseudo_data"},
    ),
    Hardship(
        "long format",
        lambda data: replace(data, X=data.X.repeat_interleave(4, dim=0), Y=data.Y.reshape(-1, 1)),
        finite=SINGLE_GPS,  # one reading a row is other data to a model without repeats
    ),
    Hardship("repeats in another order", lambda data: replace(data, Y=data.Y[:, [2, 0, 3, 1]])),
    Hardship(
        "a column of missing repeats",
        lambda data: replace(data, Y=torch.cat([data.Y, data.Y[:, :1] * torch.nan], dim=-1)),
    ),
    Hardship(
        "query points twice", lambda data: replace(data, x=data.x[[0, 0, 1, 1, 2]]), finite=EVERY
    ),
    # Layout in memory
    Hardship(
        "not contiguous",
        lambda data: replace(
            data,
            X=data.X.mT.contiguous().mT,
            Y=data.Y.mT.contiguous().mT,
            x=data.x.mT.contiguous().mT,
        ),
    ),
    Hardship(
        "views with gaps",
        lambda data: replace(
            data,
            X=torch.stack([data.X, data.X], dim=-1)[..., 0],
            x=torch.stack([data.x, data.x], dim=-1)[..., 0],
        ),
    ),
    # Modes
    Hardship(
        "data with a history of gradients",
        lambda data: replace(
            data, X=data.X.clone().requires_grad_(), Y=data.Y.clone().requires_grad_()
        ),
    ),
    Hardship("without gradients", lambda data: replace(data, mode=torch.no_grad)),
    Hardship(
        "in inference mode",
        lambda data: replace(data, mode=torch.inference_mode),
        exceptions=only({"fit", "optimise"}, "Expected gradients, which .* needs"),
    ),
    Hardship(
        "single precision",
        lambda data: replace(data, X=data.X.float(), Y=data.Y.float(), x=data.x.float()),
        tolerance=2e-2,
        finite={"fit", "optimise", "pseudo_data", "kernel_density"},
    ),
    # Sizes
    Hardship("two rows", lambda data: replace(data, X=data.X[:2], Y=data.Y[:2]), finite=EVERY),
    Hardship("two repeats", lambda data: replace(data, Y=data.Y[:, :2]), finite=EVERY),
    Hardship("one query point", lambda data: replace(data, x=data.x[:1]), finite=EVERY),
    Hardship(
        "no rows",
        lambda data: replace(data, X=data.X[:0], Y=data.Y[:0]),
        refused="at least one row|no observations|at least one|non-zero|empty",
    ),
    Hardship(
        "no columns",
        lambda data: replace(data, X=data.X[:, :0], x=data.x[:, :0]),
        refused="row and column|at least one|column|environment|empty",
    ),
    Hardship("one reading a row", lambda data: replace(data, Y=data.Y[:, :1]), finite=EVERY),
    # Values
    Hardship(
        "equal repeats in a row",
        lambda data: replace(data, Y=with_item(data.Y, 2, 0.1)),
        finite=EVERY,
    ),
    Hardship(
        "readings rounded to one decimal",
        lambda data: replace(data, Y=(10 * data.Y).round() / 10),
        finite=EVERY,
    ),
    Hardship(
        "two inputs a rounding apart",
        lambda data: replace(
            data, X=torch.cat([data.X, data.X[:1] + 1e-15]), Y=torch.cat([data.Y, data.Y[:1]])
        ),
        finite=EVERY,
    ),
    Hardship(
        "missing input",
        lambda data: replace(data, X=with_item(data.X, (2, 1), torch.nan)),
        refused="finite",
    ),
    Hardship(
        "infinite input",
        lambda data: replace(data, X=with_item(data.X, (2, 1), torch.inf)),
        refused="finite|inf",
    ),
    Hardship(
        "infinite reading",
        lambda data: replace(data, Y=with_item(data.Y, (2, 1), torch.inf)),
        refused="finite|inf",
    ),
    Hardship(
        "a row without a reading",
        lambda data: replace(data, Y=with_item(data.Y, 2, torch.nan)),
        refused="at least one repeat|NaN values",
    ),
    # Shapes and types
    Hardship(
        "inputs in one dimension", lambda data: replace(data, X=data.X[:, 0]), refused="shape|dim"
    ),
    Hardship(
        "fewer outcomes than inputs",
        lambda data: replace(data, Y=data.Y[:5]),
        refused="shape|row|dim",
    ),
    Hardship(
        "a query column too few",
        lambda data: replace(data, x=data.x[:, :1]),
        refused=COLUMNS,
        exceptions=only(OF_DATA_ALONE, None),
    ),
    Hardship(
        "a query column too many",
        lambda data: replace(data, x=torch.cat([data.x, data.x[:, :1]], dim=-1)),
        refused=COLUMNS,
        exceptions=only(OF_DATA_ALONE, None),
    ),
    Hardship(
        "whole numbers as inputs",
        lambda data: replace(data, X=(10 * data.X).long()),
        refused="dtype|floating|float|within the bounds",
        exceptions=only(LEARNS_NOISE, None),
        finite=LEARNS_NOISE,  # of other inputs than the plain ones
    ),
    Hardship(
        "inputs and outcomes of two precisions",
        lambda data: replace(data, Y=data.Y.float()),
        refused="dtype",
    ),
]


def evaluate(piece: Callable[[Data], Tensor], data: Data) -> Tensor:
    with warnings.catch_warnings(), data.mode():
        # Small outcomes and single precision are named by warnings, which have their own tests.
        warnings.simplefilter("ignore", InputDataWarning)
        warnings.simplefilter("ignore", NumericalWarning)
        return piece(data).detach().double() / data.scale


@cache
def plain_figure(name: str) -> Tensor:
    return evaluate(PIECES[name], plain())


@pytest.mark.parametrize("name", PIECES)
@pytest.mark.parametrize("hardship", HARDSHIPS, ids=lambda hardship: hardship.name)
def test_figure_or_refusal(hardship: Hardship, name: str) -> None:
    piece, data = PIECES[name], hardship.change(plain())
    refused = hardship.exceptions.get(name, hardship.refused)
    if refused is not None:
        with pytest.raises(REFUSALS, match=refused):
            evaluate(piece, data)
        return
    values = evaluate(piece, data)
    assert values.isfinite().all()
    if name in hardship.finite:
        return
    expected = plain_figure(name)
    torch.testing.assert_close(values, expected, rtol=hardship.tolerance, atol=hardship.tolerance)


def test_plain_figures_are_finite() -> None:
    assert all(plain_figure(name).isfinite().all() for name in PIECES)
