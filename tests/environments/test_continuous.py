r"""Continuous environments: bounded marginals and mixtures."""

import pickle

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from scipy.integrate import quad
from scipy.stats import kstest, norm, truncnorm
from torch.distributions import Beta, Cauchy, Gamma, Independent, Normal, Uniform

from botorch_risk.environments import ContinuousEnvironment, Mixture
from botorch_risk.environments.continuous import BoundedMarginals

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
QUARTERS = torch.tensor([[0.25], [0.75]], dtype=torch.double)
HALF = torch.tensor(0.5, dtype=torch.double)
COMPONENTS = [Normal(0.1 * HALF, 0.02), Normal(HALF, 0.1 * HALF), Cauchy(1.6 * HALF, 0.04 * HALF)]


def test_the_distribution_of_v_ucb_is_scipys_truncated_normal():
    distribution = ContinuousEnvironment(Normal(HALF, 0.125), QUARTERS, 64, rule="midpoints")
    scipys = truncnorm(-2, 2, 0.5, 0.125)
    np.testing.assert_allclose(
        distribution.points.flatten(), scipys.ppf((np.arange(64) + 0.5) / 64)
    )
    values = torch.linspace(0.25, 0.75, 9, dtype=torch.double).unsqueeze(-1)
    np.testing.assert_allclose(
        distribution.density.log_prob(values), scipys.logpdf(values.flatten())
    )
    assert distribution.density.log_prob(values + 0.51).tolist() == [-torch.inf] * 9
    samples = distribution.sample(5000, torch.Generator().manual_seed(0))
    assert kstest(samples.flatten().numpy(), scipys.cdf).pvalue > 1e-3


def test_clipped_mass_lies_on_the_bounds():
    distribution = ContinuousEnvironment(
        Normal(HALF, 0.25), UNIT, 66, rule="quadrature", beyond="clip"
    )
    assert distribution.points[0] == 0.0
    assert distribution.points[-1] == 1.0
    expected = norm.cdf(-2)
    assert distribution.weights[[0, -1]].tolist() == pytest.approx([expected, expected], abs=1e-10)
    samples = distribution.sample(100_000, torch.Generator().manual_seed(0))
    assert (samples == 0.0).double().mean().item() == pytest.approx(expected, abs=0.002)
    with pytest.raises(UnsupportedError, match=r"a distribution with a density\. Got a clipped"):
        distribution.density.log_prob(distribution.points)


def test_a_uniform_distribution_needs_no_more_than_its_bounds():
    box = torch.tensor([[0.0, -1.0], [1.0, 3.0]])
    distribution = ContinuousEnvironment(Uniform(*box), box, 256, seeds=0)
    torch.testing.assert_close(distribution.points.mean(dim=0), box.mean(dim=0), atol=0.01, rtol=0)
    assert (
        distribution.density.log_prob(distribution.points.double())
        .exp()
        .allclose(torch.tensor(0.25).double())
    )


def test_a_mixture_may_be_a_marginal():
    distribution = ContinuousEnvironment(Mixture(COMPONENTS), UNIT, 400, rule="quadrature")
    mixture = Mixture(COMPONENTS)

    def integrand(w):
        return np.sin(3 * w) * mixture.log_prob(torch.tensor(w, dtype=torch.double)).exp().item()

    mass = mixture.cdf(2 * HALF) - mixture.cdf(0 * HALF)
    expected = quad(integrand, 0, 1, points=[0.05, 0.5, 0.8], limit=200)[0] / mass.item()
    assert (distribution.weights @ (3 * distribution.points).sin()).item() == pytest.approx(
        expected, abs=1e-8
    )


@pytest.mark.parametrize("rule", ["sobol", "midpoints", "quadrature"])
def test_every_rule_beats_independent_draws(rule):
    def error(n_w, rule):
        distributions = [
            ContinuousEnvironment(Normal(HALF, 0.125), QUARTERS, n_w, s, rule) for s in range(20)
        ]
        means = [
            (distribution.weights @ (4 * distribution.points).exp()).item()
            for distribution in distributions
        ]
        exact = quad(lambda w: np.exp(4 * w) * truncnorm(-2, 2, 0.5, 0.125).pdf(w), 0.25, 0.75)[0]
        return np.sqrt(np.mean((np.array(means) - exact) ** 2))

    assert error(64, rule) < error(1024, "monte_carlo") / 4


