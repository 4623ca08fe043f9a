r"""Posterior means and variances at many points: `Belief` against `model.posterior`.

    python -m bench.speed.marginals [--device cuda]

Squared-exponential and Matern-5/2 kernels, n = 100 and d = 3 (more on a GPU). The ratio is the
median time of `model.posterior(X.unsqueeze(-2))`, mean and variance, over that of the
predictor. On the CPU the memory is the growth of the peak resident set in a process of its
own; on a GPU the peak of the allocator, and the rate is that of the two matrix products of the
closed form as a fraction of the device's own FP64 matrix rate, measured beside it.
"""

import argparse
import multiprocessing
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import MaternKernel, RBFKernel
from torch import Tensor

from bench.speed.timing import environment, interleaved
from botorch_risk.engine import Belief

DIMENSION = 3
KERNELS = {
    "RBF": lambda: RBFKernel(ard_num_dims=DIMENSION),
    "Matern-5/2": lambda: MaternKernel(nu=2.5, ard_num_dims=DIMENSION),
}
CPU_POINTS = (1, 50, 1024, 51_200)
GPU_POINTS = (1024, 51_200, 10**6)


def build(kernel: str, n: int, device: str) -> SingleTaskGP:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(n, DIMENSION, generator=generator, dtype=torch.float64)
    Y = (4 * X.sum(dim=-1, keepdim=True)).sin()
    model = SingleTaskGP(X, Y, covar_module=KERNELS[kernel]())
    model.covar_module.lengthscale = 0.4
    model.likelihood.noise = 1e-4
    return model.to(device).eval()


def points(m: int, device: str) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(m, DIMENSION, generator=generator, dtype=torch.float64)
    return X.to(device)


def posterior_moments(model: SingleTaskGP, X: Tensor) -> tuple[Tensor, Tensor]:
    posterior = model.posterior(X.unsqueeze(-2))
    return posterior.mean[:, 0, 0], posterior.variance[:, 0, 0]


def forward(moments: Callable[[Tensor], tuple[Tensor, Tensor]], X: Tensor) -> None:
    with torch.no_grad():
        moments(X)


def backward(moments: Callable[[Tensor], tuple[Tensor, Tensor]], X: Tensor) -> None:
    X = X.clone().requires_grad_()
    mean, variance = moments(X)
    torch.autograd.grad((mean + 2 * variance.sqrt()).sum(), X)


PASSES = {"forward": forward, "forward + backward": backward}


def ways(model: SingleTaskGP) -> dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]]:
    return {"posterior": lambda X: posterior_moments(model, X), "predictor": Belief(model)}


def _peak(way: str, kernel: str, m: int, passes: str, connection: object) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    model, X = build(kernel, 100, "cpu"), points(m, "cpu")
    moments = ways(model)[way]
    PASSES[passes](moments, X[:8])
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _peak_resident_set()
    PASSES[passes](moments, X)
    connection.send((_peak_resident_set() - before) / 1024)  # type: ignore[attr-defined]


def _peak_resident_set() -> int:
    r"""In kB, on Linux."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1])  # type: ignore[index]


def peak_memory(way: str, kernel: str, m: int, passes: str, device: str) -> float:
    r"""Extra memory in MB."""
    if device != "cpu":
        model, X = build(kernel, 100, device), points(m, device)
        moments = ways(model)[way]
        PASSES[passes](moments, X[:8])
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        PASSES[passes](moments, X)
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_peak, args=(way, kernel, m, passes, sender))
    process.start()
    megabytes = receiver.recv()
    process.join()
    return megabytes


def agreement(model: SingleTaskGP, X: Tensor) -> tuple[float, float]:
    r"""Largest differences: mean over the outcome range, variance over the prior variance."""
    theirs, ours = posterior_moments(model, X), Belief(model)(X)
    targets = model.outcome_transform.untransform(model.train_targets.unsqueeze(-1))[0]
    scale = model.outcome_transform._stdvs_sq.item()
    return (
        ((theirs[0] - ours[0]).abs().max() / (targets.max() - targets.min())).item(),
        ((theirs[1] - ours[1]).abs().max() / scale).item(),
    )


def matrix_rate(device: str) -> float:
    r"""The device's own rate of FP64 matrix products, in flop / s."""
    size = 4096
    square = torch.rand(size, size, dtype=torch.float64, device=device)
    seconds = interleaved({"product": lambda: square @ square}, 5, device)["product"]
    return 2 * size**3 / seconds


def compare(device: str, sizes: tuple[int, ...], counts: tuple[int, ...]) -> None:
    print(
        "| kernel | n | points | pass | posterior, ms | predictor, ms | ratio | memory, MB |",
        end="",
    )
    print(" fraction of FP64 rate |" if device != "cpu" else "")
    print("|---" * (9 if device != "cpu" else 8) + "|")
    rate = matrix_rate(device) if device != "cpu" else 0.0
    for kernel in KERNELS:
        for n in sizes:
            model = build(kernel, n, device)
            both = ways(model)
            for m in counts:
                X = points(m, device)
                for name, run in PASSES.items():
                    turns = {way: partial(run, moments, X) for way, moments in both.items()}
                    if n * m > 2e8:  # the posterior would need more memory than there is
                        del turns["posterior"]
                    seconds = interleaved(turns, 5 if m > 10_000 else 15, device)
                    ours, theirs = seconds["predictor"], seconds.get("posterior", float("nan"))
                    cells = [kernel, f"{n}", f"{m:,}", name, f"{1e3 * theirs:.2f}"]
                    cells += [f"{1e3 * ours:.2f}", f"{theirs / ours:.1f}"]
                    cells.append(
                        _memory(turns, kernel, m, name, device) if n == 100 and m > 1000 else ""
                    )
                    if device != "cpu":
                        flops = 2 * m * n * n * (2 if name != "forward" else 1)
                        cells.append(f"{flops / ours / rate:.2f}")
                    print(f"| {' | '.join(cells)} |", flush=True)
        mean, variance = agreement(build(kernel, 100, device), points(4096, device))
        print(f"\n{kernel}: mean within {mean:.0e} of the outcome range, variance within ", end="")
        print(f"{variance:.0e} of the prior variance (noise 1e-4, float64).\n")


def _memory(turns: dict[str, object], kernel: str, m: int, name: str, device: str) -> str:
    cells = (f"{peak_memory(way, kernel, m, name, device):.0f}" for way in turns)
    return " to ".join(cells)


def main(device: str = "cpu") -> None:
    print(f"## Marginals\n\n{environment(device)}. Memory: posterior to predictor.\n")
    compare(
        device,
        (100,) if device == "cpu" else (100, 300, 1000),
        CPU_POINTS if device == "cpu" else GPU_POINTS,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(parser.parse_args().device)
