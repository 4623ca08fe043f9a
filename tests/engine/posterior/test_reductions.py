r"""The gain on the domain, tile by tile."""

import importlib
from dataclasses import replace
from typing import Any

import pytest
import torch

from botorch_risk.chunks import ChunkSize
from botorch_risk.engine import DomainPosterior
from botorch_risk.papers import TruncatedVarianceReduction
from tests.papers.truvar.cases import LEVELS, build


def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HELD_ENTRIES", ChunkSize(cpu=50)), ("MADE_ENTRIES", ChunkSize(cpu=25))):
        monkeypatch.setattr(f"botorch_risk.engine.posterior.reductions._{name}", value)
    monkeypatch.setattr("botorch_risk.engine.posterior.reductions._SMALLEST_SIDE", 5)


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "on demand"])
@pytest.mark.parametrize("anticipate", [False, True])
def test_chunks_and_tiles(monkeypatch: pytest.MonkeyPatch, dense: bool, anticipate: bool) -> None:
    posterior, state = build(eta=0.5, dense=dense)
    acqf = TruncatedVarianceReduction(posterior, state, levels=LEVELS, anticipate=anticipate)
    X = torch.cat([torch.rand(7, 2).double(), torch.ones(7, 1)], dim=-1)
    values, off_grid = acqf.evaluate_domain(), acqf.evaluate(X)
    small_tiles(monkeypatch)
    acquisition = importlib.import_module("botorch_risk.papers.truvar.acquisition")
    monkeypatch.setattr(acquisition, "_CHUNK_ENTRIES", ChunkSize(cpu=50))
    torch.testing.assert_close(acqf.evaluate_domain(), values)
    torch.testing.assert_close(acqf.evaluate(X), off_grid)


@pytest.mark.parametrize("candidates", ["domain", "unclassified"])
def test_tiles_of_replicates_with_sets_of_other_sizes(
    monkeypatch: pytest.MonkeyPatch, candidates: Any
) -> None:
    posterior, state = build(torch.tensor([[3, 13, 30], [0, 8, 35], [22, 13, 24]]), dense=False)
    size = torch.tensor([[36], [23], [2]])  # 36 is the domain; the others end within a tile
    state = replace(state, unclassified=torch.arange(36).flip(0) < size)
    acqf = TruncatedVarianceReduction(posterior, state, levels=LEVELS, candidates=candidates)
    dense = DomainPosterior(posterior.model, posterior.domain)
    held = TruncatedVarianceReduction(dense, state, levels=LEVELS, candidates=candidates)
    small_tiles(monkeypatch)
    torch.testing.assert_close(acqf.evaluate_domain(), held.evaluate_domain())


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "on demand"])
def test_a_weight_of_one_is_a_weight(dense: bool) -> None:
    posterior, state = build(eta=0.5, dense=dense)
    state = replace(state, beta=torch.ones_like(state.beta))
    acqf = TruncatedVarianceReduction(posterior, state, levels=LEVELS)
    values = acqf.evaluate_domain()
    assert values.max() > 0
    torch.testing.assert_close(values, acqf.evaluate(acqf.domain_candidates()))


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "on demand"])
@pytest.mark.parametrize("first", [0, 4])
def test_candidates_in_order_need_not_be_all_of_the_domain(dense: bool, first: int) -> None:
    posterior, state = build(eta=0.5, dense=dense)
    acqf = TruncatedVarianceReduction(posterior, state, levels=LEVELS)
    number = torch.arange(posterior.domain.shape[-2])
    some = ((number >= first) & (number < first + 7)).expand_as(state.unclassified)
    few = replace(state, unclassified=some)
    among = TruncatedVarianceReduction(posterior, few, levels=LEVELS, candidates="unclassified")
    X = acqf.domain_candidates()
    chosen = some.repeat_interleave(len(LEVELS), dim=-1)
    torch.testing.assert_close(
        among.evaluate_domain()[chosen], among.evaluate(X).masked_select(chosen)
    )