def test_a_ball_adds_points_without_weight():
    distribution = ContinuousEnvironment(
        Normal(HALF, 0.01), UNIT, 16, seeds=[0, 1], rule="midpoints", n_ball=64
    )
    assert distribution.points.shape == (2, 80, 1)
    assert (distribution.weights[:, 16:] == 0).all()
    assert distribution.points[:, 16:].amax() > 0.95
    assert not torch.equal(distribution.points[0], distribution.points[1])


def test_the_distribution_is_pickled():
    distribution = pickle.loads(
        pickle.dumps(ContinuousEnvironment(Mixture(COMPONENTS), UNIT, 8, seeds=0))
    )
    assert distribution.sample(3, torch.Generator()).shape == (3, 1)


def test_refuses_marginals_that_do_not_fit():
    for marginals, message in (
        (Normal(torch.zeros(2), 1.0), r"batch shape \[\] or \[1\]"),
        (Independent(Normal(torch.zeros(1), 1.0), 1), r"Got .*event_shape=torch.Size\(\[1\]\)"),
        (Beta(HALF, HALF), "to have `cdf` and `icdf`. Got Beta"),
        (Gamma(HALF, HALF), "to have `cdf` and `icdf`. Got Gamma"),  # it has no quantiles
    ):
        with pytest.raises(UnsupportedError, match=message):
            ContinuousEnvironment(marginals, UNIT, 8, seeds=0)
    for no_distribution in (UNIT, UNIT.tolist(), "normal", Normal, None):
        with pytest.raises(TypeError, match="Expected `marginals` to be of type `Distribution`"):
            ContinuousEnvironment(no_distribution, UNIT, 4, seeds=0)


def test_refuses_bad_options():
    normal = Normal(HALF, 0.1)
    for options, message in (
        ({"n_w": 8}, "Expected `seeds` for rule='sobol'. Got seeds=None"),
        ({"n_w": 8, "rule": "midpoints", "n_ball": 4}, "Expected `seeds` for a ball"),
        ({"n_w": 8, "seeds": 0, "rule": "grid"}, "Expected `rule` to be one of"),
        ({"n_w": 8, "seeds": 0, "beyond": "fold"}, "Expected `beyond` to be one of"),
        ({"n_w": 3, "rule": "quadrature"}, "Expected enough nodes for the quadrature"),
        ({"n_w": 0, "seeds": 0}, "Expected `n_w` to be at least 1. Got 0"),
        ({"n_w": 0, "rule": "midpoints"}, "Expected `n_w` to be at least 1. Got 0"),
        ({"n_w": 2.5, "seeds": 0}, "Expected `n_w` to be an integer. Got 2.5"),
        ({"n_w": 8, "seeds": 0, "n_ball": -3}, "Expected `n_ball` to be at least 0. Got -3"),
        (
            {"n_w": 2, "rule": "quadrature", "beyond": "clip"},
            "at least 3 nodes on each axis for beyond='clip', .* Got 2",
        ),
        ({"n_w": 8, "seeds": [1, 1]}, "Expected one distinct seed per replicate"),
    ):
        with pytest.raises(ValueError, match=message):
            ContinuousEnvironment(normal, UNIT, **options)
    with pytest.raises(ValueError, match=r"fills a grid of 2 axes. Got 8; 9 would"):
        ContinuousEnvironment(normal, UNIT.expand(2, 2), 8, rule="midpoints")
    with pytest.raises(BotorchTensorDimensionError, match="`bounds` to have shape `2 x d`"):
        ContinuousEnvironment(normal, UNIT[0], 8)


NORMAL = Normal(torch.tensor(0.4, dtype=torch.double), 0.3)


