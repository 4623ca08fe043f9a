r"""Landing on the moon with a controller of twelve parameters."""

from collections.abc import Sequence
from typing import Any

from botorch_risk_bench.problems.simulation import SimulatedTestProblem

NOTHING, LEFT_ENGINE, MAIN_ENGINE, RIGHT_ENGINE = range(4)


class LunarLanding(SimulatedTestProblem):
    r"""Mean final reward of a lander over terrains, to be maximised over its controller.

    The controller of `action`, on [0, 2]^12, and Gymnasium's `LunarLander`; the twelve-dimensional
    task of [Eriksson2019turbo]_ that UHE-BO is run on. Terrains are seeded and the same for every
    point: outcomes have no noise but `noise_std`. Needs Gymnasium with Box2D, the extra `problems`.
    A flight takes tenths of a second.
    """

    dim = 12
    continuous_inds: list[int] = list(range(12))  # noqa: RUF012 as in BoTorch
    _bounds: list[tuple[float, float]] = [(0.0, 2.0)] * 12

    def __init__(
        self, num_terrains: int = 50, seed: int = 0, noise_std: float | None = None
    ) -> None:
        r"""Builds the problem.

        Args:
            num_terrains: How many flights a point is averaged over.
            seed: Seed of the first terrain; the others follow from it.
        """
        if num_terrains < 1:
            raise ValueError(f"Expected at least one terrain. Got {num_terrains=}.")
        super().__init__(noise_std=noise_std)
        self.num_terrains, self.seed = num_terrains, seed

    def _simulate(self, x: tuple[float, ...]) -> float:
        lander = _lander()
        seeds = range(self.seed, self.seed + self.num_terrains)
        reward = sum(_fly(lander, x, seed) for seed in seeds) / self.num_terrains
        lander.close()
        return reward


def action(state: Sequence[float], w: Sequence[float]) -> int:
    r"""Which engine to fire: a proportional and derivative controller with twelve parameters.

    The lander should lean towards the pad, against its drift, by at most `w[2]`, and hover the
    higher the farther away it is. Angle and height are each steered by what is left to their target
    and by their speeds; with a leg on the ground it turns by a constant and brakes. Engines fire
    above thresholds.

    Args:
        state: Horizontal and vertical position and speed, angle and its speed, contacts of both
            legs with the ground.
        w: The parameters.
    """
    x, y, speed_x, speed_y, angle, turn, left_leg, right_leg = state
    lean = min(max(w[0] * x + w[1] * speed_x, -w[2]), w[2])
    turning = w[4] * (lean - angle) - w[5] * turn
    lifting = w[6] * (w[3] * abs(x) - y) - w[7] * speed_y
    if left_leg or right_leg:
        turning = w[8]
        lifting = -w[9] * speed_y
    if lifting > abs(turning) and lifting > w[10]:
        return MAIN_ENGINE
    if turning < -w[11]:
        return RIGHT_ENGINE
    return LEFT_ENGINE if turning > w[11] else NOTHING


def _fly(lander: Any, w: Sequence[float], seed: int) -> float:
    state, _ = lander.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        state, reward, landed, out_of_time, _ = lander.step(action(state, w))
        total, over = total + float(reward), landed or out_of_time
    return total


def _lander() -> Any:
    try:
        import Box2D  # noqa: F401
        import gymnasium
    except ImportError as error:
        raise ImportError(
            "Expected Gymnasium and Box2D, which simulate the flight. Install them with "
            "`pip install 'botorch-risk-bench[problems]'`."
        ) from error
    return gymnasium.make("LunarLander-v3")
