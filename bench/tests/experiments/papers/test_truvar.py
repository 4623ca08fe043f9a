r"""The experiments of TRUVAR start, and use the hyperparameters that they claim."""

import warnings
from pathlib import Path

import pytest
import torch
from botorch.exceptions.warnings import BotorchWarning
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.experiments.papers import truvar
from botorch_risk_bench.reports.level_sets import level_set_curves

from bench.tests.played import play, records_in
from bench.tests.small_tables import write_svm_grid
from botorch_risk.test_functions import GaussianProcessSample, PosteriorMeanFunctions, unit_grid

NAMES = ("coast", "coast-travel", "noise-levels", "synthetic-maximum", "svm")


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("coast-travel", ["TRUVAR", "GCHK"]),
        ("noise-levels", ["TRUVAR", "GCHK-0.05"]),
        ("coast-lake-ranges", ["TRUVAR", "GCHK"]),
        ("svm", ["TRUVAR", "EI"]),
    ],
)
def test_two_rounds(tmp_path: Path, name: str, labels: list[str]) -> None:
    definition, path = get_experiment(name), tmp_path / "results.sqlite"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BotorchWarning)
        play(definition, path, 2, labels, num_rounds=2)
    with records_in(path) as store:
        for label in labels:
            assert len(store.rounds(label)) == 3
            if name != "svm":
                curves = level_set_curves(store, definition, label)
                assert (curves.cost.diff(dim=-1) > 0).all()
                assert ((curves.f1 >= 0) & (curves.f1 <= 1)).all()


def test_the_grid_of_others_is_searched_by_likelihood_and_by_priors(tmp_path: Path) -> None:
    for definition in truvar.svm_on_grid(write_svm_grid(tmp_path)):
        path = tmp_path / f"{definition.name}.sqlite"
        play(definition, path, 2, num_rounds=6)
        with records_in(path) as store:
            for label in definition.strategies:
                seen = torch.cat([each.objective for each in store.rounds(label)], dim=-1)
                assert seen.shape == (2, 3 + 6)
                assert ((seen <= 0) & (seen > -0.2)).all()


def test_the_function_of_the_noise_levels_is_the_first_that_is_high_enough() -> None:
    chosen = truvar.noise_function()
    assert (chosen.values >= truvar.NOISE_THRESHOLD).double().mean() >= 0.025
    for seed in range(truvar.NOISE_FUNCTION_SEED):
        other = GaussianProcessSample(seed)
        assert (other.values >= truvar.NOISE_THRESHOLD).double().mean() < 0.025


def test_the_lake_ranges_make_travel_and_depth_weigh_as_in_the_paper() -> None:
    cost, (lower, upper) = truvar.lake_cost(), truvar.coast().bounds
    there = torch.stack([upper, lower])  # the far corner, and back
    there, here = there[:1], there[1:]
    # 0.25 (1,400 - 0) + 4 (18 + 1), and 4 (0 + 1) at the start.
    assert cost(there, here, None).item() == pytest.approx(350 + 76)
    assert cost(here, None, None).item() == pytest.approx(4)


def test_functions_of_the_noise_levels_are_high_on_enough_of_the_grid() -> None:
    problem = truvar.NoisyFunctions().of_seeds([0, 3])
    share = (problem.values >= truvar.NOISE_THRESHOLD).double().mean(dim=-1)
    assert (share >= truvar.SHARE_ABOVE).all()
    seeds = truvar.seeds_above(truvar.SHARE_ABOVE, 4)
    assert torch.equal(problem.values[1], GaussianProcessSample(seeds[3]).values)
    for seed in set(range(seeds[-1])) - set(seeds):
        values = GaussianProcessSample(seed).values
        assert (values >= truvar.NOISE_THRESHOLD).double().mean() < truvar.SHARE_ABOVE


def test_functions_on_the_square_are_judged_by_their_true_maximum() -> None:
    seeds = [0, 4]
    problem, functions = (
        truvar.FunctionsOnTheSquare().of_seeds(seeds),
        PosteriorMeanFunctions(seeds),
    )
    best = functions.maximizer.unsqueeze(-2)
    torch.testing.assert_close(problem.objective(best), torch.zeros(2, 1).double())
    X = torch.rand(2, 3, 2, dtype=torch.double)
    X[0, 1] = torch.nan
    assert problem.objective(X).isnan().tolist() == [[False, True, False], [False] * 3]
    streams = [torch.Generator().manual_seed(seed) for seed in seeds]
    Y = problem.sample_repeats(X, 400, streams)
    residuals = Y - functions(X.nan_to_num()).unsqueeze(-1)
    assert residuals[1].std().item() == pytest.approx(1e-3, rel=0.1) and Y[0, 1].isnan().all()


def test_curves_of_a_family_have_the_truth_of_each_seed(tmp_path: Path) -> None:
    definition = get_experiment("noise-levels-functions")
    together: dict[str, torch.Tensor] = {}
    alone: dict[str, torch.Tensor] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BotorchWarning)
        for seeds, curves in ((2, together), (1, alone)):
            path = tmp_path / f"{seeds}.sqlite"
            play(definition, path, seeds, ["GCHK-0.05"], num_rounds=60)
            with records_in(path) as store:
                curves["f1"] = level_set_curves(store, definition, "GCHK-0.05").f1
    assert torch.equal(together["f1"][:1], alone["f1"])
    assert not torch.equal(together["f1"][0], together["f1"][1])


@pytest.mark.parametrize(
    "label",
    [
        "TRUVAR",
        "EI",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("TRUVAR-a-1", "TRUVAR-not-monotone")
        ),
    ],
)
def test_maxima_are_sought_between_the_points_of_the_grid(tmp_path: Path, label: str) -> None:
    definition, path = get_experiment("synthetic-maximum-anywhere"), tmp_path / "results.sqlite"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BotorchWarning)
        play(definition, path, 2, [label], num_rounds=2)
    with records_in(path) as store:
        last = store.rounds(label)[-1]
    on_grid = (last.X.unsqueeze(-2) == unit_grid(50)).all(dim=-1).any(dim=-1)
    assert not on_grid.all()
    assert last.recommended_objective is not None and (last.recommended_objective <= 1e-9).all()
