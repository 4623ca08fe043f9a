r"""RAHBO: maximise mean minus noise variance, both learnt from repeats [Makarova2021rahbo]_.

Symbols of the paper, and names here:

    alpha           risk_aversion
    k               num_repeats
    rho^2(x)        the noise variance, `MeanVarianceGP.noise_posterior`
    beta_t          the square root of beta: it multiplies the standard deviation of f
    beta_t^var      the square root of noise_beta
    MV(x)           `RiskAverseUpperConfidenceBound.mean`, by the posterior

Equations and results, by what computes them:

    test_functions.HeteroscedasticTestProblem
        Eq. (1)         a reading is the mean plus noise that depends on x
    test_functions.HeteroscedasticTestProblem.mean_variance
        Eq. (2)         the objective, mean minus weighted variance
    models.MeanVarianceGP.posterior
        Eq. (5)         posterior mean of f
        Eq. (6)         posterior variance of f
    models.MeanVarianceGP.confidence_bounds
        Eq. (7)         upper bound of f
        Eq. (35)        upper bound of f under the cautious noise
        Eq. (36)        lower bound of f under the cautious noise
    papers.heteroscedastic_beta
        Eq. (8)         the width beta_t of the bounds of f
        Eq. (25)        beta_t by the largest information gain
        Lemma 1         bounds of f that hold in all rounds
    acquisition.RiskAverseUpperConfidenceBound
        Eq. (9)         the acquisition function under known noise
    papers.information_gain
        Eq. (10)        the largest information gain
        Eq. (11)        the information of readings, as a sum over readings
        Eq. (42)        largest information of sample means
        Eq. (44)        largest information of sample variances
    models.RepeatedOutcomes.from_repeats
        Eq. (12)        sample mean and sample variance of repeats
        Eq. (29)        a sample variance as a mean over pairs of repeats
        Eq. (30)        pairs of repeats, centred
        Eq. (31)        pairs of repeats give the sample variance
    models.MeanVarianceGP.noise_posterior
        Eq. (13)        a sample variance is the noise variance plus an error
        Eq. (32)        posterior mean of the noise variance
        Eq. (33)        posterior variance of the noise variance
    models.MeanVarianceGP.noise_confidence_bounds
        Eq. (14)        upper bound of the noise variance
        Eq. (15)        lower bound of the noise variance
    models.MeanVarianceGP.noise_of_means
        Eq. (16)        cautious noise variance of a mean of k repeats
    acquisition.RiskAverseLowerConfidenceBound.lower
        Eq. (18)        lower bound of the objective under known noise
        Eq. (38)        lower bound of the objective
    acquisition.RiskAverseUpperConfidenceBound.upper
        Eq. (19)        upper bound of the objective under known noise
        Eq. (37)        upper bound of the objective
    papers.information_of_readings
        Eq. (21)        the information, from entropies
        Eq. (24)        the information, as a ratio of determinants
        Eq. (41)        information of the sample means about f
        Eq. (43)        information of the sample variances about the noise
    recommend.recommend
        Corollary 1.1   the report with the largest lower bound of its own round
    papers.rahbo
        Algorithm 1     RAHBO

In your own loop, with a `model = MeanVarianceGP(train_X, train_Y)` that is fitted in every round:

    acqf = RiskAverseUpperConfidenceBound(model, beta=4.0, noise_beta=4.0, risk_aversion=alpha)

`strategy` has the loops of Algorithm 1 and of the baseline RAHBO-US; `widths` has the beta that the
theorems require.
"""

from .strategy import MeanVarianceSearch, Weights, rahbo, rahbo_us
from .widths import heteroscedastic_beta, information_gain, information_of_readings

__all__ = [
    "MeanVarianceSearch",
    "Weights",
    "heteroscedastic_beta",
    "information_gain",
    "information_of_readings",
    "rahbo",
    "rahbo_us",
]
