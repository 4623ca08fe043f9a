r"""Sets and epochs against Algorithms 1 and 2 in plain Python."""

import io
import math
import warnings
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import BotorchWarning, InputDataWarning
from torch import Tensor

from botorch_risk.papers import (
    GuaranteedWidth,
    LevelSet,
    Maximize,
    RelativeLevelSet,
    TruncatedVarianceReduction,
    TruncatedVarianceState,
)
from botorch_risk.papers.truvar import status
from tests.acquisition.lake import NOISE, build_posterior, grid, truth

ROWS = torch.tensor([3, 13, 30])


def algorithm(
    moments: list[tuple[np.ndarray, np.ndarray]], counts: list[int], options: dict[str, Any]
) -> dict[str, Any]:
    r"""Algorithms 1 and 2 as printed, with decisions on order only, after each posterior."""
    size = len(moments[0][0])
    M, H, L = set(range(size)), set(), set()
    epoch, eta, start = 1, options["eta"], 1
    beta = options["a"] * math.log(size)
    h = options.get("threshold")
    for (mean, variance), count in zip(moments, counts, strict=True):
        old = M if options["monotone"] else set(range(size))
        if not options["monotone"]:
            H, L = set(), set()
        lower = mean - math.sqrt(beta) * np.sqrt(variance)
        upper = mean + math.sqrt(beta) * np.sqrt(variance)
        if h is None:
            M = {x for x in old if upper[x] >= max(lower[y] for y in old)}
        else:
            M = {x for x in old if upper[x] >= h and lower[x] <= h}
            H = H | {x for x in old if lower[x] > h}
            L = L | {x for x in old if upper[x] < h}
        while len(M) > (1 if h is None and options["monotone"] else 0) and eta > 1e-10:
            widest = max(math.sqrt(beta * variance[x]) for x in M)
            if widest > (1 + options["slack"]) * eta:
                break
            epoch, eta, start = epoch + 1, options["r"] * eta, count + 1
            beta = options["a"] * math.log(size * start**2)
    return {"M": M, "H": H, "L": L, "epoch": epoch, "eta": eta, "start": start, "beta": beta}


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("threshold", [None, 0.7])
@pytest.mark.parametrize("r", [0.1, 0.9])  # 0.9: several epochs end in one round
def test_equals_the_printed_algorithms(monotone: bool, threshold: float | None, r: float) -> None:
    eta = 1.0 if r == 0.1 else 2.5
    options: dict[str, Any] = {"a": 0.5, "eta": eta, "r": r, "slack": 0.05, "monotone": monotone}
    goal = Maximize() if threshold is None else LevelSet(threshold)
    posterior = build_posterior(ROWS)
    state = TruncatedVarianceState.initial(grid(), goal, **options)
    moments, counts, epochs = [], [], [1]
    for row in [None, 20, 9, 33, 2, 17, 28, 6, 23, 11, 31, 15, 1, 26]:
        if row is not None:
            posterior.observe(row, truth(grid()[[row]]).item(), NOISE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BotorchWarning)
            state = state.update(posterior, cost=2.5)
        moments.append((posterior.mean.numpy(), posterior.variance.numpy()))
        counts.append(int(posterior.num_samples))
        expected = algorithm(moments, counts, {**options, "threshold": threshold})
        for name, mask in (("M", state.unclassified), ("H", state.high), ("L", state.low)):
            assert set(mask.nonzero().flatten().tolist()) == expected[name]
        assert state.epoch.item() == expected["epoch"]
        assert state.epoch_start.item() == expected["start"]
        np.testing.assert_allclose(state.eta.item(), expected["eta"])
        np.testing.assert_allclose(state.beta.item(), expected["beta"])
        epochs.append(state.epoch.item())
    assert epochs[-1] > 1
    assert r == 0.1 or max(np.diff(epochs)) > 1
    assert state.cost == 14 * 2.5
    assert state.num_updates == 14
    stands = status(state, posterior)
    assert stands.num_unclassified == state.unclassified.sum()
    assert stands.largest_deviation == posterior.variance[state.unclassified].max().sqrt()
    assert stands.target == state.eta and stands.cost == state.cost


