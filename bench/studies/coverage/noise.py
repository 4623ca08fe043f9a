r"""Is the noise of single readings in its band? Draws of a Matern-5/2 process, constant noise.

    python -m bench.studies.coverage.noise

Each function has variance 1 and lengthscales of 0.25 in one input and 0.5 in two. Both beliefs see
the same readings; their bounds of two standard deviations are compared with the truth at 20 random
points of each function. A row is a setting, a number of readings at each point, and a belief.
"""

import math

import torch
from torch import Tensor

from bench.reproduction.tables import table
from botorch_risk.models import MeanVarianceGP, MeanVarianceSamples

SETTINGS = ((15, 1, 0.05), (15, 1, 0.5), (25, 2, 0.05), (25, 2, 0.5), (25, 2, 1.0), (40, 2, 0.5))
REPEATS = (1, 2, 3)
NUM_FUNCTIONS, NUM_POINTS, BETA = 60, 20, 4.0


def readings(n: int, d: int, noise: float, k: int) -> tuple[Tensor, Tensor, Tensor]:
    r"""Inputs and readings of all functions, and the points to predict."""
    generator = torch.Generator().manual_seed(1000 * n + 100 * d + k)
    Z = torch.rand(NUM_FUNCTIONS, n + NUM_POINTS, d, generator=generator, dtype=torch.double)
    r = math.sqrt(5) * torch.cdist(Z, Z) / (0.25 if d == 1 else 0.5)
    K = (1 + r + r.square() / 3) * (-r).exp() + 1e-8 * torch.eye(n + NUM_POINTS)
    normal = torch.randn(NUM_FUNCTIONS, n + NUM_POINTS, 1, generator=generator, dtype=torch.double)
    f = torch.linalg.cholesky(K) @ normal
    eps = torch.randn(NUM_FUNCTIONS, n, k, generator=generator, dtype=torch.double)
    return Z[:, :n], f[:, :n] + math.sqrt(noise) * eps, Z[:, n:]


@torch.no_grad()
def of_belief(model: MeanVarianceGP | MeanVarianceSamples, X: Tensor, noise: float) -> list[str]:
    r"""Medians over functions of the prediction and the upper bound, and where the truth lies."""
    predicted = model.predicted_noise(X).squeeze(-1).mean(dim=-1) / noise
    lower, upper = (each / noise for each in model.noise_confidence_bounds(X, BETA))
    above, below = ((each).double().mean() for each in (upper < 1, lower > 1))
    return [
        f"{predicted.median():.2f}",
        f"{upper.mean(dim=-1).median():.1f}",
        f"{100 * above:.1f} %",
        f"{100 * below:.1f} %",
    ]


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for n, d, noise in SETTINGS:
        for k in REPEATS:
            X, Y, T = readings(n, d, noise, k)
            fitted = MeanVarianceGP(X, Y)
            fitted.fit_processes()
            sampled = MeanVarianceSamples(X, Y, seeds=range(NUM_FUNCTIONS))
            for name, model in (("fitted", fitted), ("sampled", sampled)):
                names = [f"{n}, {d}", f"{noise:g}", str(k), name]
                rows.append([*names, *of_belief(model, T, noise)])
                print(rows[-1], flush=True)
    head = ["points, inputs", "noise", "readings", "belief", "predicted", "upper bound"]
    print(table([*head, "truth above it", "truth below the lower bound"], rows))


if __name__ == "__main__":
    main()
