r"""The report of where a run stands."""

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import InputDataError

from botorch_risk.papers import Maximize, TruncatedVarianceState
from botorch_risk.papers.truvar import status
from tests.acquisition.lake import build_posterior, grid


def test_status_of_replicates() -> None:
    posterior = build_posterior(torch.tensor([[3, 13, 30], [0, 8, 35]]))
    start = TruncatedVarianceState.initial(grid(), Maximize(), eta=2.0, batch_shape=(2,))
    state = start.update(posterior, cost=torch.tensor([2.0, 5.0]))
    report = status(state, posterior)
    variance, within = posterior.variance.numpy(), state.unclassified.numpy()
    assert report.num_unclassified.tolist() == within.sum(axis=-1).tolist()
    largest = [np.sqrt(variance[r][within[r]].max()) for r in range(2)]
    np.testing.assert_allclose(report.largest_deviation, largest)
    np.testing.assert_allclose(report.target, 2 * 0.1 ** (state.epoch.numpy() - 1.0))  # sd is 1
    assert torch.equal(report.epoch, state.epoch)
    assert report.cost.tolist() == [2.0, 5.0]
    other = build_posterior(torch.tensor([[3], [0]]), grid() + 1)
    with pytest.raises(InputDataError, match="the domain that the state was built for"):
        status(state, other)
