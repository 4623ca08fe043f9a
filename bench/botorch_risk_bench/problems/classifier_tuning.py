r"""Tuning classifiers on real data: logistic regression by gradient descent, and boosted trees."""

from abc import ABC, abstractmethod
from os import PathLike
from typing import Any

import numpy as np
from botorch.exceptions.errors import InputDataError

from botorch_risk.arguments import check_counts, check_integers
from botorch_risk_bench.problems.simulation import SimulatedTestProblem


class ClassifierTuning(SimulatedTestProblem, ABC):
    r"""Accuracy of a classifier on a held-out third of a table, to be maximised.

    After Appendix C of [Ha2023uhe]_, which tunes HPOBench's benchmarks on OpenML's Vehicle
    Silhouettes (`vehicle_silhouettes` reads it) and Software Defect tables. Neither comes with
    scikit-learn, two of whose tables stand in for them, of the same kind and hard enough that few
    settings reach the best score: compare scores in kind, not in number. The split and the
    classifier are seeded: outcomes have no noise but `noise_std`.

    Example:
        >>> import torch
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> class Neighbours(ClassifierTuning):
        ...     dim, continuous_inds, _bounds = 1, [0], [(1.0, 100.0)]
        ...     def _classifier(self, x):
        ...         return KNeighborsClassifier(round(x[0]))
        >>> few, many = Neighbours()(torch.tensor([[5.0], [100.0]]))
        >>> bool(few > many > 0.8)  # the accuracy on the held-out third
        True
    """

    _default_table = "load_breast_cancer"  # its loader in scikit-learn

    def __init__(
        self,
        features: Any = None,
        labels: Any = None,
        seed: int = 0,
        noise_std: float | None = None,
    ) -> None:
        r"""Builds the problem.

        Args:
            features: The table, `num_rows x num_features`; a table of scikit-learn's if omitted,
                which the class names.
            labels: The class of each row, `num_rows`.
            seed: Seed of the split and of the classifier.

        Raises:
            InputDataError: If only one of the table and the labels is given, or they do not match.
        """
        super().__init__(noise_std=noise_std)
        check_integers(seed=seed)
        self.seed = seed
        self._split = _split(features, labels, seed, self._default_table)

    def _simulate(self, x: tuple[float, ...]) -> float:
        train, test, labels, held_out = self._split
        return float(np.mean(self._classifier(x).fit(train, labels).predict(test) == held_out))

    @abstractmethod
    def _classifier(self, x: tuple[float, ...]) -> Any:
        r"""The classifier at one point."""


class LogisticRegressionTuning(ClassifierTuning):
    r"""Accuracy of logistic regression over its learning rate and its regularisation.

        x = (log10 of the learning rate, log10 of the l2 regularisation),   each in [-5, 0]

    Trained by stochastic gradient descent, the benchmark and the space of HPOBench and of
    [Ha2023uhe]_, Appendix C; see `ClassifierTuning`. The table holds handwritten digits, ten
    classes, where Vehicle Silhouettes has four; HPOBench has 1,000 epochs.

    Example:
        >>> problem = LogisticRegressionTuning()
        >>> problem(problem.bounds.mean(dim=0, keepdim=True)).shape
        torch.Size([1])
    """

    dim = 2
    continuous_inds: list[int] = [0, 1]  # noqa: RUF012 as in BoTorch
    _default_table = "load_digits"
    _bounds: list[tuple[float, float]] = [(-5.0, 0.0), (-5.0, 0.0)]  # noqa: RUF012

    def __init__(
        self,
        features: Any = None,
        labels: Any = None,
        seed: int = 0,
        noise_std: float | None = None,
        num_epochs: int = 100,
    ) -> None:
        r"""Builds the problem.

        Args:
            features: The table, `num_rows x num_features`.
            labels: The class of each row, `num_rows`.
            seed: Seed of the split and of the classifier.
            num_epochs: Passes over the training rows.

        Raises:
            InputDataError: If only one of the table and the labels is given, or they do not match.
            ValueError: If there is no epoch.
        """
        check_counts(num_epochs=num_epochs)
        super().__init__(features, labels, seed, noise_std)
        self.num_epochs = num_epochs

    def _classifier(self, x: tuple[float, ...]) -> Any:
        from sklearn.linear_model import SGDClassifier

        return SGDClassifier(
            loss="log_loss",
            learning_rate="adaptive",
            eta0=10 ** x[0],
            alpha=10 ** x[1],
            tol=None,
            max_iter=self.num_epochs,
            random_state=self.seed,
        )


