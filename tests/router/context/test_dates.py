"""Dates and times as people write them, if the calendar has them."""

from __future__ import annotations

import pytest

from toolcrib.router.context.entities import dates


def found(text):
    return [entity.text for entity in sorted(dates(text), key=lambda entity: entity.start)]


@pytest.mark.parametrize(
    "date",
    [
        "2024-05-03",
        "2024-05-03T12:30:00Z",
        "2024-05-03 12:30",
        "2024/05/03",
        "3/14/2024",
        "14.3.2024",
        "14-03-2024",
        "14/03/24",
        "12:30",
        "5pm",
        "5:30 pm",
        "3rd of May 2024",
        "3 May",
        "May 3rd, 2024",
        "August 2024",
        "tomorrow",
        "next Monday morning",
        "Fridays",
        "last quarter",
        "next Tue",
        "end of the month",
        "in 3 days",
        "within two weeks",
        "in half an hour",
        "two days ago",
        "3 days ago",
        "last 24 hours",
        "six am",
        "Q3 2024",
        "EOD",
    ],
)
def test_a_date_is_found_in_the_many_ways_of_writing_it(date):
    assert max(found(f"look at it {date}, please"), key=len) == date


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in March it rained", ["March"]),
        ("since 2019", ["2019"]),
        ("the year 2016 and 2015", ["2016", "2015"]),
        ("on the 14th at noon", ["14th", "noon"]),
        ("by the 3rd.", ["3rd"]),
    ],
)
def test_the_preposition_makes_it_a_date_and_is_no_part_of_it(text, expected):
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2024-13-03",
        "31/31/2024",
        "2023-02-29",
        "this may break",
        "the 3rd row",
        "after the 4th click",
        "2019 users",
        "version 1.2.3",
        "25:30",
        "a ratio of 4:100",
        "march on",
        "src/2024/05",
        "second to none",
    ],
)
def test_what_no_calendar_has_is_no_date(text):
    assert found(text) == []


def test_both_orders_of_day_and_month_are_read():
    assert found("5/13/2024 and 13/5/2024") == ["5/13/2024", "13/5/2024"]


def test_a_date_lies_where_it_stands():
    text = "due by Friday the 14th"
    assert all(text[entity.start : entity.end] == entity.text for entity in dates(text))
    assert {entity.type for entity in dates(text)} == {"date"}
