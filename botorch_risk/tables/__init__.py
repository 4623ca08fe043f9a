r"""Search a table of conditions x contexts: pairs to try, and the condition to recommend.

A finite table is small enough for the joint posterior of all its pairs, so the rules here are exact
and optimise no acquisition function numerically. Tables are in float64, on the device of the
outcomes; `table_search` keeps them on the CPU.
"""

from .factors import Factors
from .kernel import fit_table
from .rules import TABLE_RULES, TableRule, choose_plate
from .table_search import Pair, RankedCondition, TableSearch, table_search

__all__ = [
    "TABLE_RULES",
    "Factors",
    "Pair",
    "RankedCondition",
    "TableRule",
    "TableSearch",
    "choose_plate",
    "fit_table",
    "table_search",
]
