r"""Searches for the largest value-at-risk of the robot's push, which nothing gives in closed form.

python -m bench.reproduction.vucb.robot_optimum    # seven minutes of one core
"""

import torch
from botorch_risk_bench.problems import ValueAtRiskRobotPushing
from numpy import ndarray
from scipy.optimize import differential_evolution


def main() -> None:
    problem = ValueAtRiskRobotPushing()

    def loss(x: ndarray) -> float:
        return -float(problem.objective(torch.as_tensor(x).view(1, 1, 3)))

    bounds = list(zip(*problem.decision_bounds.tolist(), strict=True))
    for seed in range(2):
        found = differential_evolution(
            loss, bounds, popsize=20, maxiter=60, tol=1e-6, polish=False, rng=seed
        )
        print(f"seed {seed}: {-found.fun:.6f} at {found.x.tolist()}, {found.nfev} evaluations")


if __name__ == "__main__":
    main()
