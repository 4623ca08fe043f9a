r"""Pages of the documentation: their blocks run and print what they say, their links lead on."""

import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from botorch.acquisition import qUpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

import botorch_risk.acquisition as acquisition
from botorch_risk.acquisition import (
    MeanVarianceObjective,
    RiskAverseUpperConfidenceBound,
    RiskUpperConfidenceBound,
    qRiskAverseUpperConfidenceBound,
    select_lacing_value,
)
from botorch_risk.environments import KernelDensityEnvironment
from botorch_risk.models import MeanVarianceGP
from botorch_risk.papers import TruncatedVarianceReduction, rahbo
from botorch_risk.recommend import recommend
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.seeding import generators
from tests.public_objects import public_objects

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\S+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Block:
    r"""A block of Python, and what the page says that it prints; `None` where it does not say."""

    code: str
    output: str | None


def blocks(path: Path) -> list[Block]:
    r"""The Python blocks of a page, in order."""
    text = path.read_text(encoding="utf-8")
    found, fences = [], list(FENCE.finditer(text))
    for fence, after in zip_longest(fences, fences[1:]):
        if fence[1] != "python":
            continue
        shown = after is not None and after[1] == "text"
        shown = shown and not text[fence.end() : after.start()].strip()
        found.append(Block(fence[2], after[2] if after is not None and shown else None))
    return found


def run(
    path: Path, folder: Path, first: int | None = None
) -> tuple[dict[str, Any], list[tuple[Block, str]]]:
    r"""Runs the blocks of a page, or its first ones, in a folder.

    Returns the names that they leave, and each block with what it prints.
    """
    names: dict[str, Any] = {"__name__": "page"}
    printed: list[str] = []
    names["print"] = lambda *values: printed.append(" ".join(map(str, values)))
    results, here = [], Path.cwd()
    torch.manual_seed(0)
    os.chdir(folder)
    try:
        for block in blocks(path)[:first]:
            exec(compile(block.code, str(path), "exec", dont_inherit=True), names)
            results.append((block, "\n".join(printed)))
            printed.clear()
    finally:
        os.chdir(here)
    return names, results


def is_as_said(said: str, printed: str) -> bool:
    r"""Whether two outputs have the same words, and numbers that are near to each other."""
    texts = [" ".join(NUMBER.sub("#", text).split()) for text in (said, printed)]
    numbers = [[float(each) for each in NUMBER.findall(text)] for text in (said, printed)]
    return texts[0] == texts[1] and all(
        math.isclose(*pair, rel_tol=0.15, abs_tol=0.15) for pair in zip(*numbers, strict=True)
    )


def names_after(path: Path, folder: Path, first: int | None = None) -> SimpleNamespace:
    r"""What the blocks of a page leave behind, once they have printed what the page says."""
    names, results = run(path, folder, first)
    for block, printed in results:
        assert bool(printed) == (block.output is not None), f"{block.code}\nprints\n{printed}"
        assert is_as_said(block.output or "", printed), f"{block.code}\nprints\n{printed}"
    return SimpleNamespace(**names)


