r"""A call of each public name, which tests repeat with other arguments: that of its example.

The inner parts, which show no example, have their calls in `CALLS`.
"""

import contextlib
import doctest
import inspect
import io
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from botorch.models import SingleTaskGP

from tests.public_objects import Public, public_objects

CALLS = {
    "AdaptiveRepeats": "AdaptiveRepeats(FixedRepeats(4), MeanVarianceSearch(Weights(1)), budget=9)",
    "BoundedMarginals": "BoundedMarginals(torch.distributions.Normal(0, 1), torch.eye(2)[:, 1:])",
    "ChanceConstrainedBranin": "ChanceConstrainedBranin()",
    "EmpiricalGrid": (
        "EmpiricalGrid(torch.tensor([[0.1], [0.8]]), torch.tensor([[0.0], [0.5], [1.0]]))"
    ),
    "EnvironmentalAckley": "EnvironmentalAckley()",
    "EnvironmentalHartmann": 'EnvironmentalHartmann("complicated")',
    "FullyBayesian": "FullyBayesian()",
    "GaussianProcessSample": "GaussianProcessSample([0, 1])",
    "H1": "H1()",
    "HeteroscedasticCamel": "HeteroscedasticCamel()",
    "HeteroscedasticHartmann": "HeteroscedasticHartmann(dim=3)",
    "IndependentEnvironment": "IndependentEnvironment(torch.rand(3, 1), torch.full((3,), 1 / 3))",
    "KernelDensity": "KernelDensity(torch.tensor([[0.1], [0.4]]), torch.tensor([0.2]))",
    "LargestKnowledgeGradient": "LargestKnowledgeGradient()",
    "MaximumAPosteriori": "MaximumAPosteriori(num_restarts=2)",
    "MonteCarloDecision": "MonteCarloDecision(lambda model: None, Expectation())",
    "NoiseDeviationBound": (
        "NoiseDeviationBound(MeanVarianceGP(torch.rand(9, 1), torch.rand(9, 3)))"
    ),
    "NoiseQuantileModel": (
        "NoiseQuantileModel(MeanVarianceGP(torch.rand(9, 1), torch.rand(9, 3)), delta=0.05)"
    ),
    "PortfolioOptimization": "PortfolioOptimization()",
    "PosteriorMeanFunctions": "PosteriorMeanFunctions(seeds=[0, 1])",
    "PseudoData": 'PseudoData(num_pseudo=20, points="sobol")',
    "ReadingOfClasses": "ReadingOfClasses((LevelSet(0.3),))",
    "RobotPushing": "RobotPushing()",
    "SafeMeanVarianceSearch": (
        "SafeMeanVarianceSearch(MeanVarianceSearch(Weights(1.0)), (NoiseConstraint(1.0),))"
    ),
    "StandardDeviationBox": "StandardDeviationBox(torch.tensor([[0.2], [0.4]]), n_w=64, seeds=0)",
    "TruncateVariance": "TruncateVariance(LevelSet(0.3))",
    "ValueAtRiskGoldsteinPrice": "ValueAtRiskGoldsteinPrice()",
    "ValueAtRiskHartmann": "ValueAtRiskHartmann(num_decision=2)",
    "ValueAtRiskPortfolio": "ValueAtRiskPortfolio()",
    "ValueAtRiskRobotPushing": "ValueAtRiskRobotPushing()",
    "Weights": "Weights(risk_aversion=1.0)",
    "as_seeds": "as_seeds(3)",
    "cumulative_regret": "cumulative_regret(torch.tensor([0.5, 1.0]), 1.0)",
    "decisions_to_compare": (
        "decisions_to_compare(RiskUpperConfidenceBound(SingleTaskGP(torch.rand(5, 2), "
        "torch.rand(5, 1)), DiscreteEnvironment(torch.rand(3, 1)), Expectation(), 4.0), "
        "torch.rand(9, 1))"
    ),
    "derive_seed": 'derive_seed(0, "noise", 1)',
    "draw_arms": 'draw_arms(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), [7, 8], "arms", 0)',
    "exploration_rate": "exploration_rate(max_reward=100, num_arms=2)",
    "group_equal_rows": "group_equal_rows(torch.tensor([[0.5], [0.1], [0.5]]))",
    "initial_design": "initial_design(torch.tensor([[0.0], [1.0]]), [0, 1], 4)",
    "instantaneous_regret": "instantaneous_regret(torch.tensor([0.5, 1.0]), 1.0)",
    "leave_one_out_bandwidth": "leave_one_out_bandwidth(torch.rand(9, 1), torch.tensor([1e-3]))",
    "level_set_scores": "level_set_scores(torch.tensor([True, False]), torch.tensor([True, True]))",
    "mean_and_standard_error": "mean_and_standard_error(torch.tensor([1.0, 3.0]))",
    "paired_difference": "paired_difference(torch.tensor([1.0, 5.0]), torch.tensor([0.0, 3.0]))",
    "regular_grid": "regular_grid(torch.tensor([[0.0, 0.0], [1.0, 1.0]]), 1024)",
    "scale_reward": (
        'scale_reward(torch.ones(1), torch.rand(1, 2), torch.rand(1, 2), "unclipped_min_max")'
    ),
    "set_gamma_priors": "set_gamma_priors(SingleTaskGP(torch.rand(5, 1), torch.rand(5, 1)))",
    "share_held": "share_held(torch.tensor([3.0, 0.5]), torch.tensor([1.0]))",
    "share_of_targets": "share_of_targets(torch.tensor([3.0, 0.5]), torch.tensor([1.0]))",
    "silverman_bandwidth": "silverman_bandwidth(torch.tensor([[0.0], [0.5], [1.0]]))",
    "simple_regret": "simple_regret(torch.tensor([0.5, 1.0]), 1.0)",
    "unit_grid": "unit_grid(2)",
}


class _Found(KeyboardInterrupt):
    r"""Ends an example, which is a foreign function, once its call is known."""


def first_call(value: Public) -> dict[str, Any] | None:
    r"""The arguments of its first call in its example, by their names; `None` without one."""
    function = inspect.unwrap(value.__init__ if isinstance(value, type) else value)
    code = getattr(function, "__code__", None)
    names, found = inspect.signature(value).parameters, {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is code:
            sys.setprofile(None)
            found.update({name: frame.f_locals[name] for name in names if name in frame.f_locals})
            raise _Found

    for test in _examples(value):
        runner = doctest.DocTestRunner(verbose=False)
        sys.setprofile(watch)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                runner.run(test, clear_globs=False)
        except _Found:
            return found
        finally:
            sys.setprofile(None)
    return None


def _examples(value: Public) -> Iterator[doctest.DocTest]:
    r"""Those of its docstring, and else its line of the table."""
    namespace = {**vars(sys.modules[value.__module__]), "torch": torch}
    if value.__name__ in CALLS:
        public = {name.rpartition(".")[2]: each for name, each in public_objects().items()}
        namespace = {"SingleTaskGP": SingleTaskGP, **public, **namespace}
        source = f">>> {CALLS[value.__name__]}"
        yield doctest.DocTestParser().get_doctest(source, namespace, value.__name__, None, 0)
    else:
        yield from doctest.DocTestFinder().find(value, globs=namespace)


def called(value: Public, arguments: dict[str, Any]) -> Any:
    r"""What it gives for arguments by their names, those behind stars included."""
    bound = inspect.signature(value).bind_partial()
    bound.arguments.update(arguments)
    return value(*bound.args, **bound.kwargs)
