r"""The experiments of TRUVAR start, and use the hyperparameters that they claim."""

import warnings
from pathlib import Path

import pytest
from botorch.exceptions.warnings import BotorchWarning
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.experiments.papers import truvar
from botorch_risk_bench.reports.level_sets import level_set_curves

from botorch_risk.test_functions import GaussianProcessSample
from tests.bench.played import play, records_in

NAMES = ("coast", "coast-travel", "noise-levels", "synthetic-maximum", "svm")


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("coast-travel", ["TRUVAR", "GCHK"]),
        ("noise-levels", ["TRUVAR", "GCHK-0.05"]),
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


def test_the_function_of_the_noise_levels_is_the_first_that_is_high_enough() -> None:
    chosen = truvar.noise_function()
    assert (chosen.values >= truvar.NOISE_THRESHOLD).double().mean() >= 0.025
    for seed in range(truvar.NOISE_FUNCTION_SEED):
        other = GaussianProcessSample(seed)
        assert (other.values >= truvar.NOISE_THRESHOLD).double().mean() < 0.025
