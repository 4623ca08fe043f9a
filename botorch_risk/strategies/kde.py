r"""SBO-KDE, DRBO-KDE and DRBO-MMD: the distribution of contexts is learnt from observations.

Each is `risk_search` with the environment and the risk of the acquisition function of the same
name. `ask` returns decisions; `tell` takes them with their observed contexts in the last columns.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.acquisition import named
from botorch_risk.acquisition.widths import Beta
from botorch_risk.arguments import check_arguments
from botorch_risk.risk import Expectation, RiskMeasure
from botorch_risk.strategies.risk_search import AS_IN_PAPERS, risk_search
from botorch_risk.strategies.space import Box
from botorch_risk.strategies.strategy import Strategy


def risk_kde(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    risk_measure: RiskMeasure | named.RiskSchedule,
    n_w: int = 256,
    density_options: dict[str, Any] | None = None,
    context_categories: Sequence[int] = (),
    beta: Beta = named.PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""Any risk under a kernel density of the contexts, Algorithm 1 of [Huang2024kde]_.

    SBO-KDE uses the expectation.

    Args:
        bounds: The lower and the upper bounds of the decisions, `2 x d_x`, or a `Box`.
        seeds: One seed per replicate.
        context_bounds: The lower and the upper bounds of the contexts, `2 x d_w`.
        risk_measure: Larger is better; or a schedule, `risk_measure(t, d_w)`, with t the number of
            the next evaluation, initial ones counted.
        n_w: Points that represent the density; the paper has 1,024 Monte-Carlo points, which 256
            quasi-random ones match.
        density_options: Further arguments of `KernelDensityEnvironment`. Contexts outside their
            bounds are refused unless `at_bounds` is `"clip"`.
        context_categories: The columns of contexts that are labels, from 0, coded by the whole
            numbers within their bounds. Their frequencies are learnt by `LabelFrequencies`, and
            each point of the density of the others is repeated for each label.
        beta: Squared width of the bound: a number, or a function of t.
        options: Further arguments of `risk_search`, such as `constraints` and `num_initial`.

    Raises:
        BotorchTensorDimensionError: If `context_bounds` is not `2 x d_w`.
        TypeError: If `risk_measure` is neither a measure nor a schedule.
        ValueError: If `n_w` is below 1, or `beta` negative or not finite.

    Example:
        >>> import torch
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> tail = ConditionalValueAtRisk(0.1)
        >>> strategy = risk_kde(unit, [0, 1], context_bounds=unit, risk_measure=tail, num_initial=4)
        >>> strategy.ask().shape
        torch.Size([2, 4, 1])
    """
    check_arguments(risk_kde, locals())
    density = named.kernel_density(context_bounds, n_w, density_options, context_categories)
    return risk_search(
        bounds, seeds, environment=density, risk_measure=risk_measure, beta=beta, **options
    )


