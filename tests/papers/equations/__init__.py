r"""The numbered equations and results of the five papers: one tuple of rows per paper."""

from tests.papers.equations.kde import KDE
from tests.papers.equations.rahbo import RAHBO
from tests.papers.equations.rows import KINDS, Equation, Paper
from tests.papers.equations.truvar import TRUVAR
from tests.papers.equations.uhe_bo import UHE_BO
from tests.papers.equations.v_ucb import V_UCB

PAPERS = (RAHBO, UHE_BO, TRUVAR, V_UCB, KDE)

__all__ = ["KINDS", "PAPERS", "Equation", "Paper"]
