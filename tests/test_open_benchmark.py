r"""The experiments of studies/open_benchmark; their optima are in test_certificates.py."""

from __future__ import annotations

from typing import Any

import torch

from botorch_risk.experiments.campaigns import Campaign
from botorch_risk.strategies import Box
from botorch_risk.test_functions.certified import RISKS, certificates
from botorch_risk.test_functions.environmental import risk_over
from studies.open_benchmark import all_pairs, twelve_pairs
from studies.open_benchmark.experiments import EXPERIMENTS, OF_BOTORCH
from studies.open_benchmark.others import OTHERS, LogNoisyExpectedImprovement


def test_every_certified_pair_is_an_experiment() -> None:
    pairs = {(form, risk) for form, risks in certificates().items() for risk in risks}
    assert {(each.settings["form"], each.settings["risk"]) for each in EXPERIMENTS} == pairs
    assert len(EXPERIMENTS) == len(pairs) == 84
    for each in EXPERIMENTS:
        expected = {"confidence-bound", "qLogNEI-robust", "random", *OTHERS}
        if each.settings["risk"] in OF_BOTORCH:
            expected |= {"qLogNEI-BoTorch"}
        assert set(each.strategies) == expected


def test_the_problem_and_the_strategies_have_one_risk() -> None:
    for each in EXPERIMENTS[:: len(RISKS) + 1]:
        problem: Any = each.problem()
        known: Any = each.strategies["random"]
        X = problem.optimal_decision.unsqueeze(0)
        risk = known.keywords["risk_measure"]
        found = risk_over(known.keywords["environment"], X, problem.evaluate_true, risk)
        assert abs(found.item() - problem.optimal_risk) < 1e-6


def test_twelve_pairs_have_every_function_once_and_every_risk() -> None:
    assert [form for form, _ in twelve_pairs.PAIRS] == list(certificates())
    assert {risk for _, risk in twelve_pairs.PAIRS} == set(RISKS)
    assert len(twelve_pairs.WITH_BOTORCH) == 8


def test_campaigns_are_what_their_blocks_say() -> None:
    campaigns: list[Campaign] = [all_pairs.CAMPAIGN, twelve_pairs.CAMPAIGN]
    assert [len(each.blocks()) for each in campaigns] == [84 * 2, 12 * 7 + 8]
    assert {len(block.seeds) for block in campaigns[0].blocks()} == {20}
    assert {len(block.seeds) for block in campaigns[1].blocks()} == {10}


def test_the_expected_improvement_of_a_seed_is_one_point_near_the_best() -> None:
    box = Box(torch.tensor([[-1.0], [3.0]], dtype=torch.double))
    X = torch.linspace(-1, 3, 9, dtype=torch.double).unsqueeze(-1)
    Y = -(X - 1.2).square()
    asked = []
    for _ in range(2):
        optimizer = LogNoisyExpectedImprovement(box, seed=5)
        optimizer.tell(torch.cat([X, X], dim=-1), Y)  # decisions and what came of W
        asked.append(optimizer.ask(1))
    assert torch.equal(*asked) and asked[0].shape == (1, 1)
    assert abs(asked[0].item() - 1.2) < 0.2
