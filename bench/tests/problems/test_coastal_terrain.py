r"""The map is that of Matplotlib, in km, and its two halves have no point in common."""

import numpy as np
import pytest
import torch
from botorch_risk_bench.problems import CoastalTerrain, SurveyCost

matplotlib = pytest.importorskip("matplotlib")


def test_altitudes_are_those_of_the_map():
    from matplotlib import cbook

    with cbook.get_sample_data("topobathy.npz") as data:
        metres = data["topo"]
    west, east = CoastalTerrain(smoothing=0.0), CoastalTerrain("east", smoothing=0.0)
    for half, columns in ((west, metres[::2, :60]), (east, metres[::2, 60:])):
        assert np.allclose(half.values.reshape(half.shape).T.numpy(), columns / 1000)
        first = half.domain.reshape(*half.shape, 2)
        assert torch.equal(first[0, 0], torch.zeros(2, dtype=torch.double))
        assert (first[1:, 0, 0] > first[:-1, 0, 0]).all()
        assert (first[0, 1:, 1] > first[0, :-1, 1]).all()


def test_smoothing_is_a_normal_average_of_the_whole_map():
    from matplotlib import cbook

    with cbook.get_sample_data("topobathy.npz") as data:
        km = data["topo"].astype(float) / 1000
        longitude, latitude = (data[name].astype(float) for name in ("longitude", "latitude"))
    smooth = CoastalTerrain(smoothing=5.0)
    east, north = smooth.domain.reshape(*smooth.shape, 2)[31, 20].tolist()
    parallel = 6371 * np.cos(np.radians(latitude.mean()))
    columns, rows = np.meshgrid(
        parallel * np.radians(longitude - longitude[0]), 6371 * np.radians(latitude - latitude[0])
    )
    weights = np.exp(-0.5 * ((columns - east) ** 2 + (rows - north) ** 2) / 5.0**2)
    found = smooth.values.reshape(smooth.shape)[31, 20].item()
    assert found == pytest.approx((weights * km).sum() / weights.sum(), rel=1e-6)


def test_coordinates_are_km():
    # The great-circle distance between the corners of the south edge, and along the west edge.
    domain = CoastalTerrain().domain.reshape(60, 46, 2)
    width, height = domain[-1, 0, 0].item(), domain[0, -1, 1].item()
    latitude, step = np.radians(49.0), np.radians(235.9833 - 234.0167)
    chord = np.sin(latitude) ** 2 + np.cos(latitude) ** 2 * np.cos(step)
    assert width == pytest.approx(6371 * np.arccos(chord), rel=1e-3)
    assert height == pytest.approx(6371 * np.radians(49.98418 - 48.01637), rel=1e-4)


def test_cost_is_that_of_the_paper():
    rng = np.random.default_rng(0)
    X, previous = rng.uniform(-100, 100, size=(3, 5, 2)), rng.uniform(-100, 100, size=(3, 1, 2))
    found = SurveyCost(unit=1.0)(torch.from_numpy(X), torch.from_numpy(previous), None)
    for r in range(3):
        for i in range(5):
            expected = 0.25 * abs(X[r, i, 0] - previous[r, 0, 0]) + 4 * (abs(X[r, i, 1]) + 1)
            assert found[r, i].item() == pytest.approx(expected)
    default = SurveyCost()(torch.from_numpy(X), None, None)
    np.testing.assert_allclose(default, 4 * (np.abs(X[..., 1]) / 50 + 1))


def test_errors():
    with pytest.raises(ValueError, match="half='north'"):
        CoastalTerrain("north")
    with pytest.raises(ValueError, match=r"`smoothing` to be finite and >= 0\. Got -1"):
        CoastalTerrain(smoothing=-1.0)
