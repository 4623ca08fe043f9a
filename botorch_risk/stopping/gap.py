r"""What samples of the regret say of a recommendation."""

from dataclasses import dataclass

from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.arguments import as_floating, check_nonnegative, check_probability


@dataclass(frozen=True)
class Gap:
    r"""How far recommendations may be from the best, by the model; one entry per replicate.

    Attributes:
        gap: `R`, a bound that the regret exceeds with a probability of at most delta.
        probability: `R`, the probability that the regret is at most epsilon.
        expected_gain: `R`, the expected regret. Further rounds, however many, cannot gain more in
            expectation; if it is below the cost of a round, in the unit of the risk, none pays.
    """

    gap: Tensor
    probability: Tensor
    expected_gain: Tensor


def regret_gap(regret: Tensor, epsilon: float, delta: float = 0.05) -> Gap:
    r"""The gap of a recommendation, the probabilistic regret bound of [Wilson2024stopping]_.

        P(regret > gap) <= delta

    The probability is the model's, so the gap is no rule to stop by at a stated rate of error.
    bench/studies/stopping has 60 pairs of a function and a risk, with learnt hyperparameters. There
    95 % gaps contain 90 to 91 % of the regrets if they use samples of the hyperparameters, and 62
    to 74 % if they use a fit. Of 156 runs that end at a gap of a tenth of the first regret, 18 have
    a larger regret. With known hyperparameters, 4 of 80 runs do (at .3 or .1 of the first regret).
    `share_better` needs no model.

    If you look in several rounds, divide delta by their number. A probability below `1 / S` cannot
    be read from S samples: the gap is then their maximum.

    Args:
        regret: Samples of the regret, `R x S`, from `regret_samples`.
        epsilon: How far from the best a recommendation may be, >= 0, in the unit of the risk.
        delta: The probability of a regret above the gap, in (0, 1).

    Example:
        >>> import torch
        >>> regret = torch.tensor([[0.0, 0.01, 0.02, 0.03], [0.0, 0.1, 0.2, 0.3]])
        >>> found = regret_gap(regret, epsilon=0.1)
        >>> found.gap, found.probability
        (tensor([0.0300, 0.3000]), tensor([1.0000, 0.5000]))
    """
    regret = as_floating(regret, "regret")
    if not regret.dim() or not regret.shape[-1]:
        raise BotorchTensorDimensionError(
            "Expected `regret` to have shape `R x S`, with at least one sample. "
            f"Got {tuple(regret.shape)}."
        )
    if (regret < 0).any():
        raise ValueError(f"Expected `regret` of at least 0. Got {regret[regret < 0][0]}.")
    check_nonnegative(epsilon=epsilon)
    check_probability(delta=delta)
    gap = regret.quantile(1 - delta, dim=-1, interpolation="higher")
    probability = (regret <= epsilon).to(regret).mean(dim=-1)
    return Gap(gap, probability, regret.mean(dim=-1))
