r"""Lengthscales shorter than estimated, for methods that distrust the estimate."""

from __future__ import annotations

import torch
from botorch.models import SingleTaskGP
from gpytorch.constraints import Positive
from gpytorch.kernels import ScaleKernel
from torch import Tensor


@torch.no_grad()
def divide_lengthscales(model: SingleTaskGP, factor: float | Tensor) -> SingleTaskGP:
    r"""Divides a fitted model's lengthscales, in place.

    What constraint they had is replaced: they may leave the range in which they were fitted.

    Args:
        model: The model, left in evaluation mode.
        factor: What to divide by, > 0: one for all replicates, or `batch_shape`.

    Returns:
        The model.

    Raises:
        ValueError: If a factor is not positive.

    Example:
        >>> X = torch.rand(5, 1, dtype=torch.double)
        >>> model = SingleTaskGP(X, X.sin())
        >>> before = model.covar_module.lengthscale.item()
        >>> round(before / divide_lengthscales(model, 2.0).covar_module.lengthscale.item(), 6)
        2.0
    """
    kernel = model.covar_module
    correlation = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    lengthscale = correlation.lengthscale.clone()
    factor = torch.as_tensor(factor).to(lengthscale)
    if not (factor > 0).all():
        raise ValueError(f"Expected `factor` > 0. Got {factor}.")
    correlation.register_constraint("raw_lengthscale", Positive())
    correlation.lengthscale = lengthscale / (factor[..., None, None] if factor.dim() else factor)
    model.train()  # caches of the posterior go
    return model.eval()


def expansion_factor(t: int, d: int, regret_exponent: float = 0.9) -> float:
    r"""By how much A-GP-UCB divides the lengthscales in round t, after [Berkenkamp2019agpucb]_.

        g(t) = t ** ((2 regret_exponent - 1) / (2 d))

    With lengthscales divided by g the squared norm of a function grows at most by `g^d`, Lemma 4 of
    [Bull2011rates]_, and the information gain as `g^d`. The bound on the regret, `sqrt(t gain)
    (norm + sqrt(gain))`, then grows as `sqrt(t) g^d`, and g is such that this is the reference
    `t^regret_exponent`, leaving out logarithms. [Berkenkamp2019agpucb]_ matches the two
    by a one-step prediction from the data instead, its Eq. (16), whose solution UHE-BO looks for on
    a grid; this is the simplest form of the idea, a function of t alone.

    Args:
        t: The round, >= 1.
        d: The number of inputs, >= 1.
        regret_exponent: Of the reference regret, in [0.5, 1); 0.9 in UHE-BO's comparison.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
        >>> expansion_factor(1, d=2), round(expansion_factor(100, d=2), 4)
        (1.0, 2.5119)
    """
    if not (t >= 1 and d >= 1 and 0.5 <= regret_exponent < 1):
        raise ValueError(
            "Expected `t` and `d` of at least 1 and `regret_exponent` in [0.5, 1). "
            f"Got {t=}, {d=}, {regret_exponent=}."
        )
    return t ** ((2 * regret_exponent - 1) / (2 * d))
