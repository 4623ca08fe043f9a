r"""Every baseline, one line each; `test_contract.py` runs the laws of strategies over them."""

from functools import partial

from botorch.acquisition.risk_measures import CVaR
from botorch_risk_bench import baselines

from bench.tests.baselines.near_the_best import NearTheBest
from botorch_risk.constraints import RiskConstraint
from botorch_risk.fit.estimators import MaximumAPosteriori
from botorch_risk.risk import ConditionalValueAtRisk
from tests.strategies.cases import (
    NUM_REPEATS,
    OVEN,
    PAIRS,
    PROBLEM,
    SEASONS,
    StrategyCase,
    of_a_domain,
    of_chosen_repeats,
    of_contexts,
    of_mean_and_variance,
    of_mixed,
    of_mixed_contexts,
    of_objectives,
    of_outcomes,
    of_pairs,
    of_risks,
)

# All decisions meet it with confidence, so that nothing is said of a recommendation that fails.
_USED = [RiskConstraint.chance(PAIRS.environment, 1e3, outcome=1, delta=0.1)]
_TINY = {"n_w": 2, "num_samples": 2, "num_restarts": 1, "raw_samples": 2, "max_iterations": 1}
_FEW = {"num_restarts": 1, "raw_samples": 4, "max_iterations": 2}
_CVAR = ConditionalValueAtRisk(0.4)
_BOTORCH = {"risk_level": 0.4, "reference_point": (-5.0, -5.0), "n_w": 2, "num_samples": 2}

BASELINES = [
    of_mean_and_variance(baselines.heteroscedastic_gp_ucb),
    of_mean_and_variance(baselines.mean_variance_log_nei),
    of_chosen_repeats(baselines.bts_red, max_repeats=NUM_REPEATS),
    of_chosen_repeats(baselines.hetgp_horizon),
    of_outcomes(baselines.gp_ucb),
    *map(of_outcomes, (baselines.pseudo_data_gp_ucb, baselines.ra_bo, baselines.portfolio_exp3)),
    of_outcomes(baselines.random_exp3),
    of_outcomes(baselines.random_exp3, label="-gain", gain="sign"),
    of_outcomes(baselines.a_gp_ucb),
    of_outcomes(baselines.a_gp_ucb, label="-one-step", one_step=True),
    of_outcomes(baselines.wang_de_freitas_gp_ucb),
    # With the estimator of the others: NumPyro is an extra, and its own tests are slow.
    of_outcomes(baselines.fully_bayesian_gp_ucb, 1, estimator=MaximumAPosteriori(), sample_every=2),
    of_contexts(baselines.stable_opt, n_w=16),
    of_contexts(baselines.context_free_gp_ucb),
    of_pairs(baselines.adversarial_stable_opt),
    of_pairs(baselines.contextual_gp_ucb, risk_level=0.1),
    of_pairs(baselines.random_pairs, risk_level=0.1),
    of_pairs(baselines.v_ucb_by_likelihood, risk_level=0.1),
    of_pairs(
        baselines.v_ucb_by_surrogate, risk_level=0.1, num_samples=2, num_starts=1, raw_samples=4
    ),
    of_pairs(baselines.rho_knowledge_gradient, risk_level=0.1, num_fantasies=2, **_TINY),
    of_pairs(baselines.value_at_risk_log_nei, risk_level=0.1, **_TINY),
    of_risks(baselines.constrained_log_ei, constraints=_USED),
    of_risks(baselines.random_decisions, constraints=_USED),
    of_risks(baselines.botorch_risk_measure, objective=partial(CVaR, alpha=0.7), n_w=4),
    of_risks(baselines.ask_tell, optimizer=NearTheBest),
    of_risks(baselines.ask_tell, label="-chosen", optimizer=NearTheBest, w_is_chosen=True),
    StrategyCase(
        baselines.ask_tell, OVEN.bounds, {"optimizer": NearTheBest}, OVEN, 3, 3, label="-mixed"
    ),
    StrategyCase(baselines.ask_tell, PROBLEM.bounds, {"optimizer": NearTheBest}, label="-box"),
    of_mixed(baselines.gp_ucb),
    of_mixed_contexts(
        baselines.random_pairs, num_asked=4, environment=SEASONS.environment, risk_level=0.2
    ),
    of_objectives(baselines.random_pareto_search, risk_measures=[_CVAR, _CVAR]),
    of_objectives(baselines.conditional_value_at_risk_log_nehvi, **_BOTORCH, **_FEW),
    of_objectives(baselines.mars_log_nei, **_BOTORCH, **_FEW),
    of_a_domain(baselines.straddle_search, threshold=0.3),
    of_a_domain(baselines.gchk, threshold=0.3),
    *map(of_a_domain, (baselines.maximum_variance_search, baselines.expected_improvement_search)),
    *map(of_a_domain, (baselines.upper_confidence_bound_search, baselines.minimum_regret_search)),
    of_a_domain(baselines.max_value_entropy_search, batch_size=1),
    of_a_domain(baselines.predictive_entropy_search, batch_size=1, num_optima=2),
]

# Acquisition functions of BoTorch run replicate by replicate: seconds for each test.
SLOW = (
    baselines.botorch_risk_measure,
    baselines.constrained_log_ei,
    baselines.mean_variance_log_nei,
    baselines.rho_knowledge_gradient,
    baselines.value_at_risk_log_nei,
    baselines.conditional_value_at_risk_log_nehvi,
    baselines.mars_log_nei,
    baselines.predictive_entropy_search,
    baselines.v_ucb_by_surrogate,
)
