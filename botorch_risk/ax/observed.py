r"""The number of readings and the context that Ax observed with an outcome."""

import functools
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from ax.adapter.data_utils import ExperimentData, extract_experiment_data
from ax.adapter.torch import TorchAdapter
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.search_space import SearchSpace, SearchSpaceDigest
from ax.core.types import TCandidateMetadata
from ax.exceptions.core import DataRequiredError, UserInputError
from botorch.exceptions.warnings import BotorchWarning, InputDataWarning
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_risk.arguments import as_floating, first_wrong, in_short
from botorch_risk.ax.contextual import ObservedDataset
from botorch_risk.ax.trials import STORED_DECIMALS, as_stored, pending_features, settled_data
from botorch_risk.models import MeanVarianceGP

COUNT_SUFFIX = "_count"


def count_name(metric: str) -> str:
    r"""The tracking metric with the number of readings of a metric."""
    return f"{metric}{COUNT_SUFFIX}"


class ObservedAdapter(TorchAdapter):
    r"""Ax's adapter of torch generators, extended by counts of readings and contexts.

    If the number of readings of a metric `y` is the tracking metric `y_count`, an arm that is tried
    again is one row with all its readings. A mean without a count is a single reading. If no mean
    has a count, standard errors are taken as known noise, as everywhere in Ax. A model that does
    not learn the noise from counts uses standard errors if all rows have one.

    The distribution of contexts is learnt from all trials that have ended with one,
    `observed_contexts`, whether they have an outcome or not. Data of failed, abandoned and running
    trials do not count.

    Each candidate uses the present objective, constraints and search space. Ax's stores keep ten
    decimals of metrics; metrics are rounded to these here. So an adapter that was fitted before and
    one of a loaded experiment agree; a warning says when the decimals matter.
    """

    @functools.wraps(TorchAdapter.__init__)  # type: ignore[misc]  # Ax reads the signature
    def __init__(self, **options: Any) -> None:
        self.generator = options["generator"]  # whose contexts the training data go without
        self._given = {name: options.get(name) for name in ("optimization_config", "search_space")}
        self._expands = options.get("expand_model_space", True)
        data = settled_data(options["experiment"], options.get("data"))
        self.observed_contexts = self._contexts_of(data)
        super().__init__(**{**options, "data": data})

    def get_training_data(self, filter_in_design: bool = False) -> ExperimentData:
        r"""The data that models are fitted to, without counts and contexts."""
        data = super().get_training_data(filter_in_design)
        columns = data.observation_data
        if "mean" not in columns:
            raise DataRequiredError("Expected a completed trial. Got none with data.")
        beside = [*(count_name(name) for name in columns["mean"]), *self._contexts]
        known = [name for name in beside if name in columns["mean"]]
        known += self._without_contexts(columns["mean"].drop(columns=known), columns["mean"])
        return ExperimentData(data.arm_data, columns.drop(columns=known, level=-1))

    def _without_contexts(self, means: pd.DataFrame, every: pd.DataFrame) -> list[str]:
        r"""Metrics that no trial has with the contexts, unless the optimisation needs them."""
        if not self._contexts:
            return []
        rows = every.reindex(columns=list(self._contexts)).notna().all(axis=1)
        config = self._optimization_config
        needed = set() if config is None else config.metric_names
        return [name for name in means if name not in needed and means[name][rows].isna().all()]

    @property
    def _contexts(self) -> tuple[str, ...]:
        return tuple(getattr(self.generator, "contexts", None) or ())

    def _contexts_of(self, data: Data) -> pd.DataFrame:
        r"""The contexts of all trials that have them, a column each, by trial and arm."""
        table = data.df[data.df["metric_name"].isin(self._contexts)]
        means = table.groupby(["trial_index", "arm_name", "metric_name"])["mean"].last()
        columns = means.unstack("metric_name").reindex(columns=list(self._contexts))
        return as_stored(columns.dropna())

    def gen(
        self,
        n: int,
        search_space: SearchSpace | None = None,
        optimization_config: OptimizationConfig | None = None,
        pending_observations: dict[str, list[ObservationFeatures]] | None = None,
        fixed_features: ObservationFeatures | None = None,
        model_gen_options: Any = None,
    ) -> GeneratorRun:
        r"""Candidates, given all arms that are pending or abandoned."""
        pending = pending_features(self._experiment, pending_observations)
        return super().gen(
            n,
            search_space,
            optimization_config,
            pending if any(pending.values()) else None,
            fixed_features,
            model_gen_options,
        )

    def _process_and_transform_data(
        self, experiment: Experiment, data: Data | None = None
    ) -> tuple[ExperimentData, SearchSpace]:
        data = settled_data(experiment, data)
        before = self.observed_contexts, self._model_space
        self.observed_contexts = self._contexts_of(data)
        # Ax keeps the objective of the first fit, and the space round the data of that time.
        self._optimization_config = (
            self._given["optimization_config"] or experiment.optimization_config
        )
        self._set_search_space(self._given["search_space"] or experiment.search_space)
        if self._expands:
            found = extract_experiment_data(experiment, self._data_loader_config, data)
            self._set_model_space(arm_data=found.arm_data)
        if not (self.observed_contexts.equals(before[0]) and self._model_space == before[1]):
            self._last_experiment_data = None  # by which Ax decides whether to fit again
        return super()._process_and_transform_data(experiment, data)

    def _convert_experiment_data(
        self,
        experiment_data: ExperimentData,
        outcomes: list[str],
        parameters: list[str],
        search_space_digest: SearchSpaceDigest | None,
    ) -> tuple[list[SupervisedDataset], list[str], list[list[TCandidateMetadata]] | None]:
        stored = experiment_data.observation_data.round(STORED_DECIMALS)
        as_stored(experiment_data.observation_data["mean"])  # warns of digits that are lost
        datasets, found, metadata = super()._convert_experiment_data(
            ExperimentData(experiment_data.arm_data, stored),
            outcomes,
            parameters,
            search_space_digest,
        )
        known = self._training_data.observation_data["mean"].round(STORED_DECIMALS)
        beside = known.reindex(stored.index)
        observed = []
        for dataset in datasets:
            name = dataset.outcome_names[0]
            rows = beside[~np.isnan(stored["mean"][name].to_numpy())]
            if self._contexts:
                values = _columns(rows, self._contexts).to(dataset.Y)
                every = _columns(self._within_bounds(), self._contexts).to(dataset.Y)
                dataset = with_contexts(dataset, values, every, self._contexts)
            elif count_name(name) in beside:
                counts = _columns(rows, [count_name(name)]).to(dataset.Y)
                dataset = with_counts(dataset, counts, [index[0] for index in rows.index])
            if self._learns_noise(name):
                _check_standard_errors(dataset, [index[0] for index in rows.index])
            else:
                dataset = with_known_noise(dataset)
            observed.append(dataset)
        return observed, found, metadata

    def _within_bounds(self) -> pd.DataFrame:
        r"""All contexts, those beyond their bounds at the nearest one, with a warning."""
        bounds = dict(zip(self._contexts, self._context_bounds, strict=False))
        known = self.observed_contexts.copy()
        for name, (lower, upper) in bounds.items():
            values = known[name]
            outside = values[(values < lower) | (values > upper)]
            if len(outside):
                told = ", ".join(f"{each:g} in trial {index[0]}" for index, each in outside.items())
                warnings.warn(
                    f"Expected the context {name!r} within its bounds [{lower:g}, {upper:g}]. Got "
                    f"{told}. The learnt distribution moves it to the nearest bound: correct the "
                    "data of the trial, or build the strategy with wider bounds.",
                    InputDataWarning,
                    stacklevel=2,
                )
                known[name] = values.clip(lower, upper)
        return known

    @property
    def _context_bounds(self) -> list[tuple[float, float]]:
        r"""The bounds of each context; None if the model has no contexts, or clips by itself."""
        spec = getattr(self.generator, "surrogate_spec", None)
        for config in [] if spec is None else spec.model_configs:
            options = config.model_options
            clips = (options.get("density_options") or {}).get("at_bounds") == "clip"
            if "context_bounds" in options and not clips:
                return list(options["context_bounds"])
        return []

    def _learns_noise(self, metric: str) -> bool:
        r"""Whether the model of a metric can use single readings among repeated ones."""
        spec = getattr(self.generator, "surrogate_spec", None)
        if spec is None:
            return False
        configs = spec.metric_to_model_configs.get(metric, spec.model_configs)
        return any(config.botorch_model_class is MeanVarianceGP for config in configs)


