r"""The papers' acquisition functions by name, where the distribution of W is known.

The recipes are called as in `named`: with the model, what is known of W, and the round `t`.
"""

from __future__ import annotations

from typing import Any

from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.acquisition.widths import Beta, bayesian_beta, beta_of_round
from botorch_risk.environments import DiscreteEnvironment, Environment, InputPerturbation
from botorch_risk.risk import Expectation, ValueAtRisk, WorstCase


def v_ucb(
    model: Model,
    environment: Environment,
    t: int,
    *,
    risk_level: float,
    beta: Beta = bayesian_beta,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""V-UCB's choice of x: value-at-risk of the upper bound, [Nguyen2021vucb]_, Algorithm 1.

    `select_lacing_value` then finds the w to query.

    Args:
        model: A fitted model of (x, w) with one output; of x where it is perturbed.
        environment: The known distribution of W, or of the perturbation of x.
        t: The round, >= 1.
        risk_level: Lower-tail probability in (0, 1), the paper's alpha.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError: If pending decisions and the environment do not make the inputs
            of the model.
        UnsupportedError: If the model is one of risks already.
        ValueError: If the level is outside (0, 1), or `beta` negative or not finite.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> weather = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
        >>> v_ucb(model, weather, t=1, risk_level=0.1)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    measure = ValueAtRisk(risk_level)
    return RiskUpperConfidenceBound(model, environment, measure, beta_of_round(beta, t), **options)


def adversarial_stable_opt(
    model: Model, environment: Environment, t: int, *, beta: Beta = bayesian_beta, **options: Any
) -> RiskUpperConfidenceBound:
    r"""StableOpt as it was published: the worst w in a known set, Eq. (5) of [Nguyen2021vucb]_.

    The adversary's w, at the least lower bound, is `select_lacing_value(..., rule="uniform")`.

    Args:
        model: A fitted model of (x, w) with one output; of x where it is perturbed.
        environment: Its points of positive weight are the adversary's choices.
        t: The round, >= 1.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError: If pending decisions and the environment do not make the inputs
            of the model.
        UnsupportedError: If the model is one of risks already.
        ValueError: If `beta` is negative or not finite.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> weather = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
        >>> adversarial_stable_opt(model, weather, t=1)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    width = beta_of_round(beta, t)
    return RiskUpperConfidenceBound(model, environment, WorstCase(), width, **options)


def contextual_gp_ucb(
    model: Model, W: Tensor, t: int, *, beta: Beta = bayesian_beta, **options: Any
) -> RiskUpperConfidenceBound:
    r"""Contextual GP-UCB: the upper bound at the present context [Krause2011contextual]_.

    Args:
        model: A fitted model of (x, w) with one output.
        W: The context of each replicate, `batch_shape x 1 x d_w`.
        t: The round, >= 1.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError: If the shape of the context, or of pending decisions, does not
            fit.
        InputDataError: If a context is not finite.
        UnsupportedError: If the model is one of risks already.
        ValueError: If `beta` is negative or not finite.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> contextual_gp_ucb(model, X[:1, 1:], t=1)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    present, width = DiscreteEnvironment(W), beta_of_round(beta, t)
    return RiskUpperConfidenceBound(model, present, Expectation(), width, **options)


def gp_ucb(model: Any, t: int, *, beta: Beta, **options: Any) -> RiskUpperConfidenceBound:
    r"""GP-UCB, `mean + sqrt(beta) sigma`: the bound of the risk where nothing is at risk.

    Algorithm 1 of [Srinivas2010gpucb]_.

    Args:
        model: A fitted exact GP of x with one output, for one experiment or for replicates.
        t: The round, >= 1.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError: If pending points do not have the columns of the model.
        UnsupportedError: If the model is one of risks already.
        ValueError: If `beta` is negative or not finite.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> gp_ucb(model, t=1, beta=4.0)(torch.rand(3, 1, 2).double()).shape
        torch.Size([3])
    """
    X = model.train_inputs[0]
    unperturbed = InputPerturbation(X.new_zeros(1, X.shape[-1]))
    return RiskUpperConfidenceBound(
        model, unperturbed, Expectation(), beta_of_round(beta, t), **options
    )
