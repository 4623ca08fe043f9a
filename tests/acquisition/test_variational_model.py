r"""What works on a `SingleTaskVariationalGP`, row by row of the table in `docs/many_points.md`."""

from collections.abc import Callable

import pytest
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    LogExpectedImprovement,
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
)
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import BotorchWarning
from botorch.models import SingleTaskVariationalGP
from botorch.optim import optimize_acqf
from torch import Tensor

from botorch_risk.acquisition import (
    JointRiskUpperConfidenceBound,
    LogRiskKnowledgeGradient,
    RiskAverseUpperConfidenceBound,
    RiskUpperConfidenceBound,
    risk_samples,
    select_value,
)
from botorch_risk.diagnostics import leave_one_out
from botorch_risk.engine import FastMarginals, optimize_acqf_replicates
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.level_sets import ExpectedClassification, RiskStraddle, Straddle
from botorch_risk.recommend import recommend, recommend_everywhere
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    RiskMeasure,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.robust import robust
from botorch_risk.strategies import risk_search

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")

ENVIRONMENT = DiscreteEnvironment(torch.linspace(0, 1, 4, dtype=torch.double).unsqueeze(-1))
CVAR = ConditionalValueAtRisk(0.3)
BOX = torch.tensor([[0.0], [1.0]], dtype=torch.double)
X = torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1)


def variational_gp() -> SingleTaskVariationalGP:
    r"""Its variational mean is not 0, so that its posterior is not its prior."""
    points = torch.rand(40, 2, dtype=torch.double)
    model = SingleTaskVariationalGP(points, points.sum(-1, keepdim=True), inducing_points=8)
    model(points)  # the first call sets the variational distribution
    distribution = model.model.variational_strategy._variational_distribution
    distribution.variational_mean.data = torch.randn(8, dtype=torch.double)
    distribution.chol_variational_covar.data *= 0.3
    return model.eval()


def gained(acqf: Callable[[Tensor], Tensor], q: int, box: Tensor = BOX) -> None:
    r"""BoTorch's optimiser finds a point that is no worse than random ones."""
    x, value = optimize_acqf(acqf, box, q=q, num_restarts=2, raw_samples=8)
    assert x.shape == (q, box.shape[-1])
    assert value.isfinite()
    assert value >= acqf(torch.rand(4, q, box.shape[-1]).double()).median() - 1e-6


@pytest.mark.parametrize(
    "measure", [Expectation(), ValueAtRisk(0.3), CVAR, WorstCase(), TotalVariationBall(0.2)]
)
def test_a_bound_is_the_risk_of_the_bounds_of_the_outcomes(measure: RiskMeasure) -> None:
    model = variational_gp()
    acqf = RiskUpperConfidenceBound(model, ENVIRONMENT, measure, beta=4.0)
    inputs, weights = ENVIRONMENT.expand(X)
    posterior = model.posterior(inputs)
    upper = (posterior.mean + 2 * posterior.variance.sqrt()).squeeze(-1)
    torch.testing.assert_close(acqf(X.unsqueeze(-2)), measure(upper, weights))


SQUARE = BOX.expand(2, 2)
OTHERS: dict[str, tuple[Callable[[SingleTaskVariationalGP], AcquisitionFunction], Tensor]] = {
    "risk bound": (
        lambda model: RiskUpperConfidenceBound(model, ENVIRONMENT, Expectation(), beta=4.0),
        BOX,
    ),
    "joint": (lambda model: JointRiskUpperConfidenceBound(model, ENVIRONMENT, CVAR, beta=4.0), BOX),
    "straddle": (lambda model: Straddle(model, threshold=0.0), SQUARE),
    "improvement": (lambda model: LogExpectedImprovement(model, best_f=0.0), SQUARE),
    "risk straddle": (lambda model: RiskStraddle(model, ENVIRONMENT, CVAR, threshold=0.0), BOX),
}


# A kink: the line search of SciPy may give up there.
@pytest.mark.parametrize("name", OTHERS)
def test_other_acquisition_functions(name: str) -> None:
    build, box = OTHERS[name]
    gained(build(variational_gp()), 1, box)


def test_our_optimiser() -> None:
    acqf = RiskUpperConfidenceBound(variational_gp(), ENVIRONMENT, CVAR, beta=4.0)
    x, value = optimize_acqf_replicates(acqf, BOX, seeds=[0])
    torch.testing.assert_close(acqf(x), value)
    assert (value >= acqf(X.unsqueeze(-2)).max() - 1e-6).all()


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.slow
def test_robust(q: int) -> None:
    risks, options = robust(variational_gp(), ENVIRONMENT, CVAR)
    gained(qLogExpectedImprovement(risks, best_f=0.0, **options), q)
    gained(qLogNoisyExpectedImprovement(risks, X, prune_baseline=False, **options), q)


def test_risks_and_recommendations() -> None:
    model = variational_gp()
    acqf = RiskUpperConfidenceBound(model, ENVIRONMENT, CVAR, beta=4.0)
    torch.manual_seed(0)
    mean = risk_samples(model, ENVIRONMENT, Expectation(), X, num_samples=4096).mean(-1)
    inputs, _ = ENVIRONMENT.expand(X)
    torch.testing.assert_close(
        mean, model.posterior(inputs).mean.squeeze(-1).mean(-1), atol=0.1, rtol=0
    )
    values = RiskUpperConfidenceBound(model, ENVIRONMENT, CVAR, beta=0.0)(X.unsqueeze(-2))
    best = recommend(acqf, X, rule="posterior_mean")
    torch.testing.assert_close(best.value, values.max())
    everywhere = recommend_everywhere(acqf, BOX, rule="posterior_mean", seeds=[0])
    assert (everywhere.value >= values.max() - 1e-6).all()
    chosen = select_value(model, ENVIRONMENT, CVAR, X[:1])
    assert chosen[0, 1] in ENVIRONMENT.points


def test_the_view_is_the_model() -> None:
    model = variational_gp()
    with pytest.warns(BotorchWarning, match="has no closed form"):
        view = FastMarginals(model).posterior(X.expand(5, 2))
    torch.testing.assert_close(view.mean, model.posterior(X.expand(5, 2)).mean)


REFUSED: dict[str, Callable[[SingleTaskVariationalGP], object]] = {
    "knowledge gradient": lambda model: LogRiskKnowledgeGradient(model, ENVIRONMENT, CVAR, X),
    "classification": lambda model: ExpectedClassification(model, ENVIRONMENT, CVAR, 0.0, X),
    "leave one out": leave_one_out,
    "risk averse": RiskAverseUpperConfidenceBound,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_an_exact_process_refuses_it(name: str) -> None:
    with pytest.raises(UnsupportedError):
        REFUSED[name](variational_gp())


@pytest.mark.filterwarnings("ignore:Using an input transform")
def test_a_strategy_refuses_it() -> None:
    strategy = risk_search(
        BOX,
        [0],
        environment=ENVIRONMENT,
        risk_measure=CVAR,
        num_initial=4,
        model=lambda X, Y, **options: SingleTaskVariationalGP(X, Y, inducing_points=4, **options),
    )
    asked = strategy.ask()
    w = ENVIRONMENT.points[:4].unsqueeze(0)
    strategy.tell(torch.cat([asked, w], dim=-1), asked.sin())
    with pytest.raises(UnsupportedError, match="Got SingleTaskVariationalGP: fit this model"):
        strategy.ask()
