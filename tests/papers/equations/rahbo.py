r"""The numbered equations and results of RAHBO."""

from tests.papers.equations.rows import (
    ASSUMED,
    DEFINES,
    METRIC,
    OF_GAIN,
    WIDTHS,
    Paper,
    computed,
    in_order,
    left_out,
)

# The paper numbers its formulas from (1) to (49), appendix included. Theorem 1, its bound and its
# corollary are stated again in the appendix; the bound is Eq. (17) first and then Eq. (34).
OWN = "papers/test_equations_of_rahbo.py"
OF_PROBLEMS = "test_functions/test_heteroscedastic.py"
OF_BOUNDS = f"{OWN}::test_bounds_of_mean_minus_variance"
OF_INFORMATION = f"{OWN}::test_information_of_all_readings_is_a_sum_over_readings"
OF_PAIRS = f"{OWN}::test_the_sample_variance_is_half_the_mean_square_of_differences"
OF_MODEL = "models/test_learnt_noise.py::test_model_equals_the_equations"

RAHBO = Paper(
    "Makarova2021rahbo",
    in_order(
        computed(
            "test_functions.HeteroscedasticTestProblem",
            f"{OF_PROBLEMS}::test_repeats_have_the_mean_and_variance_of_the_law",
            {1: "a reading is the mean plus noise that depends on x"},
        ),
        computed(
            "test_functions.HeteroscedasticTestProblem.mean_variance",
            f"{OF_PROBLEMS}::test_mean_and_variance_equal_numpy",
            {2: "the objective, mean minus weighted variance"},
        ),
        left_out(METRIC, {3: "cumulative regret"}),
        left_out(DEFINES, {4: "an accurate report", "Definition 1": "sub-Gaussian noise"}),
        computed(
            "models.MeanVarianceGP.posterior",
            OF_MODEL,
            {5: "posterior mean of f", 6: "posterior variance of f"},
        ),
        computed(
            "models.MeanVarianceGP.confidence_bounds",
            OF_MODEL,
            {
                7: "upper bound of f",
                35: "upper bound of f under the cautious noise",
                36: "lower bound of f under the cautious noise",
            },
        ),
        computed(
            "papers.heteroscedastic_beta",
            f"{WIDTHS}::test_equation_8_of_a_batch_is_a_ratio_of_determinants",
            {8: "the width beta_t of the bounds of f"},
        ),
        computed(
            "acquisition.RiskAverseUpperConfidenceBound",
            "acquisition/test_mean_variance.py::test_known_noise_is_equation_nine",
            {9: "the acquisition function under known noise"},
        ),
        computed(
            "papers.information_gain",
            OF_GAIN,
            {
                10: "the largest information gain",
                42: "largest information of sample means",
                44: "largest information of sample variances",
            },
        ),
        computed(
            "papers.information_gain",
            OF_INFORMATION,
            {11: "the information of readings, as a sum over readings"},
        ),
        computed(
            "models.RepeatedOutcomes.from_repeats",
            "models/test_repeats.py::test_statistics_equal_a_loop",
            {12: "sample mean and sample variance of repeats"},
        ),
        computed(
            "models.MeanVarianceGP.noise_posterior",
            OF_MODEL,
            {
                13: "a sample variance is the noise variance plus an error",
                32: "posterior mean of the noise variance",
                33: "posterior variance of the noise variance",
            },
        ),
        computed(
            "models.MeanVarianceGP.noise_confidence_bounds",
            OF_MODEL,
            {14: "upper bound of the noise variance", 15: "lower bound of the noise variance"},
        ),
        computed(
            "models.MeanVarianceGP.noise_of_means",
            OF_MODEL,
            {16: "cautious noise variance of a mean of k repeats"},
        ),
        left_out(
            "A rate: nobody knows the constants of the noise.",
            {
                17: "bound of the cumulative regret",
                34: "Eq. (17) again",
                "Proposition 1": "cumulative regret under known noise",
                "Theorem 1": "cumulative regret under learnt noise",
            },
        ),
        computed(
            "acquisition.RiskAverseLowerConfidenceBound.lower",
            OF_BOUNDS,
            {
                18: "lower bound of the objective under known noise",
                38: "lower bound of the objective",
            },
        ),
        computed(
            "acquisition.RiskAverseUpperConfidenceBound.upper",
            OF_BOUNDS,
            {
                19: "upper bound of the objective under known noise",
                37: "upper bound of the objective",
            },
        ),
        left_out(
            "A step of the proof of Proposition 1.",
            {
                20: "cumulative regret by the sum of deviations",
                22: "the information is at most the largest gain",
                23: "sum of deviations by the information",
                26: "a gain under unequal noise by variances under equal noise",
                27: "Bernoulli's inequality for each term",
                28: "largest gain under unequal noise by equal noise",
            },
        ),
        computed(
            "papers.information_of_readings",
            OF_INFORMATION,
            {
                21: "the information, from entropies",
                24: "the information, as a ratio of determinants",
                41: "information of the sample means about f",
                43: "information of the sample variances about the noise",
            },
        ),
        computed(
            "papers.heteroscedastic_beta",
            "papers/test_equations_of_rahbo.py::test_the_width_by_the_largest_gain_is_the_wider_one",
            {25: "beta_t by the largest information gain"},
        ),
        computed(
            "models.RepeatedOutcomes.from_repeats",
            OF_PAIRS,
            {
                29: "a sample variance as a mean over pairs of repeats",
                30: "pairs of repeats, centred",
                31: "pairs of repeats give the sample variance",
            },
        ),
        left_out(
            "A step of the proof of Theorem 1.",
            {
                39: "regret of a round by both widths",
                40: "cumulative regret by both sums of deviations",
                45: "sum of deviations of f by the information",
                46: "sum of deviations of the noise by the information",
                47: "bound of the cumulative regret",
            },
        ),
        left_out(
            "A step of the proof of Corollary 1.1.",
            {
                48: "regret of the report by the mean width",
                49: "sum of the widths by the information",
            },
        ),
        left_out(
            ASSUMED,
            {
                "Assumption 1": "the noise variance has a bounded norm",
                "Assumption 2": "sample variances have sub-Gaussian errors",
            },
        ),
        computed(
            "papers.heteroscedastic_beta",
            f"{WIDTHS}::test_bounds_of_equation_8_contain_a_function_of_that_norm",
            {"Lemma 1": "bounds of f that hold in all rounds"},
        ),
        computed(
            "recommend.recommend",
            "papers/test_equations_of_rahbo.py::test_the_report_has_the_largest_lower_bound_of_its_round",
            {"Corollary 1.1": "the report with the largest lower bound of its own round"},
        ),
        computed(
            "papers.rahbo", "papers/test_rahbo.py::test_one_round_by_hand", {"Algorithm 1": "RAHBO"}
        ),
    ),
    num_equations=49,
    results={
        "Definition": 1,
        "Assumption": 2,
        "Lemma": 1,
        "Proposition": 1,
        "Theorem": 1,
        "Corollary": 1,
        "Algorithm": 1,
    },
)