def sbo_kde(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    n_w: int = 256,
    density_options: dict[str, Any] | None = None,
    context_categories: Sequence[int] = (),
    beta: Beta = named.PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""SBO-KDE: the expectation over a kernel density of the contexts, [Huang2024kde]_, Alg. 1.

    For arguments and errors see `risk_kde`.

    Example:
        >>> import torch
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> strategy = sbo_kde(unit, seeds=[0, 1], context_bounds=unit, num_initial=5)
        >>> decisions = strategy.ask()
        >>> observed = torch.cat([decisions, torch.rand(2, 5, 1, dtype=torch.double)], dim=-1)
        >>> strategy.tell(observed, (4 * observed).sin().sum(dim=-1, keepdim=True))
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """
    check_arguments(sbo_kde, locals())
    density = named.kernel_density(context_bounds, n_w, density_options, context_categories)
    options = {**AS_IN_PAPERS, **options}
    return risk_search(
        bounds, seeds, environment=density, risk_measure=Expectation(), beta=beta, **options
    )


def drbo_kde(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    n_w: int = 256,
    radius_scale: float = 1.0,
    density_options: dict[str, Any] | None = None,
    context_categories: Sequence[int] = (),
    beta: Beta = named.PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""DRBO-KDE: the worst distribution in a ball round the density [Huang2024kde]_, Eq. (5).

    A ball in total variation. Its radius at evaluation t, the initial ones counted, is
    `radius_scale * t^(-2 / (4 + d_w))`, in the paper's l1 units; d_w counts columns of labels too,
    although their frequencies are learnt faster. The infimum is over the points of the density and
    the same number of Sobol points in the whole box. For the other arguments and errors see
    `risk_kde`.

    Args:
        n_w: Points of the density, and of the box.
        radius_scale: Factor of the radius, >= 0; 1 in the paper.

    Raises:
        ValueError: If `radius_scale` is negative or not finite.

    Example:
        >>> import torch
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> drbo_kde(unit, seeds=[0, 1], context_bounds=unit, num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    check_arguments(drbo_kde, locals())
    density = named.kernel_density(
        context_bounds, n_w, named.with_ball(n_w, density_options), context_categories
    )
    ball = partial(named.total_variation_schedule, radius_scale=radius_scale)
    # Eq. (6), Algorithm 2
    options = {**AS_IN_PAPERS, **options}
    return risk_search(bounds, seeds, environment=density, risk_measure=ball, beta=beta, **options)


def drbo_mmd(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    num_points: int = 100,
    radius_scale: float = 1.0,
    kernel: Callable[[Tensor, Tensor], Tensor] | None = None,
    minimax: bool = False,
    context_categories: Sequence[int] = (),
    beta: Beta = named.PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""DRBO-MMD: the worst distribution in an MMD ball round the empirical one.

    [Kirschner2020drbo]_ as used in Sec. 4 of [Huang2024kde]_. Contexts are assigned to the nearest
    of about `num_points` grid points. The radius at evaluation t, the initial ones counted, is

        radius_scale * (2 + sqrt(2 log(1 / gamma))) / sqrt(t),  gamma = 0.1

    With the default kernel of unit amplitude this is close to the pure worst case for many rounds,
    so kernel and scale are arguments (the paper states neither). For the other arguments see
    `risk_kde`.

    Args:
        num_points: Points of the grid, rounded up to a power of `d_w`; the paper has 1,024 with
            the minimax approximation.
        radius_scale: Factor of the radius, >= 0.
        kernel: The kernel of the discrepancy. Default: a squared exponential of lengthscale 0.2 of
            the range of each context.
        minimax: Whether to maximise the minimax approximation of the worst case.
        context_categories: As in `risk_kde`: all columns of contexts or none. Labels need a
            `kernel`, and their frequencies are counted without a grid.

    Raises:
        BotorchTensorDimensionError: If `context_bounds` is not `2 x d_w`.
        UnsupportedError: If there are labels without a `kernel`, or numbers next to labels.
        ValueError: If `num_points` is below 1, or `beta` or `radius_scale` negative or not finite.

    Example:
        >>> import torch
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> drbo_mmd(unit, seeds=[0, 1], context_bounds=unit, num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    check_arguments(drbo_mmd, locals())
    if context_categories and kernel is None:
        raise UnsupportedError(
            "Expected a `kernel` of your own for labels, whose codes have no distance, such as "
            f"BoTorch's `CategoricalKernel`. Got {kernel=}, {context_categories=}."
        )
    grid = named.empirical_grid(context_bounds, num_points, context_categories)
    ball = partial(
        named.discrepancy_schedule,
        kernel=named.discrepancy_kernel(grid.context_bounds) if kernel is None else kernel,
        radius_scale=radius_scale,
        minimax=minimax,
    )
    # The kernel matrix of the grid stays; its factors take longer than all else of a round.
    options = {"uses_previous": minimax, **options}
    options = {**AS_IN_PAPERS, **options}
    return risk_search(bounds, seeds, environment=grid, risk_measure=ball, beta=beta, **options)
