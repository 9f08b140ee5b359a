"""Dates and times as people write them: found by their form, checked against the calendar."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from toolcrib.records.context import Entity

__all__ = ["dates"]

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_TH = r"(?:st|nd|rd|th)"
_YEAR = r"(?:19|20)\d{2}"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_SHORT_DAY = r"(?:mon|tue|wed|thu|thur|thurs|fri|sat|sun)"
_UNIT = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|quarters?|years?)"
_NUMBER = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty"
    r"|forty)"
)
_COUNT = rf"(?:\d{{1,4}}|an?|{_NUMBER}|few|a few|a couple of|half an?|a quarter of an)"
_SPAN = r"(?:hour|week|weekend|month|quarter|year|sprint|morning|afternoon|evening|night)"
_BEFORE = r"(?:in|on|by|since|from|until|till|before|after|during|of|for|late|early|mid|between)"
_NAMED_MONTH = rf"(?!may\b){_MONTH}"
"""`may` alone is a verb more often than a month."""

_NUMERIC = re.compile(
    r"(?<![\w./-])(?:"
    r"(?P<iso>\d{4}-\d{2}-\d{2})"
    r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|(?P<ymd>\d{4}[/.]\d{1,2}[/.]\d{1,2})"
    r"|(?P<dmy>\d{1,2}(?:/\d{1,2}/(?:\d{4}|\d{2})|[.]\d{1,2}[.]\d{4}|-\d{1,2}-\d{4}))"
    r"|(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?: ?[ap]\.?m\b)?"
    rf"|(?:1[0-2]|0?[1-9]) ?[ap]\.?m\b"
    rf"|{_DAY}{_TH}?(?: of)? {_MONTH}(?:,? {_YEAR})?"
    rf"|\d{{1,4}} {_UNIT} (?:ago|from now|earlier|later)\b"
    r")(?![\w/-]|[.:]\d)",
    re.IGNORECASE,
)
"""What begins with a digit."""

_WORDED = re.compile(
    r"(?<![\w./-])(?:"
    r"today|tonight|tomorrow|yesterday|midnight|noon|eod|eow"
    rf"|(?:(?:this|next|last|coming) )?{_WEEKDAY}s?(?: (?:morning|afternoon|evening|night))?"
    rf"|(?:this|next|last|coming|past) (?:{_SPAN}|{_SHORT_DAY}|{_NAMED_MONTH})"
    rf"|(?:by|on|until|since|till) {_SHORT_DAY}"
    rf"|(?:the )?end of (?:the |this |next )?(?:day|week|month|quarter|year|sprint)"
    rf"|(?:in|within) (?:the (?:next|past|last) )?{_COUNT} {_UNIT}"
    rf"|(?:last|past|next) {_COUNT} {_UNIT}"
    rf"|(?:an?|{_NUMBER}|few) {_UNIT} (?:ago|from now)"
    rf"|{_NUMBER} (?:thirty )?[ap]\.?m"
    rf"|{_MONTH} {_DAY}{_TH}?(?:,? {_YEAR})?(?![\d.])"
    rf"|{_MONTH},? {_YEAR}"
    rf"|{_BEFORE} (?:the )?(?P<month>{_NAMED_MONTH})"
    rf"|(?:on|by|until|till|since|from|before) (?:the )?(?P<day>{_DAY}{_TH})"
    r"(?=\s*(?:$|[,.;:?!)]|(?:of|at|in|and|to|for|with|please)\b))"
    rf"|(?:{_BEFORE}|year|and) (?P<year>{_YEAR})"
    rf"|q[1-4](?: {_YEAR})?"
    r")(?!\w|[.-]\w)",
    re.IGNORECASE,
)
_INNER = ("month", "day", "year")
"""Groups that are the date where a preposition before it is what made it one."""


def dates(text: str) -> Iterator[Entity]:
    """Dates, times, and spans of time that end or begin now."""
    for found in _NUMERIC.finditer(text):
        if _in_the_calendar(found):
            yield Entity("date", found[0], found.start(), found.end())
    for found in _WORDED.finditer(text):
        group: str | int = next((name for name in _INNER if found[name]), 0)
        yield Entity("date", found[group], found.start(group), found.end(group))


def _in_the_calendar(found: re.Match[str]) -> bool:
    written = found["iso"] or found["ymd"] or found["dmy"]
    if written is None:
        return True
    first, middle, last = map(int, re.split(r"[-/.]", written))
    # Both orders of day and month are in use: one of them must exist.
    options = (
        [(last, first, middle), (last, middle, first)] if found["dmy"] else [(first, middle, last)]
    )
    return any(map(_exists, options))


def _exists(parts: tuple[int, int, int]) -> bool:
    year, month, day = parts
    try:
        date(year + 2000 if year < 100 else year, month, day)  # noqa: PLR2004 - a year of two digits
    except ValueError:
        return False
    return True
