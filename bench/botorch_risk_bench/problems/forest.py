r"""Tuning a random forest on real data, with a new split and a new forest at every repeat."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.exceptions.errors import InputDataError
from torch import Generator, Tensor

from botorch_risk.arguments import check_probability
from botorch_risk.seeding import generators
from botorch_risk.test_functions.repeats import RepeatedTestProblem

MAX_SEED = 2**31 - 1  # what NumPy takes on every platform


class Split(NamedTuple):
    r"""The rows that one forest is trained on, and the folds it is then scored on.

    Args:
        seed: Seeds the forest.
        train: Indices of the training rows.
        folds: Indices of the rows of each validation fold; each fold is one repeat.
    """

    seed: int
    train: np.ndarray
    folds: Sequence[np.ndarray]


Splitter = Callable[[np.ndarray, Sequence[int]], Iterable[Split]]
r"""From the labels and one seed per repeat to splits with as many folds in all."""


@dataclass(frozen=True)
class StratifiedSplitter:
    r"""A fresh stratified split and a fresh forest for each repeat: independent draws.

    Args:
        validation_fraction: The share of the rows that a repeat is scored on.

    Raises:
        ValueError: If the share is not strictly between 0 and 1.

    Example:
        >>> labels = np.array([0, 1] * 10)
        >>> first, second = StratifiedSplitter(validation_fraction=0.2)(labels, seeds=[1, 2])
        >>> len(first.train), labels[first.folds[0]].tolist().count(1), len(second.folds)
        (16, 2, 1)
    """

    validation_fraction: float = 0.2

    def __post_init__(self) -> None:
        check_probability(validation_fraction=self.validation_fraction)

    def __call__(self, labels: np.ndarray, seeds: Sequence[int]) -> Iterable[Split]:
        from sklearn.model_selection import train_test_split

        for seed in seeds:
            train, fold = train_test_split(
                np.arange(len(labels)),
                test_size=self.validation_fraction,
                stratify=labels,
                random_state=seed,
            )
            yield Split(seed, train, [fold])


class ForestTuning(RepeatedTestProblem):
    r"""Balanced accuracy of a random forest, to be maximised over three hyperparameters.

        x = (n_estimators, max_features, max_depth)

    on `[1, 100] x [5, 28] x [1, 15]`, Appendix A.7 of [Makarova2021rahbo]_; with fewer than 28
    features, `max_features` ends at their number. The inputs are continuous, as most optimisers
    propose them, and are rounded to the nearest integers inside.

    The score is a draw: the split and the forest are fresh at every repeat. Its mean and
    variance are not known, so `evaluate_true` raises; measure them by `reference_values`.

    Example:
        >>> problem = ForestTuning()
        >>> X = torch.tensor([[3.0, 5.0, 2.0]])
        >>> problem.sample_repeats(X, num_repeats=2, generator=torch.Generator()).shape
        torch.Size([1, 2])
    """

    dim = 3
    continuous_inds: list[int] = [0, 1, 2]  # noqa: RUF012 as in BoTorch

    def __init__(
        self,
        features: np.ndarray | Tensor | None = None,
        labels: np.ndarray | Tensor | None = None,
        splitter: Splitter | None = None,
        dtype: torch.dtype = torch.double,
    ) -> None:
        r"""Builds the problem.

        Args:
            features: The table, `num_rows x num_features`, at least two features. By default,
                scikit-learn's bundled breast cancer data (569 rows, 30 features).
            labels: The class of each row, `num_rows`.
            splitter: How the rows are split for the repeats of one point. By default,
                `StratifiedSplitter()`.

        Raises:
            InputDataError: If the features and labels do not match, are not finite, or have
                fewer than two features or classes.
        """
        features, labels = _load(features, labels)
        num_features = features.shape[1]
        self._bounds = [
            (1.0, 100.0),
            (float(min(5, num_features - 1)), float(min(28, num_features))),
            (1.0, 15.0),
        ]
        super().__init__(dtype=dtype)
        self.features = features
        self.labels = labels
        self.splitter = StratifiedSplitter() if splitter is None else splitter

    def reference_values(self, X: Tensor, num_repeats: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        r"""Mean and standard deviation of the score, measured apart from any experiment.

        Every point sees the same splits, so that points can be compared in pairs.

        Args:
            X: The points, `... x d`, within the bounds.
            num_repeats: The number of repeats per point, at least 2.
            seed: Addresses the splits.

        Returns:
            The mean and the standard deviation over the repeats, two `...` tensors.
        """
        if num_repeats < 2:
            raise ValueError(f"Expected at least two repeats. Got {num_repeats=}.")
        self._validate(X)
        (generator,) = generators(seed, "reference values")
        draws = self._draw((num_repeats,), generator)
        scores = self._observe(X, draws.expand(*X.shape[:-1], num_repeats))
        return scores.mean(dim=-1), scores.std(dim=-1)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        raise NotImplementedError(
            "The mean score of ForestTuning is not known. Measure it by `reference_values`."
        )

    def _draw(self, shape: tuple[int, ...], generator: Generator | None) -> Tensor:
        return torch.randint(MAX_SEED, shape, generator=generator, device="cpu")

    def _observe(self, X: Tensor, draws: Tensor) -> Tensor:
        configurations = X.detach().round().long().reshape(-1, self.dim).tolist()
        seeds = draws.reshape(-1, draws.shape[-1]).tolist()
        scores = [self._scores(*each) for each in zip(configurations, seeds, strict=True)]
        return X.new_tensor(scores).view(draws.shape)  # ... x k

    def _scores(self, configuration: Sequence[int], seeds: Sequence[int]) -> list[float]:
        r"""Scores one configuration, once per seed."""
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.metrics import balanced_accuracy_score

        names = ("n_estimators", "max_features", "max_depth")
        parameters = dict(zip(names, configuration, strict=True))
        scores: list[float] = []
        for seed, train, folds in self.splitter(self.labels, seeds):
            forest = RandomForestClassifier(random_state=seed, n_jobs=1, **parameters)
            forest.fit(self.features[train], self.labels[train])
            for fold in folds:
                predicted = forest.predict(self.features[fold])
                scores.append(balanced_accuracy_score(self.labels[fold], predicted))
        if len(scores) != len(seeds):
            raise ValueError(
                f"Expected `splitter` to give {len(seeds)} folds in all. Got {len(scores)}."
            )
        return scores


def _load(features: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    r"""The table as arrays, checked; the bundled one if both are None."""
    from sklearn.datasets import load_breast_cancer

    if features is None and labels is None:
        return load_breast_cancer(return_X_y=True)
    if features is None or labels is None:
        raise InputDataError("Expected both `features` and `labels`, or neither. Got one.")
    features, labels = np.asarray(features), np.asarray(labels)
    if features.ndim != 2 or features.shape[1] < 2 or labels.shape != features.shape[:1]:
        raise InputDataError(
            "Expected `features` to have shape `num_rows x num_features`, with at least two "
            "features, and `labels` to have shape `num_rows`. "
            f"Got {features.shape=} and {labels.shape=}."
        )
    if not np.isfinite(features).all():
        raise InputDataError("Expected `features` to be finite. Got NaN or infinity.")
    if len(np.unique(labels)) < 2:
        raise InputDataError("Expected `labels` of at least two classes. Got one.")
    return features, labels
