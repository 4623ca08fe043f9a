r"""Acquisition functions for level-set estimation: where is the function above a level?"""

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.input_constructors import construct_from_own_arguments
from botorch_risk.acquisition.pointwise import (
    PointwiseAcquisitionFunction,
    as_finite,
    per_point,
    register_buffers,
    register_weights,
)
from botorch_risk.engine import Belief
from botorch_risk.models.hallucination import condition_on_mean
from botorch_risk.models.training_data import warn_if_unfitted
from botorch_risk.points import as_points


def straddle(
    mean: Tensor, variance: Tensor, threshold: float | Tensor, beta: float | Tensor = 1.96**2
) -> Tensor:
    r"""The distance by which a confidence interval extends across a level, at its nearer end.

        sqrt(beta) sigma - |mean - h| = min(upper - h, h - lower)

    The straddle heuristic and the ambiguity of GCHK are this score with different widths.

    Args:
        mean: `batch_shape x m`.
        variance: The variance, of the same shape.
        threshold: The level h.
        beta: Squared width.
    """
    return (beta * variance).sqrt() - (mean - threshold).abs()


@construct_from_own_arguments
class Straddle(PointwiseAcquisitionFunction):
    r"""The straddle, largest where f is uncertain and close to a level [Bryan2008straddle]_.

        score(x) = sqrt(beta) sigma(x) - |mean(x) - h|
                 = min(upper(x) - h, h - lower(x)),   bounds: mean -+ sqrt(beta) sigma

    The default is the straddle heuristic, `1.96 sigma`; `beta=9` is the ambiguity of GCHK
    [Gotovos2013lse]_, an algorithm that maximises it over the points that no earlier bounds have
    classified. The score is >= 0 exactly where the present bounds do not classify a point.
    (TRUVAR's appendix lacks the minus sign.) Single-outcome, q = 1: use `sequential=True`.

    Example:
        >>> import torch
        >>> from botorch_risk.examples import model
        >>> acqf = Straddle(model, threshold=0.5)
        >>> acqf(torch.rand(3, 1, 2, dtype=torch.double)).shape
        torch.Size([3])
    """

    threshold: Tensor
    beta: Tensor

    def __init__(
        self,
        model: Model,
        threshold: float | Tensor,
        beta: float | Tensor = 1.96**2,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Builds the acquisition function.

        Args:
            model: A fitted model with one output.
            threshold: The level h in units of the (transformed) outcome, a number or `batch_shape`.
            beta: Squared factor of sigma, >= 0, a number or `batch_shape`.
            posterior_transform: Reduces the model's outputs to one.
            X_pending: `batch_shape x n' x d` points under evaluation.
        """
        super().__init__(model=model)
        warn_if_unfitted(model)
        register_buffers(self, model, threshold=as_finite("threshold", threshold))
        register_weights(self, model, beta=beta)
        self.posterior_transform = posterior_transform
        self.set_X_pending(X_pending)

    def _condition(self, X_pending: Tensor | None) -> Belief:
        r"""Moments of the model given its own mean at pending points."""
        model = self.model if X_pending is None else condition_on_mean(self.model, X_pending)
        return Belief(model, self.posterior_transform)

    def score(self, X: Tensor) -> Tensor:
        r"""Scores at `batch_shape x m x d` points, `batch_shape x m`."""
        X = as_points(X, self.model)
        mean, variance = self._conditioned(X)
        return straddle(mean, variance, per_point(self.threshold, X), per_point(self.beta, X))
