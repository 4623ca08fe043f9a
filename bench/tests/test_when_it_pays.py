r"""The sweeps of bench/studies/when_it_pays: problems, verdicts, and the report of a trial."""

import math
import sys
from pathlib import Path

import pytest
import torch
from botorch_risk_bench.metrics import MeanAndStandardError, paired_difference

from bench.studies.when_it_pays import noise_ratio, report, ripples, trips
from bench.studies.when_it_pays.experiments import (
    EXPERIMENTS,
    Camel,
    RipplesOfSeeds,
    TripCost,
    TwoPeaks,
    coast,
)
from bench.studies.when_it_pays.verdicts import (
    DOES_NOT,
    PAYS,
    UNDECIDED,
    counts,
    judged,
    percent_of_random,
    verdict,
)
from bench.tests.campaign_files import ROOT, run_trial
from botorch_risk.test_functions import HeteroscedasticSine

FOLDER = ROOT / "bench" / "studies" / "when_it_pays"


def test_two_peaks_are_the_sine_of_rahbo_at_its_ratio() -> None:
    X = torch.linspace(0, 2, 41, dtype=torch.double).unsqueeze(-1)
    sine, peaks = HeteroscedasticSine(noise_scale=1.0), TwoPeaks(11.0)
    torch.testing.assert_close(peaks.evaluate_true(X), sine.evaluate_true(X))
    torch.testing.assert_close(peaks.noise_variance(X), sine.noise_variance(X))


@pytest.mark.parametrize(("ratio", "is_right"), [(2.0, True), (3.0, True), (5.0, False)])
def test_the_higher_peak_is_best_until_its_noise_costs_more(ratio: float, is_right: bool) -> None:
    problem = TwoPeaks(ratio, advantage=0.1)
    assert (0.01 * (ratio**2 - 1) < 0.1) == is_right  # the penalty by hand
    assert bool(problem.optimal_mean_variance(1.0)[0] > 1) == is_right


def test_peaks_of_the_camel_differ_by_the_ratio() -> None:
    problem = Camel(5.0)
    peaks = torch.tensor([[0.0898420, -0.7126564], [-0.0898420, 0.7126564]]).double()
    torch.testing.assert_close(
        problem.evaluate_true(peaks), torch.full((2,), problem.optimal_value).double()
    )
    deviations = problem.noise_variance(peaks).sqrt()
    torch.testing.assert_close(deviations, torch.tensor([0.5, 0.1]).double())
    X = 4 * torch.rand(20_000, 2, generator=torch.Generator().manual_seed(0)).double() - 2
    X[:, 1] /= 2
    assert problem.evaluate_true(X).max() <= problem.optimal_value


@pytest.mark.parametrize("frequency", [4, 16])
def test_ripples_are_counted_and_peak_at_the_centre(frequency: int) -> None:
    one, other = RipplesOfSeeds(frequency).of_seeds([0, 1]), RipplesOfSeeds(frequency).of_seeds([1])
    torch.testing.assert_close(one.centers[1:], other.centers)
    assert not torch.equal(one.centers[0], one.centers[1])
    at_centers = one.objective(one.centers.unsqueeze(-2))
    torch.testing.assert_close(at_centers, torch.ones(2, 1).double())
    axis = torch.linspace(0, 1, 4001, dtype=torch.double)
    line = torch.stack([axis.expand(2, -1), one.centers[:, 1:].expand(-1, 4001)], dim=-1)
    values = one.objective(line)
    inner = values[:, 1:-1]
    peaks = ((inner > values[:, :-2]) & (inner > values[:, 2:])).sum(dim=-1)
    assert ((peaks - frequency).abs() <= 1).all()  # one may lie beyond an edge
    assert values.max() <= 1
    deep = RipplesOfSeeds(frequency, 1.0).of_seeds([0, 1])
    trough = (one.centers + 0.5 / frequency).unsqueeze(-2)
    torch.testing.assert_close(deep.objective(trough), torch.zeros(2, 1).double())
    assert (deep.objective(line) <= values + 1e-12).all()


