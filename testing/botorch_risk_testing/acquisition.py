r"""The laws of acquisition functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.optim import optimize_acqf, optimize_acqf_discrete, optimize_acqf_mixed
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_risk.acquisition import PointwiseAcquisitionFunction
from botorch_risk.engine import PointwiseAcquisition
from botorch_risk_testing.data import BOUNDS, RepeatedData, of_decision, refresh, replicate
from botorch_risk_testing.laws import (
    Case,
    Laws,
    Report,
    by_pickle,
    each_entry,
    expect,
    expect_close,
    expect_error,
    expect_gradient,
    expect_kind,
    expect_same,
    numpy,
)

FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16, "options": {"maxiter": 5}}


@dataclass(frozen=True, kw_only=True)
class AcquisitionCase(Case):
    r"""An acquisition function of two inputs in the unit square; see `check_acquisition`."""

    build: Callable[..., Any]
    model: Callable[[RepeatedData], Any] = of_decision
    oracle: Callable[[Any, Any, Any], Any] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-7
    q: int = 1

    def data(
        self, batch_shape: tuple[int, ...] = (), dtype: torch.dtype = torch.float64
    ) -> RepeatedData:
        r"""The data of the model."""
        return RepeatedData.make(batch_shape, dtype=dtype, device=self.device)

    def made(self, *args: Any) -> Any:
        r"""The acquisition function of a batch shape and a dtype."""
        return _seeded(lambda: self.build(self.model(self.data(*args))))

    @cached_property
    def example(self) -> Any:
        r"""One acquisition function, to look at and not to change."""
        return self.made()

    @cached_property
    def takes_pending(self) -> bool:
        r"""Whether it accepts pending points."""
        try:
            self.made().set_X_pending(self.points(1))
        except UnsupportedError:
            return False
        return True

    def points(self, *shape: int, dtype: torch.dtype = torch.float64, seed: int = 1) -> Tensor:
        r"""Points `shape x 2` in the unit square."""
        return self.random(*shape, 2, seed=seed, dtype=dtype)

    def candidates(self, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        r"""`shape x q x 2`."""
        return self.points(*shape, self.q, dtype=dtype)


def _seeded(make: Callable[[], Any]) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


def pointwise(case: AcquisitionCase) -> bool:
    r"""Whether it has `evaluate`."""
    return case.q == 1 and isinstance(case.example, PointwiseAcquisition)


def _of_ours(case: AcquisitionCase) -> bool:
    return isinstance(case.example, PointwiseAcquisitionFunction)


def _has_oracle(case: AcquisitionCase) -> bool:
    return case.oracle is not None


def _is_single(case: AcquisitionCase) -> bool:
    return case.q == 1


def _takes_pending(case: AcquisitionCase) -> bool:
    return case.takes_pending


def _can_be_constructed(case: AcquisitionCase) -> bool:
    try:
        get_acqf_input_constructor(type(case.example))
    except RuntimeError:
        return False
    return True


LAWS = Laws()


@LAWS(lambda case: _has_oracle(case) and pointwise(case))
def evaluate_equals_the_oracle(
    case: AcquisitionCase, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    r"""`evaluate` gives the values of an independent, slow program, for each replicate."""
    acqf, data = case.made(batch_shape, dtype), case.data(batch_shape, dtype).cpu()
    X = case.points(*batch_shape, 5, dtype=dtype)
    values = acqf.evaluate(X)
    expect_kind("`evaluate`", values, (*batch_shape, 5), dtype, X)

    def single(index: tuple[int, ...]) -> Any:
        model = replicate(case.model, acqf.model, data, index)
        return case.oracle(model, numpy(data.Y[index]), numpy(X[index]))  # type: ignore[misc]

    tolerance = case.tolerance if dtype == torch.float64 else 2e-3
    expected = each_entry(batch_shape, single)
    expect_close("the oracle's value", values.double().cpu(), expected, tolerance)


@LAWS(_has_oracle)
def forward_equals_the_oracle(case: AcquisitionCase) -> None:
    r"""`forward` gives the values of an independent, slow program."""
    acqf, X = case.made(), case.points(6, 1)
    expected = case.oracle(acqf.model, numpy(case.data().Y), numpy(X.squeeze(-2)))  # type: ignore[misc]
    expected = torch.as_tensor(expected)
    expect_close("the oracle's value", acqf(X).cpu(), expected, case.tolerance)


@LAWS()
def forward_has_the_shape_of_the_t_batch(case: AcquisitionCase, dtype: torch.dtype) -> None:
    r"""Each entry of a t-batch has the value that it has alone: optimisers evaluate subsets."""
    acqf = case.made((), dtype)
    for t_batch in ((5,), (5, 3)):
        X = case.candidates(*t_batch, dtype=dtype)
        values = acqf(X)
        expect_kind("`forward`", values, t_batch, dtype, X)
        singly = each_entry(t_batch, lambda index, X=X: acqf(X[index]).squeeze(0)).to(values)  # type: ignore[misc]
        expect_close("the value of the entry alone", values, singly, tolerance=1e-4)
    shape = tuple(acqf(case.candidates(dtype=dtype)).shape)
    expect(shape == (1,), "candidates `q x d` to have one value, of shape (1,)", shape)


@LAWS()
def forward_takes_a_batch_of_models(case: AcquisitionCase, batch_shape: tuple[int, ...]) -> None:
    r"""Points `t x batch_shape x q x d` have values `t x batch_shape`."""
    shape = tuple(case.made(batch_shape)(case.candidates(4, *batch_shape)).shape)
    expect(shape == (4, *batch_shape), f"values of shape {(4, *batch_shape)}", shape)


@LAWS(pointwise)
def replicates_may_share_their_points(case: AcquisitionCase, batch_shape: tuple[int, ...]) -> None:
    r"""`evaluate` broadcasts, and the gradient is the sum over those who share a point."""
    acqf, X = case.made(batch_shape), case.points(4).requires_grad_()
    values, expected = acqf.evaluate(X), acqf.evaluate(X.expand(*batch_shape, 4, 2))
    expect_close("the values of points of their own", values, expected)
    weights = torch.linspace(-1, 2, values.numel()).reshape(values.shape).to(values)
    gradients = [torch.autograd.grad((weights * v).sum(), X)[0] for v in (values, expected)]
    expect_close("the gradient of points of their own", gradients[0], gradients[1])


@LAWS(_of_ours)
def values_and_gradients_are_those_of_autograd(
    case: AcquisitionCase, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    r"""`value_and_gradient` and `on_host` give what autograd gives, with pending points too."""
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    for num_pending in (0, 2):
        acqf = case.made(batch_shape, dtype)
        acqf.set_X_pending(case.points(*batch_shape, num_pending, dtype=dtype, seed=2))
        X = case.points(*batch_shape, 5, dtype=dtype)
        found = acqf.value_and_gradient(X)
        expect(not any(each.requires_grad for each in (*found, X)), "no graph", found)
        values = acqf.evaluate(X.requires_grad_())
        expected = (values.detach(), torch.autograd.grad(values.sum(), X)[0])
        for name, one, other in zip(("value", "gradient"), found, expected, strict=True):
            expect_close(f"the {name} of autograd", one, other, tolerance)
        if (on_host := acqf.on_host(5)) is not None:
            arrays = map(torch.as_tensor, on_host(X.detach().numpy()))
            for name, one, other in zip(("value", "gradient"), arrays, expected, strict=True):
                expect_close(f"the {name} of NumPy", one, other, tolerance)


@LAWS(pointwise)
def forward_is_evaluate_of_one_point_each(
    case: AcquisitionCase, batch_shape: tuple[int, ...]
) -> None:
    r"""`forward` of a t-batch is `evaluate` of its points."""
    acqf, X = case.made(batch_shape), case.points(6, *batch_shape, 1)
    expected = acqf.evaluate(X.squeeze(-2).movedim(0, -2)).movedim(-1, 0)
    expect_close("the value of `evaluate`", acqf(X), expected)


@LAWS(pointwise)
def no_points_have_no_values(case: AcquisitionCase) -> None:
    r"""An empty list of points gives an empty list of values, with a gradient."""
    for batch_shape in ((), (2,)):
        X = case.points(*batch_shape, 0).requires_grad_()
        values = case.made(batch_shape).evaluate(X)
        expect_kind("`evaluate`", values, (*batch_shape, 0), torch.float64, X)
        (gradient,) = torch.autograd.grad(values.sum(), X)
        expect(gradient.shape == X.shape, f"a gradient of shape {X.shape}", gradient.shape)


@LAWS(pointwise)
def whole_numbers_are_points(case: AcquisitionCase) -> None:
    r"""Points of integers have the values of the same floating-point numbers."""
    acqf, X = case.made(), torch.tensor([[[0, 1]], [[1, 1]]], device=case.device)
    expect_close("the value of floating-point numbers", acqf(X), acqf(X.double()))
    acqf.set_X_pending(X[0])
    pending = acqf(X)
    acqf.set_X_pending(X[0].double())
    expect_close("the value with pending integers", acqf(X.double()), pending)


@LAWS(_of_ours)
def other_columns_than_the_model_has_are_refused(case: AcquisitionCase) -> None:
    r"""One column would broadcast to both, and be answered."""
    message = r"have (the )?2 columns|make the 3 inputs of the model|batch_shape x m x 2"
    for batch_shape in ((), (2,)):
        acqf = case.made(batch_shape)
        for columns in (1, 3):
            X = case.points(*batch_shape, 4)[..., [0] * columns]
            call = lambda X=X, acqf=acqf: acqf.evaluate(X)  # noqa: E731
            expect_error(f"{columns} columns", BotorchTensorDimensionError, message, call)


@LAWS()
def gradients_are_those_of_finite_differences(case: AcquisitionCase) -> None:
    r"""Optimisers follow the gradient."""
    expect_gradient(case.made(), case.candidates(3))


@LAWS()
def values_are_repeatable_and_survive_pickling(case: AcquisitionCase) -> None:
    r"""Nothing is drawn when points are evaluated, and a copy by pickle has the same values."""
    acqf, X = case.made(), case.candidates(4)
    values = acqf(X)
    expect_same("the same value again", acqf(X), values)
    expect_same("the value after pickling", by_pickle(acqf)(X), values)


@LAWS()
def a_state_dict_holds_all_hyperparameters(case: AcquisitionCase) -> None:
    r"""No cache outlives the hyperparameters with which it was made."""
    acqf, X = case.made(), case.candidates(4)
    values, model = acqf(X), case.model(case.data())
    for parameter in model.parameters():
        parameter.data.add_(0.5)
    refresh(model)
    other = _seeded(lambda: case.build(model))
    other(X)
    other.load_state_dict(acqf.state_dict())
    expect_close("the value of what was loaded", other(X), values)


@LAWS(_takes_pending)
def pending_points_count_until_they_are_gone(case: AcquisitionCase) -> None:
    r"""A pending point changes the value close to it; without it all is as before."""
    acqf, X = case.made(), case.candidates(1)
    free = acqf(X)
    acqf.set_X_pending(X[0, :1] + 0.01)
    expect(not torch.equal(acqf(X), free), "another value next to a pending point", free)
    acqf.set_X_pending(None)
    expect_close("the value from before", acqf(X), free)


@LAWS(_is_single)
def botorch_optimisers_maximise_it(case: AcquisitionCase) -> None:
    r"""`optimize_acqf`, `optimize_acqf_discrete` and `optimize_acqf_mixed` run."""
    acqf, bounds = case.made(), torch.tensor(BOUNDS).to(case.points(1))
    value: Any
    X, value = optimize_acqf(acqf, bounds, q=1, **FAST)
    expect(X.shape == (1, 2), "one point `1 x 2` of `optimize_acqf`", tuple(X.shape))
    expect_close("the value of the point", value, acqf(X).squeeze())
    X, _ = optimize_acqf_discrete(acqf, q=1, choices=case.points(8))
    expect(X.shape == (1, 2), "one point `1 x 2` of `optimize_acqf_discrete`", tuple(X.shape))
    fixed = [{0: 0.0}, {0: 1.0}]
    X, _ = optimize_acqf_mixed(acqf, bounds, q=1, fixed_features_list=fixed, **FAST)
    expect(X[0, 0] in (0.0, 1.0), "a first column of 0 or 1", X)


@LAWS(lambda case: _is_single(case) and _takes_pending(case))
def a_sequential_batch_repeats_no_point(case: AcquisitionCase) -> None:
    r"""Each point of a batch sees those before it as pending."""
    acqf, bounds = case.made(), torch.tensor(BOUNDS).to(case.points(1))
    X, _ = optimize_acqf(acqf, bounds, q=4, sequential=True, **FAST)
    expect(X.shape == (4, 2), "four points of `optimize_acqf`", tuple(X.shape))
    expect(torch.pdist(X).min() > 1e-6, "four different points", X)
    expect(acqf.X_pending is None, "no pending points afterwards", acqf.X_pending)
    X, _ = optimize_acqf_discrete(acqf, q=2, choices=case.points(8))
    expect(X.shape == (2, 2), "two points of `optimize_acqf_discrete`", tuple(X.shape))


@LAWS(_can_be_constructed)
def the_input_constructor_has_the_defaults_of_the_class(case: AcquisitionCase) -> None:
    r"""Ax builds what a user builds."""
    acqf = case.made()
    built = _constructed(case, type(acqf))
    defaults = inspect.signature(type(acqf).__init__).parameters
    for name in built.keys() - {"model", *case.arguments}:
        default = defaults[name].default
        if default is not inspect.Parameter.empty:
            expect(built[name] == default, f"`{name}` to be {default!r}", repr(built[name]))


@LAWS(_can_be_constructed)
def the_input_constructor_takes_what_ax_passes(case: AcquisitionCase) -> None:
    r"""Ax passes the same to all acquisition functions, and pending points if there are some."""
    acqf, X, pending = case.made(), case.candidates(3), case.points(1, seed=5)

    def value(later: bool, **further: Any) -> Tensor:
        given = _constructed(case, type(acqf), X_baseline=case.data().X, **further)
        built = type(acqf)(**given)
        if later:
            built.set_X_pending(pending)
        return built(X)

    expect_kind("`forward`", value(later=False), (3,), torch.float64, X)
    if case.takes_pending:
        at_once = _seeded(lambda: value(later=False, X_pending=pending))
        expect_close(
            "the value of pending points that are set later",
            at_once,
            _seeded(lambda: value(later=True)),
        )


def _constructed(case: AcquisitionCase, kind: Any, **further: Any) -> dict[str, Any]:
    data = case.data()
    training_data = SupervisedDataset(
        data.X, data.means, feature_names=["x0", "x1"], outcome_names=["y"]
    )
    return get_acqf_input_constructor(kind)(
        model=case.model(data),
        training_data=training_data,
        bounds=[(0.0, 1.0), (0.0, 1.0)],
        **{**further, **case.arguments},
    )


@LAWS(_of_ours)
def more_points_at_once_name_the_way_out(case: AcquisitionCase) -> None:
    r"""What scores one point at a time says so."""
    message = r"q = 1 .* Got 2 points; pass `sequential=True`"
    expect_error("q = 2", UnsupportedError, message, lambda: case.made()(case.points(3, 2)))


def check_acquisition(
    build: Callable[[Any], Any], *, skip: Mapping[str, str] | None = None, **options: Any
) -> Report:
    r"""Checks an acquisition function against the laws that ours obey.

    The laws of `evaluate` apply to a `PointwiseAcquisition`, those of pending points if it takes
    some, and those of the input constructor if it has one.

    Args:
        build: Maps a model of two inputs to the acquisition function.
        skip: Laws that are known to be broken, and why.
        **options: `model`, which maps `RepeatedData` of `X: batch_shape x n x 2` and
            `Y: batch_shape x n x 4` to a model, by default a GP of the means; `oracle`, which maps
            an unbatched model, its repeats `n x 4` and points `m x 2` as arrays to `m` values;
            `tolerance` of the oracle; `q`, the number of points of a candidate, including the
            fantasies of a one-shot function; `arguments` that the input constructor requires;
            `batch_dims`, the maximum number of batch dimensions of its model, here 0; `device`;
            `name`.

    Returns:
        The laws that hold.

    Raises:
        LawsBrokenError: If a law does not hold; the message gives the expected and the found
            values.

    Example:
        >>> from botorch.acquisition import UpperConfidenceBound
        >>> report = check_acquisition(
        ...     lambda model: UpperConfidenceBound(model, beta=4.0),
        ...     skip={"the_input_constructor_takes_what_ax_passes": "it takes no `X_pending`"},
        ... )
        >>> "gradients_are_those_of_finite_differences" in report.held
        True
    """
    options = {"name": "the acquisition function", "batch_dims": 0, **options}
    return LAWS.check(AcquisitionCase(build=build, **options), skip)
