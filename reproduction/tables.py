r"""Cells and tables that every report of this folder uses."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from botorch_risk.metrics import mean_and_standard_error, paired_difference


def cell(values: Tensor, digits: int = 3) -> str:
    r"""The mean over seeds and its Student-t interval, 95 %."""
    value = mean_and_standard_error(values.double())
    return f"{value.mean:.{digits}g} ± {value.half_width:.2g}"


def paired(values: Tensor, reference: Tensor) -> str:
    r"""The mean difference over the seeds that both have, and its Student-t interval, 95 %."""
    common = min(len(values), len(reference))
    difference = paired_difference(values[:common], reference[:common])
    return f"{difference.mean:.3g} ± {difference.half_width:.2g}"


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
