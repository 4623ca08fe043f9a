r"""The process in the units of the outcome, on and off the domain, with gradients."""

from __future__ import annotations

import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from torch import Tensor

from botorch_risk.posterior import DomainPosterior
from tests.posterior.domains import build, dense, domain, truth


@dense
def test_transforms_and_inferred_noise(dense: bool) -> None:
    D = 10 * domain() - 3
    model = SingleTaskGP(
        D[:6], truth(D[:6]), outcome_transform=Standardize(1), input_transform=Normalize(2)
    )
    flipped = ScalarizedPosteriorTransform(torch.tensor([-2.0], dtype=torch.float64), offset=1.0)
    for transform in (None, flipped):
        posterior = DomainPosterior(model, D, dense=dense, posterior_transform=transform)
        with torch.no_grad():
            expected = model.posterior(D, posterior_transform=transform)
        torch.testing.assert_close(posterior.mean, expected.mean.squeeze(-1))
        torch.testing.assert_close(
            posterior.covariance, expected.distribution.covariance_matrix, rtol=1e-6, atol=1e-7
        )
        scale = model.outcome_transform.stdvs.item() * (1 if transform is None else 2)
        noise = model.likelihood.noise.item() * scale**2
        torch.testing.assert_close(posterior.inferred_noise(), torch.full((1, 40), noise).double())
        low, high = posterior.outcome_range
        y = truth(D[:6]) if transform is None else 1 - 2 * truth(D[:6])
        torch.testing.assert_close(torch.stack([low, high]), torch.stack([y.min(), y.max()]))
        given = posterior.copy()
        posterior.observe(20, 1.0)
        given.observe(
            20, 1.0, model.likelihood.noise.item() * model.outcome_transform.stdvs.item() ** 2
        )
        torch.testing.assert_close(posterior.variance, given.variance)


def test_off_the_domain_with_gradients() -> None:
    D = domain()
    posterior = DomainPosterior(build(D[:4], truth(D[:4]), 1e-3), D)
    posterior.observe(9, 2.0, 1e-3)
    columns = posterior.points(torch.tensor([[0, 9, 20]]))

    def moments(X: Tensor) -> tuple[Tensor, ...]:
        at = posterior.at(X)
        return at.mean, at.variance, posterior.cross_covariance(at, columns)

    torch.testing.assert_close(moments(D)[0][0], posterior.mean)
    torch.testing.assert_close(moments(D)[1][0], posterior.variance)
    torch.testing.assert_close(moments(D)[2][0], posterior.covariance[:, [0, 9, 20]])
    X = torch.rand(3, 2, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(moments, X)
    assert not posterior.at(X.detach()).mean.requires_grad