def test_trips_cost_their_length_once_there_was_a_measurement() -> None:
    here, there = torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])
    cost = TripCost(ratio=2.0, length=10.0)
    assert cost(there, None).item() == 1.0
    assert cost(there, here, None).item() == pytest.approx(1 + 2 * 5 / 10)
    assert coast().domain.shape == (30 * 23, 2)


def test_cost_to_a_level_by_hand() -> None:
    path = torch.tensor(
        [[[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]]
    )
    path[1, 2] = torch.nan  # finished
    run = trips.Run(path.double(), torch.tensor([[0.2, 0.5, 0.97], [0.1, 0.2, 0.3]]).double())
    first, never = trips.cost_to_level(run, TripCost(2.0, 10.0)).tolist()
    assert first == pytest.approx(math.log(1 + 2 + 1))
    assert math.isnan(never)


def test_verdicts_by_hand() -> None:
    def of(mean: float, half_width: float) -> str:
        quantile = MeanAndStandardError(
            torch.tensor(0.0), torch.tensor(1.0), torch.tensor(20)
        ).half_width
        error = torch.tensor(half_width) / quantile
        return verdict(MeanAndStandardError(torch.tensor(mean), error, torch.tensor(20)), 1.0)

    assert of(-3.0, 2.5) == PAYS
    assert of(-3.0, 3.5) == UNDECIDED  # of either sign
    assert of(-0.5, 0.4) == DOES_NOT  # surely a gain, but of less than the margin
    assert of(5.0, 1.0) == of(0.0, 0.5) == DOES_NOT
    cells = [
        judged(torch.tensor([1.0, 2.0]), torch.tensor([9.0, 9.9])),
        judged(*[torch.ones(3)] * 2),
    ]
    assert counts(cells) == "pays 1, does not pay 1, undecided 0, of 2"


def test_a_random_decision_has_one_hundred_percent() -> None:
    problem = RipplesOfSeeds(8).of_seeds([0, 1, 2])
    X = torch.rand(3, 50_000, 2, generator=torch.Generator().manual_seed(1)).double()
    found = percent_of_random(1 - problem.objective(X), problem, 1.0).mean(dim=-1)
    torch.testing.assert_close(found, torch.full((3,), 100.0).double(), atol=1.0, rtol=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of fits on few points
def test_a_trial_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["equal-peaks-3", "camel-8", "trips-functions", "ripples-4", "h1-25"]
    run_trial(FOLDER / "campaign.py", tmp_path / "campaign.sqlite", names, 10)
    monkeypatch.setattr(sys, "argv", ["report", "--results", str(tmp_path), "--to", str(tmp_path)])
    report.main()
    page = (tmp_path / "tables.md").read_text("utf-8")
    for heading in (
        "Noise ratio, RAHBO",
        "Trip to measurement, TRUVAR",
        "Ripples and budget, UHE-BO",
    ):
        assert f"## {heading}" in page
    for name in ("noise_ratio", "trips", "ripples"):
        assert (tmp_path / f"{name}.png").stat().st_size > 1000

    one = noise_ratio.collected(tmp_path)["equal-peaks"][3.0]
    assert one.penalty == pytest.approx(100 * 0.01 * (9 - 1) / (1 + 0.01 * 5), rel=0.02)
    weighed = trips.collected(tmp_path)["functions"]
    assert set(weighed) == set(EXPERIMENTS[18].strategies)
    regret = ripples.collected(tmp_path)["h1"]["16"]
    assert set(regret) == set(ripples.ARMS) and regret["MAP"].shape == (2, 11)
    same = [paired_difference(regret["MAP"][:, 0], each[:, 0]).mean for each in regret.values()]
    assert same == [0.0] * 4  # they share their initial design
