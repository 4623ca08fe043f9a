from pathlib import Path

import torch

from bench.reproduction.stored_curves import read_curves, with_kept, write_curves


def test_curves_come_back_to_six_digits(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    values = 1e3 * torch.randn(3, 7, generator=generator, dtype=torch.double)
    path = tmp_path / "curves" / "branin.json.gz"
    assert read_curves(path) == {}
    write_curves(path, {"ours": {"simple": values}, "others": {"simple": values[:2, :4]}})
    stored = read_curves(path)
    assert list(stored) == ["others", "ours"]
    torch.testing.assert_close(stored["ours"]["simple"], values, rtol=1e-5, atol=0)
    before = path.read_bytes()
    write_curves(path, stored)
    assert path.read_bytes() == before


def test_what_is_played_replaces_what_was_kept_and_the_rest_stays(tmp_path: Path) -> None:
    path, earlier, now = tmp_path / "branin.json.gz", torch.zeros(2, 3), torch.ones(2, 3)
    with_kept(path, {"ours": {"regret": earlier}, "others": {"regret": earlier}})
    found = with_kept(path, {"ours": {"regret": now}})
    for curves in (found, read_curves(path), with_kept(path, {})):
        assert {label: each["regret"].mean() for label, each in curves.items()} == {
            "ours": 1.0,
            "others": 0.0,
        }
    assert list(with_kept(path, {"ours": {"regret": now}}, add=False)) == ["ours"]
    assert list(read_curves(path)) == ["ours"]
