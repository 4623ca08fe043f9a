r"""Sample paths of risks, for as many decisions and values of the environment as one likes."""

from __future__ import annotations

from typing import Any

import torch
from botorch.sampling.pathwise.paths import SamplePath
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths, draw_matheron_paths
from torch import Tensor

from botorch_risk.robust.model import RobustModel
from botorch_risk.robust.risk_posterior import reduce_columns


class RobustPath(SamplePath):
    r"""Risks of a sample path of the outcome.

    BoTorch's `get_matheron_path_model` and `PathwiseThompsonSampling` draw such paths of a
    `RobustModel`. Evaluating one takes time and memory linear in the number of points and of values
    of the environment, where a joint distribution takes the square.

    The paths are by Matheron's rule [Wilson2020pathwise]_.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> from botorch.sampling.pathwise import draw_matheron_paths
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> from botorch_risk.robust import Reduction
        >>> from botorch_risk.risk import WorstCase
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> weather = DiscreteEnvironment(torch.linspace(0, 1, 4, dtype=torch.double).unsqueeze(-1))
        >>> outcome = SingleTaskGP(X, X.sum(dim=-1, keepdim=True))
        >>> model = RobustModel(outcome, [Reduction(0, weather, WorstCase())])
        >>> path = draw_matheron_paths(model, sample_shape=torch.Size([3]))
        >>> path(torch.rand(3, 50, 1, dtype=torch.double)).shape  # 3 paths at 50 decisions each
        torch.Size([3, 50])
    """

    def __init__(self, robust: RobustModel, path: Any) -> None:
        r"""Wraps a path of the outcomes.

        Args:
            robust: The model of the risks.
            path: A sample path of its underlying model.
        """
        super().__init__()
        self.robust, self.path = robust, path

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        r"""Passed on to the path of the outcomes."""
        self.path.set_ensemble_as_batch(ensemble_as_batch)

    def forward(self, X: Tensor, **kwargs: Any) -> Tensor:
        r"""Risks at decisions.

        Args:
            X: `batch_shape x q x d_x`, or `batch_shape x 1 x q x d_x` where there are several
                risks, as BoTorch asks a model with several outputs.
            kwargs: Passed on.

        Returns:
            `batch_shape x q`, or `batch_shape x m x q` for `m` risks; a sample shape of the path is
            a part of the batch shape.
        """
        several = self.robust.num_outputs > 1
        X = X.squeeze(-3) if several else X
        chosen = range(self.robust.num_outputs)
        inputs, weights, columns = self.robust.risks.expand(X, chosen, self.robust.input_widths)
        flat = inputs.flatten(-3, -2)
        if self.robust.model.num_outputs > 1:
            values = self.path(flat.unsqueeze(-3), **kwargs).mT
        else:
            values = self.path(flat, **kwargs).unsqueeze(-1)
        risks = reduce_columns(values.unflatten(-2, inputs.shape[-3:-1]), weights, columns)
        return risks.mT if several else risks.squeeze(-1)


@DrawMatheronPaths.register(RobustModel)
def _draw_paths(model: RobustModel, sample_shape: torch.Size, **options: Any) -> RobustPath:
    r"""Draws paths of the outcomes and takes their risks."""
    return RobustPath(model, draw_matheron_paths(model.model, sample_shape=sample_shape, **options))
