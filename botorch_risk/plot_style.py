r"""A common style of pictures: colours that colour-blind readers can tell apart, a plain frame."""

from typing import Any

# Of Okabe and Ito.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.92",
    "font.size": 10.0,
    "legend.frameon": False,
}
