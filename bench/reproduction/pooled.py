r"""Claims about several problems, judged by one row each: pooled over the problems of a claim.

    python -m bench.reproduction.pooled [--to bench/reproduction]

From the curves that the papers' pages keep. For each seed that all problems of a claim have, the
mean of the paired differences over the problems; then Student's t over the seeds, and a second
interval over the problems. No problem's unit counts more than another's: differences are of log10
regret, simple for V-UCB and cumulative for SBO-KDE, as the papers have it; for UHE-BO, with linear
figures, of simple regret as a share of the mean that random points reach. Below 0 the first method
is ahead. A claim that two methods differ little is shown if the interval lies within a
factor of two of regret either way, a margin that was set before any row was computed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from botorch_risk_bench.metrics import pooled_difference
from torch import Tensor

from bench.reproduction.pages import write_sections
from bench.reproduction.results import writing_parser
from bench.reproduction.stored_curves import read_curves
from bench.reproduction.tables import Comparison, table, with_half_width
from bench.reproduction.vucb.budgets import LARGER

HOME = Path(__file__).parent
SMALLEST = 1e-6  # of a regret, for its logarithm
MARGIN = 0.3  # decades, a factor of two

FINITE = [f"var-{name}-discrete" for name in ("branin", "goldstein", "hartmann12", "hartmann21")]
CONTINUOUS = [name.replace("discrete", "continuous") for name in FINITE]
SIMULATED = ["var-portfolio", "var-robot"]
FUNCTIONS = [f"uhe-{name}" for name in ("h1", "deceptive", "hartmann3", "branin", "hartmann6")]
CONTEXTS = ["ackley", "branin-context", "hartmann", "hartmann-complicated", "newsvendor"]
PORTFOLIOS = ["portfolio-normal", "portfolio-uniform"]


class Claim(NamedTuple):
    r"""Two methods on some problems of a paper.

    Args:
        paper: The folder of its page.
        says: What the row compares.
        first: The method whose lead is negative.
        second: The other one.
        problems: The names of the files of curves.
        differ_little: Whether the paper claims that there is hardly a difference.
    """

    paper: str
    says: str
    first: str
    second: str
    problems: list[str]
    differ_little: bool = False


PROB, UNIF, RHO = "V-UCB-Prob", "V-UCB-Unif", "rho-KG-apx"
BUDGETS = [f"{name}-budget" for name in FINITE[:2]]
CLAIMS = [
    Claim("vucb", "finite W", PROB, UNIF, FINITE),
    Claim(
        "vucb",
        "finite W, constant width",
        f"{PROB}-constant-width",
        f"{UNIF}-constant-width",
        FINITE,
    ),
    Claim("vucb", "finite W, Branin-Hoo, Goldstein-Price", UNIF, RHO, FINITE[:2], True),
    *(
        Claim("vucb", "the same two, its authors' budget", ours, LARGER, BUDGETS, little)
        for ours, little in ((UNIF, True), (PROB, False), (RHO, False))
    ),
    Claim("vucb", "finite W, both Hartmanns", UNIF, RHO, FINITE[2:]),
    Claim("vucb", "finite W", PROB, RHO, FINITE),
    Claim("vucb", "continuous W", PROB, RHO, CONTINUOUS),
    Claim("vucb", "portfolio and robot", PROB, RHO, SIMULATED),
    Claim("vucb", "portfolio and robot", UNIF, RHO, SIMULATED),
    Claim("vucb", "robot", PROB, UNIF, ["var-robot"], True),
    *(
        Claim("vucb", "all ten", PROB, other, [*FINITE, *CONTINUOUS, *SIMULATED])
        for other in (UNIF, RHO, "contextual-GP-UCB", "V-UCB-observed", "StableOpt", "random")
    ),
    *(
        Claim("uhe", "the five functions", "UHE-BO", other, FUNCTIONS)
        for other in ("MAP", "MCMC", "A-GP-UCB", "Portfolio", "Wang-de-Freitas", "Random")
    ),
    Claim("uhe", "the five functions, without the loss", "UHE-BO", "Random+EXP3", FUNCTIONS),
    Claim("uhe", "the five functions, without random points", "UHE-BO", "pseudo-data", FUNCTIONS),
    Claim("uhe", "the five functions", "UHE-BO", "RA-BO", FUNCTIONS),
    *(
        Claim("uhe", "Branin and Hartmann6", "UHE-BO", other, ["uhe-branin", "uhe-hartmann6"])
        for other in ("MAP", "MCMC", "A-GP-UCB", "Portfolio", "Wang-de-Freitas", "Random")
    ),
    *(
        Claim("kde", "Figs. 1 and 2 but the portfolios", first, second, [*CONTEXTS, "ackley-4"])
        for first, second in (
            ("SBO-KDE-Matern", "DRBO-KDE-Matern"),
            ("SBO-KDE-Matern", "GP-UCB-Matern"),
            ("DRBO-KDE-Matern", "GP-UCB-Matern"),
            ("SBO-KDE-Matern", "StableOpt-Matern"),
            ("GP-UCB-Matern", "StableOpt-Matern"),
            ("DRBO-KDE", "DRBO-MMD"),
        )
    ),
    *(
        Claim("kde", "both portfolios", first, second, PORTFOLIOS)
        for first, second in (
            ("SBO-KDE", "DRBO-KDE"),
            ("SBO-KDE", "GP-UCB"),
            ("DRBO-KDE", "GP-UCB"),
            ("SBO-KDE", "StableOpt"),
            ("DRBO-KDE", "StableOpt"),
            ("DRBO-KDE", "DRBO-MMD"),
        )
    ),
]
REGRET = {"vucb": "simple", "uhe": "regret", "kde": "cumulative"}


def last_regrets(claim: Claim, home: Path = HOME) -> Iterator[tuple[Tensor, Tensor]]:
    r"""The regret of both methods at the end, a pair for each problem.

    Raises:
        KeyError: If a problem lacks a method.
    """
    for problem in claim.problems:
        curves = read_curves(home / claim.paper / "curves" / f"{problem}.json.gz")
        kind = REGRET[claim.paper]
        first, second = (curves[label][kind][:, -1] for label in (claim.first, claim.second))
        if claim.paper == "uhe":
            of_random = curves["Random"][kind][:, -1].mean()
            yield first / of_random, second / of_random
        else:
            yield first.clamp_min(SMALLEST).log10(), second.clamp_min(SMALLEST).log10()


def word_of(mean: float, half_width: float, differ_little: bool = False) -> str:
    r"""What an interval says: who is ahead, or for a claim of it that they differ little."""
    if differ_little:
        inside = abs(mean) + half_width < MARGIN
        return "differ little" if inside else "not shown to differ little"
    if mean + half_width < 0:
        return "first ahead"
    if mean - half_width > 0:
        return "second ahead"
    return "undecided"


def row_of(claim: Claim, home: Path = HOME) -> list[str]:
    differences = [first_minus_second(*pair) for pair in last_regrets(claim, home)]
    pooled = pooled_difference(differences)
    seeds, problems = pooled.over_seeds, pooled.over_problems
    word = word_of(seeds.mean.item(), seeds.half_width.item(), claim.differ_little)
    of_problems = ""
    if len(differences) > 1:
        of_problems = Comparison(with_half_width(problems))
        other = word_of(problems.mean.item(), problems.half_width.item(), claim.differ_little)
        word += "" if other == word else f"; over problems {other}"
    return [
        claim.says,
        f"{claim.first} minus {claim.second}",
        f"{len(differences)}",
        f"{int(seeds.num_replicates)}",
        Comparison(with_half_width(seeds)),
        of_problems,
        word,
    ]


def first_minus_second(first: Tensor, second: Tensor) -> Tensor:
    common = min(len(first), len(second))
    return first[:common] - second[:common]


HEADER = ["problems", "methods", "problems", "seeds", "over seeds", "over problems", "says"]
TITLES = {"vucb": "V-UCB", "uhe": "UHE-BO", "kde": "SBO-KDE and DRBO-KDE"}
UNITS = {
    "vucb": "log10 simple regret",
    "uhe": "simple regret, in means of random points'",
    "kde": "log10 cumulative regret",
}


def page() -> list[str]:
    _, command, says = __doc__.strip().split("\n\n", maxsplit=2)
    parts = [f"# Pooled rows\n\n```sh\n{command.strip()}\n```\n\n{says}\n"]
    for paper, title in TITLES.items():
        rows = [row_of(claim) for claim in CLAIMS if claim.paper == paper]
        parts.append(f"## {title}: {UNITS[paper]} at the end\n\n{table(HEADER, rows)}")
    return parts


def main() -> None:
    to = writing_parser(__doc__, "results/pooled").parse_args().to
    write_sections(to / "pooled.md", page())


if __name__ == "__main__":
    main()
