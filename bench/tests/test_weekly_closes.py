r"""The days that the weekly closes are of."""

from bench.studies.frontier.weekly_closes import last_of_each_week

# 2020-12-31 is a Thursday of the week that ends on Sunday 2021-01-03.
DAYS = ["2020-12-24", "2020-12-28", "2020-12-31", "2021-01-04", "2021-01-07", "2021-01-11"]
LAST = ["2020-12-24", "2020-12-31", "2021-01-07", "2021-01-11"]


def test_the_last_trading_day_of_each_week_is_kept_as_it_is() -> None:
    rows = [[day, f"{price}.50", "1"] for price, day in enumerate(DAYS)]
    assert last_of_each_week(rows) == [row for row in rows if row[0] in LAST]
