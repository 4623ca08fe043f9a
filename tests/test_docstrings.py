r"""What every public docstring has: an example, a source, shapes and errors."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path
from typing import Any

from tests.public_objects import entries, public_objects, raised_by, text_of, without_shape

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
PUBLIC = public_objects()

# Those without an example, each with its reason.
WITHOUT_EXAMPLE = {
    "fit.FullyBayesian": "samples by NumPyro, the extra `bayesian`",
    "problems.BoostedTreesTuning": "trains XGBoost, the extra `problems`",
    "problems.LunarLanding": "simulates with Gymnasium, the extra `problems`",
}

# Errors of parts that it builds, which cannot happen with the arguments that it passes on.
CANNOT_HAPPEN = {
    "acquisition.gp_ucb": "InputDataError",
    "ax.ContextualRiskModel": "UnsupportedError",
    "ax.best_arm": "UserInputError",
    "baselines.pseudo_data_gp_ucb": "ValueError",
    "baselines.ra_bo": "ValueError",
    "problems.CoastalTerrain": "BotorchTensorDimensionError InputDataError",
    "repeats.next_readings": "BotorchTensorDimensionError CandidateGenerationError",
    "test_functions.EnvironmentalBranin": "BotorchTensorDimensionError ValueError",
    "test_functions.ExpectationTestProblem": "BotorchTensorDimensionError ValueError",
    "problems.ForestTuning": "ValueError",
    "test_functions.GaussianProcessSample": "BotorchTensorDimensionError InputDataError",
    "test_functions.Newsvendor": "BotorchTensorDimensionError ValueError",
    "problems.SVMValidationError": "BotorchTensorDimensionError ValueError",
    "problems.TabularProblem": "BotorchTensorDimensionError InputDataError",
    "problems.ValueAtRiskPortfolio": "BotorchTensorDimensionError ValueError",
    "problems.ValueAtRiskRobotPushing": "BotorchTensorDimensionError InputDataError ValueError",
    "test_functions.bell_shaped_environment": "BotorchTensorDimensionError InputDataError "
    "ValueError",
    "experiments.campaigns.campaign_markdown": "NoResultsError",  # caught
}

# What is our own, by the reason that it has no source.
OWN = {
    "a record of what a function takes or returns, or an error": """
        BestArm Block Board BoardEntry Calibration Campaign Coverage Estimates
        ExperimentDefinition ExperimentRegrets FitResult FitStatus History Hyperparameters
        LeaveOneOut LevelSets LevelSetScores LogMarginalLikelihood Marginals
        MeanAndStandardError Optimum Options ParetoSets PseudoPoints Readings Reduction Regrets
        RepeatAdvice Robust ScaledReward Selection Series Status StoreError
        UncertifiedWorstCaseError Verdict View
    """,
    "a protocol, or the base class of what has a source": """
        AskTellOptimizer ChanceConstrainedTestProblem ConstantNoiseProblem Environment
        EnvironmentalTestProblem Estimator FiniteDomainProblem IndependentEnvironment
        MaximizedTestFunction Method PickingRiskMeasure PointwiseAcquisition
        PointwiseAcquisitionFunction Problem ProblemFamily ProblemWithContexts
        ProblemWithObjective RepeatedTestProblem RepeatsRule RiskMeasure Sampler
        SimulatedTestProblem Space
    """,
    "what a point is, and the memory of a loop": """
        Box ContextSpace EnvironmentSpace FiniteDomain initial_design MeasuredBox
        SingleExperiment Strategy unit_grid
    """,
    "parts of which a user composes a method, each a plain choice of ours": """
        Acquire AdaptiveRepeats DecisionThenValue largest_bound MonteCarloDecision
        ObjectiveRisksRecipe ParetoSearch random_decision risk_search RiskRecipe
    """,
    "uniformly random points, what every method has to beat": """
        random_decisions random_pairs random_pareto_search random_search RandomPoints
    """,
    "constraints that hold under a risk, and any risk in BoTorch's acquisition functions": """
        ConstrainedUpperConfidenceBound NoiseQuantileBound NoiseQuantileModel
        NoisyChanceConstraint RiskConstraint robust
    """,
    "textbook probability and statistics": """
        next_readings repeat_advice
        bell_shaped_environment BoundedMarginals calibration coverage DiscreteEnvironment
        Expectation format_with_error mean_and_standard_error Mixture note_on_comparisons
        paired_difference pareto_sets PerturbedEnvironment plot_leave_one_out regular_grid
        verdict
    """,
    "test problems that we made, on functions or data that their docstrings name": """
        CertifiedProblem HeteroscedasticCamel HeteroscedasticHartmann PortfolioPolicy
        StratifiedSplitter TabularProblem
    """,
    "an adapter to BoTorch, to Ax or to another optimiser": """
        ask_tell AskTell best_arm CalibrationPlot ChosenContextAcquisition
        ContextDistributionPlot ContextualRiskModel FastMarginals mixed_kernel NoiseSlicePlot
        ObservedAdapter ObservedDataset PerturbedInputsAcquisition readings register
        RiskAcquisition RiskFrontierPlot RiskGenerator RiskGenerators under_perturbed_inputs
        WarmStartedFit warn_of_failed_fits
    """,
    "what runs, stores and shows experiments": """
        best_block_size board_markdown campaign_markdown CampaignStore Dask ExperimentRecords
        ExperimentRun ExperimentStore get_experiment plot_board Processes read_board
        records_by_series run_campaign run_strategy Serial Submitit write_table
    """,
}

CITATION = re.compile(r"\[([A-Z]\w+\d{4}\w+)\]_")
# The papers that the package implements: who cites one says where in it.
IMPLEMENTED = {
    "Bogunovic2016truvar",
    "Ha2023uhe",
    "Huang2024kde",
    "Makarova2021rahbo",
    "Nguyen2021vucb",
}
PLACE = re.compile(
    r"\bEqs?\.\s\(|\b(Secs?|Alg|Fig)\.\s|\b(Appendix|Corollary|Section)\s"
    r"|\b(Algorithm|Definition|Lemma|Remark|Theorem)s?\s"
)
TRIVIAL = re.compile(r"(isinstance|issubclass|callable|hasattr)\(")


def shown(value: Any) -> list[str]:
    r"""What its example runs and prints the value of."""
    _, _, example = inspect.cleandoc(value.__doc__ or "").partition("Example:\n")
    found = doctest.DocTestParser().get_examples(example)
    return [each.source for each in found if each.want and doctest.SKIP not in each.options]


def test_examples_show_something() -> None:
    examples = {name: shown(value) for name, value in PUBLIC.items()}
    assert {name for name, found in examples.items() if not found} == WITHOUT_EXAMPLE.keys()
    assert [each for found in examples.values() for each in found if TRIVIAL.match(each)] == []


def test_the_readme_says_how_many_have_no_example() -> None:
    assert len(WITHOUT_EXAMPLE) == 3
    assert "except for three names that need an extra, an example" in " ".join(README.split())


def test_what_has_no_source_is_our_own() -> None:
    without = {
        name.rpartition(".")[2]
        for name, value in PUBLIC.items()
        if not CITATION.search(text_of(value))
    }
    assert without == set(" ".join(OWN.values()).split())  # neither more nor less


def test_citations_of_the_implemented_papers_say_where() -> None:
    cited, placed = set(), set()
    for name, value in PUBLIC.items():
        for paragraph in text_of(value).split("\n\n"):
            found = {(name, key) for key in CITATION.findall(paragraph) if key in IMPLEMENTED}
            cited |= found
            placed |= found if PLACE.search(paragraph) else set()
    assert cited - placed == set()


def test_tensors_have_shapes() -> None:
    missing = {name: without_shape(value) for name, value in PUBLIC.items()}
    assert {name: tensors for name, tensors in missing.items() if tensors} == {}


def test_errors_are_named() -> None:
    unsaid = {
        name: " ".join(sorted(raised_by(value) - entries(text_of(value), "Raises").keys()))
        for name, value in PUBLIC.items()
    }
    assert {name: errors for name, errors in unsaid.items() if errors} == CANNOT_HAPPEN


def test_exceptions_are_few() -> None:
    assert all(10 * len(table) <= len(PUBLIC) for table in (WITHOUT_EXAMPLE, CANNOT_HAPPEN))
    names = " ".join(OWN.values()).split()
    assert len(set(names)) == len(names)
