from botorch_risk.ax.analyses.fitted_analysis import band


def test_the_outline_of_the_area() -> None:
    found = band([0.0, 1.0, 2.0], [0.0, 1.0, 0.0], [2.0, 3.0, 4.0], "#ff0000", "range")
    assert found.x == (0.0, 1.0, 2.0, 2.0, 1.0, 0.0)
    assert found.y == (2.0, 3.0, 4.0, 0.0, 1.0, 0.0)
    assert found.fillcolor == "rgba(255, 0, 0, 0.5)" and found.name == "range"
