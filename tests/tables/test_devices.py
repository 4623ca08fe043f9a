r"""Tables on every device: the same numbers, without waiting where nothing has to be known."""

from collections import Counter

import pytest
import torch
from torch import Tensor

from botorch_risk.risk import ConditionalValueAtRisk, Expectation, RiskMeasure, ShareAbove
from botorch_risk.tables import TABLE_RULES, choose_plate, fit_table
from botorch_risk.tables.kernel import TableHyperparameters, TableReadings
from botorch_risk.tables.posterior import TablePosterior
from botorch_risk.tables.report import report_risks
from botorch_risk.tables.rules import TableBelief
from tests.devices import home
from tests.second_device import SIM, counted, only_without_gpu
from tests.tables import examples
from tests.tables.examples import CONDITIONS, CONTEXTS, N_W

N_X = len(CONDITIONS)
MEASURES = [Expectation(), ConditionalValueAtRisk(0.3), ShareAbove(5.2)]
rules = pytest.mark.parametrize("rule", TABLE_RULES)


def readings(device: torch.device, num_replicates: int = 2) -> TableReadings:
    data = examples.readings(num_replicates)
    there = data.pairs.to(device), data.Y.to(device)
    return TableReadings(CONDITIONS, CONTEXTS, *there)


def belief(device: torch.device, measure: RiskMeasure) -> TableBelief:
    data = readings(device)
    theta = TableHyperparameters(*(each.to(device) for each in examples.hyperparameters(2)))
    free = torch.ones(2, N_X * N_W, dtype=torch.bool, device=device)
    free = free.scatter(1, data.pairs, False).reshape(2, N_X, N_W)
    posterior = TablePosterior.of(data, theta)
    return TableBelief(posterior, measure, examples.equal_weights().to(device), free)


def generators() -> list[torch.Generator]:
    return [torch.Generator().manual_seed(each) for each in range(2)]


def same(there: Tensor, here: Tensor, tolerance: float = 1e-9) -> None:
    assert there.device == home()
    torch.testing.assert_close(there.cpu(), here, rtol=tolerance, atol=tolerance)


def test_the_fit_the_posterior_and_its_updates(device: torch.device) -> None:
    data, here = readings(device), readings(torch.device("cpu"))
    fitted, expected = fit_table(data), fit_table(here)
    same(fitted.theta, expected.theta, 1e-6)
    same(fit_table(data, fitted).theta, fit_table(here, expected).theta, 1e-6)
    there, cpu = (
        belief(device, Expectation()).posterior,
        belief(here.Y.device, Expectation()).posterior,
    )
    pair = torch.tensor([6, 11])
    after = there.with_reading(pair.to(device), torch.tensor([5.0, 5.5]).double().to(device))
    after_cpu = cpu.with_reading(pair, torch.tensor([5.0, 5.5]).double())
    for part in ("mean", "variance"):
        same(getattr(there, part), getattr(cpu, part))
        same(getattr(after, part), getattr(after_cpu, part))
    same(after.read.factor, after_cpu.read.factor)
    every = torch.arange(N_X).expand(2, -1)
    there_too = there.covariance_over_contexts(every.to(device))
    same(there_too, cpu.covariance_over_contexts(every))


@rules
@pytest.mark.parametrize("measure", MEASURES, ids=lambda each: type(each).__name__)
def test_a_plate(device: torch.device, rule: str, measure: RiskMeasure) -> None:
    here = belief(torch.device("cpu"), measure)
    expected = choose_plate(here, rule, 3, generators())
    there = belief(device, measure)
    same(choose_plate(there, rule, 3, generators()), expected)
    pending = expected[:, :1]
    same(
        choose_plate(there, rule, 2, generators(), pending.to(device)),
        choose_plate(here, rule, 2, generators(), pending),
    )


@pytest.mark.slow
def test_a_report(device: torch.device) -> None:
    def reported(device: torch.device) -> tuple[Tensor, ...]:
        data = readings(device, 1)
        conditions = torch.tensor([3, 1, 0], device=device)
        known = ConditionalValueAtRisk(0.3)
        stream = torch.Generator().manual_seed(0)
        weights = examples.equal_weights().to(device)
        return report_risks(data, fit_table(data), known, weights, conditions, stream)

    for there, here in zip(reported(device), reported(torch.device("cpu")), strict=True):
        same(there, here, 1e-5)


@only_without_gpu
@rules
@pytest.mark.parametrize("measure", MEASURES, ids=lambda each: type(each).__name__)
def test_tables_wait_for_nothing_but_their_lotteries(rule: str, measure: RiskMeasure) -> None:
    r"""The checks of a risk measure and of a factor wait, and the walk along an envelope."""
    known = belief(SIM, measure)
    _ = known.risk, known.bounds
    with counted() as count:
        choose_plate(known, rule, 1, generators())
    lotteries = {"random_pair": 1, "knowledge_gradient": 1}.get(rule, 2)
    ours: Counter[str] = Counter()
    for (kind, site), number in count.sites.items():
        if site.startswith("tables/"):
            ours[kind] += number
    assert ours == {"upload": lotteries}
    assert all(
        site.startswith(("tables/", "risk/", "matrices", "acquisition/lacing", "acquisition/e"))
        for _, site in count.sites
    )


@only_without_gpu
def test_an_update_is_the_same_launches_however_many_readings_there_are() -> None:
    launches = set()
    for n in (5, 15):
        data = examples.readings(2, n=n)
        data = TableReadings(CONDITIONS, CONTEXTS, data.pairs.to(SIM), data.Y.to(SIM))
        theta = TableHyperparameters(*(each.to(SIM) for each in examples.hyperparameters(2)))
        posterior, pair = TablePosterior.of(data, theta), torch.tensor([6, 11], device=SIM)
        with counted() as count:
            posterior.with_reading(pair)
        launches.add(count.launches)
        assert not count.synchronisations
    assert len(launches) == 1
