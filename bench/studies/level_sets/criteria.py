r"""Criteria of other packages for the level set of a mean: contours of hetGPy, KrigInv, Trieste.

With posterior mean m and standard deviation s at x, a threshold t and the noise variance r:

    empirical error      Phi(-|m - t| / s)                                hetGPy `MEE`
    targeted variance    s^2 N(m; t, s^2 + 0.05)                          hetGPy `tMSE`
    error reduction      Phi(-|m - t| / s) - Phi(-|m - t| / s'),          hetGPy `cSUR`
                         s'^2 = s^2 r / (s^2 + r)
    contour uncertainty  -sum_z Phi(-|m(z) - t| / s'(z)),                 hetGPy `ICU`
                         s'(z)^2 = s(z)^2 - cov(x, z)^2 / (s(x)^2 + r)
    targeted integral    -sum_z s'(z)^2 N(m(z); t, s(z)^2)                KrigInv `timse`
    expected feasibility E[(a s - |f - t|)_+]                             KrigInv `bichon`, Trieste
    contour improvement  E[(a^2 s^2 - (f - t)^2)_+]                       KrigInv `ranjan`, Trieste

The sums run over the domain; outcomes are in units of their prior standard deviation. hetGPy's
`MCU`, `2 s - |m - t|`, is the straddle. Its `ICU` has the density of the normal distribution in the
place of Phi; here it is Phi, as in the paper.

Sources: Lyu, Binois and Ludkovski (2018), Picheny and others (2010), Bichon and others (2008),
Ranjan and others (2008).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from botorch_risk_bench.baselines.domain_search import Score
from torch import Tensor

from botorch_risk.posterior import DomainPosterior
from botorch_risk.strategies.method import View

TARGET_VARIANCE = 0.05  # of hetGPy's window, `seps`
WIDTH = 1.0  # a, the default of Trieste

cdf = torch.special.ndtr


def pdf(z: Tensor) -> Tensor:
    return (-z.square() / 2).exp() / (2 * torch.pi) ** 0.5


def empirical_error(gap: Tensor, s: Tensor) -> Tensor:
    r"""The probability that the sign of the posterior mean less the threshold is wrong."""
    return cdf(-gap.abs() / s)


def target_density(gap: Tensor, variance: Tensor) -> Tensor:
    return pdf(gap / variance.sqrt()) / variance.sqrt()


def targeted_variance(gap: Tensor, s: Tensor, r: Tensor) -> Tensor:
    return s.square() * target_density(gap, s.square() + TARGET_VARIANCE)


def error_reduction(gap: Tensor, s: Tensor, r: Tensor) -> Tensor:
    after = s * (r / (s.square() + r)).sqrt()
    return empirical_error(gap, s) - empirical_error(gap, after)


def expected_feasibility(gap: Tensor, s: Tensor, r: Tensor) -> Tensor:
    a = WIDTH
    z = -gap / s
    low, high = z - a, z + a
    inside = a * (cdf(high) - cdf(low)) + z * (cdf(high) + cdf(low) - 2 * cdf(z))
    return s * (inside + pdf(high) + pdf(low) - 2 * pdf(z))


def contour_improvement(gap: Tensor, s: Tensor, r: Tensor) -> Tensor:
    a = WIDTH
    z = -gap / s
    low, high = z - a, z + a
    inside = (a**2 - 1 - z.square()) * (cdf(high) - cdf(low)) - 2 * z * (pdf(high) - pdf(low))
    return s.square() * (inside + high * pdf(high) - low * pdf(low))


OF_A_POINT: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "empirical error": lambda gap, s, r: empirical_error(gap, s),
    "targeted variance": targeted_variance,
    "error reduction": error_reduction,
    "expected feasibility": expected_feasibility,
    "contour improvement": contour_improvement,
}


def contour_uncertainty(gap: Tensor, s: Tensor, after: Tensor) -> Tensor:
    return -empirical_error(gap, after).sum(dim=-1)


def targeted_integral(gap: Tensor, s: Tensor, after: Tensor) -> Tensor:
    return -(after.square() * target_density(gap, s.square())).sum(dim=-1)


OF_ALL_POINTS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "contour uncertainty": contour_uncertainty,
    "targeted integral": targeted_integral,
}


@dataclass(frozen=True)
class Criterion(Score):
    r"""A criterion of this module by its name."""

    name: str
    threshold: float

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        unit = posterior.prior_variance.sqrt().unsqueeze(-1)
        tiny = posterior.resolution.unsqueeze(-1).sqrt() / unit
        gap, r = (posterior.mean - self.threshold) / unit, noise / unit.square()
        s = (posterior.variance.sqrt() / unit).maximum(tiny)
        if self.name in OF_A_POINT:
            return OF_A_POINT[self.name](gap, s, r)
        covariance = posterior.covariance / unit.square().unsqueeze(-1)
        known = covariance.square() / (s.square() + r).unsqueeze(-1)  # R x |D| x |D|
        after = (s.square().unsqueeze(-2) - known).clamp_min(0).sqrt().maximum(tiny.unsqueeze(-1))
        return OF_ALL_POINTS[self.name](gap.unsqueeze(-2), s.unsqueeze(-2), after)
