r"""The numbered equations and results of UHE-BO."""

from tests.papers.equations.rows import (
    ASSUMED,
    DEFINES,
    OF_GAIN,
    RATE,
    WIDTHS,
    Paper,
    computed,
    in_order,
    left_out,
)

# arXiv:2306.06844 numbers (1) to (3) and, in the appendix, (8) to (39). Assumptions,
# propositions and theorems share one counter, 6.1 to 6.7.
OWN = "papers/test_equations_of_uhe_bo.py"
OF_LIKELIHOOD = f"{OWN}::test_the_loss_is_the_density_of_the_outcomes_times_the_prior"

UHE_BO = Paper(
    "Ha2023uhe",
    in_order(
        left_out(DEFINES, {1: "the maximiser of f", 8: "the prior of f, jointly normal"}),
        computed(
            "fit.PseudoDataMarginalLogLikelihood",
            "fit/test_pseudo_data.py::test_loss_equals_scipy",
            {2: "hyperparameters by the loss of pseudo-data"},
        ),
        computed(
            "fit.fit_pseudo_data",
            "papers/test_equations_of_uhe_bo.py::test_predictions_use_the_data_and_the_fit_of_pseudo_data",
            {3: "predictions from the data themselves"},
        ),
        computed(
            "fit.PseudoDataMarginalLogLikelihood",
            OF_LIKELIHOOD,
            {9: "log marginal likelihood", 10: "log posterior of the hyperparameters"},
        ),
        computed("papers.information_gain", OF_GAIN, {11: "the largest information gain"}),
        computed(
            "bandits.exploration_rate",
            "bandits/test_exp3.py::test_regret_on_bernoulli_arms_stays_below_its_bound",
            {12: "regret of EXP3 at its rate"},
        ),
        left_out(
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
        left_out(
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
        left_out(
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
        left_out(
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
        left_out(
            ASSUMED,
            {
                "Assumption 6.1": "tails of the slopes",
                "Assumption 6.2": "a regular prior and a consistent estimate",
            },
        ),
        left_out(
            RATE,
            {
                "Proposition 6.3": "the loss of pseudo-data converges",
                "Proposition 6.6": "information gain of two kernels",
                "Theorem 6.4": "the hyperparameters converge",
                "Theorem 6.7": "simple regret of UHE-BO",
            },
        ),
        computed(
            "papers.random_exploration_beta",
            f"{WIDTHS}::test_theorem_6_5_of_random_exploration",
            {"Theorem 6.5": "the width beta_t (the regret is a rate)"},
        ),
        computed(
            "papers.RandomOrAcquire",
            "papers/test_random_or_acquire.py::test_is_algorithm_1",
            {"Algorithm 1": "UHE-BO"},
        ),
        computed(
            "bandits.Exp3",
            "bandits/test_exp3.py::test_equals_a_loop_over_ten_thousand_rounds",
            {"Algorithm 2": "EXP3"},
        ),
    ),
    num_equations=39,
    results={"Assumption": 2, "Proposition": 2, "Theorem": 3, "Algorithm": 2},
    unprinted=(4, 5, 6, 7),
)
