r"""Forest tuning: its search space, its splits and the independence of its repeats."""

import pickle

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import InputDataError
from botorch_risk_bench.problems import ForestTuning, StratifiedSplitter
from botorch_risk_bench.problems.forest import Split
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from botorch_risk.seeding import generators

CHEAP = torch.tensor([[3.0, 5.0, 2.0], [2.0, 8.0, 3.0]], dtype=torch.double)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def small_table(num_features=4):
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    return rng.normal(size=(60, num_features)) + 2 * (2 * labels[:, None] - 1), labels


def numpy_balanced_accuracy(labels, predicted):
    return np.mean([np.mean(predicted[labels == label] == label) for label in np.unique(labels)])


def test_default_search_space_is_the_papers():
    problem = ForestTuning()
    assert problem.bounds.tolist() == [[1.0, 5.0, 1.0], [100.0, 28.0, 15.0]]
    assert problem.features.shape == (569, 30)
    assert not problem.is_minimization_problem


@pytest.mark.parametrize(("num_features", "limits"), [(2, [1, 2]), (5, [4, 5]), (12, [5, 12])])
def test_search_space_follows_the_number_of_features(num_features, limits):
    problem = ForestTuning(*small_table(num_features))
    assert problem.bounds[:, 1].tolist() == limits
    Y = problem.sample_repeats(problem.bounds.clamp_max(2 * num_features), 1, generator())
    assert Y.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch_shape", [(), (2,), (2, 3)])
def test_repeats_keep_shape_and_dtype(batch_shape, dtype):
    problem = ForestTuning(*small_table(6), dtype=dtype)
    X = CHEAP[:1].to(dtype).expand(*batch_shape, 1, 3)
    Y = problem.sample_repeats(X, 2, generator())
    assert Y.shape == (*batch_shape, 1, 2)
    assert Y.dtype == dtype
    assert ((Y >= 0) & (Y <= 1)).all()
    assert problem(X).shape == (*batch_shape, 1)


def test_each_repeat_is_a_fresh_split_and_forest():
    problem = ForestTuning()
    Y = problem.sample_repeats(CHEAP, 6, generator())
    assert all(len(row.unique()) > 3 for row in Y)
    assert torch.equal(problem.sample_repeats(CHEAP, 6, generator()), Y)
    assert not torch.equal(problem.sample_repeats(CHEAP, 6, generator(1)), Y)


def test_rounds_to_the_nearest_configuration():
    problem = ForestTuning()
    Y = problem.sample_repeats(CHEAP, 2, generator())
    for shift in (-0.4, 0.4):
        X = (CHEAP + shift).clamp(*problem.bounds)
        assert torch.equal(problem.sample_repeats(X, 2, generator()), Y)


def test_score_is_that_of_a_forest_trained_by_hand():
    features, labels = load_breast_cancer(return_X_y=True)
    (split,) = StratifiedSplitter()(labels, [17])
    forest = RandomForestClassifier(
        n_estimators=3, max_features=5, max_depth=2, random_state=17, n_jobs=1
    ).fit(features[split.train], labels[split.train])
    (fold,) = split.folds
    expected = numpy_balanced_accuracy(labels[fold], forest.predict(features[fold]))
    assert ForestTuning()._scores([3, 5, 2], [17]) == [pytest.approx(expected)]


def test_stratified_splits_keep_the_classes_in_proportion():
    labels = np.repeat([0, 1], [80, 20])
    first, second = StratifiedSplitter(validation_fraction=0.25)(labels, [0, 1])
    for split in (first, second):
        (fold,) = split.folds
        assert sorted([*split.train, *fold]) == list(range(100))
        assert labels[fold].sum() == 5
    assert set(first.folds[0]) != set(second.folds[0])


def test_reference_values_are_measured_on_the_same_splits():
    problem = ForestTuning()
    mean, standard_deviation = problem.reference_values(CHEAP, num_repeats=5)
    draws = problem._draw((5,), generators(0, "reference values")[0]).tolist()
    for i, configuration in enumerate(CHEAP.long().tolist()):
        scores = problem._scores(configuration, draws)
        assert mean[i].item() == pytest.approx(np.mean(scores))
        assert standard_deviation[i].item() == pytest.approx(np.std(scores, ddof=1))
    batched, _ = problem.reference_values(CHEAP.unsqueeze(0), num_repeats=5)
    assert torch.equal(batched, mean.unsqueeze(0))


def test_the_true_mean_is_not_known():
    problem = ForestTuning()
    for evaluate in (problem.evaluate_true, lambda X: problem(X, noise=False)):
        with pytest.raises(NotImplementedError, match="Measure it by `reference_values`"):
            evaluate(CHEAP)


def test_pickles():
    problem = ForestTuning(splitter=StratifiedSplitter(validation_fraction=0.5))
    copy = pickle.loads(pickle.dumps(problem))
    Y = problem.sample_repeats(CHEAP, 2, generator())
    assert torch.equal(copy.sample_repeats(CHEAP, 2, generator()), Y)


def test_refuses_tables_that_do_not_fit():
    features, labels = small_table()
    with pytest.raises(InputDataError, match="both `features` and `labels`, or neither"):
        ForestTuning(features)
    for bad_features, bad_labels in ((features[:, :1], labels), (features, labels[1:])):
        with pytest.raises(InputDataError, match="Expected `features` to have shape"):
            ForestTuning(bad_features, bad_labels)
    with pytest.raises(InputDataError, match="Expected `features` to be finite"):
        ForestTuning(np.where(features > 1, np.nan, features), labels)
    with pytest.raises(InputDataError, match="at least two classes"):
        ForestTuning(features, np.zeros(60))


def test_refuses_bad_arguments():
    with pytest.raises(ValueError, match=r"Expected `validation_fraction` in \(0, 1\)"):
        StratifiedSplitter(1.0)
    problem = ForestTuning()
    with pytest.raises(ValueError, match=r"at least two repeats. Got num_repeats=1"):
        problem.reference_values(CHEAP, num_repeats=1)
    with pytest.raises(ValueError, match="Expected `X` to be within the bounds"):
        problem.sample_repeats(CHEAP + 200, 2, generator())


def test_refuses_a_splitter_that_gives_too_few_folds():
    def one_fold(labels, seeds):
        return [Split(seeds[0], np.arange(40), [np.arange(40, 60)])]

    problem = ForestTuning(*small_table(), splitter=one_fold)
    with pytest.raises(ValueError, match=r"`splitter` to give 2 folds in all. Got 1"):
        problem.sample_repeats(torch.tensor([[2.0, 3.0, 2.0]]), 2, generator())


@pytest.mark.slow
def test_repeats_of_a_point_are_uncorrelated():
    problem, num_points = ForestTuning(), 400
    X = CHEAP[:1].expand(num_points, 1, 3)
    Y = problem.sample_repeats(X, 2, generators(range(num_points))).squeeze(1)
    # The correlation of independent pairs has a standard error of 1 / sqrt(num_points).
    assert abs(np.corrcoef(Y.T.numpy())[0, 1]) < 4 / np.sqrt(num_points)
