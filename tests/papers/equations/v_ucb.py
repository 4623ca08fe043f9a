r"""The numbered equations and results of V-UCB."""

from tests.papers.equations.rows import WIDTHS, Paper, computed, in_order, left_out

# The paper numbers (1) to (14), appendix included.
LACING = "acquisition/test_lacing.py"
CERTIFICATE = "acquisition/test_certificate.py"
OF_LACING = f"{LACING}::test_lacing_values_equal_enumeration_and_exist"
OF_STABLE_OPT = f"{LACING}::test_level_to_zero_is_stable_opt"
OF_LIMIT = "papers/test_equations_of_v_ucb.py::test_value_at_risk_falls_to_the_smallest_value"
OF_NETWORK = "papers/test_lnso.py::test_finds_the_best_quantile"
OF_POINTWISE = "papers/test_equations_of_v_ucb.py::test_pointwise_bounds_equal_a_solve"

V_UCB = Paper(
    "Nguyen2021vucb",
    in_order(
        computed(
            "risk.ValueAtRisk",
            "risk/test_measures.py::test_value_at_risk_with_ties_and_atoms_is_exact",
            {1: "value-at-risk"},
        ),
        computed(
            "acquisition.RiskUpperConfidenceBound.pointwise_bounds",
            OF_POINTWISE,
            {2: "posterior mean and variance at (x, w)", 3: "lower and upper bounds at (x, w)"},
        ),
        computed(
            "acquisition.certified_regret",
            "papers/test_equations_of_v_ucb.py::test_the_band_of_the_value_at_risk_bounds_the_regret",
            {4: "regret by the band of the value-at-risk"},
        ),
        computed(
            "acquisition.select_lacing_value",
            OF_STABLE_OPT,
            {
                5: "StableOpt's choice of w",
                "Corollary 2.2": "V-UCB's w in the limit is StableOpt's",
            },
        ),
        computed(
            "risk.ValueAtRisk",
            "papers/test_equations_of_v_ucb.py::test_value_at_risk_minimises_the_pinball_loss",
            {6: "value-at-risk minimises the pinball loss"},
        ),
        computed(
            "papers.maximize_value_at_risk",
            OF_NETWORK,
            {
                7: "loss of the network in a ball",
                14: "loss of the network over a batch",
                "Algorithm 2": "local neural surrogate optimisation",
            },
        ),
        computed(
            "acquisition.select_lacing_value",
            f"{LACING}::test_continuous_distributions_are_ranked_by_the_loss_of_the_paper",
            {8: "loss of a value that does not lace"},
        ),
        left_out("A step of the proof of Eq. (4).", {9: "regret by two values-at-risk"}),
        left_out(
            "A step of the proof of Theorem 1.", {10: "probability below the lower value-at-risk"}
        ),
        left_out(
            "A step of the bound of the cumulative regret, a rate.",
            {11: "sum of deviations by the information gain"},
        ),
        left_out(
            "A step of the proof of Theorem 2.",
            {
                12: "limit of the value-at-risk",
                13: "the limit is not below all values",
                "Lemma 4": "value-at-risk grows with its level",
                "Lemma 5": "the limit is below all levels",
                "Lemma 6": "the limit is below all values",
                "Lemma 7": "the limit is not below all values",
            },
        ),
        computed(
            "acquisition.lacing_mask",
            OF_LACING,
            {
                "Definition 1": "lacing values",
                "Theorem 1": "a lacing value exists",
                "Corollary 1.1": "where lacing values lie",
            },
        ),
        computed(
            "acquisition.lacing_mask",
            f"{LACING}::test_example_1_of_the_paper",
            {"Example 1": "where the values at both bounds do not lace"},
        ),
        left_out(
            "Prose: `v_ucb(w_is_chosen=False)` is the case.",
            {"Remark 1": "w that the environment draws"},
        ),
        computed(
            "papers.rkhs_beta",
            f"{WIDTHS}::test_lemma_1_of_equal_noise",
            {"Lemma 1": "the width beta_t of bounds at all (x, w)"},
        ),
        computed(
            "acquisition.bayesian_beta",
            f"{LACING}::test_lemma_2_the_band_holds_the_value_at_risk",
            {"Lemma 2": "the band of the value-at-risk"},
        ),
        computed(
            "acquisition.certified_regret",
            f"{CERTIFICATE}::test_the_certificate_bounds_the_regret_of_every_function_within_the_bounds",
            {"Lemma 3": "regret by the width at the query"},
        ),
        computed("risk.WorstCase", OF_LIMIT, {"Theorem 2": "the limit is the smallest value"}),
        computed(
            "risk.WorstCase",
            "papers/test_v_ucb.py::test_level_to_zero_is_stable_opt",
            {"Corollary 2.1": "robust optimisation as the limit"},
        ),
        computed(
            "papers.v_ucb",
            "papers/test_equations_of_v_ucb.py::test_one_round_by_hand",
            {"Algorithm 1": "V-UCB"},
        ),
    ),
    num_equations=14,
    results={
        "Definition": 1,
        "Example": 1,
        "Remark": 1,
        "Lemma": 7,
        "Theorem": 2,
        "Corollary": 3,
        "Algorithm": 2,
    },
)
