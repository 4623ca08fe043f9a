r"""A covering design covers: every value, four cases a law, three laws a case; and it stays."""

from itertools import product

from tests.covering import FEW, design


def rows_of(*, cases: int, laws: int) -> dict[str, dict[str, str]]:
    pairs = product(range(cases), range(laws))
    return {f"test[{i}-{j}]": {"case": f"case {i}", "law": f"law {j}"} for i, j in pairs}


def test_each_law_meets_four_cases_and_each_case_three_laws() -> None:
    rows = rows_of(cases=30, laws=12)
    kept = design(rows)
    assert kept <= rows.keys() and len(kept) < len(rows) / 2
    for axis, least in (("case", 3), ("law", 4)):
        for value in {row[axis] for row in rows.values()}:
            assert len([name for name in kept if rows[name][axis] == value]) >= least


def test_the_choice_depends_on_the_names_alone() -> None:
    rows = rows_of(cases=9, laws=9)
    assert design(rows) == design(dict(reversed(rows.items())))


def test_each_value_of_each_list_appears_and_equal_columns_count_once() -> None:
    rows = {
        f"test[{i}-{j}]": {"first": i, "its_name": f"the {i}", "second": j}
        for i, j in product(range(10), range(10))
    }
    kept = design(rows)
    assert 10 <= len(kept) < 20
    for axis in ("first", "second"):
        assert {rows[name][axis] for name in kept} == {*range(10)}


def test_one_case_of_each_kind_and_all_of_what_has_nothing_in_common() -> None:
    kinds = {f"test[{i}]": {"case": f"kind {i % 5}"} for i in range(20)}
    assert sorted(kinds[name]["case"] for name in design(kinds)) == [f"kind {i}" for i in range(5)]
    messages = {f"test[{i}]": {"given": i, "error": "ValueError"} for i in range(20)}
    assert design(messages) == messages.keys()
    few = {f"test[{i}]": {"case": "the same"} for i in range(FEW)}
    assert design(few) == few.keys()
