r"""Sample paths of risks, for any number of decisions and values of the environment."""

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
    `RobustModel`. The time and memory of an evaluation are linear in the number of points and of
    values of the environment, and quadratic for a joint distribution.

    The paths are by Matheron's rule [Wilson2020pathwise]_.
    """

    def __init__(self, robust: RobustModel, path: Any) -> None:
        super().__init__()
        self.robust, self.path = robust, path

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        self.path.set_ensemble_as_batch(ensemble_as_batch)

    def forward(self, X: Tensor, **kwargs: Any) -> Tensor:
        r"""Risks at decisions, `batch_shape x q`, or `batch_shape x m x q` for `m` risks.

        Decisions are `batch_shape x q x d_x`, or `batch_shape x 1 x q x d_x` for several
        risks, as BoTorch asks a model with several outputs. A sample shape of the path is
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
    return RobustPath(model, draw_matheron_paths(model.model, sample_shape=sample_shape, **options))
