r"""One call of `optimize_acqf` under an environment against one of the decision alone.

    python -m bench.speed.environment_step

The user's own loop: BoTorch's optimiser (q = 1, 8 restarts, 128 raw samples) on the expectation of
the upper confidence bound over a kernel density of n_w points, 40 observations of two decision
variables and one context, the model fitted beforehand. Against `UpperConfidenceBound` of the
decision alone, and against BoTorch's own way to an expectation: a model with `AppendFeatures`,
`qUpperConfidenceBound` (32 samples) and `risk_measures.Expectation`. Beside it `forward`, which
BoTorch's optimiser calls with `64 x 1 x d_x` decisions, against `evaluate` of `64 x d_x`, at 1,024
points. All in CPU time.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial

import torch
from botorch.acquisition import AcquisitionFunction, UpperConfidenceBound, qUpperConfidenceBound
from botorch.acquisition import risk_measures as botorch_measures
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import AppendFeatures
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from bench.speed.timing import environment, interleaved
from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.environments import KernelDensityEnvironment
from botorch_risk.fit import fit_exact_gp
from botorch_risk.optim import optimize_acqf_replicates
from botorch_risk.risk import Expectation

BETA, SIZES = 4.0, (64, 256, 1024)
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
PLAIN, OURS = "UpperConfidenceBound of x alone", "ours under `optimize_acqf`"
OWN, BOTORCH = "ours under `optimize_acqf_replicates`", "BoTorch, `AppendFeatures`"


def observations() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(40, 3, generator=generator, dtype=torch.double)
    noise = 0.05 * torch.randn(40, 1, generator=generator, dtype=torch.double)
    return X, (5 * X).sin().sum(dim=-1, keepdim=True) + noise


def fitted(num_columns: int) -> SingleTaskGP:
    X, Y = observations()
    model = SingleTaskGP(X[:, :num_columns], Y)
    fit_exact_gp(model)
    return model.eval().requires_grad_(False)


def of_density(model: SingleTaskGP, n_w: int) -> RiskUpperConfidenceBound:
    learnt = KernelDensityEnvironment(observations()[0][:, 2:], SQUARE[:, :1], n_w=n_w, seeds=0)
    return RiskUpperConfidenceBound(model, learnt, Expectation(), BETA)


def of_appended_features(model: SingleTaskGP, points: Tensor) -> AcquisitionFunction:
    appended = SingleTaskGP(*observations(), input_transform=AppendFeatures(points)).eval()
    appended.load_state_dict(model.state_dict(), strict=False)
    return qUpperConfidenceBound(
        appended.requires_grad_(False),
        BETA,
        objective=botorch_measures.Expectation(len(points)),
        sampler=SobolQMCNormalSampler(torch.Size([32]), seed=0),
    )


def step(acqf: AcquisitionFunction) -> None:
    torch.manual_seed(0)
    optimize_acqf(acqf, SQUARE, q=1, num_restarts=8, raw_samples=128, options={"seed": 0})


def own_step(acqf: AcquisitionFunction) -> None:
    optimize_acqf_replicates(acqf, SQUARE, seeds=0, num_restarts=8, raw_samples=128)


def steps(repeats: int, largest_botorch: int) -> None:
    joint, plain = fitted(3), UpperConfidenceBound(fitted(2), BETA)
    print(f"| n_w | {PLAIN}, ms | {OURS} | {OWN} | {BOTORCH} |\n|---|---|---|---|---|")
    for n_w in SIZES:
        ours = of_density(joint, n_w)
        ways: dict[str, Callable[[], object]] = {
            PLAIN: partial(step, plain),
            OURS: partial(step, ours),
            OWN: partial(own_step, ours),
        }
        if n_w <= largest_botorch:
            theirs = of_appended_features(joint, ours.environment.points)
            ways[BOTORCH] = partial(step, theirs)
        seconds = interleaved(ways, repeats, clock=time.process_time)
        ratios = [
            f"{seconds[way] / seconds[PLAIN]:.1f}x" if way in seconds else "not run"
            for way in (OURS, OWN, BOTORCH)
        ]
        print(f"| {n_w:,} | {1e3 * seconds[PLAIN]:.0f} | {' | '.join(ratios)} |", flush=True)


def faces(repeats: int) -> None:
    r"""What BoTorch's optimisers call against what our own does."""
    acqf = of_density(fitted(3), 1024)
    x = torch.rand(64, 2, generator=torch.Generator().manual_seed(1), dtype=torch.double)

    def value(call: Callable[[Tensor], Tensor], X: Tensor) -> None:
        with torch.no_grad():
            call(X)

    def gradient(call: Callable[[Tensor], Tensor], X: Tensor) -> None:
        call(X.clone().requires_grad_()).sum().backward()

    print("\n| 64 decisions, n_w = 1,024 | `evaluate`, ms | `forward`, ms | ratio |")
    print("|---|---|---|---|")
    for name, run in (("value", value), ("value and gradient", gradient)):
        ways = {
            "evaluate": partial(run, acqf.evaluate, x),
            "forward": partial(run, acqf.forward, x.unsqueeze(-2)),
        }
        seconds = interleaved(ways, 20 * repeats, clock=time.process_time)
        each = [seconds["evaluate"], seconds["forward"]]
        shown = [f"{1e3 * part:.2f}" for part in each]
        print(f"| {name} | {' | '.join(shown)} | {each[1] / each[0]:.2f} |", flush=True)


def main(repeats: int = 5, largest_botorch: int = 256) -> None:
    print(f"\n## A step under an environment\n\n{environment('cpu')}.\n")
    steps(repeats, largest_botorch)
    faces(repeats)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--largest-botorch", type=int, default=256, help="n_w of BoTorch's way")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