def test_target_is_in_prior_standard_deviations() -> None:
    posterior = build_posterior(ROWS)
    state = TruncatedVarianceState.initial(grid(), Maximize(), eta=0.5)
    scaled = build_posterior(ROWS)
    scaled._state.prior_variance = 9 * scaled._state.prior_variance
    scaled._state.points = scaled._state.points._replace(
        prior=scaled._state.points.prior._replace(variance=9 * scaled._state.points.prior.variance),
        variance=9 * scaled._state.points.variance,
        mean=3 * scaled._state.points.mean,
    )
    one, other = state.update(posterior), state.update(scaled)
    assert torch.equal(one.unclassified, other.unclassified) and one.epoch == other.epoch
    assert status(other, scaled).target == 3 * status(one, posterior).target
    torch.testing.assert_close(other.target_variance(scaled), 9 * one.target_variance(posterior))


def test_the_end() -> None:
    posterior = build_posterior(ROWS)
    state = TruncatedVarianceState.initial(grid(), LevelSet(0.7))
    for row in range(36):
        for _ in range(2):
            posterior.observe(row, truth(grid()[[row]]).item(), 1e-9)
    done = state.update(posterior)
    assert bool(done.finished) and not done.unclassified.any()
    assert torch.equal(done.high, truth(grid())[:, 0] > 0.7)
    again = done.update(posterior)
    assert torch.equal(again.eta, done.eta)  # no endless loop over epochs
    pure = TruncatedVarianceState.initial(grid(), Maximize(), eta=0.0).update(posterior)
    assert pure.epoch == 1 and pure.eta == 0
    exact = build_posterior(ROWS)
    for row in range(36):
        exact.observe(row, truth(grid()[[row]]).item(), 0.0)
    one = torch.arange(36) == 7  # known exactly, and for some reason not classified
    stuck = replace(TruncatedVarianceState.initial(grid(), LevelSet(0.7)), unclassified=one)
    stuck = stuck._next_epochs(exact)
    assert stuck.unclassified[7] and stuck.eta < 1e-10 and bool(stuck.finished)
    least = replace(
        TruncatedVarianceState.initial(grid(), LevelSet(0.7), eta=0.0), unclassified=one
    )
    assert least._next_epochs(exact).epoch == 1


def test_an_epoch_ends_on_its_target() -> None:
    posterior: Any = SimpleNamespace(
        domain=grid(),
        batch_shape=torch.Size(),
        mean=torch.zeros(36).double(),
        variance=torch.full((36,), 0.25).double(),
        prior_variance=torch.tensor(4.0).double(),
        resolution=torch.tensor(0.0).double(),
        num_samples=torch.tensor(0),
        outcome_range=torch.tensor([-1.0, 1.0]),
    )
    start = TruncatedVarianceState.initial(grid(), LevelSet(0.0), eta=0.5, r=0.9)
    for beta, epoch in ((4.0, 2), (4.01, 1)):  # sqrt(beta) sigma is 1, and so is the target
        state = replace(start, beta=torch.tensor(beta).double())
        assert state.update(posterior).epoch == epoch


def test_a_domain_of_one_point_has_no_width_at_first_and_nothing_to_gain() -> None:
    posterior = build_posterior(torch.tensor([0]), grid()[:1])
    for eta in (0.0, 1.0):
        state = TruncatedVarianceState.initial(grid()[:1], LevelSet(0.0), eta=eta)
        assert state.beta == 0
        assert state.target_variance(posterior) == torch.inf
        acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE)
        assert acqf.evaluate_domain().tolist() == [0.0]
        assert acqf.select(2).row.tolist() == [-1, -1]


