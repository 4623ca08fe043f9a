r"""Table 2 of SBO-KDE: how far learnt densities are from the true ones, as a section of tables.md.

python -m bench.reproduction.kde.densities [--to FOLDER]
"""

from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.metrics import MeanAndStandardError
from torch.distributions import Cauchy, Normal

from bench.reproduction.pages import write_sections
from bench.reproduction.results import writing_parser
from bench.reproduction.tables import cell, table
from botorch_risk.environments import KernelDensity, leave_one_out_bandwidth, silverman_bandwidth

# Table 2: mean total variation and its standard error, 20 runs.
PAPER_TABLE_2 = {
    "normal": {
        10: (0.3222, 0.0327),
        100: (0.1315, 0.0088),
        200: (0.1156, 0.0079),
        300: (0.0962, 0.0083),
    },
    "complicated": {
        10: (0.6216, 0.0190),
        100: (0.5380, 0.0333),
        200: (0.4853, 0.0233),
        300: (0.4724, 0.0258),
    },
}
NORMALS = ((0.1, 0.02), (0.3, 0.075), (0.4, 0.1), (0.5, 0.1), (0.7, 0.075), (0.8, 0.03))
DISTRIBUTIONS: dict[str, list[Any]] = {
    "normal": [Normal(0.5, 0.1)],
    "complicated": [
        *(Normal(mean, deviation) for mean, deviation in NORMALS),
        Cauchy(0.2, 0.02),
        Cauchy(0.8, 0.02),
    ],
}


def total_variation(name: str, num_values: int, seed: int) -> dict[str, float]:
    r"""l1 distance over the line between a distribution and densities learnt from draws of it."""
    generator = torch.Generator().manual_seed(seed)
    parts = DISTRIBUTIONS[name]
    uniforms = torch.rand(2, num_values, generator=generator, dtype=torch.double)
    which = (uniforms[0] * len(parts)).long()
    draws = torch.stack([part.icdf(uniforms[1]) for part in parts])
    observed = draws[which, torch.arange(num_values)].unsqueeze(-1)
    # Finely where the mass is, then ever more coarsely into Cauchy's tails.
    inner = torch.linspace(-1.0, 2.0, 30_001, dtype=torch.double)
    tail = torch.logspace(0, 6, 6_001, dtype=torch.double)
    grid = torch.cat([inner[0] + 1 - tail.flip(0), inner[1:-1], inner[-1] - 1 + tail])
    truth = torch.stack([part.log_prob(grid).exp() for part in parts]).mean(dim=0)
    floor = torch.full((1,), 1e-6, dtype=torch.double)
    widths = {
        "Silverman": silverman_bandwidth(observed),
        "leave-one-out": leave_one_out_bandwidth(observed, floor),
    }
    return {
        rule: torch.trapezoid(
            (KernelDensity(observed, width, None).log_prob(grid.unsqueeze(-1)).exp() - truth).abs(),
            grid,
        ).item()
        for rule, width in widths.items()
    }


def table_2() -> list[list[str]]:
    rows = []
    for name, paper in PAPER_TABLE_2.items():
        for num_values, (mean, error) in paper.items():
            found = [total_variation(name, num_values, seed) for seed in range(20)]
            ours = (torch.tensor([run[rule] for run in found]) for rule in found[0])
            of_paper, its_error, runs = (torch.tensor(each) for each in (mean, error, 20))
            band = MeanAndStandardError(of_paper, its_error, runs).half_width
            cells = [f"{mean:.4f} ± {band:.4f}", *(cell(o) for o in ours)]
            rows.append([name, str(num_values), *cells])
    return rows


def main() -> None:
    to: Path = writing_parser(__doc__, "results/kde").parse_args().to
    header = ["distribution", "contexts", "paper", "Silverman's rule", "leave-one-out likelihood"]
    title = "### Total variation between the learnt and the true density (Table 2)\n"
    write_sections(to / "tables.md", [title, table(header, table_2())])


if __name__ == "__main__":
    main()
