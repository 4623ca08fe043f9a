from __future__ import annotations

import pytest
from botorch_risk_bench.experiments.one_line_errors import one_line_errors


def test_an_expected_error_is_one_line_and_the_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, one_line_errors(ValueError):
        raise ValueError("Expected a number.\n    Got none.")
    assert ended.value.code == 2
    assert capsys.readouterr().err == "Error: Expected a number. Got none.\n"


def test_other_errors_are_raised() -> None:
    with pytest.raises(KeyError), one_line_errors(ValueError, TypeError):
        raise KeyError("label")
