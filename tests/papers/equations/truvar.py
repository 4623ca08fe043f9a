r"""The numbered equations and results of TRUVAR."""

from tests.papers.equations.rows import ASSUMED, OF_GAIN, Paper, computed, in_order, left_out

# The paper with its supplement numbers (1) to (61). The sets M_(i) show no number, but the text
# cites them as (9) and (10).
TRUNCATED = "papers/truvar"
OF_COST = f"{TRUNCATED}/test_cost_bounds.py"
OF_DOMAIN = "papers/test_equations_of_truvar.py::test_moments_of_a_domain_equal_a_refit"
OF_ALGORITHMS = f"{TRUNCATED}/test_state.py::test_equals_the_printed_algorithms"
OF_COSTS = f"{OF_COST}::test_the_bounds_satisfy_the_equations_of_the_theorem"
OF_COVERING = f"{OF_COST}::test_the_cost_is_that_of_greedy_sampling_under_unequal_noise_and_costs"
OF_LEAST_COST = f"{OF_COST}::test_greedy_covering_costs_little_more_than_the_cheapest"
OF_REDUCTION = f"{TRUNCATED}/test_gain.py::test_equals_the_printed_equation_by_refitting"
TIGHTER = "`cost_bounds` computes Eqs. (11) and (13) to (15), which are tighter."

TRUVAR = Paper(
    "Bogunovic2016truvar",
    in_order(
        computed(
            "engine.DomainPosterior",
            OF_DOMAIN,
            {
                1: "posterior mean",
                2: "posterior variance",
                19: "variance at a candidate",
                20: "covariances with a candidate",
            },
        ),
        computed(
            "papers.TruncatedVarianceReduction",
            OF_REDUCTION,
            {3: "reduction of truncated variances per cost"},
        ),
        computed(
            "papers.TruncatedVarianceState.confidence_bounds",
            OF_ALGORITHMS,
            {4: "upper and lower bounds of f"},
        ),
        computed("papers.Maximize", OF_ALGORITHMS, {5: "points that may be a maximiser"}),
        computed(
            "papers.LevelSet",
            OF_ALGORITHMS,
            {6: "points that are not classified", 7: "points above and below the level"},
        ),
        left_out(
            "A step towards Eqs. (9) and (10).", {8: "an upper bound is near f after an epoch"}
        ),
        computed(
            "papers.cost_bounds",
            OF_COSTS,
            {
                9: "points near the maximum after an epoch",
                10: "points near the level after an epoch",
                13: "cost of an epoch",
                15: "cost of all epochs",
                34: "samples of an epoch, unit costs",
                35: "squared width, unit costs",
                36: "samples of all epochs, unit costs",
            },
        ),
        computed(
            "papers.covering_cost",
            OF_LEAST_COST,
            {
                11: "least cost of a deviation in a set",
                21: "the covering problem of an epoch",
                33: "least number of samples, unit costs",
            },
        ),
        left_out(
            ASSUMED,
            {
                12: "variance reduction of a set of samples",
                "Assumption 3.1": "variance reduction is submodular",
            },
        ),
        computed(
            "papers.GuaranteedWidth",
            f"{TRUNCATED}/test_epochs.py::test_widths",
            {14: "squared width of an epoch"},
        ),
        computed("papers.information_gain", OF_GAIN, {16: "the largest information gain"}),
        left_out(
            TIGHTER,
            {
                17: "number of samples, equal noise and costs",
                37: "number of samples, cruder",
                "Corollary 3.1": "number of samples, equal noise and costs",
                "Corollary D.1": "number of samples, cruder",
            },
        ),
        computed(
            "papers.truvar.gain.gain", OF_REDUCTION, {18: "fall of the variances by a sample"}
        ),
        computed(
            "papers.covering_cost",
            OF_COVERING,
            {
                22: "truncated gain of a set of samples",
                23: "excess variance, as a difference",
                24: "excess variance, as a positive part",
            },
        ),
        left_out(
            "A step of the proof of Theorem 3.1.",
            {
                25: "gain of the greedy sample",
                26: "fall of the excess variance in a round",
                27: "both together",
                28: "excess variance after several rounds",
                29: "an exponential bound of it",
                30: "cost that leaves a given share",
                31: "the share that ends an epoch",
                32: "cost that ends an epoch",
            },
        ),
        left_out(
            "A step of the proof of Corollary D.1.",
            {
                38: "largest variance after k greedy samples",
                39: "largest variance as the last one",
                40: "it is at most the mean",
                41: "sum of variances by the information gain",
                42: "least number of samples by the gain",
                43: "the same, with the last width",
                44: "samples of an epoch that are enough",
                45: "the same, with a common logarithm",
                46: "epochs that count, by their targets",
                47: "the same, solved for the power",
                48: "the same, solved for the epoch",
                49: "the same, as a whole number",
                50: "the same, in one logarithm",
                51: "samples of all epochs that are enough",
                52: "sum of inverse squared targets",
                53: "the same, from epoch 0",
                54: "bound of the geometric sum",
            },
        ),
        left_out(
            "A step of the proof of Corollary 3.1.",
            {
                55: "a variance by its information",
                56: "a variance in units of the noise",
                57: "a small variance by its information",
                58: "early and late epochs",
                59: "samples of all epochs that are enough",
                60: "sum of inverse squared targets of early epochs",
                61: "bound of that sum",
            },
        ),
        computed(
            "papers.truvar.goals.Goal.accuracy",
            "papers/test_equations_of_truvar.py::test_accuracy_is_the_least_epsilon_of_the_definition",
            {"Definition 3.1": "accuracy of the sets"},
        ),
        computed(
            "acquisition.bayesian_beta",
            "papers/test_equations_of_truvar.py::test_all_tails_together_are_within_delta",
            {"Lemma C.1": "bounds at all points and times"},
        ),
        computed(
            "papers.cost_bounds",
            f"{OF_COST}::test_a_run_keeps_the_bounds_and_is_accurate_at_the_total",
            {"Theorem 3.1": "cost at which the sets are accurate"},
        ),
        computed(
            "papers.NoiseLevels",
            f"{TRUNCATED}/test_sampling.py::test_noise_levels",
            {"Corollary 3.2": "noise levels to choose from (the cost is a rate)"},
        ),
        computed(
            "papers.TruncatedVarianceState",
            OF_ALGORITHMS,
            {
                "Algorithm 1": "TRUVAR: the epochs",
                "Algorithm 2": "TRUVAR: bounds and sets of a round",
            },
        ),
    ),
    num_equations=61,
    results={
        "Definition": 1,
        "Assumption": 1,
        "Lemma": 1,
        "Theorem": 1,
        "Corollary": 3,
        "Algorithm": 2,
    },
)
