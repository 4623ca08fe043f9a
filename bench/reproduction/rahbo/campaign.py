r"""The campaign behind this folder's tables, with the paper's numbers of repetitions and rounds."""

from botorch_risk_bench.campaigns import Campaign, Series
from botorch_risk_bench.experiments.papers.rahbo import CONFIGURATIONS, configuration

ALL = ("RAHBO", "RAHBO-US", "GP-UCB", "RAHBO-paper", "RAHBO-US-paper", "GP-UCB-paper")
PAPER = tuple(label for label in ALL if label.endswith("paper"))
SINES = [configuration("sine", *each) for each in CONFIGURATIONS]
BRANINS = [configuration("branin", *each) for each in CONFIGURATIONS]

CAMPAIGN = Campaign(
    "RAHBO",
    [
        Series(("sine", "sine-variance"), ALL, num_seeds=30),
        Series(("branin", "branin-variance"), ALL, num_seeds=25),
        Series(SINES, PAPER, num_seeds=30),
        Series(BRANINS, PAPER, num_seeds=25),
        Series("forest", ("RAHBO", "GP-UCB"), num_seeds=15),
        # What GP-UCB asks for does not depend on the risk aversion: its points are those of
        # "forest".
        Series("forest-100", "RAHBO", num_seeds=15),
    ],
    block_size=30,
)
