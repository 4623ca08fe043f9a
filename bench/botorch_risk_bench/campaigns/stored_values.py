r"""Values that a store of others has as JSON, checked before anything is done with them."""

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from botorch_risk_bench.campaigns.database import StoreError
from botorch_risk_bench.campaigns.description import Campaign, Series

_DTYPES = {str(each): each for each in (torch.float32, torch.float64)}
_NUMBER = int | float
_EXPERIMENT: Mapping[str, Any] = {  # what `ExperimentDefinition.identity` has, as far as it is read
    "experiment": str,
    "objective": str,
    "optimal_value": _NUMBER | None,
    "num_initial": int,
    "dtype": str,
    "settings": dict,
}
_OF_OTHERS = (
    *(AttributeError, EOFError, KeyError, OSError, OverflowError, RecursionError, TypeError),
    *(ValueError, zlib.error),
)


@contextmanager
def expected(what: str, path: Path) -> Iterator[None]:
    r"""Turn the errors of values that are not what they should be into a `StoreError`."""
    try:
        yield
    except StoreError:
        raise
    except _OF_OTHERS as error:
        got = " ".join(str(error).split()) or type(error).__name__
        raise StoreError(f"Expected {what} in {path}. Got {got}") from error


def checked_identity(found: Mapping[str, Any], path: Path) -> dict[str, Any]:
    r"""An identity as it is; raises a StoreError unless it describes a campaign."""
    with expected("the description of a campaign", path):
        Campaign.from_json(found["campaign"])
        for each in found["spelled_out"]:
            Series(**each)
        for settings in found["experiments"].values():
            for values in settings.values():
                _check_experiment(values)
    return dict(found)


def _check_experiment(values: Mapping[str, Any]) -> None:
    for name, kind in _EXPERIMENT.items():
        if not isinstance(values[name], kind):
            raise TypeError(f"{name}={values[name]!r}")
    if values["dtype"] not in _DTYPES:
        raise ValueError(f"dtype={values['dtype']!r}")


def tensor_of(text: str, dtype: str, path: Path) -> Tensor:
    r"""Numbers of a row, in the dtype of its experiment."""
    with expected("numbers in each round", path):
        return torch.tensor(json.loads(text), dtype=_DTYPES[dtype])


def number_of(text: str, path: Path) -> float:
    r"""A number of a row."""
    with expected("numbers in each round", path):
        return float(json.loads(text))
