from __future__ import annotations

import json

import pytest
from botorch_risk_bench.campaigns import Series
from botorch_risk_bench.campaigns.store import identity_of
from botorch_risk_bench.campaigns.worker import versions

from tests.bench.campaigns.small import small


def test_it_is_json_of_the_campaign_and_what_it_runs() -> None:
    identity = identity_of(small(), "cpu")
    assert json.loads(json.dumps(identity)) == identity
    assert identity["campaign"] == small().to_json() and identity["versions"] == versions()
    assert list(identity["experiments"]["quadratic"]) == ["default", "more"]
    assert identity["experiments"]["quadratic"]["more"]["num_repeats"] == 5
    assert [Series(**each) for each in identity["spelled_out"]] == small().spelled_out()


def test_what_cannot_be_built_is_found_before_anything_has_run() -> None:
    with pytest.raises(ValueError, match="Expected `num_repeats` to be"):
        identity_of(small(settings={"none": {"num_repeats": 0}}), "cpu")
