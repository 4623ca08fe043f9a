r"""docs/xopt.md runs as it stands, where Xopt is installed."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")  # of Xopt and what it imports
GUIDE = Path(__file__).parents[1] / "docs" / "xopt.md"
CLASSES, LOOP = re.findall(
    r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL
)


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, Any]]:
    pytest.importorskip("xopt")
    before = torch.get_default_dtype()  # which Xopt changes for the whole process
    found: dict[str, Any] = {"__name__": "guide"}
    for block in (CLASSES, LOOP):  # pydantic reads annotations: not as strings, as in this file
        exec(compile(block, "docs/xopt.md", "exec", dont_inherit=True), found)
    yield found
    torch.set_default_dtype(before)


def test_the_loop_finds_the_quiet_optimum(found: dict[str, Any]) -> None:
    data, model = found["tuning"].data, found["model"].models[0]
    assert len(data) == 3 * 18
    assert model.train_counts.flatten().tolist() == 18 * [3]
    quad, phase = found["best"].tolist()
    assert quad < 0.55 and abs(phase - 1) < 0.3
    assert any(torch.equal(found["best"], x) for x in model.train_X)


def test_further_readings_are_pooled_and_missing_ones_left_out(found: dict[str, Any]) -> None:
    data = found["tuning"].data.iloc[[0, 0]].assign(size=[0.1, float("nan")])
    whole = found["pd"].concat([found["tuning"].data, data], ignore_index=True)
    model = found["generator"].train_model(whole, update_internal=False).models[0]
    assert model.train_counts.flatten().tolist() == [4, *17 * [3]]


def test_a_new_generator_goes_on_from_the_table(found: dict[str, Any]) -> None:
    asked = []
    for _ in range(2):
        generator = found["RiskAverseGenerator"](vocs=found["vocs"], risk_aversion=1.0)
        generator.add_data(found["tuning"].data)
        torch.manual_seed(1)
        asked.append(generator.generate(1))
    assert asked[0] == asked[1]


def test_the_constructor_serves_generators_of_xopt(found: dict[str, Any]) -> None:
    from xopt.generators.bayesian import UpperConfidenceBoundGenerator

    constructor = found["MeanVarianceConstructor"]()
    generator = UpperConfidenceBoundGenerator(vocs=found["vocs"], gp_constructor=constructor)
    generator.add_data(found["tuning"].data)
    assert set(generator.generate(1)[0]) == {"quad", "phase"}
    assert isinstance(generator.model.models[0], found["MeanVarianceGP"])


def test_constraints_and_batches_are_refused(found: dict[str, Any]) -> None:
    from xopt.errors import VOCSError

    vocs = found["VOCS"](
        variables={"quad": [0, 1]},
        objectives={"size": "MINIMIZE"},
        constraints={"loss": ["LESS_THAN", 1]},
    )
    with pytest.raises(VOCSError, match="does not support constraints"):
        found["RiskAverseGenerator"](vocs=vocs)
    with pytest.raises(NotImplementedError, match="parallel candidate"):
        found["generator"].generate(2)
