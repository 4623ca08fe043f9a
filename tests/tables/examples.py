r"""Small tables with readings, and the same Gaussian process written out."""

import numpy as np
import torch
from torch import Tensor

from botorch_risk.tables import Factors
from botorch_risk.tables.kernel import TableHyperparameters, TableReadings

CONDITIONS = Factors.of([(f"base {i % 3}", f"salt {i // 3}") for i in range(5)])
CONTEXTS = Factors.of(torch.tensor([[0.0, 1.0], [0.5, 3.0], [2.0, 2.0], [1.0, 7.0]]))
N_W = len(CONTEXTS)


def readings(num_replicates: int = 1, n: int = 9, noise_share: float = 0.1) -> TableReadings:
    generator = torch.Generator().manual_seed(num_replicates)
    pairs = torch.stack(
        [
            torch.randperm(len(CONDITIONS) * N_W, generator=generator)[:n]
            for _ in range(num_replicates)
        ]
    )
    effect = torch.tensor([0.0, 0.3, -0.4, 0.9, 0.5]).double()[pairs // N_W]
    noise = torch.randn(num_replicates, n, generator=generator).double()
    return TableReadings(CONDITIONS, CONTEXTS, pairs, 5 + effect + 0.3 * noise, noise_share)


def hyperparameters(num_replicates: int = 1) -> TableHyperparameters:
    generator = torch.Generator().manual_seed(7)
    theta = torch.randn(num_replicates, 8, generator=generator).double() * 0.5 - 0.5
    return TableHyperparameters.of(theta)


def prior_covariance(theta: TableHyperparameters, noise_share: float) -> np.ndarray:
    r"""Of all pairs, of the first replicate, entry by entry."""
    rates, variances = theta.rates[0].numpy(), theta.variances[0].numpy()
    lasting = (1 - noise_share) * float(theta.own[0])
    points, total = CONTEXTS.features.numpy(), len(CONDITIONS) * N_W
    covariance = np.empty((total, total))
    for i in range(total):
        for j in range(total):
            (x, w), (x2, w2) = divmod(i, N_W), divmod(j, N_W)
            first, second = CONDITIONS.names[x], CONDITIONS.names[x2]
            k_x = np.exp(-sum(rates[c] * (first[c] != second[c]) for c in (0, 1)))
            squares = (points[w] - points[w2]) ** 2
            k_w = np.exp(-rates[2:] @ squares / 4)
            covariance[i, j] = variances @ [k_x, k_w, k_x * k_w] + lasting * (i == j)
    return covariance


def moments(
    data: TableReadings, theta: TableHyperparameters
) -> tuple[np.ndarray, np.ndarray, float]:
    r"""Mean and covariance of all pairs and the noise of one reading, of the first replicate."""
    pairs, Y = data.pairs[0].numpy(), data.Y[0].numpy()
    square = Y.var()
    prior = prior_covariance(theta, data.noise_share) * square
    noise = data.noise_share * float(theta.own[0]) * square + 1e-6 * prior[0, 0]
    A = prior[np.ix_(pairs, pairs)] + noise * np.eye(len(pairs))
    inverse = np.linalg.inv(A)
    one = np.ones(len(pairs))
    constant = one @ inverse @ Y / (one @ inverse @ one)
    cross = prior[:, pairs]
    mean = constant + cross @ inverse @ (Y - constant)
    return mean, prior - cross @ inverse @ cross.T, noise


def equal_weights() -> Tensor:
    return torch.full((N_W,), 1 / N_W, dtype=torch.double)