class BoostedTreesTuning(ClassifierTuning):
    r"""Accuracy of XGBoost over four hyperparameters.

        x = (log2 of the learning rate in [-10, 0], log of the depth in [log 1, log 50],
             the share of the features in a tree in [0.1, 1],
             log2 of the l2 regularisation in [-10, 10])

    The space of HPOBench and of [Ha2023uhe]_, Appendix C, in the exponents; the depth is rounded.
    See `ClassifierTuning`. The table is about breast cancer, two classes, as Software Defect has.
    Needs xgboost, the extra `problems`; other boosted trees do not take its place.
    """

    dim = 4
    continuous_inds: list[int] = [0, 1, 2, 3]  # noqa: RUF012 as in BoTorch
    _bounds: list[tuple[float, float]] = [  # noqa: RUF012
        (-10.0, 0.0),
        (0.0, float(np.log(50.0))),
        (0.1, 1.0),
        (-10.0, 10.0),
    ]

    def _classifier(self, x: tuple[float, ...]) -> Any:
        try:
            from xgboost import XGBClassifier
        except ImportError as error:
            raise ImportError(
                "Expected xgboost, whose trees are tuned. Install it with "
                "`pip install 'botorch-risk-bench[problems]'`."
            ) from error
        return XGBClassifier(
            learning_rate=2 ** x[0],
            max_depth=round(float(np.exp(x[1]))),
            colsample_bytree=x[2],
            reg_lambda=2 ** x[3],
            n_estimators=100,
            n_jobs=1,
            random_state=self.seed,
        )


def vehicle_silhouettes(table: str | PathLike[str]) -> tuple[np.ndarray, np.ndarray]:
    r"""The features and the classes of OpenML's Vehicle Silhouettes, data set 54.

    Args:
        table: Its comma-separated values with a heading: 18 numbers and the class a row.

    Returns:
        Features, `846 x 18`, and labels, `846`.

    Raises:
        InputDataError: If the table has another shape, or other classes.
    """
    rows = np.genfromtxt(table, dtype=str, delimiter=",", skip_header=1)
    classes = {*rows[:, -1]} if rows.ndim == 2 else set()
    if rows.shape != (846, 19) or classes != {"bus", "opel", "saab", "van"}:
        raise InputDataError(
            "Expected 846 rows of 18 features and the class `bus`, `opel`, `saab` or `van` in "
            f"{table}. Got shape {rows.shape}, classes {sorted(classes)[:5]}."
        )
    return rows[:, :-1].astype(float), rows[:, -1]


def _split(features: Any, labels: Any, seed: int, default_table: str) -> tuple[np.ndarray, ...]:
    r"""Training rows, held-out rows and the labels of both, features standardised on the first."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    if (features is None) != (labels is None):
        raise InputDataError("Expected both `features` and `labels`, or neither. Got one.")
    if features is None:
        features, labels = getattr(datasets, default_table)(return_X_y=True)
    features, labels = np.asarray(features), np.asarray(labels)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise InputDataError(
            "Expected `features` to have shape `num_rows x num_features` and `labels` `num_rows`. "
            f"Got {features.shape=}, {labels.shape=}."
        )
    train, test, *rest = train_test_split(
        features, labels, test_size=1 / 3, stratify=labels, random_state=seed
    )
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(test), *rest
