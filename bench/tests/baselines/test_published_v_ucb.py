r"""V-UCB with the surrogate and with the likelihood of its authors."""

from typing import Any

import pytest
import torch
from botorch_risk_bench.baselines import v_ucb_by_likelihood, v_ucb_by_surrogate
from botorch_risk_bench.baselines.published_v_ucb import SMALLEST_NOISE
from botorch_risk_bench.experiments.papers.vucb import beta_as_width, strategies
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor
from torch.distributions import Uniform

from botorch_risk.acquisition import bayesian_beta
from botorch_risk.environments import ContinuousEnvironment
from botorch_risk.papers import v_ucb
from botorch_risk.strategies import Strategy
from botorch_risk.test_functions import ValueAtRiskBranin

BOUNDS = torch.tensor([[0.0], [1.0]], dtype=torch.double)
W = ContinuousEnvironment(Uniform(BOUNDS[0], BOUNDS[1]), BOUNDS, n_w=32, rule="midpoints")
SEEDS = [0, 1]
KNOWN: dict[str, Any] = {"environment": W, "risk_level": 0.2, "num_initial": 6}


def outcome(X: Tensor) -> Tensor:
    x, w = X[..., :1], X[..., 1:]
    return (5 * x).sin() + 2 * (w - 0.5) * (x - 0.3) + 7  # far from standardised


def play(strategy: Strategy, rounds: int) -> None:
    for _ in range(rounds):
        X = strategy.ask()
        strategy.tell(X, outcome(X))


def test_the_surrogate_finds_nearly_the_decision_of_the_points() -> None:
    options: Any = {"num_samples": 50, "num_starts": 3}
    surrogate, points = (
        v_ucb_by_surrogate(BOUNDS, SEEDS, **options, **KNOWN),
        v_ucb(BOUNDS, SEEDS, **KNOWN),
    )
    for each in (surrogate, points):
        play(each, 1)
    bound: Any = surrogate.belief
    X, best = (each.ask()[..., :1] for each in (surrogate, points))
    gap = bound.upper(best) - bound.upper(X)
    assert (gap.abs() < 0.05 * (bound.upper(best) - bound.lower(best))).all()
    assert (W.points == surrogate.ask()[..., 1:]).any(dim=-2).all()
    assert torch.equal(surrogate.ask(), surrogate.ask())


def estimates(strategy: Strategy) -> Tensor:
    model: Any = strategy.belief.model
    kernel = model.covar_module
    return torch.cat(
        [
            kernel.base_kernel.lengthscale.squeeze(-2),
            kernel.outputscale.unsqueeze(-1),
            model.likelihood.noise,
        ],
        dim=-1,
    ).detach()


def test_the_likelihood_is_maximised_every_third_round_without_priors() -> None:
    strategy = v_ucb_by_likelihood(BOUNDS, SEEDS, **KNOWN)
    play(strategy, 1)
    found = [estimates(strategy)]
    for _ in range(6):
        play(strategy, 1)
        found.append(estimates(strategy))
        assert len(strategy.belief.model.train_targets[0]) == 5 + len(found)
    for kept in (1, 2, 4, 5):
        assert torch.equal(found[kept], found[kept - 1])
    assert not torch.equal(found[3], found[2]) and not torch.equal(found[6], found[5])
    model: Any = strategy.belief.model
    assert [*model.named_priors()] == []
    assert not hasattr(model, "outcome_transform")
    assert (found[-1][:, -1] >= SMALLEST_NOISE * (1 - 1e-6)).all()  # a bound in float32
    assert (model.mean_module(torch.rand(2, 3, 2).double()) == 0).all()


def test_no_nearby_hyperparameters_are_likelier() -> None:
    strategy = v_ucb_by_likelihood(BOUNDS, SEEDS, refit_every=1, **KNOWN)
    play(strategy, 5)
    model: Any = strategy.belief.model
    objective = ExactMarginalLogLikelihood(model.likelihood, model).train()

    def value() -> Tensor:
        return objective(model(*model.train_inputs), model.train_targets)

    with torch.no_grad():
        best = value()
        for factor in (0.8, 1.25):
            kernel = model.covar_module.base_kernel
            kept = kernel.lengthscale.clone()
            kernel.lengthscale = (kept * factor).clamp(0.011, 99.0)
            assert (value() <= best + 1e-6).all()
            kernel.lengthscale = kept


def test_a_replay_believes_the_same() -> None:
    strategy, again = (v_ucb_by_likelihood(BOUNDS, SEEDS, **KNOWN) for _ in range(2))
    play(strategy, 5)
    again.load_state_dict(strategy.state_dict())
    assert torch.equal(strategy.ask(), again.ask())


def test_the_arms_have_the_widths_of_the_programs() -> None:
    problem = ValueAtRiskBranin("discrete")
    arms: Any = strategies(problem)
    for rule in ("Prob", "Unif"):
        assert arms[f"V-UCB-{rule}-constant-width"].keywords["beta"] ** 0.5 == 3.0
        width = arms[f"V-UCB-{rule}-beta-as-width"].keywords["beta"]
        assert width(7) ** 0.5 == pytest.approx(bayesian_beta(7))
    assert [round(beta_as_width(t) ** 0.5, 1) for t in (1, 60)] == [5.6, 22.0]
