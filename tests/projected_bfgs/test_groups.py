from __future__ import annotations

import numpy as np

from botorch_risk.projected_bfgs.descent import Leaders

FAR = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])


def test_a_row_without_hope_is_overtaken() -> None:
    leaders = Leaders.of(np.zeros(3, dtype=np.int64), 2)
    value, promise = np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.02, 0.04])
    overtaken = leaders.overtake(np.arange(3), FAR, value, np.zeros((3, 2)), promise, np.zeros(3))
    assert overtaken.tolist() == [False, True, False]  # 30 times 0.02 is 0.6, 30 times 0.04 is 1.2


def test_a_row_in_the_bowl_of_the_lowest_is_overtaken() -> None:
    x = np.array([[0.5, 0.5], [0.55, 0.5], [0.45, 0.5]])
    value = (x - 0.5)[:, 0] ** 2
    gradient = 2 * (x - 0.5)
    gradient[2] *= 3  # as of another bowl
    leaders = Leaders.of(np.zeros(3, dtype=np.int64), 2)
    overtaken = leaders.overtake(np.arange(3), x, value, gradient, np.full(3, np.inf), np.zeros(3))
    assert overtaken.tolist() == [False, True, False]


def test_the_lowest_row_of_each_group_leads_whatever_the_order() -> None:
    group = np.array([0, 1, 0, 1])
    leaders = Leaders.of(group, 2)
    x = np.arange(8.0).reshape(4, 2)
    nothing = np.zeros((4, 2))
    value = np.array([1.0, 5.0, 3.0, 4.0])
    leaders.overtake(np.arange(4), x, value, nothing, np.full(4, np.inf), np.zeros(4))
    assert leaders.value.tolist() == [1.0, 4.0]
    assert leaders.x.tolist() == [[0.0, 1.0], [6.0, 7.0]]
    rest = np.array([2, 3])  # the others have finished
    leaders.overtake(rest, x[:2], value[[0, 2]] + 1, nothing[:2], np.full(2, np.inf), np.zeros(2))
    assert leaders.value.tolist() == [1.0, 4.0]
    leaders.overtake(rest, x[:2], value[[0, 2]], nothing[:2], np.full(2, np.inf), np.zeros(2))
    assert leaders.value.tolist() == [1.0, 3.0]


def test_what_is_known_leads_from_the_start() -> None:
    known = (FAR[:2], np.array([-5.0, np.nan]))
    leaders = Leaders.of(np.array([0, 1]), 2, known)
    value, promise = np.zeros(2), np.full(2, 0.1)
    overtaken = leaders.overtake(
        np.arange(2), FAR[1:], value, np.zeros((2, 2)), promise, np.zeros(2)
    )
    assert overtaken.tolist() == [True, False]


def test_a_row_does_not_overtake_itself_within_the_error_of_its_values() -> None:
    leaders, point = Leaders.of(np.zeros(1, dtype=np.int64), 2), FAR[:1]
    nothing, error = np.zeros((1, 2)), np.array([1e-4])
    for value, lost in ((1.0, False), (1.0 + 5e-5, False), (1.0 + 2e-4, True)):
        row = np.array([value])
        found = leaders.overtake(np.zeros(1, dtype=int), point, row, nothing, np.zeros(1), error)
        assert found.tolist() == [lost]
