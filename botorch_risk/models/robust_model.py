r"""A model of the risks of decisions, for the acquisition functions of BoTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model, ModelList
from botorch.sampling.pathwise.paths import SamplePath
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths, draw_matheron_paths
from torch import Tensor

from botorch_risk.arguments import check_numbers
from botorch_risk.engine import Belief
from botorch_risk.gradients import condition, conditioning_on, predicting_with
from botorch_risk.models.joint_posterior import JointPosterior
from botorch_risk.models.outcomes import (
    ModelOfRisks,
    check_outcomes,
    refuse_reduced,
    single_outcome,
)
from botorch_risk.models.risk_posterior import (
    Reduction,
    Reductions,
    RiskPosterior,
    SharedRisks,
    reduce_columns,
)
from botorch_risk.points import as_points, input_widths


def constant_rows(X: Tensor) -> int:
    r"""The number of leading points in a t-batch that are constant and shared by all entries.

    BoTorch's noisy acquisition functions put the evaluated points in front of the candidates.
    Results that depend only on these points need not be recomputed for each entry and step. The
    number is below `q`; for a single entry without a gradient it is `q - 1`.
    """
    most = _most_constant_rows(X)
    if most < 1:
        return 0
    rows = X.detach()[..., :most, :].reshape(-1, most, X.shape[-1])
    shared = (rows == rows[:1]).all(dim=-1).all(dim=0)
    return int(shared.long().cumprod(dim=0).sum())


def _most_constant_rows(X: Tensor) -> int:
    r"""The most that `constant_rows` can be, without a look at values."""
    if 0 in X.shape:
        return 0
    most = X.shape[-2] - 1
    return min(most, rows_without_gradient(X)) if X.requires_grad else most


def rows_without_gradient(X: Tensor) -> int:
    r"""The number of leading points that a concatenation took from a tensor without gradient.

    The node that made the tensor shows this: its first input has no gradient, and its backward pass
    gives the width of that input. For any other tensor with a gradient the answer is 0.
    """
    node: Any = X.grad_fn
    if node is None or node.name() != "CatBackward0" or node.next_functions[0][0] is not None:
        return 0
    with torch.no_grad():
        first = node(X.detach())[0]
    if first is None or first.shape != (*X.shape[:-2], first.shape[-2], X.shape[-1]):
        return 0
    return int(first.shape[-2])


class _Shared(NamedTuple):
    r"""Decisions that a t-batch shares, with what is kept of them."""

    rows: Tensor
    key: Any  # the risks and the posterior transform
    points: Tensor  # with all values of the environments
    risks: SharedRisks


MEMORY_LIMIT = 4.0  # GiB
_COPIES = 4  # of a joint covariance: itself, its factor, and as much again for the gradient
_KEPT = 4  # sets of shared decisions whose risks are remembered


class RobustModel(ModelOfRisks):
    r"""The risks of decisions as a model: its posterior is their joint distribution.

        sample(x) = risk_measure([f(x, w_j)]_j, weights_j),   f drawn jointly at all (x, w_j)

    BoTorch's Monte-Carlo acquisition functions use it like any model of the decision alone: the
    samples that objectives and constraints see are risks, `sample_shape x batch_shape x q x m`. The
    wrapped model is not changed, shares its parameters, and keeps its own transforms.

    The joint distribution at `q n_w` points needs memory quadratic in `n_w`, and time up to cubic.
    For a smooth density of one variable, 32 midpoints or nodes of a quadrature are better than
    1,024 random values. For many points use sample paths, whose cost is linear: BoTorch's
    `get_matheron_path_model(robust_model)`.

    For an exact GP with one output and no batch shape, leading decisions that a whole t-batch
    shares (the evaluated points of a noisy acquisition function) are sampled once, and
    hyperparameters have no gradient. Any other model is called by its own `posterior`.

    The risks of joint samples are as in [Cakmak2020risk]_.

    Args:
        model: A fitted model of (x, w), or of x for environments that perturb x. Its input
            transforms must keep the number of points.
        reductions: One for each output of this model.
        memory_limit: The maximum memory that a joint distribution may use, in GiB.

    Raises:
        UnsupportedError: If the model is a list, is reduced already, or expands a point to several;
            if a measure needs points and its environment has none.

    Example:
        >>> from botorch.acquisition.logei import qLogNoisyExpectedImprovement
        >>> from botorch_risk.examples import environment, inputs, model
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> robust = RobustModel(model, [Reduction(0, environment, ConditionalValueAtRisk(0.2))])
        >>> acqf = qLogNoisyExpectedImprovement(robust, X_baseline=inputs[:, :1])
        >>> acqf(torch.rand(3, 2, 1, dtype=torch.double)).shape
        torch.Size([3])
    """

    def __init__(
        self, model: Model, reductions: Sequence[Reduction], memory_limit: float = MEMORY_LIMIT
    ) -> None:
        super().__init__()
        _check_model(model)
        check_outcomes([each.outcome for each in reductions], model.num_outputs)
        check_numbers(memory_limit=memory_limit)
        if not memory_limit > 0:
            raise ValueError(f"Expected `memory_limit` > 0, in GiB. Got {memory_limit}.")
        self.model: Any = model
        self.risks = Reductions(reductions)
        self.memory_limit = memory_limit
        self._joint: tuple[Any, Any] | None = None
        self._shared: list[_Shared] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_joint": None, "_shared": []}

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        return self.risks.reductions

    @property
    def input_widths(self) -> tuple[int, ...] | None:
        r"""The required number of columns of decisions and environment, if known."""
        return input_widths(self.model)

    @property
    def num_outputs(self) -> int:
        return len(self.risks.reductions)

    @property
    def batch_shape(self) -> torch.Size:
        return self.model.batch_shape

    @property
    def _is_ensemble(self) -> bool:  # type: ignore[override]
        return bool(self.model._is_ensemble)

    @property
    def _is_fully_bayesian(self) -> bool:  # type: ignore[override]
        return bool(self.model._is_fully_bayesian)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> RiskPosterior:
        r"""The joint distribution of the risks of decisions.

        Args:
            X: Decisions, `batch_shape x q x d_x`.
            output_indices: The indices of the risks; all if omitted.
            observation_noise: Must be `False`: a risk is not observed.
            posterior_transform: Applied to the outcomes at every (x, w), before their risk is
                taken: a weight of -1 gives the risk of the negative outcome. Only for underlying
                models with one output.

        Raises:
            UnsupportedError: If noise is requested, a transform is given for several outcomes, or
                the joint distribution would use more memory than the limit.
        """
        if observation_noise is not False:
            raise UnsupportedError(
                "Expected `observation_noise=False`: outcomes are observed, risks are not. "
                f"Got {observation_noise!r}."
            )
        self._check_transform(posterior_transform)
        X = as_points(X, self.model)
        chosen = list(range(self.num_outputs)) if output_indices is None else output_indices
        if X.dim() < 2 or X.shape[-2] == 0:
            raise BotorchTensorDimensionError(
                f"Expected decisions `batch_shape x q x d_x` with q >= 1. Got {tuple(X.shape)}."
            )
        of_none = 0 in X.shape[:-1]  # of which nothing can be shared
        model = self._process_model
        is_exact = Belief.serves(model, posterior_transform) and not model.batch_shape
        if of_none or not is_exact:
            inputs, weights, columns = self.risks.expand(X, chosen, self.input_widths)
            self._check_memory(inputs, 0)
            if self._is_ensemble:  # whose members are the last dimension of the batch
                weights = [w.unsqueeze(-3) if w.dim() > 2 else w for w in weights]
            with predicting_with(model):
                posterior = self.model.posterior(
                    inputs.flatten(-3, -2), posterior_transform=posterior_transform
                )
            return RiskPosterior(posterior, columns, weights, X.shape[-2])
        return self._joint_posterior(X, chosen, posterior_transform)

    def risk_of_mean(
        self, X: Tensor, posterior_transform: PosteriorTransform | None = None
    ) -> Tensor:
        r"""The risks of the posterior mean, `batch_shape x m x num_outputs`, for a recommendation.

        Raises:
            UnsupportedError: If the model is an ensemble, or a list cannot be divided.
        """
        self._check_transform(posterior_transform)
        X = as_points(X, self.model)
        every = range(self.num_outputs)
        inputs, weights, columns = self.risks.expand(X, every, self.input_widths)
        alone = [single_outcome(self.model, i) for i in range(self.model.num_outputs)]
        predictors = [Belief(each, posterior_transform) for each in alone]
        means = [predict(inputs.flatten(-3, -2)).mean for predict in predictors]
        values = torch.stack(means, dim=-1).unflatten(-2, inputs.shape[-3:-1])
        return reduce_columns(values, weights, columns)

    def _joint_posterior(
        self, X: Tensor, chosen: list[int], posterior_transform: PosteriorTransform | None
    ) -> RiskPosterior:
        r"""The posterior for an exact GP: parts that a t-batch shares are computed once."""
        first = self._shared_rows(X)
        rest = X[..., len(first) :, :]
        inputs, weights, columns = self.risks.expand(rest, chosen, self.input_widths)
        constant = inputs.new_empty(0, inputs.shape[-1])
        shared = None
        if len(first):
            known = self._remember(first, chosen, posterior_transform)
            constant, shared = known.points, known.risks
        self._check_memory(inputs, len(constant))
        if self._joint is None or self._joint[0] is not posterior_transform:
            belief = Belief(self._process_model, posterior_transform)
            self._joint = posterior_transform, belief.sampler()
        posterior = JointPosterior(self._joint[1].block(constant), inputs.flatten(-3, -2))
        return RiskPosterior(posterior, columns, weights, X.shape[-2], shared)

    @property
    def _process_model(self) -> Any:
        return self.model._modules.get("mean_model", self.model)

    def _shared_rows(self, X: Tensor) -> Tensor:
        r"""The leading decisions that are constant and shared by the whole t-batch.

        If they begin as known ones do, the known ones, so that one set of samples serves all calls.
        """
        every = X.detach().reshape(-1, *X.shape[-2:])
        most = 0 if self.risks.batched else _most_constant_rows(X)
        known = [each.rows for each in self._shared if len(each.rows) <= most]
        if known:  # one look at all of them
            equal = torch.stack([(every[:, : len(each)] == each).all() for each in known]).tolist()
            found = [each for each, is_equal in zip(known, equal, strict=True) if is_equal]
            if found:
                return max(found, key=len)
        return every[0, : constant_rows(X) if most else 0]

    def _remember(
        self, rows: Tensor, chosen: list[int], posterior_transform: PosteriorTransform | None
    ) -> _Shared:
        key = tuple(chosen), posterior_transform
        for each in self._shared:
            if each.key == key and (each.rows is rows or torch.equal(each.rows, rows)):
                return each
        points, weights, _ = self.risks.expand(rows, chosen, self.input_widths)
        new = _Shared(rows.clone(), key, points.flatten(0, 1), SharedRisks(weights, len(rows)))
        self._shared = [new, *self._shared[: _KEPT - 1]]
        return new

    def _check_transform(self, posterior_transform: PosteriorTransform | None) -> None:
        if posterior_transform is not None and self.model.num_outputs != 1:
            raise UnsupportedError(
                "Expected no `posterior_transform` for a model with several outcomes: a transform "
                "would mix outcomes before the risks are taken. "
                f"Got {type(posterior_transform).__name__}."
            )

    def _check_memory(self, inputs: Tensor, num_constant: int) -> None:
        r"""Raise UnsupportedError, naming the n_w that fits, if the memory is too small."""
        q, n_w = inputs.shape[-3:-1]
        batch = inputs.shape[:-3].numel()
        if self._is_ensemble:
            batch *= self.batch_shape.numel()
        elif self.batch_shape:
            batch = torch.broadcast_shapes(inputs.shape[:-3], self.batch_shape).numel()
        unit = inputs.element_size() * _COPIES * self.model.num_outputs**2 / 2**30
        needed = unit * (batch * (q * n_w) ** 2 + num_constant**2)
        if needed > self.memory_limit:
            shared = num_constant // n_w
            # `needed`, a square of n_w times a constant, solved for n_w.
            fits = math.isqrt(int(self.memory_limit / unit / (batch * q**2 + shared**2)))
            raise UnsupportedError(
                f"Expected a joint distribution of at most {self.memory_limit:g} GiB. Got "
                f"{needed:.3g} GiB for {batch} x {q + shared} decisions, each with {n_w} values of "
                f"the environment. {fits} values fit: use fewer (a quadrature, midpoints), "
                "fewer decisions at once (BoTorch's `batch_limit`, `init_batch_limit`), sample "
                "paths (BoTorch's `get_matheron_path_model`), or raise `memory_limit`."
            )

    def subset_output(self, idcs: list[int]) -> RobustModel:
        return RobustModel(self.model, [self.reductions[i] for i in idcs], self.memory_limit)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> RobustModel:
        r"""The risks after observations of outcomes at inputs (x, w) of the underlying model."""
        return self._around(condition(self.model, X, Y, **kwargs))

    def fantasize(self, X: Tensor, sampler: Any, **kwargs: Any) -> RobustModel:
        r"""The risks after imagined observations at inputs (x, w) of the underlying model."""
        widths = self.input_widths
        if widths is not None and X.shape[-1] not in widths:
            raise BotorchTensorDimensionError(
                f"Expected inputs of the model, with {widths[0]} columns, to fantasize from. "
                f"Got {X.shape=}. Where w is appended to the decision, knowledge gradients choose "
                "w too: `qMultiFidelityKnowledgeGradient(model, project=lambda X: X[..., :d_x])`."
            )
        with conditioning_on(X):
            return self._around(self.model.fantasize(X=X, sampler=sampler, **kwargs))

    def _around(self, model: Model) -> RobustModel:
        return RobustModel(model, self.risks.reductions, self.memory_limit)


def _check_model(model: Model) -> None:
    r"""Raise UnsupportedError for models whose posterior is not one value per point."""
    refuse_reduced(model)
    if isinstance(model, ModelList):
        raise UnsupportedError(
            "Expected one model; for a list of models call `robust`, which wraps each model. "
            f"Got {type(model).__name__}."
        )
    transform: Any = model._modules.get("input_transform")
    if transform is not None and transform.is_one_to_many:
        raise UnsupportedError(
            "Expected a model without an input transform to several points: the environment makes "
            f"these points. Got {type(transform).__name__}; build the model of (x, w) without the "
            "transform, or use `RiskObjective`."
        )


class RobustPath(SamplePath):
    r"""Risks of a sample path of the outcome.

    BoTorch's `get_matheron_path_model` and `PathwiseThompsonSampling` draw such paths of a
    `RobustModel`. The time and memory of an evaluation are linear in the number of points and of
    values of the environment; for a joint distribution they are at least quadratic.

    The paths are drawn by Matheron's rule [Wilson2020pathwise]_.
    """

    def __init__(self, robust: RobustModel, path: Any) -> None:
        super().__init__()
        self.robust, self.path = robust, path

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        self.path.set_ensemble_as_batch(ensemble_as_batch)

    def forward(self, X: Tensor, **kwargs: Any) -> Tensor:
        r"""Risks at decisions, `batch_shape x q`, or `batch_shape x m x q` for `m` risks.

        Decisions are `batch_shape x q x d_x`, or `batch_shape x 1 x q x d_x` for several risks, the
        shape in which BoTorch evaluates a path of several outputs. The sample shape of the path is
        part of `batch_shape`.
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