def written_links(path: Path) -> list[str]:
    r"""Where a page leads, by links, tables of contents and cards, as it is written."""
    text = re.sub(
        r"^```python\n.*?^```$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    found = [*re.findall(r"\]\(([^)#\s]+)", text), *re.findall(r"^:link: (\S+)$", text, re.M)]
    for body in re.findall(r"^```{toctree}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        entries = [line.rpartition("<")[2].rstrip(">") for line in body.splitlines()]
        found += [entry for entry in entries if entry and not entry.startswith(":")]
    return [each for each in found if "://" not in each]


def broken_links(path: Path) -> list[str]:
    r"""The links of a page that lead to no file."""
    return [
        each
        for each in written_links(path)
        if not each.startswith("api/")  # written by `make docs`
        and not list(_targets(path.parent, each))
    ]


def pictures(path: Path) -> list[tuple[str, Path]]:
    r"""The pictures of a page: what stands for each where it cannot be seen, and its file."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"!\[(.*?)\]\((\S+?)\)", text)
    found += [(alt, at) for at, alt in re.findall(r'<img src="(\S+)" alt="(.*?)"', text)]
    return [(alt, (path.parent / at).resolve()) for alt, at in found]


def _targets(folder: Path, link: str) -> Iterator[Path]:
    r"""What a link leads to; a page may go without its suffix, and a toctree may hold a glob."""
    base = ROOT / link[1:] if link.startswith("/") else folder / link
    for suffix in ("", ".md", ".ipynb"):
        for each in sorted(ROOT.glob(os.path.relpath(base, ROOT) + suffix)):
            if each.is_file():
                yield each.resolve()


# Pages whose blocks a test of their own runs.
ELSEWHERE = {
    "ax": "tests/ax/test_guide.py",
    "upstream_ax": "tests/ax/test_guide.py",
    "upstream_axbo": "tests/ax/test_guide.py",
    "campaigns": "bench/tests/campaigns/test_guide.py",
    "faster_loops": "tests/test_docs.py",
    "bridges": "tests/test_bridges.py",
    "xopt": "tests/test_xopt_guide.py",
}

QUICK = {"num_restarts": 2, "raw_samples": 16}


def is_inside(X: Tensor, bounds: Tensor) -> bool:
    return X.isfinite().all().item() and ((bounds[0] <= X) & (bounds[1] >= X)).all().item()


def fit(model: Any) -> Any:
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def own_loop(first: SimpleNamespace) -> None:
    r"""Tell the repeats of the candidate, fit again, ask again, report again."""
    assert first.candidate.shape == (1, 2) and is_inside(first.candidate, first.bounds)
    assert any(torch.equal(first.handed_over, x) for x in first.train_X)
    X = torch.cat([first.train_X, first.candidate])
    Y = torch.cat([first.train_Y, first.train_Y[:1] + 0.01])
    model = fit(MeanVarianceGP(X, Y))
    for acqf, q in (
        (RiskAverseUpperConfidenceBound(model, beta=4.0, noise_beta=4.0, risk_aversion=1.0), 1),
        (RiskAverseUpperConfidenceBound(model, beta=4.0, noise_beta=4.0, risk_aversion=1.0), 4),
        (qRiskAverseUpperConfidenceBound(model, beta=4.0, risk_aversion=1.0), 2),
        (qUpperConfidenceBound(model, 4.0, objective=MeanVarianceObjective(model, 1.0)), 2),
    ):
        X_next, _ = optimize_acqf(acqf, first.bounds, q=q, sequential=q == 4, **QUICK)
        assert X_next.shape == (q, 2) and is_inside(X_next, first.bounds)
    bound = RiskAverseUpperConfidenceBound(model, risk_aversion=1.0)
    reported = recommend(bound, X, rule="lower_confidence_bound").point
    assert any(torch.equal(reported, x) for x in X)
    conditioned = first.model.condition_on_observations(first.candidate, Y[-1:].mean(-1, True))
    assert conditioned.posterior(X).mean.shape == (13, 1)
    noisy = model.posterior(X, observation_noise=True).variance
    assert (noisy > model.posterior(X).variance).all()


def other_forms_of_repeats(first: SimpleNamespace) -> None:
    r"""A long table, a list of tensors of any lengths, noise levels of each reading."""
    X, Y = first.train_X, first.train_Y
    expected = first.model.num_repeats
    long = MeanVarianceGP(X.repeat_interleave(5, 0), Y.reshape(-1, 1))
    listed = MeanVarianceGP(X, [*Y[:-1], Y[-1, :4]])
    known = MeanVarianceGP(X, Y, torch.full_like(Y, 0.01))
    assert long.num_repeats == known.num_repeats == expected
    for model in (long, listed, known):
        assert fit(model).posterior(X).mean.isfinite().all()


def conditions(first: SimpleNamespace) -> None:
    r"""Observe w and the outcome, learn the distribution of w again, fit again, ask again."""
    assert first.decision.shape == (1, 1) and is_inside(first.decision, first.unit)
    new = torch.cat([first.decision, torch.tensor([[0.3]]).double()], dim=-1)
    X = torch.cat([first.train_X, new])
    Y = torch.cat([first.train_Y, (5 * new).sin().sum(dim=-1, keepdim=True)])
    model = fit(SingleTaskGP(X, Y))
    environment = KernelDensityEnvironment(X[:, 1:], bounds=first.unit, n_w=64, seeds=1)
    for measure in (
        Expectation(),
        TotalVariationBall(0.3),
        ValueAtRisk(0.1),
        ConditionalValueAtRisk(0.1),
        WorstCase(),
    ):
        acqf = RiskUpperConfidenceBound(model, environment, measure, beta=2.25)
        decision, _ = optimize_acqf(acqf, bounds=first.unit, q=1, **QUICK)
        assert decision.shape == (1, 1) and is_inside(decision, first.unit)
        if isinstance(measure, ValueAtRisk):
            w = select_lacing_value(acqf, decision, rule="probability", seeds=0)
            assert is_inside(w, first.unit)
    assert callable(acquisition.risk_bound)


def truncated_variance(first: SimpleNamespace) -> None:
    r"""Observe what was selected, update the state, select again; the way there starts anywhere."""
    anywhere = TruncatedVarianceReduction(first.posterior, first.state, first.travel, noise=1.0)
    assert anywhere.select().X.shape == (1, 2)  # `previous` is None
    posterior, state, here = first.posterior, first.state, first.here
    for _ in range(3):
        posterior.observe_at(here, first.measure(here).item(), 1.0)
        state = state.update(posterior)
        acqf = TruncatedVarianceReduction(posterior, state, first.travel, noise=1.0, previous=here)
        chosen = acqf.select().X
        assert chosen.shape == (1, 2)
        here = chosen
    assert state.unclassified.sum() < first.state.unclassified.sum()


def many_seeds(first: SimpleNamespace) -> None:
    r"""Two more rounds from a copy of the state, in a process that has just been started."""
    problem = first.problem
    resumed = rahbo(problem.bounds, seeds=range(4), num_repeats=10, risk_aversion=1.0)
    resumed.load_state_dict(first.strategy.state_dict())
    for t in range(3, 5):
        X = resumed.ask()
        assert X.shape == (4, 1, 2) and is_inside(X, problem.bounds)
        assert torch.equal(X, first.strategy.ask())
        Y = problem.sample_repeats(X, 10, generators(resumed.seeds, "noise", t))
        resumed.tell(X, Y)
        first.strategy.tell(X, Y)
    assert is_inside(resumed.recommend(), problem.bounds)


def three_readings(names: SimpleNamespace) -> None:
    r"""Labels and steps in the suggestions, and the next round; of a cost, its own sign."""
    settings = names.experiment.ask(2)
    assert set(settings["solvent"]) <= {"water", "ethanol"} and (settings["heat"] % 5 == 0).all()
    assert names.experiment.strategy.belief.train_counts.max() >= 3
    assert names.best["cost_risk_lower"] < names.best["cost_risk"] < names.best["cost_risk_upper"]
    assert names.best["cost_risk"] > 10  # whatever the speed and the wind, it costs that


def tail_of_a_context(names: SimpleNamespace) -> None:
    belief = names.strategy.belief
    assert belief.risk_measure == ConditionalValueAtRisk(0.2)
    assert names.experiment.recommend().shape == (1,)


def limit_on_95_percent(names: SimpleNamespace) -> None:
    assert names.held >= 0.95
    assert names.candidate.shape == (1, 1)


def cheap_level_set(names: SimpleNamespace) -> None:
    for found in (names.found, names.state):  # of the strategy, and of one's own loop
        high, low = found.high.reshape(-1), found.low.reshape(-1)
        assert (~high & ~low).sum() < 40
        assert not (high & ~names.above | low & names.above).any()
    assert names.spent["seen"] < names.spent["ignored"]  # travel was paid for


def classes_as_a_table(names: SimpleNamespace) -> None:
    probable = names.table["index_probability"] >= 0.5
    known = names.table["index_class"] != "unknown"
    assert ((names.table["index_class"] == "above") == probable)[known].all()


def recommended_after_an_improvement(names: SimpleNamespace) -> None:
    r"""On `robust`, the best of the evaluated decisions, and the best of all."""
    assert any(torch.equal(names.best.point, x) for x in names.X[:, :1])
    assert is_inside(names.anywhere.point, names.bounds)


def two_methods(names: SimpleNamespace) -> None:
    assert names.averse.shape == names.neutral.shape == (16,)
    assert torch.isfinite(names.gain.standard_error)


# What a page has done, and what a reader does next.
CONTINUATIONS: dict[str, list[Callable[[SimpleNamespace], None]]] = {
    "compare": [two_methods],
    "constraints": [limit_on_95_percent],
    "contexts": [tail_of_a_context, conditions],
    "from_botorch": [own_loop, other_forms_of_repeats],
    "level_sets": [cheap_level_set, classes_as_a_table, truncated_variance],
    "many_seeds": [many_seeds],
    "own_csv": [three_readings],
    "risk_in_botorch": [recommended_after_an_improvement],
}

# The tasks of a newcomer: few clicks from the first page.

SLOW = ("many_points", "stopping")
PAGES = [
    pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
    for name in sorted(page.stem for page in DOCS.glob("*.md") if blocks(page))
    if name not in ELSEWHERE
]


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_run_and_the_loop_goes_on(page: str, tmp_path: Path) -> None:
    first = names_after(DOCS / f"{page}.md", tmp_path)
    for continuation in CONTINUATIONS.get(page, []):
        continuation(first)


@pytest.mark.slow
def test_later_fits_of_faster_loops_are_short(tmp_path: Path) -> None:
    names, _ = run(DOCS / "faster_loops.md", tmp_path)  # which prints other numbers every time
    evaluations = names["fit"].num_evaluations
    assert len(evaluations) == 20
    assert evaluations[0] > 20
    assert median(evaluations[7:]) < 10
    assert names["X"].shape == (30, 2)


def test_pages_that_run_elsewhere_do() -> None:
    assert CONTINUATIONS.keys() <= {name for (name,) in (page.values for page in PAGES)}
    for page, test in ELSEWHERE.items():
        text = (DOCS.parent / test).read_text(encoding="utf-8")
        assert f"{page}.md" in text and blocks(DOCS / f"{page}.md")


def test_links_lead_somewhere_and_pictures_are_described() -> None:
    for page in (ROOT / "README.md", *DOCS.glob("*.md")):
        assert broken_links(page) == [], page
        bad = [file.name for alt, file in pictures(page) if not alt or not file.is_file()]
        assert bad == [], page


def test_the_index_of_the_api_leads_to_every_module() -> None:
    modules = {name.rpartition(".")[0] for name in public_objects()} | {"recommend", "seeding"}
    assert modules <= {Path(link).stem for link in written_links(DOCS / "api.md")}


def test_what_is_printed_is_compared() -> None:
    assert is_as_said("best [0.2]: -1.04\n", "best [0.2]:   -1.05")
    assert not is_as_said("best [0.2]: -1.04", "best [0.9]: -1.04")
    assert not is_as_said("best -1.04", "worst -1.04")
    assert not is_as_said("1 2", "1 2 3")
