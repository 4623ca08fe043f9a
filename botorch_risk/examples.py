r"""Objects that the docstring examples share: two data sets with models, bounds, and a known W.

Attributes:
    unit: `2 x 1`, the bounds of one decision variable.
    inputs: `12 x 2`, one decision variable, then w.
    outcomes: `12 x 1`, the outcomes at the inputs.
    model: BoTorch's `SingleTaskGP` of the inputs and the outcomes.
    environment: Five equally likely values of w.
    settings: `10 x 1`, values of one decision variable.
    readings: `10 x 4`, four readings at each setting, whose noise grows with it.
    noisy_model: `MeanVarianceGP` of the settings and the readings.

Example:
    >>> from botorch_risk.acquisition import RiskUpperConfidenceBound
    >>> from botorch_risk.examples import environment, model
    >>> from botorch_risk.risk import Expectation
    >>> acqf = RiskUpperConfidenceBound(model, environment, Expectation(), beta=4.0)
    >>> acqf(torch.tensor([[[0.2]], [[0.8]]]).double()).shape
    torch.Size([2])
"""

import torch
from botorch.models import SingleTaskGP

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models import MeanVarianceGP

_generator = torch.Generator().manual_seed(0)

unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
inputs = torch.rand(12, 2, generator=_generator, dtype=torch.double)
outcomes = (4 * inputs).sin().sum(dim=-1, keepdim=True)
model = SingleTaskGP(inputs, outcomes)
environment = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
settings = torch.rand(10, 1, generator=_generator, dtype=torch.double)
_noise = torch.randn(10, 4, generator=_generator, dtype=torch.double)
readings = (6 * settings).sin() + settings * _noise
noisy_model = MeanVarianceGP(settings, readings)