def test_replicates_equal_the_loop() -> None:
    rows = torch.tensor([[3, 13, 30], [0, 8, 35]])
    posterior = build_posterior(rows)
    both = TruncatedVarianceState.initial(grid(), Maximize(), batch_shape=(2,)).update(
        posterior, cost=torch.tensor([1.0, 2.0])
    )
    for r in range(2):
        one = TruncatedVarianceState.initial(grid(), Maximize()).update(build_posterior(rows[r]))
        for name in ("unclassified", "eta", "beta", "epoch", "epoch_start"):
            assert torch.equal(getattr(both, name)[r], getattr(one, name))
    assert both.cost.tolist() == [1.0, 2.0]


def test_relative_level() -> None:
    half = RelativeLevelSet(0.5)
    lower = torch.tensor([0.0, 3.0, 3.6, 0.2, 2.6]).double()
    upper = torch.tensor([2.0, 3.8, 4.0, 0.9, 3.2]).double()
    every = torch.ones(5, dtype=torch.bool)
    # The level is in [1.8, 2.0]: point 0 is open, 1, 2 and 4 are high, 3 is low; 1 and 2 may
    # be the maximum (upper >= 3.6) and stay.
    within, high, low = half.classify((every, ~every, ~every), lower, upper)
    assert within.tolist() == [True, True, True, False, False]
    assert high.tolist() == [False, True, True, False, True]
    assert low.tolist() == [False, False, False, True, False]
    # Later bounds: 1 is no maximum, 0 is low; nothing that was classified is so again.
    lower, upper = lower + 0.1, upper.clone()
    upper[0], upper[1], lower[4] = 1.7, 3.2, -9.0
    within, high, low = half.classify((within, high, low), lower, upper)
    assert within.tolist() == [False, False, True, False, False]
    assert high.tolist() == [False, True, True, False, True]
    assert low.tolist() == [True, False, False, True, False]
    below = torch.full((5,), -5.0).double() + lower  # a negative maximum, shifted
    from_below = RelativeLevelSet(0.5, baseline=-5.0)
    shifted = from_below.classify((every, ~every, ~every), below, below + 0.1)
    plain = half.classify((every, ~every, ~every), lower, lower + 0.1)
    for one, other in zip(shifted, plain, strict=True):
        assert torch.equal(one, other)
    state = TruncatedVarianceState.initial(grid(), RelativeLevelSet(0.5))
    posterior = build_posterior(torch.arange(36), noise=1e-6)
    state = state.update(posterior)
    values = truth(grid())[:, 0]
    assert bool(state.finished) and state.unclassified.any()  # the maximum stays
    assert torch.equal(state.high, values > values.max() / 2)


@pytest.mark.parametrize(
    "options",
    [
        {"goal": Maximize()},
        {"goal": LevelSet(0.7), "width": GuaranteedWidth(0.1, (3.0, 4.0))},
        {"goal": RelativeLevelSet(0.3, -5.0), "monotone": False},
    ],
)
def test_state_dict_is_exact(options: dict[str, Any]) -> None:
    posterior = build_posterior(ROWS)
    state = TruncatedVarianceState.initial(grid(), r=0.3, **options).update(posterior, 1 / 3)
    file = io.BytesIO()
    torch.save(state.state_dict(), file)
    file.seek(0)
    back = TruncatedVarianceState.from_state_dict(torch.load(file, weights_only=True))
    for field in fields(state):
        one, other = getattr(state, field.name), getattr(back, field.name)
        assert torch.equal(one, other) if isinstance(one, Tensor) else one == other
    posterior.observe(20, 0.5, NOISE)
    assert torch.equal(back.update(posterior).unclassified, state.update(posterior).unclassified)
    sizes = [value.numel() for value in state.state_dict().values() if isinstance(value, Tensor)]
    assert max(sizes) == 36  # no |D| x |D| matrix


