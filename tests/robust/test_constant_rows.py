r"""Points in front that a t-batch shares and that take no gradient."""

from __future__ import annotations

import torch

from botorch_risk.robust.constant_rows import constant_rows, rows_without_gradient


def points(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, dtype=torch.float64)


def test_rows_in_front_of_a_t_batch() -> None:
    X = torch.cat([points(3, 2).expand(5, 3, 2), points(5, 2, 2)], dim=-2)
    assert constant_rows(X) == 3
    assert constant_rows(X.reshape(5, 1, 5, 2)) == 3
    X[4, 1] += 1
    assert constant_rows(X) == 1


def test_the_last_row_is_no_constant() -> None:
    assert constant_rows(points(3, 2).expand(5, 3, 2)) == 2
    assert constant_rows(points(1, 2).expand(5, 1, 2)) == 0
    assert constant_rows(points(4, 2)) == 3
    assert constant_rows(points(0, 3, 2)) == 0


def test_rows_that_take_a_gradient_are_none() -> None:
    shared = points(3, 2).requires_grad_()
    X = torch.cat([shared.expand(5, 3, 2), points(5, 2, 2)], dim=-2)
    assert constant_rows(X) == 0
    assert constant_rows(points(5, 3, 2).requires_grad_()) == 0


def test_candidates_that_agree_by_chance_keep_their_gradient() -> None:
    r"""All entries alike: only the node that joined them knows which rows are constants."""
    candidates = points(1, 2, 2).expand(5, 2, 2).clone().requires_grad_()
    X = torch.cat([points(3, 2).expand(5, 3, 2), candidates], dim=-2)
    assert constant_rows(X) == 3
    assert constant_rows(torch.cat([points(3, 2), candidates[0]], dim=-2)) == 3
    X.sum().backward()  # asking has not used the graph up
    assert candidates.grad is not None


def test_other_operations_are_not_asked() -> None:
    candidates = points(5, 2, 2).requires_grad_()
    X = torch.cat([points(3, 2).expand(5, 3, 2), candidates], dim=-2)
    assert rows_without_gradient(X * 2) == 0
    assert rows_without_gradient(torch.cat([X, X], dim=-1)) == 0
    assert rows_without_gradient(torch.cat([X.detach(), X], dim=-1)) == 0
