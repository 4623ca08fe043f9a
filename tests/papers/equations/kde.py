r"""The numbered equations and results of SBO-KDE and DRBO-KDE."""

from tests.papers.equations.rows import (
    ASSUMED,
    METRIC,
    RATE,
    WIDTHS,
    Paper,
    computed,
    in_order,
    left_out,
)

# The paper numbers (1) to (23), and (28) in its Appendix B. Its Propositions 3 and 4
# and its Theorems 3 and 4 are Propositions 1 and 2 and Theorems 1 and 2 again.
OF_DUAL = "papers/test_equations_of_kde.py::test_the_worst_case_is_the_dual_program"
OF_WIDTH = f"{WIDTHS}::test_theorems_1_and_2_of_learnt_contexts"
SAMPLE_AVERAGE = "Convergence of a sample average at a rate with unknown constants."

KDE = Paper(
    "Huang2024kde",
    in_order(
        computed(
            "risk.Expectation",
            "papers/test_equations_of_kde.py::test_the_objective_is_an_integral",
            {1: "the expectation, of which regret is the loss"},
        ),
        computed(
            "environments.KernelDensity",
            "environments/test_density.py::test_without_bounds_equals_scipy",
            {2: "kernel density of the contexts"},
        ),
        left_out(
            METRIC, {3: "Bayesian cumulative regret", "Definition 1": "Bayesian cumulative regret"}
        ),
        left_out(RATE, {4: "bound of SBO-KDE's regret", "Lemma 1": "error of the kernel density"}),
        computed(
            "risk.total_variation_worst_case",
            OF_DUAL,
            {
                5: "worst expectation in a total-variation ball",
                17: "its dual program",
                "Proposition 2": "worst expectation in a ball by its dual",
                "Proposition 4": "Proposition 2 again",
            },
        ),
        computed(
            "papers.drbo_kde",
            "papers/test_equations_of_kde.py::test_drbo_kde_maximises_the_sampled_dual",
            {6: "DRBO-KDE's acquisition function over samples", "Algorithm 2": "DRBO-KDE"},
        ),
        left_out(
            "A step of the proof of Theorem 1.",
            {
                7: "three parts of the regret",
                8: "parts of the density's error",
                9: "part of the bound",
                10: "three parts of that part",
                11: "error of a grid of decisions",
                12: "f above its bound on the grid",
                13: "sum of the widths by the information gain",
                "Lemma 3": "the expected largest slope",
                "Lemma 4": "the expected largest value",
                "Lemma 5": "error of an expectation under the density",
                "Lemma 7": "f above its bound on the grid",
                "Lemma 8": "sum of the widths by the information gain",
            },
        ),
        computed(
            "risk.total_variation_worst_case",
            "risk/test_total_variation.py::test_equals_the_linear_program",
            {14: "the ball's program in q"},
        ),
        left_out(
            "A step of the proof of Proposition 2.",
            {15: "its Lagrangian, point by point", 16: "the same by the conjugate"},
        ),
        left_out(
            "A step of the proof of Theorem 2.",
            {
                18: "five parts of the regret",
                19: "parts of the density and of the ball",
                20: "three parts of the rest",
                21: "error of a grid of decisions",
                22: "f above its bound on the grid",
                23: "sum of the widths by gain and radii",
                "Lemma 9": "worst expectation of f above its bound's",
                "Lemma 10": "sum of the widths by gain and radii",
            },
        ),
        left_out(
            "A problem of the experiments: `problems.EnvironmentalHartmann` of the bench.",
            {28: "centres of Hartmann's function"},
        ),
        left_out(ASSUMED, {"Assumption 1": "tails of the slopes"}),
        left_out(
            SAMPLE_AVERAGE,
            {
                "Lemma 2": "sample average approximation in general",
                "Proposition 1": "sample average approximation of SBO-KDE",
                "Proposition 3": "Proposition 1 again",
            },
        ),
        computed(
            "papers.learnt_context_beta",
            "papers/test_equations_of_kde.py::test_the_expected_excess_over_the_bound_is_small",
            {"Lemma 6": "expected excess of f over its bound"},
        ),
        computed(
            "papers.learnt_context_beta",
            OF_WIDTH,
            {
                "Theorem 1": "the width beta_t of SBO-KDE (the regret is a rate)",
                "Theorem 2": "the width beta_t of DRBO-KDE (the regret is a rate)",
                "Theorem 3": "Theorem 1 again",
                "Theorem 4": "Theorem 2 again",
            },
        ),
        computed(
            "papers.sbo_kde",
            "papers/test_equations_of_kde.py::test_sbo_kde_maximises_the_sample_average",
            {"Algorithm 1": "SBO-KDE"},
        ),
    ),
    num_equations=28,
    results={
        "Definition": 1,
        "Assumption": 1,
        "Lemma": 10,
        "Proposition": 4,
        "Theorem": 4,
        "Algorithm": 2,
    },
    unprinted=(24, 25, 26, 27),
)
