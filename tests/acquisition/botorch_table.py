r"""What of BoTorch works with risks: one cell of the documentation's tables, one check.

`python -m tests.acquisition.botorch_table` prints the tables of `docs/risk_in_botorch.md`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botorch.acquisition import (
    qKnowledgeGradient,
    qProbabilityOfImprovement,
    qSimpleRegret,
    qUpperConfidenceBound,
)
from botorch.acquisition.logei import qLogExpectedImprovement, qLogProbabilityOfFeasibility
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.acquisition.multi_objective.parego import qLogNParEGO
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.models import ModelListGP
from botorch.optim import (
    optimize_acqf,
    optimize_acqf_discrete,
    optimize_acqf_mixed,
    optimize_acqf_mixed_alternating,
)
from botorch.optim.optimize import optimize_acqf_list

from botorch_risk.constraints import NoisyChanceConstraint, RiskConstraint
from tests.acquisition.botorch_checks import (
    APPENDED,
    FAST,
    SETUPS,
    Setup,
    appended_already,
    beside_another,
    constrained,
    found,
    hypervolume,
    knowledge_gradient,
    linear,
    nei,
    noise_asked_for,
    noisy,
    nonlinear,
    of_batches,
    pending,
    raw_constraint,
    thompson,
    with_fidelity,
    with_model,
)
from tests.models.risks import ENVIRONMENT, EnsembleGP, decisions, gp, two_outcomes, two_outputs


@dataclass(frozen=True)
class Cell:
    r"""One answer.

    Args:
        table: Which table it is in.
        row: What of BoTorch.
        column: With what.
        answer: Begins with "works" or "refused".
        check: Runs it; where refused, it raises.
        match: What the error says.
    """

    table: str
    row: str
    column: str
    answer: str
    check: Callable[[], Any]
    match: str = ""

    @property
    def name(self) -> str:
        return f"{self.row}-{self.column}"

    @property
    def kind(self) -> str:
        return self.table


def every(row: str, build: Callable[[Setup], Any], answer: str = "works") -> list[Cell]:
    r"""A row of the acquisition functions that work with both kinds of environments."""
    return [
        Cell("acquisition functions", row, name, answer, lambda s=setup: s.scored(build(s)))
        for name, setup in SETUPS.items()
    ]


CHANCE = RiskConstraint.chance(ENVIRONMENT, 2.5, outcome=1, delta=0.3)
ACQUISITIONS = "acquisition functions"
MODELS, WITH_NEI = "models", "qLogNEI"
OPTIONS = "optimisers and options"


def cell(table: str, row: str, answer: str, check: Callable[[], Any], match: str = "") -> Cell:
    return Cell(table, row, WITH_NEI, answer, check, match)


CELLS: list[Cell] = [
    *every("qLogNEI", nei),
    *every("qLogEI", lambda s: qLogExpectedImprovement(s.one, best_f=0.0)),
    *every("qUpperConfidenceBound", lambda s: qUpperConfidenceBound(s.one, beta=2.0)),
    *every("qSimpleRegret", lambda s: qSimpleRegret(s.one)),
    *every("qProbabilityOfImprovement", lambda s: qProbabilityOfImprovement(s.one, best_f=0.0)),
    *every(
        "qLogProbabilityOfFeasibility",
        lambda s: qLogProbabilityOfFeasibility(s.one, [lambda samples: samples[..., 0]]),
    ),
    *every(
        "qLogNEHVI",
        lambda s: qLogNoisyExpectedHypervolumeImprovement(s.two, [-2.0, -2.0], s.baseline),
    ),
    *every("qLogEHVI", hypervolume),
    *every("qLogNParEGO", lambda s: qLogNParEGO(s.two, s.baseline)),
    Cell(
        ACQUISITIONS,
        "qKnowledgeGradient",
        "w appended to x",
        "refused: it imagines outcomes, which need w in the decision",
        lambda: qKnowledgeGradient(APPENDED.one, num_fantasies=4)(decisions(3, 5)),
        match="qMultiFidelityKnowledgeGradient",
    ),
    Cell(ACQUISITIONS, "qKnowledgeGradient", "x perturbed", "works", knowledge_gradient),
    Cell(
        ACQUISITIONS,
        "qMultiFidelityKnowledgeGradient",
        "w appended to x",
        "works through `project=lambda X: X[..., :d_x]`; chooses w as well",
        with_fidelity,
    ),
    *every("PathwiseThompsonSampling", lambda s: PathwiseThompsonSampling(s.one)),
    *[
        Cell(ACQUISITIONS, row, name, answer, check, match)
        for name, setup in SETUPS.items()
        for row, answer, check, match in [
            ("MaxPosteriorSampling, 50 points", "works", lambda s=setup: thompson(s, 50), ""),
            (
                "MaxPosteriorSampling, 4,000 points",
                "refused: the joint distribution would take more than the memory limit",
                lambda s=setup: thompson(s, 4000),
                r"at most 4 GiB.*values fit",
            ),
            (
                "MaxPosteriorSampling, 4,000 points, of a path",
                "works through `get_matheron_path_model(model)`",
                lambda s=setup: thompson(s, 4000, paths=True),
                "",
            ),
        ]
    ],
    cell(MODELS, "SingleTaskGP", "works", with_model(gp)),
    cell(MODELS, "SingleTaskGP with several outcomes", "works", with_model(two_outputs)),
    cell(MODELS, "ModelListGP", "works", with_model(two_outcomes)),
    cell(MODELS, "ModelList with a model of x alone", "works, beside the reduced", beside_another),
    cell(MODELS, "MeanVarianceGP", "works", with_model(noisy)),
    cell(MODELS, "batched", "works with `prune_baseline=False`", of_batches(prune=False)),
    cell(
        MODELS,
        "batched, with pruning",
        "refused by BoTorch",
        of_batches(prune=True),
        match="Batched inputs `X` are currently unsupported",
    ),
    cell(MODELS, "fully Bayesian", "works (an ensemble stands in)", with_model(EnsembleGP)),
    cell(
        MODELS,
        "with AppendFeatures or InputPerturbation",
        "refused: the environment takes their place",
        with_model(appended_already),
        match="without an input transform to several points",
    ),
    cell(
        MODELS,
        "reduced already",
        "refused: the risk of a risk",
        with_model(lambda: APPENDED.one),
        match="reduced twice",
    ),
    cell(OPTIONS, "`X_pending`", "works", pending),
    cell(
        OPTIONS,
        "`optimize_acqf`, q = 2 jointly",
        "works",
        found(lambda a: optimize_acqf(a, APPENDED.bounds, q=2, **FAST), (2, 2)),
    ),
    cell(
        OPTIONS,
        "`optimize_acqf`, sequential",
        "works",
        found(lambda a: optimize_acqf(a, APPENDED.bounds, q=2, sequential=True, **FAST), (2, 2)),
    ),
    cell(
        OPTIONS,
        "`optimize_acqf_mixed`",
        "works",
        found(
            lambda a: optimize_acqf_mixed(
                a, APPENDED.bounds, q=1, fixed_features_list=[{0: 0.0}, {0: 1.0}], **FAST
            )
        ),
    ),
    cell(
        OPTIONS,
        "`optimize_acqf_mixed_alternating`",
        "works",
        found(
            lambda a: optimize_acqf_mixed_alternating(
                a,
                APPENDED.bounds,
                discrete_dims={0: [0.0, 1.0]},
                q=1,
                num_restarts=2,
                raw_samples=8,
            )
        ),
    ),
    cell(
        OPTIONS,
        "`optimize_acqf_discrete`",
        "works",
        found(lambda a: optimize_acqf_discrete(a, 2, decisions(9, seed=4)), (2, 2)),
    ),
    cell(
        OPTIONS,
        "`optimize_acqf_list`",
        "works",
        found(lambda a: optimize_acqf_list([a, nei(APPENDED)], APPENDED.bounds, **FAST), (2, 2)),
    ),
    cell(OPTIONS, "inequality constraints of x", "works", found(linear)),
    cell(OPTIONS, "nonlinear constraints of x", "works", found(nonlinear)),
    cell(OPTIONS, "`RiskConstraint`, also in qLogEI", "works", constrained(two_outcomes, CHANCE)),
    cell(
        OPTIONS,
        "`NoisyChanceConstraint` on a `MeanVarianceGP`",
        "refused with w appended: its noise is learnt at (x, w); works for models of x",
        constrained(
            lambda: ModelListGP(gp(), noisy()), NoisyChanceConstraint(2.0, outcome=1, delta=0.1)
        ),
        match="columns of the model's inputs",
    ),
    cell(
        OPTIONS,
        "a raw `constraints=` callable",
        "works: its samples are reduced, one risk each",
        raw_constraint,
    ),
    cell(
        OPTIONS,
        "`observation_noise=True`",
        "refused: outcomes are observed, risks are not",
        noise_asked_for,
        match="risks are not",
    ),
]


def tables() -> str:
    r"""The tables as Markdown."""
    parts = []
    for table in dict.fromkeys(each.table for each in CELLS):
        cells = [each for each in CELLS if each.table == table]
        columns = list(dict.fromkeys(each.column for each in cells))
        parts.append(f"### {table[0].upper()}{table[1:]}\n")
        parts.append("| | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
        for row in dict.fromkeys(each.row for each in cells):
            answers = {each.column: each.answer for each in cells if each.row == row}
            parts.append(f"| {row} | " + " | ".join(answers.get(c, "") for c in columns) + " |")
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    print(tables())  # noqa: T201
