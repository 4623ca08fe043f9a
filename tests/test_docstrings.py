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
    "test_functions.BoostedTreesTuning": "trains XGBoost, the extra `problems`",
    "test_functions.LunarLanding": "simulates with Gymnasium, the extra `problems`",
}

# Errors of parts that it builds, which cannot happen with the arguments that it passes on.
CANNOT_HAPPEN = {
    "acquisition.gp_ucb": "InputDataError",
    "ax.ContextualRiskModel": "UnsupportedError",
    "ax.best_arm": "UserInputError",
    "baselines.pseudo_data_gp_ucb": "ValueError",
    "baselines.ra_bo": "ValueError",
    "test_functions.CoastalTerrain": "BotorchTensorDimensionError InputDataError",
    "test_functions.EnvironmentalBranin": "BotorchTensorDimensionError ValueError",
    "test_functions.ExpectationTestProblem": "BotorchTensorDimensionError ValueError",
    "test_functions.ForestTuning": "ValueError",
    "test_functions.GaussianProcessSample": "BotorchTensorDimensionError InputDataError",
    "test_functions.Newsvendor": "BotorchTensorDimensionError ValueError",
    "test_functions.SVMValidationError": "BotorchTensorDimensionError ValueError",
    "test_functions.TabularProblem": "BotorchTensorDimensionError InputDataError",
    "test_functions.ValueAtRiskPortfolio": "BotorchTensorDimensionError ValueError",
    "test_functions.ValueAtRiskRobotPushing": "BotorchTensorDimensionError InputDataError "
    "ValueError",
    "test_functions.bell_shaped_environment": "BotorchTensorDimensionError InputDataError "
    "ValueError",
    "experiments.campaigns.campaign_markdown": "NoResultsError",  # caught
}

# What is our own, by the reason that it has no source.
OWN = {
    "a record of what a function takes or returns, or an error": """
        acquisition.Readings acquisition.Robust acquisition.Selection acquisition.Status
        ax.BestArm bandits.ScaledReward diagnostics.Calibration diagnostics.Coverage
        diagnostics.LeaveOneOut diagnostics.Verdict experiments.ExperimentDefinition
        experiments.StoreError experiments.campaigns.Block experiments.campaigns.Board
        experiments.campaigns.BoardEntry experiments.campaigns.Campaign
        experiments.campaigns.ExperimentRegrets experiments.campaigns.Options
        experiments.campaigns.Regrets experiments.campaigns.Series fit.Estimates fit.FitResult
        fit.Optimum fit.FitStatus fit.Hyperparameters fit.LogMarginalLikelihood fit.PseudoPoints
        metrics.LevelSetScores metrics.LevelSets metrics.MeanAndStandardError metrics.ParetoSets
        models.Reduction posterior.Marginals risk.UncertifiedWorstCaseError strategies.History
        strategies.View
    """,
    "a protocol, or the base class of what has a source": """
        acquisition.PointwiseAcquisition acquisition.PointwiseAcquisitionFunction
        baselines.AskTellOptimizer environments.Environment environments.IndependentEnvironment
        experiments.Problem experiments.ProblemFamily experiments.ProblemWithContexts
        experiments.ProblemWithObjective fit.Estimator risk.PickingRiskMeasure risk.RiskMeasure
        strategies.Method
        strategies.RepeatsRule strategies.Sampler strategies.Space
        test_functions.ChanceConstrainedTestProblem test_functions.ConstantNoiseProblem
        test_functions.EnvironmentalTestProblem test_functions.FiniteDomainProblem
        test_functions.MaximizedTestFunction test_functions.RepeatedTestProblem
        test_functions.SimulatedTestProblem
    """,
    "what a point is, and the memory of a loop": """
        strategies.Box strategies.ContextSpace strategies.EnvironmentSpace strategies.FiniteDomain
        strategies.MeasuredBox strategies.SingleExperiment strategies.Strategy
        strategies.initial_design test_functions.unit_grid
    """,
    "parts of which a user composes a method, each a plain choice of ours": """
        strategies.Acquire strategies.AdaptiveRepeats strategies.DecisionThenValue
        strategies.MonteCarloDecision strategies.ObjectiveRisksRecipe strategies.ParetoSearch
        strategies.RiskRecipe strategies.largest_bound strategies.random_decision
        strategies.risk_search
    """,
    "uniformly random points, what every method has to beat": """
        baselines.random_decisions baselines.random_pairs baselines.random_pareto_search
        strategies.RandomPoints strategies.random_search
    """,
    "constraints that hold under a risk, and any risk in BoTorch's acquisition functions": """
        acquisition.ConstrainedUpperConfidenceBound acquisition.NoiseQuantileBound
        acquisition.NoisyChanceConstraint acquisition.RiskConstraint acquisition.robust
        models.NoiseQuantileModel
    """,
    "textbook probability and statistics": """
        diagnostics.calibration diagnostics.coverage diagnostics.plot_leave_one_out
        diagnostics.verdict environments.BoundedMarginals environments.DiscreteEnvironment
        environments.Mixture environments.PerturbedEnvironment environments.regular_grid
        metrics.format_with_error metrics.mean_and_standard_error metrics.note_on_comparisons
        metrics.paired_difference metrics.pareto_sets risk.Expectation
        test_functions.bell_shaped_environment
    """,
    "test problems that we made, on functions or data that their docstrings name": """
        test_functions.CertifiedProblem test_functions.HeteroscedasticCamel
        test_functions.HeteroscedasticHartmann test_functions.PortfolioPolicy
        test_functions.StratifiedSplitter test_functions.TabularProblem
    """,
    "an adapter to BoTorch, to Ax or to another optimiser": """
        ax.CalibrationPlot ax.ChosenContextAcquisition ax.ContextDistributionPlot
        ax.ContextualRiskModel ax.NoiseSlicePlot ax.ObservedAdapter ax.ObservedDataset
        ax.PerturbedInputsAcquisition ax.RiskAcquisition ax.RiskFrontierPlot ax.RiskGenerator
        ax.RiskGenerators ax.best_arm ax.readings ax.register ax.under_perturbed_inputs
        baselines.AskTell baselines.ask_tell fit.warn_of_failed_fits models.FastMarginals
        fit.WarmStartedFit models.mixed_kernel
    """,
    "what runs, stores and shows experiments": """
        experiments.ExperimentRun experiments.ExperimentStore experiments.get_experiment
        experiments.run_strategy experiments.campaigns.CampaignStore experiments.campaigns.Dask
        experiments.campaigns.ExperimentRecords experiments.campaigns.Processes
        experiments.campaigns.Serial experiments.campaigns.Submitit
        experiments.campaigns.best_block_size experiments.campaigns.board_markdown
        experiments.campaigns.campaign_markdown experiments.campaigns.plot_board
        experiments.campaigns.read_board experiments.campaigns.records_by_series
        experiments.campaigns.run_campaign experiments.campaigns.write_table
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
    assert "but for three names that need an extra, an example" in " ".join(README.split())


def test_what_has_no_source_is_our_own() -> None:
    without = {name for name, value in PUBLIC.items() if not CITATION.search(text_of(value))}
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
