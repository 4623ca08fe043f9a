r"""One step of V-UCB, the choice of x and w, against the same step in plain BoTorch.

    python -m bench.speed.value_at_risk_step

Hartmann (2, 1), n = 60 random observations, 100 equally spaced values of W, level 0.1, beta = 6,
one replicate, the model fitted beforehand. The plain way is `model.posterior` at all (x, w), one
by one or jointly for a decision, a sort for the value-at-risk of the upper bound, `optimize_acqf`
with as many starts and raw points, and the set of lacing values by hand. Beside it a step, fit
included, of the outside baselines. Then a step, and an evaluation of the acquisition function at 4
decisions, without and with its gradient, as n_w grows. All in CPU time.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable, Sequence

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.utils.transforms import t_batch_mode_transform
from botorch_risk_bench.baselines import rho_knowledge_gradient, value_at_risk_log_nei
from torch import Tensor

from bench.speed.timing import environment, interleaved
from botorch_risk.acquisition import RiskUpperConfidenceBound, select_lacing_value
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.fit import fit_exact_gp
from botorch_risk.optim import optimize_acqf_replicates
from botorch_risk.risk import ValueAtRisk
from botorch_risk.strategies import Strategy, v_ucb
from botorch_risk.test_functions import ValueAtRiskHartmann

PROBLEM = ValueAtRiskHartmann(2)
BOUNDS, GRID = PROBLEM.bounds[:, :2], PROBLEM.environment
LEVEL, BETA, RESTARTS, RAW, NUM_OBSERVATIONS = 0.1, 6.0, 10, 256, 60
SIZES = (1_000, 3_162, 10_000, 31_623, 100_000)


class PlainBound(AcquisitionFunction):
    r"""`VaR(u(x, W))` by a sort of the posterior of all (x, w), jointly or each by itself."""

    def __init__(self, model: SingleTaskGP, joint: bool) -> None:
        super().__init__(model)
        self.joint = joint

    def bounds_of(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bounds, `batch_shape x n_w`, at `batch_shape x 1 x d_x` decisions."""
        shape = (*X.shape[:-2], len(GRID.points))
        pairs = torch.cat([X.expand(*shape, 2), GRID.points.expand(*shape, 1)], dim=-1)
        posterior = self.model.posterior(pairs if self.joint else pairs.unsqueeze(-2))
        mean, variance = posterior.mean.reshape(shape), posterior.variance.reshape(shape)
        width = (BETA * variance).sqrt()
        return mean - width, mean + width

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        return value_at_risk(self.bounds_of(X)[1])


def value_at_risk(values: Tensor) -> Tensor:
    ordered, order = values.sort(dim=-1)
    reached = GRID.weights[order].cumsum(dim=-1) >= LEVEL
    return ordered.gather(-1, reached.long().argmax(dim=-1, keepdim=True)).squeeze(-1)


def observations() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(NUM_OBSERVATIONS, 2, generator=generator, dtype=torch.double)
    W = GRID.points[torch.randint(len(GRID.points), (NUM_OBSERVATIONS,), generator=generator)]
    X = torch.cat([X, W], dim=-1)
    noise = 0.1 * torch.randn(NUM_OBSERVATIONS, 1, generator=generator, dtype=torch.double)
    return X, PROBLEM(X, noise=False).unsqueeze(-1) + noise


def fitted() -> SingleTaskGP:
    model = SingleTaskGP(*observations())
    fit_exact_gp(model)
    return model.eval().requires_grad_(False)


def plain_step(model: SingleTaskGP, joint: bool) -> tuple[Tensor, float]:
    bound = PlainBound(model, joint)
    X, value = optimize_acqf(
        bound, BOUNDS, q=1, num_restarts=RESTARTS, raw_samples=RAW, options={"seed": 0}
    )
    with torch.no_grad():
        lower, upper = bound.bounds_of(X)
        lacing = (lower <= value_at_risk(lower)) & (upper >= value_at_risk(upper))
    most_probable = GRID.weights.masked_fill(~lacing, -1.0).argmax()
    return torch.cat([X[0], GRID.points[most_probable]]), float(value)


def our_step(model: SingleTaskGP, grid: DiscreteEnvironment = GRID) -> tuple[Tensor, float]:
    bound = RiskUpperConfidenceBound(model, grid, ValueAtRisk(LEVEL), BETA)
    X, value = optimize_acqf_replicates(
        bound, BOUNDS, seeds=0, num_restarts=RESTARTS, raw_samples=RAW
    )
    return select_lacing_value(bound, X, seeds=0)[0, 0], float(value)