def test_states_that_were_stored_know_their_domain() -> None:
    r"""The hash of a domain is part of what is stored: another one would refuse all old states."""
    state = TruncatedVarianceState.initial(torch.tensor([[0.0], [0.5]]).double(), Maximize())
    assert "59b6f585279d37a43fd1d86fbd47c1be" in state.state_dict().values()


def test_warns_when_the_best_point_was_ruled_out() -> None:
    posterior = build_posterior(ROWS)
    state = TruncatedVarianceState.initial(grid(), Maximize()).update(posterior)
    best = posterior.mean.argmax()
    lost = replace(state, unclassified=state.unclassified.index_fill(0, best, False))
    with pytest.warns(BotorchWarning, match=rf"index \[{best}\] in 1 of 1 replicates"):
        lost = lost.update(posterior)
    assert bool(lost.best_excluded)
    lost.update(posterior)  # once is enough
    two = build_posterior(torch.stack([ROWS, ROWS]))
    start = TruncatedVarianceState.initial(grid(), Maximize(), batch_shape=(2,)).update(two)
    within = start.unclassified.clone()
    within[1, best] = False
    with pytest.warns(BotorchWarning, match=rf"index \[{best}\] in 1 of 2 replicates"):
        assert replace(start, unclassified=within).update(two).best_excluded.tolist() == [0, 1]
    free = replace(state, unclassified=lost.unclassified, monotone=False)
    assert not free.update(posterior).best_excluded


def test_warns_of_a_level_far_from_the_data() -> None:
    posterior = build_posterior(ROWS)
    with pytest.warns(InputDataWarning, match=r"Got 9\.0 for outcomes in \[-0\.22.*, 1\.7"):
        TruncatedVarianceState.initial(grid(), LevelSet(9.0)).update(posterior)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = TruncatedVarianceState.initial(grid(), LevelSet(9.0)).update(posterior)
        first.update(posterior)  # once is enough
    assert len(caught) == 1
    with pytest.warns(InputDataWarning, match="baseline below the largest outcome"):
        TruncatedVarianceState.initial(grid(), RelativeLevelSet(0.5, 5.0)).update(posterior)
    single = build_posterior(ROWS[:1])
    TruncatedVarianceState.initial(grid(), LevelSet(9.0)).update(single)  # says nothing yet


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"goal": Maximize(), "r": 0.0}, ValueError, r"`r` in \(0, 1\). Got 0.0"),
    ({"goal": Maximize(), "r": 1.0}, ValueError, r"`r` in \(0, 1\). Got 1.0"),
    ({"goal": Maximize(), "eta": -1.0}, ValueError, "`eta` and `slack` >= 0"),
    ({"goal": Maximize(), "eta": math.inf}, ValueError, "`eta` and `slack` >= 0"),
    ({"goal": Maximize(), "slack": math.inf}, ValueError, "`eta` and `slack` >= 0"),
    ({"goal": Maximize(), "a": 0.0}, ValueError, "`a` to be finite and > 0"),
    ({"goal": Maximize(), "domain": grid()[:0]}, BotorchTensorDimensionError, "one point"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD)
def test_bad_arguments(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TruncatedVarianceState.initial(**{"domain": grid(), **options})


def test_bad_parts() -> None:
    for fraction in (0.0, 1.0):
        with pytest.raises(ValueError, match="`fraction` in"):
            RelativeLevelSet(fraction)
    with pytest.raises(ValueError, match="finite `baseline`"):
        RelativeLevelSet(0.5, math.inf)
    for threshold in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite `threshold`"):
            LevelSet(threshold)
    other = TruncatedVarianceState.initial(grid() + 1e-6, Maximize())
    with pytest.raises(InputDataError, match="the domain that the state was built for"):
        other.update(build_posterior(ROWS))
    batched = TruncatedVarianceState.initial(grid(), Maximize(), batch_shape=(2,))
    with pytest.raises(InputDataError, match=r"\(2, 36\). Got another domain, \(36,\)"):
        batched.update(build_posterior(ROWS))
