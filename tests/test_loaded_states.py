r"""A state that is loaded into a model in evaluation mode, with an input transform of its own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms.input import ChainedInputTransform, Normalize, Warp
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.engine import Belief, DomainPosterior, FastMarginals
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import Expectation
from botorch_risk.robust import robust

X = torch.rand(10, 2, generator=torch.Generator().manual_seed(0)).double()
Y = (5 * X).sin().sum(dim=-1, keepdim=True)
AT = torch.rand(6, 2, generator=torch.Generator().manual_seed(1)).double()
W = DiscreteEnvironment(AT[:3, 1:])


class OwnPosterior(SingleTaskGP):
    r"""A model that has no closed form as far as we know."""

    def posterior(self, X: Tensor, *args: Any, **options: Any) -> Any:
        return super().posterior(X, *args, **options)


def warped(power: float, kind: type[SingleTaskGP] = SingleTaskGP) -> SingleTaskGP:
    warp, unit = Warp(d=2, indices=[0, 1]), torch.tensor([[-0.1, 0.0], [1.1, 1.0]]).double()
    transform = ChainedInputTransform(unit=Normalize(2, bounds=unit), warp=warp)
    model = kind(X, Y, input_transform=transform)
    warp.concentration0.data.fill_(power)
    warp.concentration1.data.fill_(1 / power)
    model.covar_module.lengthscale = 0.3
    return model.eval().requires_grad_(False)


def of_decisions(model: Any) -> Tensor:
    return RiskUpperConfidenceBound(model, W, Expectation(), beta=0.0).evaluate(AT[:, :1])


VIEWS: dict[str, Callable[[Any], Tensor]] = {
    "Belief": lambda model: Belief(model)(AT).mean,
    "FastMarginals": lambda model: FastMarginals(model).posterior(AT.unsqueeze(1)).mean.flatten(),
    "FastMarginals of a list": lambda model: (
        FastMarginals(ModelListGP(model, model)).posterior(AT.unsqueeze(1)).mean.flatten()
    ),
    "DomainPosterior": lambda model: DomainPosterior(model, AT).mean,
    "RiskUpperConfidenceBound": of_decisions,
    "robust": lambda model: (
        robust(model, W, Expectation()).model.posterior(AT[:, None, :1]).mean.flatten()
    ),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_read_the_training_inputs_as_the_loaded_transform_makes_them(view: Any) -> None:
    expected, model = view(warped(2.5)), warped(1.0)
    before = view(model)
    model.load_state_dict(warped(2.5).state_dict())
    torch.testing.assert_close(view(model), expected)
    assert (before - expected).abs().max() > 0.1


@pytest.mark.parametrize("name", ["Belief", "RiskUpperConfidenceBound"])
def test_so_does_a_model_without_a_closed_form(name: str) -> None:
    expected, model = VIEWS[name](warped(2.5)), warped(1.0, OwnPosterior)
    model.load_state_dict(warped(2.5).state_dict())
    torch.testing.assert_close(VIEWS[name](model), expected)


def test_an_acquisition_function_that_was_made_before_follows() -> None:
    model = warped(1.0)
    acqf = RiskUpperConfidenceBound(model, W, Expectation(), beta=0.0)
    acqf.evaluate(AT[:, :1])
    model.load_state_dict(warped(2.5).state_dict())
    torch.testing.assert_close(acqf.evaluate(AT[:, :1]), of_decisions(warped(2.5)))