def _columns(table: Any, names: Sequence[str]) -> Tensor:
    r"""Metrics as columns, NaN where one was not observed."""
    return torch.tensor(table.reindex(columns=list(names)).to_numpy(dtype=float))


def _check_standard_errors(dataset: SupervisedDataset, trials: Sequence[int]) -> None:
    r"""Raise UserInputError if, without counts, a standard error is missing or not positive."""
    if dataset.Yvar is None or getattr(dataset, "counts", None) is not None:
        return
    squares = dataset.Yvar.flatten().tolist()
    wrong = {index: square for index, square in zip(trials, squares, strict=True) if not square > 0}
    if wrong:
        told = ", ".join(f"{math.sqrt(each)} in trial {index}" for index, each in wrong.items())
        raise UserInputError(
            f"Expected positive standard errors of {dataset.outcome_names[0]!r} in every trial, or "
            f"in none. Got {told}: complete these trials again with positive errors, or all trials "
            "with counts, as `readings` makes them."
        )


def with_known_noise(dataset: SupervisedDataset) -> SupervisedDataset:
    r"""A dataset with all its standard errors, or with none if one is missing.

    A model then learns one noise level for all rows.
    """
    if dataset.Yvar is None or dataset.Yvar.isfinite().all():
        return dataset
    kept = dataset.clone()
    kept._Yvar = None
    return kept


