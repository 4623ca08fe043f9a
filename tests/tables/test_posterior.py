r"""The joint posterior of a table, against the same process written out."""

import numpy as np
import pytest
import torch

from botorch_risk.tables.kernel import TableHyperparameters, TableReadings
from botorch_risk.tables.posterior import TablePosterior, joint_samples
from tests.tables import examples
from tests.tables.examples import CONDITIONS, CONTEXTS, N_W

N_X = len(CONDITIONS)


def close(ours: torch.Tensor, theirs: np.ndarray, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("noise_share", [0.0, 0.1, 1.0])
def test_moments(noise_share: float) -> None:
    data, theta = examples.readings(noise_share=noise_share), examples.hyperparameters()
    posterior = TablePosterior.of(data, theta)
    mean, covariance, noise = examples.moments(data, theta)
    close(posterior.mean.flatten(), mean, 1e-8)
    close(posterior.variance.flatten(), covariance.diagonal().clip(0), 1e-8)
    close(posterior.read.noise, np.array([noise]))
    square = covariance.reshape(N_X, N_W, N_X, N_W)
    blocks = np.stack([square[x, :, x] for x in range(N_X)])
    close(posterior.covariance_over_contexts(torch.arange(N_X)[None])[0], blocks, 1e-8)
    some = torch.tensor([[3, 1]])
    close(posterior.covariance_over_contexts(some)[0], blocks[[3, 1]], 1e-8)
    weights = torch.rand(1, N_X, N_W, generator=torch.Generator().manual_seed(0)).double()
    combined = np.einsum("xw,xwyv,yv->xy", weights[0], square, weights[0])
    close(posterior.variance_of_combined(weights)[0], combined.diagonal(), 1e-8)
    found = posterior.variance_of_combined(weights[:, [3, 1]], some)
    close(found[0], combined.diagonal()[[3, 1]], 1e-8)
    deviation = np.sqrt(covariance.diagonal().clip(0) + noise)
    moves = np.einsum("xw,xwj->xj", weights[0], square.reshape(N_X, N_W, -1)) / deviation
    found = posterior.moves(weights[:, [0, 4]], torch.tensor([[0, 4]]), torch.tensor([[2, 3, 1]]))
    close(found[0], moves.reshape(N_X, N_X, N_W)[[0, 4]][:, [2, 3, 1]], 1e-7)
    close(posterior.row_of(torch.tensor([6]))[0].flatten(), covariance[6] / deviation[6], 1e-7)


@pytest.mark.parametrize("y", [5.7, None])
def test_a_further_reading_is_a_row_of_the_data(y: float | None) -> None:
    data, theta = examples.readings(noise_share=0.4), examples.hyperparameters()
    posterior = TablePosterior.of(data, theta)
    unread = next(j for j in range(N_X * N_W) if j not in data.pairs[0].tolist())
    outcome = posterior.mean.flatten(1)[:, unread] if y is None else torch.tensor([y]).double()
    after = posterior.with_reading(
        torch.tensor([unread]), None if y is None else torch.tensor([y]).double()
    )
    # The constant mean and the units follow from the data alone, as in any rank-one update.
    mean, covariance, noise = examples.moments(data, theta)
    gain = covariance[:, unread] / (covariance[unread, unread] + noise)
    close(after.mean.flatten(), mean + gain * (outcome.item() - mean[unread]), 1e-8)
    close(after.variance.flatten(), covariance.diagonal() - gain * covariance[:, unread], 1e-8)
    again = after.with_reading(torch.tensor([3]))
    close(again.variance.flatten()[[3]], np.array([0.0]), 0.2)
    assert (again.variance <= after.variance + 1e-12).all()


def test_replicates_and_rows_of_hyperparameters_are_apart() -> None:
    data, theta = examples.readings(3), examples.hyperparameters(3)
    posterior = TablePosterior.of(data, theta)
    for i in range(3):
        alone = TableReadings(CONDITIONS, CONTEXTS, data.pairs[[i]], data.Y[[i]])
        row = TableHyperparameters(*(each[[i]] for each in theta))
        single = TablePosterior.of(alone, row)
        torch.testing.assert_close(single.mean[0], posterior.mean[i])
        torch.testing.assert_close(single.variance[0], posterior.variance[i])
        shared = TablePosterior.of(alone, theta)  # one set of readings under three rows
        torch.testing.assert_close(shared.mean[i], posterior.mean[i])


def test_known_pairs_are_known_and_agree_with_their_readings() -> None:
    data = examples.readings(noise_share=0.0)
    posterior = TablePosterior.of(data, examples.hyperparameters())
    read = posterior.mean.flatten(1).gather(1, data.pairs)
    torch.testing.assert_close(read, data.Y, rtol=1e-4, atol=1e-4)
    assert (posterior.variance.flatten(1).gather(1, data.pairs) < 1e-4).all()


@pytest.mark.parametrize("noise_share", [0.1, 1.0])
def test_joint_samples_have_the_moments_of_the_process(noise_share: float) -> None:
    data, theta = examples.readings(noise_share=noise_share), examples.hyperparameters()
    data = TableReadings(
        CONDITIONS, CONTEXTS, data.pairs.index_fill(1, torch.tensor([2]), 3), data.Y, noise_share
    )
    some, number = torch.tensor([3, 0, 1]), 40_000
    generator = torch.Generator().manual_seed(0)
    (samples,) = joint_samples(data.averaged(), theta, some, number, generator)
    mean, covariance, _ = examples.moments(data, theta)
    pairs = (some.unsqueeze(-1) * N_W + torch.arange(N_W)).flatten().numpy()
    found = samples.movedim(0, 1).flatten(1).numpy()
    expected = covariance[np.ix_(pairs, pairs)]
    deviation = np.sqrt(expected.diagonal())
    assert (np.abs(found.mean(axis=0) - mean[pairs]) < 5 * deviation / np.sqrt(number)).all()
    error = np.abs(np.cov(found.T) - expected) / np.outer(deviation, deviation)
    assert error.max() < 5 * np.sqrt(2 / number)
    half = samples[:, : number // 2] + samples[:, number // 2 :]  # of opposite signs
    close((half / 2).amax(dim=1), mean.reshape(N_X, N_W)[some], 1e-9)
    close((half / 2).amin(dim=1), mean.reshape(N_X, N_W)[some], 1e-9)


def test_other_conditions_say_nothing_that_readings_do_not() -> None:
    data, theta = examples.readings(), examples.hyperparameters()
    some = torch.tensor([3, 1])
    part, at = data.of_conditions(some)
    assert len(part.conditions) <= len(CONDITIONS)
    whole, kept = (TablePosterior.of(data, theta), TablePosterior.of(part, theta))
    assert [part.conditions.names[i] for i in at] == [CONDITIONS.names[i] for i in some]
    for name in ("mean", "variance"):
        torch.testing.assert_close(getattr(kept, name)[:, at], getattr(whole, name)[:, some])
