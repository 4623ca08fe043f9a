r"""Curves of campaigns that take hours, kept beside their tables, so that these can be drawn again.

One file of a few dozen kilobytes a problem, with six digits of every curve.
"""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from botorch_risk_bench.campaigns.whole_files import replacing
from torch import Tensor

Curves = dict[str, dict[str, Tensor]]


def read_curves(path: Path) -> Curves:
    r"""From a strategy to its named curves, `R x T` each; nothing where there is no file.

    Args:
        path: A `.json.gz` that `write_curves` has written.
    """
    if not path.exists():
        return {}
    stored = json.loads(gzip.decompress(path.read_bytes()))
    return {
        label: {name: torch.tensor(rows, dtype=torch.double) for name, rows in curves.items()}
        for label, curves in stored.items()
    }


def with_kept(path: Path, played: Curves, add: bool = True) -> Curves:
    r"""What has been played, and what an earlier report kept of the strategies that it lacks.

    The file holds both afterwards.

    Args:
        path: The file of the kept curves.
        played: From a strategy to its named curves, `R x T` each.
        add: Whether what was played can be compared with what was kept, and does not replace it.
    """
    curves = (read_curves(path) if add or not played else {}) | played
    if played:
        write_curves(path, curves)
    return curves


def write_curves(path: Path, curves: Mapping[str, Mapping[str, Tensor]]) -> None:
    r"""Writes curves, the same bytes for the same curves.

    Args:
        path: Where to.
        curves: From a strategy to its named curves, `R x T` each.
    """
    rounded = {
        label: {
            name: [[float(f"{x:.6g}") for x in row] for row in rows.tolist()]
            for name, rows in named.items()
        }
        for label, named in sorted(curves.items())
    }
    text = json.dumps(rounded, separators=(",", ":")).encode()
    with replacing(path) as written:
        written.write_bytes(gzip.compress(text, mtime=0))
