r"""The numbered equations and results of the five papers: what computes each, and what checks it.

A row names the function, method or class that computes an equation, and a test that compares it
with an independent reference. A row without a function gives the reason: it defines the problem, it
is a rate with unknown constants, or a step of a proof.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple


class Equation(NamedTuple):
    r"""One label of a paper.

    Attributes:
        number: The paper's label, such as "Eq. (7)", "Lemma 1" or "Algorithm 1".
        says: A few words for a cell of a table.
        function: The dotted path of what computes it, by its public name.
        vector: The test against an independent reference, `"tests/....py::test_name"`.
        reason: Why nothing computes it, if `function` is None.
    """

    number: str
    says: str
    function: str | None = None
    vector: str | None = None
    reason: str = ""


class Paper(NamedTuple):
    r"""The rows of a paper, and how many labels its text has.

    Attributes:
        key: The citation key.
        rows: Equations by number, then definitions, assumptions, lemmas and so on.
        num_equations: The largest number of an equation.
        unprinted: Numbers up to there that are not beside any formula.
        results: How many of each kind the text numbers, appendix included; a result that the
            appendix states again under its number counts once, under another number twice.
    """

    key: str
    rows: tuple[Equation, ...]
    num_equations: int
    results: Mapping[str, int]
    unprinted: tuple[int, ...] = ()


KINDS = (
    "Definition",
    "Assumption",
    "Example",
    "Remark",
    "Lemma",
    "Proposition",
    "Theorem",
    "Corollary",
    "Algorithm",
)

DEFINES = "It defines the problem."
ASSUMED = "An assumption of the theorems."
METRIC = "A metric of the experiments, with the true function: `botorch_risk_bench.metrics`."
RATE = "A rate with unknown constants."


def _label(number: int | str) -> str:
    return f"Eq. ({number})" if isinstance(number, int) else number


def _computed(number: int | str, says: str, function: str, vector: str) -> Equation:
    return Equation(_label(number), says, f"botorch_risk.{function}", f"tests/{vector}")


def _left_out(reason: str, says: Mapping[int | str, str]) -> list[Equation]:
    return [Equation(_label(number), words, reason=reason) for number, words in says.items()]


def _place(row: Equation) -> tuple[int, list[tuple[int, str]]]:
    r"""Equations first, then the kinds in their order, each by number; appendices come last."""
    kind, number = row.number.split(" ", 1)
    order = 0 if kind == "Eq." else 1 + KINDS.index(kind)
    parts = re.findall(r"\d+|[A-Z]", number)
    return order, [(int(part), "") if part.isdigit() else (10**6, part) for part in parts]


def _in_order(*rows: Equation) -> tuple[Equation, ...]:
    return tuple(sorted(rows, key=_place))


# The paper numbers its formulas from (1) to (49), appendix included. Theorem 1, its bound and its
# corollary are stated again in the appendix; the bound is Eq. (17) first and then Eq. (34).
OF_BOUNDS = "papers/test_rahbo.py::test_bounds_of_mean_minus_variance"
OF_INFORMATION = "papers/test_rahbo.py::test_information_of_all_readings_is_a_sum_over_readings"
OF_PAIRS = "papers/test_rahbo.py::test_the_sample_variance_is_half_the_mean_square_of_differences"
OF_MODEL = "models/test_learnt_noise.py::test_model_equals_the_equations"
OF_GAIN = "acquisition/test_widths_of_theorems.py::test_greedy_choice_brackets_the_best_gain"

RAHBO = Paper(
    "Makarova2021rahbo",
    _in_order(
        _computed(
            1,
            "a reading is the mean plus noise that depends on x",
            "test_functions.HeteroscedasticTestProblem",
            "test_functions/test_heteroscedastic.py::"
            "test_repeats_have_the_mean_and_variance_of_the_law",
        ),
        _computed(
            2,
            "the objective, mean minus weighted variance",
            "test_functions.HeteroscedasticTestProblem.mean_variance",
            "test_functions/test_heteroscedastic.py::test_mean_and_variance_equal_numpy",
        ),
        *_left_out(METRIC, {3: "cumulative regret"}),
        *_left_out(DEFINES, {4: "an accurate report"}),
        _computed(5, "posterior mean of f", "models.MeanVarianceGP.posterior", OF_MODEL),
        _computed(6, "posterior variance of f", "models.MeanVarianceGP.posterior", OF_MODEL),
        _computed(7, "upper bound of f", "models.MeanVarianceGP.confidence_bounds", OF_MODEL),
        _computed(
            8,
            "the width beta_t of the bounds of f",
            "acquisition.heteroscedastic_beta",
            "acquisition/test_widths_of_theorems.py::"
            "test_equation_8_of_a_batch_is_a_ratio_of_determinants",
        ),
        _computed(
            9,
            "the acquisition function under known noise",
            "acquisition.RiskAverseUpperConfidenceBound",
            "acquisition/test_mean_variance.py::test_known_noise_is_equation_nine",
        ),
        _computed(10, "the largest information gain", "acquisition.information_gain", OF_GAIN),
        _computed(
            11,
            "the information of readings, as a sum over readings",
            "acquisition.information_gain",
            OF_INFORMATION,
        ),
        _computed(
            12,
            "sample mean and sample variance of repeats",
            "models.RepeatedOutcomes.from_repeats",
            "models/test_repeats.py::test_statistics_equal_a_loop",
        ),
        _computed(
            13,
            "a sample variance is the noise variance plus an error",
            "models.learnt_noise.LearntNoise",
            OF_MODEL,
        ),
        _computed(
            14,
            "upper bound of the noise variance",
            "models.MeanVarianceGP.noise_confidence_bounds",
            OF_MODEL,
        ),
        _computed(
            15,
            "lower bound of the noise variance",
            "models.MeanVarianceGP.noise_confidence_bounds",
            OF_MODEL,
        ),
        _computed(
            16,
            "cautious noise variance of a mean of k repeats",
            "models.MeanVarianceGP.noise_of_means",
            OF_MODEL,
        ),
        *_left_out(
            "A rate: nobody knows the constants of the noise.",
            {17: "bound of the cumulative regret", 34: "Eq. (17) again"},
        ),
        _computed(
            18,
            "lower bound of the objective under known noise",
            "acquisition.RiskAverseLowerConfidenceBound",
            OF_BOUNDS,
        ),
        _computed(
            19,
            "upper bound of the objective under known noise",
            "acquisition.RiskAverseUpperConfidenceBound",
            OF_BOUNDS,
        ),
        _computed(
            21,
            "the information, from entropies",
            "acquisition.information_of_readings",
            OF_INFORMATION,
        ),
        *_left_out(
            "A step of the proof of Proposition 1.",
            {
                20: "cumulative regret by the sum of deviations",
                22: "the information is at most the largest gain",
                23: "sum of deviations by the information",
                26: "a gain under unequal noise by variances under equal noise",
                27: "Bernoulli's inequality for each term",
                28: "largest gain under unequal noise by the gain under equal noise",
            },
        ),
        _computed(
            24,
            "the information, as a ratio of determinants",
            "acquisition.information_of_readings",
            OF_INFORMATION,
        ),
        _computed(
            25,
            "beta_t by the largest information gain",
            "acquisition.heteroscedastic_beta",
            "papers/test_rahbo.py::test_the_width_by_the_largest_gain_is_the_wider_one",
        ),
        _computed(
            29,
            "a sample variance as a mean over pairs of repeats",
            "models.RepeatedOutcomes.from_repeats",
            OF_PAIRS,
        ),
        _computed(
            30, "pairs of repeats, centred", "models.RepeatedOutcomes.from_repeats", OF_PAIRS
        ),
        _computed(
            31,
            "pairs of repeats give the sample variance",
            "models.RepeatedOutcomes.from_repeats",
            OF_PAIRS,
        ),
        _computed(
            32,
            "posterior mean of the noise variance",
            "models.MeanVarianceGP.noise_posterior",
            OF_MODEL,
        ),
        _computed(
            33,
            "posterior variance of the noise variance",
            "models.MeanVarianceGP.noise_posterior",
            OF_MODEL,
        ),
        _computed(
            35,
            "upper bound of f under the cautious noise",
            "models.MeanVarianceGP.confidence_bounds",
            OF_MODEL,
        ),
        _computed(
            36,
            "lower bound of f under the cautious noise",
            "models.MeanVarianceGP.confidence_bounds",
            OF_MODEL,
        ),
        _computed(
            37,
            "upper bound of the objective",
            "acquisition.RiskAverseUpperConfidenceBound",
            OF_BOUNDS,
        ),
        _computed(
            38,
            "lower bound of the objective",
            "acquisition.RiskAverseLowerConfidenceBound",
            OF_BOUNDS,
        ),
        _computed(
            41,
            "information of the sample means about f",
            "acquisition.information_of_readings",
            OF_INFORMATION,
        ),
        _computed(42, "its largest value over T points", "acquisition.information_gain", OF_GAIN),
        _computed(
            43,
            "information of the sample variances about the noise",
            "acquisition.information_of_readings",
            OF_INFORMATION,
        ),
        _computed(44, "its largest value over T points", "acquisition.information_gain", OF_GAIN),
        *_left_out(
            "A step of the proof of Theorem 1.",
            {
                39: "regret of a round by both widths",
                40: "cumulative regret by both sums of deviations",
                45: "sum of deviations of f by the information",
                46: "sum of deviations of the noise by the information",
                47: "bound of the cumulative regret",
            },
        ),
        *_left_out(
            "A step of the proof of Corollary 1.1.",
            {
                48: "regret of the report by the mean width",
                49: "sum of the widths by the information",
            },
        ),
        *_left_out(DEFINES, {"Definition 1": "sub-Gaussian noise"}),
        *_left_out(
            ASSUMED,
            {
                "Assumption 1": "the noise variance has a bounded norm",
                "Assumption 2": "sample variances have sub-Gaussian errors",
            },
        ),
        _computed(
            "Lemma 1",
            "bounds of f that hold in all rounds",
            "acquisition.heteroscedastic_beta",
            "acquisition/test_widths_of_theorems.py::"
            "test_bounds_of_equation_8_contain_a_function_of_that_norm",
        ),
        *_left_out(
            "A rate: nobody knows the constants of the noise.",
            {
                "Proposition 1": "cumulative regret under known noise",
                "Theorem 1": "cumulative regret under learnt noise",
            },
        ),
        _computed(
            "Corollary 1.1",
            "the report with the largest lower bound of its own round",
            "recommend.recommend",
            "papers/test_rahbo.py::test_the_report_has_the_largest_lower_bound_of_its_round",
        ),
        _computed(
            "Algorithm 1",
            "RAHBO",
            "strategies.rahbo",
            "strategies/test_rahbo.py::test_one_round_by_hand",
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


# arXiv:2306.06844 numbers (1) to (3) and, in the appendix, (8) to (39). Assumptions,
# propositions and theorems share one counter, 6.1 to 6.7.
OF_LIKELIHOOD = (
    "papers/test_uhe_bo.py::test_the_loss_is_the_density_of_the_outcomes_times_the_prior"
)

UHE_BO = Paper(
    "Ha2023uhe",
    _in_order(
        *_left_out(DEFINES, {1: "the maximiser of f", 8: "the prior of f, jointly normal"}),
        _computed(
            2,
            "hyperparameters by the loss of pseudo-data",
            "fit.PseudoDataMarginalLogLikelihood",
            "fit/test_pseudo_data.py::test_loss_equals_scipy",
        ),
        _computed(
            3,
            "predictions from the data themselves",
            "fit.fit_pseudo_data",
            "papers/test_uhe_bo.py::test_predictions_use_the_data_and_the_fit_of_pseudo_data",
        ),
        _computed(
            9, "log marginal likelihood", "fit.PseudoDataMarginalLogLikelihood", OF_LIKELIHOOD
        ),
        _computed(
            10,
            "log posterior of the hyperparameters",
            "fit.PseudoDataMarginalLogLikelihood",
            OF_LIKELIHOOD,
        ),
        _computed(11, "the largest information gain", "acquisition.information_gain", OF_GAIN),
        _computed(
            12,
            "regret of EXP3 at its rate",
            "bandits.exploration_rate",
            "bandits/test_exp3.py::test_regret_on_bernoulli_arms_stays_below_its_bound",
        ),
        *_left_out(
            "A step of the proof of Proposition 6.3.",
            {
                13: "f is Lipschitz",
                14: "error of an outcome by the distance of its neighbour",
                15: "the errors vanish",
                16: "so the loss without noise converges",
                17: "so the loss with noise converges",
                18: "so the estimate converges",
            },
        ),
        *_left_out(
            "A step of the proof of Theorem 6.5.",
            {
                19: "the chosen bound reaches the maximum nearly",
                20: "distance of the mean from the maximum",
                21: "regret of a round by its width",
                22: "cumulative regret of the even rounds",
                23: "sum of the widths by the information gain",
                24: "bound of the cumulative regret",
                25: "bound of the simple regret",
                26: "all rounds are no worse than the even ones",
            },
        ),
        *_left_out(
            "A step of the proof of Proposition 6.6.",
            {
                27: "eigenvalues of the squared exponential kernel",
                28: "sum of the eigenvalues that are left out",
                29: "a constant of the sum",
                30: "another constant of the sum",
                31: "rate of the gain, squared exponential kernel",
                32: "constant of the gain, Matern kernel",
            },
        ),
        *_left_out(
            "A step of the proof of Theorem 6.7.",
            {
                33: "regret of EXP3 in rewards",
                34: "regret of EXP3 in values of f",
                35: "regret of the random arm",
                36: "sum of both regrets",
                37: "cumulative regret of UHE-BO",
                38: "simple regret of the even rounds",
                39: "all rounds are no worse than the even ones",
            },
        ),
        *_left_out(
            ASSUMED,
            {
                "Assumption 6.1": "tails of the slopes",
                "Assumption 6.2": "a regular prior and a consistent estimate",
            },
        ),
        *_left_out(
            RATE,
            {
                "Proposition 6.3": "the loss of pseudo-data converges",
                "Theorem 6.4": "the hyperparameters converge",
                "Proposition 6.6": "information gain of two kernels",
                "Theorem 6.7": "simple regret of UHE-BO",
            },
        ),
        _computed(
            "Theorem 6.5",
            "the width beta_t (the regret is a rate)",
            "acquisition.random_exploration_beta",
            "acquisition/test_widths_of_theorems.py::test_theorem_6_5_of_random_exploration",
        ),
        _computed(
            "Algorithm 1",
            "UHE-BO",
            "strategies.uhe_bo",
            "strategies/test_random_or_acquire.py::test_is_algorithm_1",
        ),
        _computed(
            "Algorithm 2",
            "EXP3",
            "bandits.Exp3",
            "bandits/test_exp3.py::test_equals_a_loop_over_ten_thousand_rounds",
        ),
    ),
    num_equations=39,
    results={"Assumption": 2, "Proposition": 2, "Theorem": 3, "Algorithm": 2},
    unprinted=(4, 5, 6, 7),
)


# The paper with its supplement numbers (1) to (61). Eqs. (9) and (10), the sets
# M_(i), are cited by these numbers, which are not printed beside them.
TRUNCATED = "acquisition/truncated_variance"
OF_DOMAIN = "papers/test_truvar.py::test_moments_of_a_domain_equal_a_refit"
OF_ALGORITHMS = f"{TRUNCATED}/test_state.py::test_equals_the_printed_algorithms"
OF_COSTS = f"{TRUNCATED}/test_cost_bounds.py::test_the_bounds_satisfy_the_equations_of_the_theorem"
OF_COVERING = (
    f"{TRUNCATED}/test_cost_bounds.py::"
    "test_the_cost_is_that_of_greedy_sampling_under_unequal_noise_and_costs"
)
OF_LEAST_COST = (
    f"{TRUNCATED}/test_cost_bounds.py::test_greedy_covering_costs_little_more_than_the_cheapest"
)
OF_REDUCTION = f"{TRUNCATED}/test_gain.py::test_equals_the_printed_equation_by_refitting"
TIGHTER = "`cost_bounds` computes Eqs. (11) and (13) to (15), which are tighter."

TRUVAR = Paper(
    "Bogunovic2016truvar",
    _in_order(
        _computed(1, "posterior mean", "engine.DomainPosterior", OF_DOMAIN),
        _computed(2, "posterior variance", "engine.DomainPosterior", OF_DOMAIN),
        _computed(
            3,
            "reduction of truncated variances per cost",
            "acquisition.TruncatedVarianceReduction",
            OF_REDUCTION,
        ),
        _computed(
            4,
            "upper and lower bounds of f",
            "acquisition.TruncatedVarianceState.confidence_bounds",
            OF_ALGORITHMS,
        ),
        _computed(5, "points that may be a maximiser", "acquisition.Maximize", OF_ALGORITHMS),
        _computed(6, "points that are not classified", "acquisition.LevelSet", OF_ALGORITHMS),
        _computed(7, "points above and below the level", "acquisition.LevelSet", OF_ALGORITHMS),
        *_left_out(
            "A step towards Eqs. (9) and (10).", {8: "an upper bound is near f after an epoch"}
        ),
        _computed(9, "points near the maximum after an epoch", "acquisition.cost_bounds", OF_COSTS),
        _computed(10, "points near the level after an epoch", "acquisition.cost_bounds", OF_COSTS),
        _computed(
            11, "least cost of a deviation in a set", "acquisition.covering_cost", OF_LEAST_COST
        ),
        *_left_out(ASSUMED, {12: "variance reduction of a set of samples"}),
        _computed(13, "cost of an epoch", "acquisition.cost_bounds", OF_COSTS),
        _computed(
            14,
            "squared width of an epoch",
            "acquisition.GuaranteedWidth",
            f"{TRUNCATED}/test_epochs.py::test_widths",
        ),
        _computed(15, "cost of all epochs", "acquisition.cost_bounds", OF_COSTS),
        _computed(16, "the largest information gain", "acquisition.information_gain", OF_GAIN),
        *_left_out(
            TIGHTER,
            {17: "number of samples, equal noise and costs", 37: "number of samples, cruder"},
        ),
        _computed(
            18,
            "fall of the variances by a sample",
            "acquisition.truncated_variance.gain.gain",
            OF_REDUCTION,
        ),
        _computed(19, "variance at a candidate", "engine.DomainPosterior", OF_DOMAIN),
        _computed(20, "covariances with a candidate", "engine.DomainPosterior", OF_DOMAIN),
        _computed(
            21, "the covering problem of an epoch", "acquisition.covering_cost", OF_LEAST_COST
        ),
        _computed(
            22, "truncated gain of a set of samples", "acquisition.covering_cost", OF_COVERING
        ),
        _computed(23, "excess variance, as a difference", "acquisition.covering_cost", OF_COVERING),
        _computed(
            24, "excess variance, as a positive part", "acquisition.covering_cost", OF_COVERING
        ),
        *_left_out(
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
        _computed(
            33, "least number of samples, unit costs", "acquisition.covering_cost", OF_LEAST_COST
        ),
        _computed(34, "samples of an epoch, unit costs", "acquisition.cost_bounds", OF_COSTS),
        _computed(35, "squared width, unit costs", "acquisition.cost_bounds", OF_COSTS),
        _computed(36, "samples of all epochs, unit costs", "acquisition.cost_bounds", OF_COSTS),
        *_left_out(
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
        *_left_out(
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
        _computed(
            "Definition 3.1",
            "accuracy of the sets",
            "acquisition.truncated_variance.goals.Goal.accuracy",
            "papers/test_truvar.py::test_accuracy_is_the_least_epsilon_of_the_definition",
        ),
        *_left_out(ASSUMED, {"Assumption 3.1": "variance reduction is submodular"}),
        _computed(
            "Lemma C.1",
            "bounds at all points and times",
            "acquisition.bayesian_beta",
            "papers/test_truvar.py::test_all_tails_together_are_within_delta",
        ),
        _computed(
            "Theorem 3.1",
            "cost at which the sets are accurate",
            "acquisition.cost_bounds",
            f"{TRUNCATED}/test_cost_bounds.py::"
            "test_a_run_keeps_the_bounds_and_is_accurate_at_the_total",
        ),
        *_left_out(
            TIGHTER,
            {
                "Corollary 3.1": "number of samples, equal noise and costs",
                "Corollary D.1": "number of samples, cruder",
            },
        ),
        _computed(
            "Corollary 3.2",
            "noise levels to choose from (the cost is a rate)",
            "acquisition.NoiseLevels",
            f"{TRUNCATED}/test_sampling.py::test_noise_levels",
        ),
        _computed(
            "Algorithm 1", "TRUVAR: the epochs", "acquisition.TruncatedVarianceState", OF_ALGORITHMS
        ),
        _computed(
            "Algorithm 2",
            "TRUVAR: bounds and sets of a round",
            "acquisition.TruncatedVarianceState",
            OF_ALGORITHMS,
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


# The paper numbers (1) to (14), appendix included.
OF_LACING = "acquisition/test_lacing.py::test_lacing_values_equal_enumeration_and_exist"
OF_STABLE_OPT = "acquisition/test_lacing.py::test_level_to_zero_is_stable_opt"
OF_LIMIT = "papers/test_v_ucb.py::test_value_at_risk_falls_to_the_smallest_value"
OF_NETWORK = "acquisition/test_lnso.py::test_finds_the_best_quantile"
OF_POINTWISE = "papers/test_v_ucb.py::test_pointwise_bounds_equal_a_solve"

V_UCB = Paper(
    "Nguyen2021vucb",
    _in_order(
        _computed(
            1,
            "value-at-risk",
            "risk.ValueAtRisk",
            "risk/test_measures.py::test_value_at_risk_with_ties_and_atoms_is_exact",
        ),
        _computed(
            2,
            "posterior mean and variance at (x, w)",
            "acquisition.RiskUpperConfidenceBound.pointwise_bounds",
            OF_POINTWISE,
        ),
        _computed(
            3,
            "lower and upper bounds at (x, w)",
            "acquisition.RiskUpperConfidenceBound.pointwise_bounds",
            OF_POINTWISE,
        ),
        _computed(
            4,
            "regret by the band of the value-at-risk",
            "acquisition.certified_regret",
            "papers/test_v_ucb.py::test_the_band_of_the_value_at_risk_bounds_the_regret",
        ),
        _computed(5, "StableOpt's choice of w", "acquisition.select_lacing_value", OF_STABLE_OPT),
        _computed(
            6,
            "value-at-risk minimises the pinball loss",
            "acquisition.maximize_value_at_risk",
            "papers/test_v_ucb.py::test_value_at_risk_minimises_the_pinball_loss",
        ),
        _computed(
            7, "loss of the network in a ball", "acquisition.maximize_value_at_risk", OF_NETWORK
        ),
        _computed(
            8,
            "loss of a value that does not lace",
            "acquisition.select_lacing_value",
            "acquisition/test_lacing.py::"
            "test_continuous_distributions_are_ranked_by_the_loss_of_the_paper",
        ),
        *_left_out("A step of the proof of Eq. (4).", {9: "regret by two values-at-risk"}),
        *_left_out(
            "A step of the proof of Theorem 1.", {10: "probability below the lower value-at-risk"}
        ),
        *_left_out(
            "A step of the bound of the cumulative regret, a rate.",
            {11: "sum of deviations by the information gain"},
        ),
        _computed(12, "value-at-risk as its level goes to 0", "risk.ValueAtRisk", OF_LIMIT),
        _computed(13, "the limit reaches the smallest value", "risk.ValueAtRisk", OF_LIMIT),
        _computed(
            14, "loss of the network over a batch", "acquisition.maximize_value_at_risk", OF_NETWORK
        ),
        _computed("Definition 1", "lacing values", "acquisition.lacing_mask", OF_LACING),
        _computed(
            "Example 1",
            "where the values at both bounds do not lace",
            "acquisition.lacing_mask",
            "acquisition/test_lacing.py::test_example_1_of_the_paper",
        ),
        *_left_out(
            "Prose: `v_ucb(w_is_chosen=False)` is the case.",
            {"Remark 1": "w that the environment draws"},
        ),
        _computed(
            "Lemma 1",
            "the width beta_t of bounds at all (x, w)",
            "acquisition.rkhs_beta",
            "acquisition/test_widths_of_theorems.py::test_lemma_1_of_equal_noise",
        ),
        _computed(
            "Lemma 2",
            "the band of the value-at-risk",
            "acquisition.bayesian_beta",
            "acquisition/test_lacing.py::test_lemma_2_the_band_holds_the_value_at_risk",
        ),
        _computed(
            "Lemma 3",
            "regret by the width at the query",
            "acquisition.certified_regret",
            "acquisition/test_certificate.py::"
            "test_the_certificate_bounds_the_regret_of_every_function_within_the_bounds",
        ),
        _computed("Lemma 4", "value-at-risk grows with its level", "risk.ValueAtRisk", OF_LIMIT),
        _computed("Lemma 5", "the limit is below all levels", "risk.ValueAtRisk", OF_LIMIT),
        _computed("Lemma 6", "the limit is below all values", "risk.ValueAtRisk", OF_LIMIT),
        _computed("Lemma 7", "the limit is not below them all", "risk.ValueAtRisk", OF_LIMIT),
        _computed("Theorem 1", "a lacing value exists", "acquisition.lacing_mask", OF_LACING),
        _computed("Theorem 2", "the limit is the smallest value", "risk.ValueAtRisk", OF_LIMIT),
        _computed("Corollary 1.1", "where lacing values lie", "acquisition.lacing_mask", OF_LACING),
        _computed(
            "Corollary 2.1",
            "robust optimisation as the limit",
            "strategies.v_ucb",
            "strategies/test_v_ucb.py::test_level_to_zero_is_stable_opt",
        ),
        _computed(
            "Corollary 2.2",
            "V-UCB's w in the limit is StableOpt's",
            "acquisition.select_lacing_value",
            OF_STABLE_OPT,
        ),
        _computed(
            "Algorithm 1",
            "V-UCB",
            "strategies.v_ucb",
            "strategies/test_v_ucb.py::test_x_maximises_the_bound",
        ),
        _computed(
            "Algorithm 2",
            "local neural surrogate optimisation",
            "acquisition.maximize_value_at_risk",
            OF_NETWORK,
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


# The paper numbers (1) to (23), and (28) in its Appendix B. Its Propositions 3 and 4
# and its Theorems 3 and 4 are Propositions 1 and 2 and Theorems 1 and 2 again.
OF_DUAL = "papers/test_kde.py::test_the_worst_case_is_the_dual_program"
OF_WIDTH = "acquisition/test_widths_of_theorems.py::test_theorems_1_and_2_of_learnt_contexts"
SAMPLE_AVERAGE = "Convergence of a sample average at a rate with unknown constants."

KDE = Paper(
    "Huang2024kde",
    _in_order(
        _computed(
            1,
            "the expectation, of which regret is the loss",
            "test_functions.ExpectationTestProblem",
            "test_functions/test_expectation.py::test_expectation_equals_numpy",
        ),
        _computed(
            2,
            "kernel density of the contexts",
            "environments.density.KernelDensity",
            "environments/test_density.py::test_without_bounds_equals_scipy",
        ),
        *_left_out(METRIC, {3: "Bayesian cumulative regret"}),
        *_left_out(RATE, {4: "bound of SBO-KDE's regret"}),
        _computed(
            5,
            "worst expectation in a total-variation ball",
            "risk.total_variation_worst_case",
            OF_DUAL,
        ),
        _computed(
            6,
            "DRBO-KDE's acquisition function over samples",
            "strategies.drbo_kde",
            "papers/test_kde.py::test_drbo_kde_maximises_the_sampled_dual",
        ),
        *_left_out(
            "A step of the proof of Theorem 1.",
            {
                7: "three parts of the regret",
                8: "parts of the density's error",
                9: "part of the bound",
                10: "three parts of that part",
                11: "error of a grid of decisions",
                12: "f above its bound on the grid",
                13: "sum of the widths by the information gain",
            },
        ),
        _computed(
            14,
            "the ball's program in q",
            "risk.total_variation_worst_case",
            "risk/test_total_variation.py::test_equals_the_linear_program",
        ),
        *_left_out(
            "A step of the proof of Proposition 2.",
            {15: "its Lagrangian, point by point", 16: "the same by the conjugate"},
        ),
        _computed(17, "its dual program", "risk.total_variation_worst_case", OF_DUAL),
        *_left_out(
            "A step of the proof of Theorem 2.",
            {
                18: "five parts of the regret",
                19: "parts of the density and of the ball",
                20: "three parts of the rest",
                21: "error of a grid of decisions",
                22: "f above its bound on the grid",
                23: "sum of the widths by gain and radii",
            },
        ),
        _computed(
            28,
            "centres of Hartmann's function",
            "test_functions.EnvironmentalHartmann",
            "test_functions/test_expectation.py::test_function_equals_numpy",
        ),
        *_left_out(METRIC, {"Definition 1": "Bayesian cumulative regret"}),
        *_left_out(ASSUMED, {"Assumption 1": "tails of the slopes"}),
        *_left_out(RATE, {"Lemma 1": "error of the kernel density"}),
        *_left_out(
            SAMPLE_AVERAGE,
            {
                "Lemma 2": "sample average approximation in general",
                "Proposition 1": "sample average approximation of SBO-KDE",
                "Proposition 3": "Proposition 1 again",
            },
        ),
        *_left_out(
            "A step of the proof of Theorem 1.",
            {
                "Lemma 3": "the expected largest slope",
                "Lemma 4": "the expected largest value",
                "Lemma 5": "error of an expectation under the density",
                "Lemma 7": "f above its bound on the grid",
                "Lemma 8": "sum of the widths by the information gain",
            },
        ),
        _computed(
            "Lemma 6",
            "expected excess of f over its bound",
            "acquisition.learnt_context_beta",
            "papers/test_kde.py::test_the_expected_excess_over_the_bound_is_small",
        ),
        *_left_out(
            "A step of the proof of Theorem 2.",
            {
                "Lemma 9": "worst expectation of f above its bound's",
                "Lemma 10": "sum of the widths by gain and radii",
            },
        ),
        _computed(
            "Proposition 2",
            "worst expectation in a ball by its dual",
            "risk.total_variation_worst_case",
            OF_DUAL,
        ),
        _computed(
            "Proposition 4", "Proposition 2 again", "risk.total_variation_worst_case", OF_DUAL
        ),
        _computed(
            "Theorem 1",
            "the width beta_t of SBO-KDE (the regret is a rate)",
            "acquisition.learnt_context_beta",
            OF_WIDTH,
        ),
        _computed(
            "Theorem 2",
            "the width beta_t of DRBO-KDE (the regret is a rate)",
            "acquisition.learnt_context_beta",
            OF_WIDTH,
        ),
        _computed("Theorem 3", "Theorem 1 again", "acquisition.learnt_context_beta", OF_WIDTH),
        _computed("Theorem 4", "Theorem 2 again", "acquisition.learnt_context_beta", OF_WIDTH),
        _computed(
            "Algorithm 1",
            "SBO-KDE",
            "strategies.sbo_kde",
            "papers/test_kde.py::test_sbo_kde_maximises_the_sample_average",
        ),
        _computed(
            "Algorithm 2",
            "DRBO-KDE",
            "strategies.drbo_kde",
            "papers/test_kde.py::test_drbo_kde_maximises_the_sampled_dual",
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

PAPERS = (RAHBO, UHE_BO, TRUVAR, V_UCB, KDE)
