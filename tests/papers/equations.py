r"""The numbered equations and results of the five papers: one tuple of rows per paper."""

from tests.papers.kde import KDE
from tests.papers.rahbo import RAHBO
from tests.papers.rows import KINDS, Equation, Paper
from tests.papers.truvar import TRUVAR
from tests.papers.uhe_bo import UHE_BO
from tests.papers.v_ucb import V_UCB

PAPERS = (RAHBO, UHE_BO, TRUVAR, V_UCB, KDE)

__all__ = ["KINDS", "PAPERS", "Equation", "Paper"]