def with_contexts(
    dataset: SupervisedDataset, contexts: Tensor, every: Tensor, names: Sequence[str]
) -> ObservedDataset:
    r"""A dataset with the contexts of its rows; rows without one are left out, with a warning.

    Args:
        dataset: Means, `n x 1`.
        contexts: `n x d_w`, NaN where one is missing.
        every: `t x d_w`, the contexts of all trials, likewise.
        names: The names of the contexts.

    Raises:
        UserInputError: If no row has its contexts.
    """
    known = contexts.isfinite().all(dim=-1)
    if not known.any():
        raise UserInputError(
            f"Expected the contexts {list(names)} as tracking metrics next to "
            f"{dataset.outcome_names[0]!r}. Got none in {len(contexts)} trials."
        )
    if not known.all():
        warnings.warn(
            f"Expected the contexts {list(names)} in every trial. Got {int((~known).sum())} "
            "without, which the model leaves out.",
            BotorchWarning,
            stacklevel=2,
        )
    return ObservedDataset(
        dataset.X[known],
        dataset.Y[known],
        contexts=contexts[known],
        every_context=every[every.isfinite().all(dim=-1)],
        Yvar=None if dataset.Yvar is None else dataset.Yvar[known],
        feature_names=dataset.feature_names,
        outcome_names=dataset.outcome_names,
    )


