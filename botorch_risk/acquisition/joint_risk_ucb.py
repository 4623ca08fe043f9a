r"""A confidence bound of the risk itself, under the joint posterior over the environment."""

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.input_constructors import construct_from_own_arguments
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.arguments import check_counts
from botorch_risk.environments import Environment
from botorch_risk.gradients import differentiated
from botorch_risk.risk import RiskMeasure


@construct_from_own_arguments
class JointRiskUpperConfidenceBound(RiskUpperConfidenceBound):
    r"""Upper confidence bound of the risk, with outcomes at all values of W considered jointly.

        score(x) = E[ risk(f(x, W)) ] + sqrt(beta) sd[ risk(f(x, W)) ]

    over the posterior of f. `RiskUpperConfidenceBound` uses the risk of pointwise bounds, as if the
    outcomes at all values of W were at their bounds at once. If each reading shows one value of W,
    that bound hardly falls before all values have been read, and the search stays at one decision.
    The standard deviation of the risk falls with every informative reading. The bound is valid as
    far as the posterior of the risk is normal, which it is for measures that are linear in the
    outcomes. It does not hold uniformly over W.

    `mean` is the expected risk. The risk of the posterior mean would ignore that an unobserved tail
    may be worse than it seems. Both have a closed form for the expectation; otherwise they use
    `num_samples` joint samples over W, which is slow for a measure that solves an optimisation
    problem for each sample, such as a ball in maximum mean discrepancy. Under a squared-exponential
    kernel the samples have low rank and their gradient is a closed form. Single-outcome, q = 1: use
    `sequential=True` for a batch.

    Args:
        model: A fitted model of (x, w) with one output and a Gaussian posterior, or of x for an
            environment that perturbs x.
        environment: As in `RiskUpperConfidenceBound`, and so are the arguments not listed here.
        num_samples: Number of Sobol samples of the outcomes over W, best a power of 2.

    Raises:
        UnsupportedError: If the posterior of the model is not Gaussian, the measure needs points
            and the environment has none, or the model is one of risks already.

    Example:
        >>> from botorch.optim import optimize_acqf
        >>> from botorch_risk.acquisition import select_value
        >>> from botorch_risk.examples import environment, model, unit
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> risk = ConditionalValueAtRisk(0.2)
        >>> acqf = JointRiskUpperConfidenceBound(model, environment, risk, beta=4.0)
        >>> x, _ = optimize_acqf(acqf, unit, q=1, num_restarts=2, raw_samples=16)
        >>> select_value(model, environment, risk, x).shape  # what to query, if w can be chosen
        torch.Size([1, 2])
    """

    def __init__(
        self,
        model: Model,
        environment: Environment,
        risk_measure: RiskMeasure,
        beta: float | Tensor,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        num_samples: int = 64,
    ) -> None:
        check_counts(num_samples=num_samples)
        super().__init__(model, environment, risk_measure, beta, posterior_transform, X_pending)
        self.num_samples = num_samples

    # Named again: a subclass that overrides `score` alone gets the gradient by autograd.
    value_and_gradient = RiskUpperConfidenceBound.value_and_gradient  # of the score below

    def score(self, X: Tensor) -> Tensor:
        return self._bound(X, 1)

    def upper(self, X: Tensor) -> Tensor:
        return self._bound(X, 1)

    def lower(self, X: Tensor) -> Tensor:
        return self._bound(X, -1)

    def mean(self, X: Tensor) -> Tensor:
        r"""The expected risk, `batch_shape x m`."""
        return self.expected_risk(X)

    def _bound(self, X: Tensor, side: int) -> Tensor:
        outcomes, measure = self._conditioned, self.risk_measure

        def of_chunk(X: Tensor) -> Tensor:
            return outcomes.joint_bound(X, side * self._width(X), measure, self.num_samples)

        # A decision needs n_w^2 covariances and n_w x num_samples values: chunks count the larger.
        return outcomes.in_chunks(X, of_chunk, self._entries_of_moments)

    def _score_and_gradient(self, X: Tensor) -> tuple[Tensor, Tensor]:
        measure, outcomes = self.risk_measure, self._conditioned
        if measure.needs_samples and outcomes.is_direct(X, self._entries_of_moments):
            width = self._width(X)
            return outcomes.joint_bound_and_gradient(X, width, measure, self.num_samples)
        return differentiated(self.score, X)