def strategies() -> dict[str, Callable[[], object]]:
    r"""A step of each strategy, by its own defaults, fit included."""
    X, Y = (each.unsqueeze(0) for each in observations())

    def asking(make: Callable[..., Strategy]) -> Callable[[], Tensor]:
        def ask() -> Tensor:
            strategy = make(BOUNDS, 0, environment=GRID, risk_level=LEVEL, num_initial=Y.shape[1])
            strategy.tell(X, Y)
            return strategy.ask()

        return ask

    methods = (v_ucb, value_at_risk_log_nei, rho_knowledge_gradient)
    return {make.__name__: asking(make) for make in methods}


def steps(repeats: int, outside: int) -> None:
    model = fitted()
    ways: dict[str, Callable[[], tuple[Tensor, float]]] = {
        "plain BoTorch, each (x, w) by itself": lambda: plain_step(model, joint=False),
        "plain BoTorch, the (x, w) of a decision jointly": lambda: plain_step(model, joint=True),
        "ours": lambda: our_step(model),
    }
    seconds = interleaved(ways, repeats, clock=time.process_time)
    print("| the choice of x and w | ms | times ours | value of the bound | query |")
    print("|---|---|---|---|---|")
    for name, way in ways.items():
        query, value = way()
        ratio, rounded = (
            seconds[name] / seconds["ours"],
            [round(each, 4) for each in query.tolist()],
        )
        print(f"| {name} | {1e3 * seconds[name]:.0f} | {ratio:.1f} | {value:.6f} | {rounded} |")
    print("\n| a step of a strategy, fit included | seconds |\n|---|---|", flush=True)
    for name, value in interleaved(strategies(), outside, clock=time.process_time).items():
        print(f"| {name} | {value:.2f} |", flush=True)


def growth(repeats: int) -> None:
    model, X = fitted(), torch.rand(4, 2, generator=torch.Generator().manual_seed(1)).double()
    rows = []
    for n_w in SIZES:
        grid = DiscreteEnvironment(torch.linspace(0, 1, n_w, dtype=torch.double).unsqueeze(-1))
        bound = RiskUpperConfidenceBound(model, grid, ValueAtRisk(LEVEL), BETA)
        trial = X.clone().requires_grad_()

        def value(bound: RiskUpperConfidenceBound = bound) -> Tensor:
            with torch.no_grad():
                return bound.upper(X)

        def gradient(
            bound: RiskUpperConfidenceBound = bound, trial: Tensor = trial
        ) -> tuple[Tensor, ...]:
            return torch.autograd.grad(bound.upper(trial).sum(), trial)

        ways: dict[str, Callable[[], object]] = {"value": value, "gradient": gradient}
        seconds = interleaved(ways, repeats, clock=time.process_time)
        start = time.process_time()
        our_step(model, grid)
        step = time.process_time() - start
        rows.append((n_w, step, seconds["value"], seconds["gradient"]))
    print("\n| n_w | step, s | value, ms | with gradient, ms | the same / (n_w log n_w), ns |")
    print("|---|---|---|---|---|")
    for n_w, step, *both in rows:
        shown = [f"{step:.2f}", *(f"{1e3 * each:.1f}" for each in both)]
        scaled = [f"{1e9 * each / (n_w * math.log(n_w)):.0f}" for each in (step, *both)]
        print(f"| {n_w:,} | {' | '.join(shown)} | {', '.join(scaled)} |")
    for column, name in ((1, "step"), (2, "value"), (3, "with gradient")):
        slopes = [slope(rows, column), slope([(n, n * math.log(n)) for n, *_ in rows], 1)]
        print(f"\nSlope, {name}: {slopes[0]:.2f}; of n_w log n_w {slopes[1]:.2f}.")


def slope(rows: Sequence[tuple[float, ...]], column: int) -> float:
    r"""Of the logarithm of a column against that of the first, from the first row to the last."""
    first, last = rows[0], rows[-1]
    return math.log(last[column] / first[column]) / math.log(last[0] / first[0])


def main(repeats: int = 5, outside: int = 1) -> None:
    print(f"\n## A step of V-UCB\n\n{environment('cpu')}.\n")
    steps(repeats, outside)
    growth(repeats)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--outside", type=int, default=1, help="repeats of the slow strategies")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