def test_truncated_is_scipys_truncated_normal():
    bounded = BoundedMarginals(NORMAL, UNIT)
    scipys = truncnorm((0 - 0.4) / 0.3, (1 - 0.4) / 0.3, 0.4, 0.3)
    levels = torch.linspace(0.01, 0.99, 30, dtype=torch.double).unsqueeze(-1)
    np.testing.assert_allclose(bounded.from_uniforms(levels), scipys.ppf(levels), rtol=1e-9)
    values = torch.linspace(0, 1, 30, dtype=torch.double).unsqueeze(-1)
    np.testing.assert_allclose(bounded.log_prob(values), scipys.logpdf(values.flatten()))
    assert (bounded.log_prob(values + 1.01) == -torch.inf).all()
    assert (bounded.atoms == 0).all()
    assert kstest(bounded.sample((5000,)).flatten().numpy(), scipys.cdf).pvalue > 1e-3


def test_clipped_mass_is_that_of_scipys_tails():
    bounded = BoundedMarginals(NORMAL, UNIT, beyond="clip")
    tails = [norm(0.4, 0.3).cdf(0.0), norm(0.4, 0.3).sf(1.0)]
    assert bounded.atoms.flatten().tolist() == pytest.approx(tails)
    draws = bounded.sample((20_000,)).flatten()
    found = [(draws == bound).double().mean().item() for bound in (0.0, 1.0)]
    assert found == pytest.approx(tails, abs=0.01)
    inside = torch.tensor([[0.7]], dtype=torch.double)
    assert bounded.interior_log_density(inside).item() == pytest.approx(norm(0.4, 0.3).logpdf(0.7))
    with pytest.raises(UnsupportedError, match="positive probability at the bounds"):
        bounded.log_prob(inside)


def test_each_coordinate_has_its_own_box_and_distribution():
    loc = torch.tensor([0.0, 10.0], dtype=torch.double)
    box = torch.tensor([[-1.0, 9.0], [0.0, 12.0]], dtype=torch.double)
    bounded = BoundedMarginals(Normal(loc, 1.0), box)
    draws = bounded.sample((200,))
    assert draws.shape == (200, 2)
    assert ((draws >= box[0]) & (draws <= box[1])).all()
    values = torch.tensor([[-0.5, 11.0]], dtype=torch.double)
    each = [BoundedMarginals(Normal(loc[i], 1.0), box[:, i : i + 1]) for i in range(2)]
    expected = sum(one.log_prob(values[:, i : i + 1]) for i, one in enumerate(each))
    torch.testing.assert_close(bounded.log_prob(values), expected)


def test_refuses_a_box_without_mass():
    with pytest.raises(ValueError, match="Expected mass within the bounds"):
        BoundedMarginals(Normal(0.0, 1.0), UNIT + 50)
    with pytest.raises(ValueError, match="within the support"):
        BoundedMarginals(Uniform(0.0, 1.0), UNIT + 2)
    with pytest.raises(ValueError, match="Expected `beyond` to be one of"):
        BoundedMarginals(NORMAL, UNIT, beyond="fold")


@pytest.mark.parametrize("level", [1e-6, 0.1, 0.5, 0.95])
def test_quantiles_of_a_mixture_invert_its_cdf(level):
    mixture = Mixture(COMPONENTS)
    quantile = mixture.icdf(torch.tensor([level], dtype=torch.double))
    assert mixture.cdf(quantile).item() == pytest.approx(level, abs=1e-12)
    densities = [component.log_prob(quantile).exp().item() for component in COMPONENTS]
    assert mixture.log_prob(quantile).exp().item() == pytest.approx(np.mean(densities))


def test_quantiles_far_between_components_are_as_accurate_as_doubles_allow():
    mixture = Mixture([Normal(0.0 * HALF, 1.0), Normal(2e9 * HALF, 1.0)])
    quantile = mixture.icdf(torch.tensor([0.25], dtype=torch.double))
    assert quantile.item() == pytest.approx(0.0, abs=1e-7)


def test_density_is_the_mean_of_its_components():
    values = torch.linspace(-0.5, 1.5, 50, dtype=torch.double)
    expected = torch.stack([component.log_prob(values).exp() for component in COMPONENTS])
    torch.testing.assert_close(Mixture(COMPONENTS).log_prob(values).exp(), expected.mean(dim=0))


def test_refuses_components_that_do_not_fit():
    for components in ([], [Normal(HALF, 1.0), Normal(torch.zeros(2), 1.0)]):
        with pytest.raises(ValueError, match="Expected scalar distributions of one batch shape"):
            Mixture(components)