def with_counts(
    dataset: SupervisedDataset, counts: Tensor, trials: Sequence[int] | None = None
) -> SupervisedDataset:
    r"""A dataset with the number of readings of each row; repeated arms are pooled.

    Args:
        dataset: Means and squared standard errors, `n x 1` each.
        counts: `n x 1` numbers of readings, NaN where it is not known.
        trials: The trial of each row, for messages.

    Returns:
        `ObservedDataset`, or the dataset itself if no count is known.

    Raises:
        UserInputError: If a count is not a whole number of at least 1, or a mean of several
            readings has no standard error.
    """
    name = dataset.outcome_names[0]
    if not counts.isfinite().any():
        return dataset
    counts = counts.nan_to_num(1.0)

    def first(rows: Tensor) -> tuple[int, str]:
        row = int(rows.int().argmax())
        return row, "" if trials is None else f" in trial {trials[row]}"

    if (wrong := ((counts < 1) | (counts != counts.round())).flatten()).any():
        row, where = first(wrong)
        raise UserInputError(
            f"Expected {count_name(name)!r} to be whole numbers of at least 1. Got "
            f"{counts[row].item()}{where}."
        )
    squares = torch.full_like(dataset.Y, torch.nan) if dataset.Yvar is None else dataset.Yvar
    without = ((counts > 1) & ~squares.isfinite()).flatten()
    if without.any():
        row, where = first(without)
        raise UserInputError(
            f"Expected a standard error of the mean {dataset.Y[row].item()} of {name!r}{where}, "
            f"which stands for {counts[row].item():g} readings: complete the trial with (mean, "
            "sem), as `readings` makes them. Got none."
        )
    within = ((counts - 1) * counts * squares).masked_fill(counts == 1, 0.0)
    X, arms = dataset.X.unique(dim=0, return_inverse=True)
    earliest = torch.full((len(X),), len(arms)).scatter_reduce(
        0, arms, torch.arange(len(arms)), reduce="amin"
    )
    order = earliest.argsort()  # arms in the order in which they came
    rank = order.argsort()[arms].unsqueeze(-1)

    def pooled(values: Tensor) -> Tensor:
        return torch.zeros(len(X), 1).to(values).scatter_add(0, rank, values)

    total = pooled(counts)
    mean = pooled(counts * dataset.Y) / total
    between = counts * (dataset.Y - mean[rank.squeeze(-1)]).square()
    variance = pooled(within + between) / (total - 1)  # of a reading; NaN where there is one
    return ObservedDataset(
        X[order],
        mean,
        counts=total,
        Yvar=variance / total if (total > 1).any() else None,
        feature_names=dataset.feature_names,
        outcome_names=dataset.outcome_names,
    )


def readings(
    values: Mapping[str, float | Sequence[float]],
) -> dict[str, float | tuple[float, float]]:
    r"""Convert several readings of a trial for `Client.complete_trial`.

    The number of readings is a tracking metric, `purity_count` for `purity`, from which our models
    learn the noise: the sample variance is `count * sem**2`. Declare this metric once, by
    `client.configure_tracking_metrics(["purity_count"])`.

    Args:
        values: The readings of each metric, or a single number, whose count is not stored. NaN is a
            reading that failed.

    Returns:
        Means with standard errors, and counts.

    Raises:
        ValueError: If a metric has no reading left, or one is not finite.

    Example:
        >>> readings({"purity": [1.0, 3.0], "cost": 4.0})
        {'purity': (2.0, 1.0), 'purity_count': 2, 'cost': 4.0}
    """
    found: dict[str, float | tuple[float, float]] = {}
    for name, value in values.items():
        given = as_floating(value, name)
        if given.dim() > 1:
            raise ValueError(
                f"Expected a list of the readings of {name!r}, or one number. Got {value!r}."
            )
        known = [each for each in given.reshape(-1).tolist() if not math.isnan(each)]
        if (infinite := given.isinf()).any():
            wrong = first_wrong(given, ~infinite)
            raise ValueError(f"Expected finite readings of {name!r}. Got {wrong}.")
        if not known:
            raise ValueError(f"Expected a reading of {name!r}. Got {in_short(given)}.")
        if given.dim() == 0:
            (found[name],) = known
            continue
        count = len(known)
        mean = math.fsum(each / count for each in known)  # of which no sum overflows
        found[name] = mean if count == 1 else (mean, _standard_error(known, mean))
        found[count_name(name)] = count
    return found


def _standard_error(known: Sequence[float], mean: float) -> float:
    r"""The standard error of a mean, in units in which no square overflows."""
    unit = max(abs(each - mean) for each in known) or 1.0
    squares = math.fsum(((each - mean) / unit) ** 2 for each in known)
    return unit * math.sqrt(squares / (len(known) - 1) / len(known))
