"""Dates and numbers as people write them in text, such as 1-Dec-17, 12:42 PM, 23.4 kg,
$2,399 and (3.2).

A column of text is read by one *format*, which all of its values have, or for numbers
nearly all of them. Its name is the kind of the column, such as "date written
day/month/year" or "number written 1,5 kg", so that later rows are read as those of the
fit were.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np

from bochner.arrays import Floats

WRITTEN = " written "  # stands between the kind of values and how they are written
# Words for a missing value, in lower case
WORDS = (
    "? - -- --- . .. * ** *** \u2013 \u2014 n/a na #n/a n.a. n.d. <na> nan nat null "
    "none nil missing unknown #div/0! #value! #ref! #num!"
)
MISSING_WORDS = {"", *WORDS.split()}
LEAST_NUMBERS = 0.9  # of the values, which are numbers where the others are missing
# Behind a number, which they multiply: a number without one is what it says
MULTIPLES = {"k", "K", "M", "B", "bn", "mn", "Mio", "Mrd"}
LONGEST = 64  # characters of a number or a date with what stands round it
LARGEST_WHOLE = 2**53  # beyond which different whole numbers become equal
# Of currencies, which may stand before a number
CODES = (
    "EUR|USD|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|RUB|TRY|BRL|ZAR|"
    "MXN|KRW|SGD|HKD|Rs"
)
LOOKED_AT = 200  # first values, of which enough must fit before all are tried
NEARLY_SORTED = 0.95  # of the steps from one value to the next go the same way
NAMES_OF_MONTHS = (
    "january february march april may june july august september october november "
    "december"
)
# By all of their names in dates
MONTHS = {
    name: number
    for number, full in enumerate(NAMES_OF_MONTHS.split(), 1)
    for name in (full, full[:3], full[:4], str(number), f"{number:02d}")
}
NOON = 12 * 3600.0  # seconds
CENTURY = 69  # from which years of two digits are of the last century, as in POSIX

CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d(?:\.\d+)?))?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?"
)
DAY, LONG_YEAR = r"(?P<day>\d{1,2})", r"(?P<year>\d{4})"
MONTH, NAMED_MONTH = (
    r"(?P<month>\d{1,2}|[A-Za-z]{3,9}\.?)",
    r"(?P<month>[A-Za-z]{3,9}\.?)",
)
# 1.2.10 is as well a version, and 01.02.10 is none
YEAR = r"(?P<year>\d{4}|(?<!\b\d\.\d\.)(?<!\b\d\.\d\d\.)(?<!\d\d\.\d\.)\d\d)"
# A month without a name and without a day is as well a fraction
FIELDS = {
    "day/month/year": (DAY, MONTH, YEAR),
    "month/day/year": (MONTH, DAY, YEAR),
    "year/month/day": (LONG_YEAR, MONTH, DAY),
    "month/year": (NAMED_MONTH, YEAR),
}
SEPARATOR = r"(?:\s*[/.,-]\s*|\s+)"
# Of the week, before a date
DAY_NAME = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\.?,?\s+)?"
DATES = {
    order: re.compile(rf"{DAY_NAME}{SEPARATOR.join(fields)}(?:(?:\s+|T|,\s*){CLOCK})?")
    for order, fields in FIELDS.items()
}
SHORT_FIELDS = re.compile(rf"(\d\d){SEPARATOR}\d+{SEPARATOR}(\d\d)(?!\d)")
NAMED = re.compile("[A-Za-z]{3}")  # of a month
ISO_TIME = r"\d\d:\d\d(:\d\d(\.\d+)?)?"
ISO = re.compile(
    rf"\d{{4}}-\d\d-\d\d([ T]{ISO_TIME}(Z|[+-]\d\d(:?\d\d)?)?)?|{ISO_TIME}"
)
TIME_OF_DAY = re.compile(CLOCK)
SIGNS = "$\u20ac\u00a3\u00a5\u20b9\u20bd\u20a9\u20ba"  # of currencies
NUMBER = re.compile(  # of text with single blanks, see `_tidy`
    r"(?P<open>\()? ?(?P<sign>[-+\N{MINUS SIGN}])? ?"
    rf"(?P<before>[A-Z]{{0,3}}[{SIGNS}]|(?:{CODES})(?=[ \d]))? ?"
    r"(?P<second>[-+\N{MINUS SIGN}])?"
    r"(?P<digits>\d[\d.,'\u2019 ]*|[.,]\d+)(?P<power>[eE][-+]?\d+)?(?P<gap> ?)"
    rf"(?P<after>[^\W\d_][^\d() ]{{0,11}}|[%\u2030\u00b0{SIGNS}][^\d() ]{{0,5}})?"
    r" ?(?P<last>[-\N{MINUS SIGN}])?(?P<close>\))?"
)
PLAIN = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
GROUPS = {
    ".": re.compile(r"[1-9]\d{0,2}([,'\u2019 ]\d{3})+(\.\d*)?"),
    ",": re.compile(r"[1-9]\d{0,2}([.'\u2019 ]\d{3})+(,\d*)?"),
}
DECIMALS = {
    ".": re.compile(r"\d+\.?\d*|\.\d+"),
    ",": re.compile(r"\d+,?\d*|,\d+"),
}
ZEROS_IN_FRONT = re.compile(r"0\d")


@dataclass(frozen=True)
class Written:
    """How the values of a column of text are to be read.

    Attributes
    ----------
    kind : str
        Of the column: the kind of its values, and how they are written. "text" where
        nothing is certain.
    others : list of str
        Values that are none of that kind, and count as missing.
    note : str
        What was done or what to do, a sentence for people; empty where there is nothing
        to say.
    """

    kind: str = "text"
    others: Sequence[str] = ()
    note: str = ""


def written_kind(
    counts: Mapping[str, float], name: str, day_first: bool | None = None
) -> Written:
    """Tell how the values of a column of text are written.

    Parameters
    ----------
    counts : dict of str to float
        Weight of each different value, in the order in which they came first.
    name : str
        Of the column, for the note.
    day_first : bool, optional
        Whether days stand before months where both orders fit; None for the order in
        which the values are sorted, or nearly so.
    """
    missing = [value for value in counts if is_missing_word(value)]
    present = [value for value in counts if not is_missing_word(value)]
    if not present:
        return Written()
    fitting = [
        order for order in DATES if all(date_written(value, order) for value in present)
    ]
    if fitting:
        # Years of two digits may be in front where first fields have fewer different
        # values than the last ones, and are not the first days of months
        matches = [SHORT_FIELDS.match(_tidy(value)) for value in present]
        first = {match[1] for match in matches if match is not None}
        last = {match[2] for match in matches if match is not None}
        if None not in matches and len(first) < len(last) and first != {"01"}:
            cure = "years of four digits make them dates"
            return Written(note=f"Column {name!r}: may be dates; {cure}.")
        # Dates in the one order that fits, or in that of two in which they are sorted
        if day_first is not None and len(fitting) > 1:
            fitting = ["day/month/year" if day_first else "month/day/year"]
        if len(fitting) > 1:
            fitting = [order for order in fitting if _is_sorted(present, order)]
        if len(fitting) != 1:
            return Written(
                note=f"Column {name!r}: may be dates with days or months first; "
                "day_first=True or False (--dates day-first or month-first in the "
                "command) reads them as dates."
            )
        (order,) = fitting
        has_time = any(":" in value for value in present)
        kind = f"{'datetime' if has_time else 'date'}{WRITTEN}{order}"
        return Written(kind, missing, f"Column {name!r}: dates read as {order}.")
    # Before noon, and without am or pm, they may as well be laps or ratios
    if all(_seconds_of_day(value) >= 0 for value in present) and (
        "m" in present[0].lower() or max(map(_seconds_of_day, present)) >= NOON
    ):
        kind = f"time{WRITTEN}hour:minute"
        return Written(kind, missing, f"Column {name!r}: read as times of day.")
    numbers = _as_numbers(counts, present, missing, name)
    if numbers is not None:
        return numbers
    # Few values that are no dates as of ISO 8601 make text of the others
    odd = [value for value in present if not ISO.fullmatch(value)]
    n_values = sum(counts[value] for value in present)
    n_odd = sum(counts[value] for value in odd)
    if not 0 < n_odd <= (1 - LEAST_NUMBERS) * n_values:
        return Written()
    return Written(
        note=f"Column {name!r}: text because of {n_odd:,.0f} of {n_values:,.0f} "
        f"values, first {odd[0]!r}; write dates there, or nothing."
    )


def is_missing_word(value: str) -> bool:
    """Whether a text stands for a missing value."""
    return value.strip().lower() in MISSING_WORDS


def is_whole_number(value: str) -> bool:
    """Whether a text is a whole number and nothing else."""
    match = PLAIN.fullmatch(_tidy(value))
    return match is not None and float(match[0]).is_integer()


def _as_numbers(
    counts: Mapping[str, float],
    present: list[str],
    missing: list[str],
    name: str,
) -> Written | None:
    """Numbers of one unit with one decimal mark; None where too few values are such
    numbers, or where they look like identifiers.
    """
    # 1) The first values tell soon that a column of other text has no numbers
    head = present[:LOOKED_AT]
    matches = [match for value in head if (match := NUMBER.fullmatch(_tidy(value)))]
    units = Counter(map(_unit, matches))
    unit = next((unit for unit, _ in units.most_common() if unit), "")
    # A unit in letters stands beside most of the numbers
    if unit.isalpha() and units[unit] < units[""]:
        unit = ""
    n_fitting = units[unit] + (units[""] if unit else 0)
    if n_fitting < LEAST_NUMBERS * LEAST_NUMBERS * len(head):
        return None
    if all(match["open"] or match["last"] for match in matches):
        return None  # numbers of notes, not negative ones
    # 2) The decimal mark by which most values are numbers
    read: dict[str, dict[str, float]] = {mark: {} for mark in ".,"}
    for mark, value in product(".,", present):
        number = number_written(value, mark, unit)
        if number is not None:
            read[mark][value] = number
    n_read = {mark: sum(counts[value] for value in read[mark]) for mark in ".,"}
    decimal = max(read, key=n_read.__getitem__)
    doubtful = [
        value
        for value, number in read["."].items()
        if read[","].get(value, number) != number
    ]
    if doubtful and n_read["."] == n_read[","]:
        # 1.628 beside 817 has groups of three digits
        whole = [read["."][value] for value in {*read["."]} - {*doubtful}]
        if any(100 <= abs(number) < 1000 for number in whole):
            decimal = "," if "." in doubtful[0] else "."
    numbers = read[decimal]
    odd = [value for value in present if value not in numbers]
    if n_read[decimal] < LEAST_NUMBERS * sum(counts[value] for value in present):
        return None
    # 3) Identifiers, and whole numbers that somebody has made text, perhaps with gaps
    if any(ZEROS_IN_FRONT.match(value.strip()) for value in numbers):
        return None
    if any(abs(number) >= LARGEST_WHOLE for number in numbers.values()):
        return None
    is_written = odd or decimal == "," or any(value.strip() for value in missing)
    if not is_written and all(PLAIN.fullmatch(_tidy(value)) for value in numbers):
        are_whole = all(number.is_integer() for number in numbers.values())
        # Such as 1.1 and 1.10
        may_be_versions = len(set(numbers.values())) < len(numbers)
        if are_whole or may_be_versions:
            return None
    # 4) What was done, and what is doubtful
    kind = f"number{WRITTEN}{'1,5' if decimal == ',' else '1.5'}"
    kind = f"{kind} {unit}" if unit else kind
    note = f"Column {name!r}: read as numbers" + (f" of unit {unit}" if unit else "")
    if doubtful and len(read["."]) == len(read[","]):
        note += f", {doubtful[0]!r} as {numbers[doubtful[0]]:g}"
    lost = sorted(odd + missing, key=lambda value: -counts[value])
    if lost:
        n_lost = sum(counts[value] for value in lost)
        shown = ", ".join(map(repr, lost[:3])) + (", ..." if len(lost) > 3 else "")
        note += f"; {n_lost:,.0f} of its values are none and count as missing: {shown}"
    return Written(kind, odd + missing, f"{note}.")


def _tidy(value: str) -> str:
    """A text with single blanks; empty where it is too long for a number or a date."""
    return " ".join(value.split()) if len(value) <= LONGEST else ""


def _unit(match: re.Match[str]) -> str:
    """What stands before or behind a number, without blanks at its ends."""
    return (match["before"] or match["after"] or "").strip()


def number_written(value: str, decimal: str, unit: str) -> float | None:
    """The number that a text holds with a decimal mark and a unit, which may be
    missing from it; None where it is none.
    """
    match = NUMBER.fullmatch(_tidy(value))
    if match is None or (match["open"] is None) != (match["close"] is None):
        return None
    own_unit = _unit(match)
    if own_unit not in ("", unit) or (match["before"] and match["after"]):
        return None
    if unit in MULTIPLES and not own_unit:
        return None
    # 2A may be a seat, and 5m a length
    is_letter = len(own_unit) == 1 and own_unit.isupper()
    if is_letter and not match["gap"] and match["after"]:
        return None
    digits = match["digits"].strip()
    if GROUPS[decimal].fullmatch(digits):
        digits = re.sub(r"[^\d.,]", "", digits)
        digits = digits.replace("," if decimal == "." else ".", "")
    elif not DECIMALS[decimal].fullmatch(digits):
        return None
    number = float(digits.replace(decimal, ".") + (match["power"] or ""))
    if not np.isfinite(number):
        return None
    signs = [match["sign"], match["second"], match["open"], match["last"]]
    negative = sum(sign is not None and sign != "+" for sign in signs)
    return None if negative > 1 else -number if negative else number


def _is_sorted(values: Sequence[str], order: str) -> bool:
    """Whether dates rise or fall, or nearly so, from one to the next."""
    moments: Any = [date_written(value, order) for value in values]
    steps = [one < other for one, other in pairwise(moments)]
    share = sum(steps) / max(len(steps), 1)
    return len(steps) > 1 and max(share, 1 - share) >= NEARLY_SORTED


def _seconds(match: re.Match[str]) -> float:
    """Seconds since midnight of a match with a clock, 0 without any; NaN where there is
    no such time.
    """
    if match["hour"] is None:
        return 0.0
    hours = int(match["hour"])
    if match["half"] is not None:
        if not 1 <= hours <= 12:
            return np.nan
        hours = hours % 12 + 12 * (match["half"].lower() == "p")
    minutes = int(match["minute"])
    seconds = float(match["second"] or 0)
    is_possible = hours < 24 and minutes < 60 and seconds < 60
    return 3600.0 * hours + 60.0 * minutes + seconds if is_possible else np.nan


def date_written(value: str, order: str) -> datetime | None:
    """The moment that a text holds, whose day, month and year are in an order; None
    where it is none.
    """
    match = DATES[order].fullmatch(_tidy(value))
    if match is None:
        return None
    month = MONTHS.get(match["month"].rstrip(".").lower())
    seconds = _seconds(match)
    if month is None or np.isnan(seconds):
        return None
    year = int(match["year"])
    if len(match["year"]) == 2:
        year += 1900 if year >= CENTURY else 2000
    day = int(match["day"]) if "day" in order else 1
    try:
        return datetime(year, month, day) + timedelta(seconds=seconds)
    except ValueError:
        return None


def read_written(labels: Sequence[str], kind: str) -> Floats:
    """Values of texts as of a kind that `written_kind` named: numbers, or seconds since
    1970 or midnight; NaN where a text is none, or is a date of another form.

    Parameters
    ----------
    labels : sequence of str
    kind : str

    Returns
    -------
    array of shape (len(labels),)
    """
    base, _, form = kind.partition(WRITTEN)
    example, _, unit = form.partition(" ")
    if base == "number":
        read: Any = partial(number_written, decimal=example[1], unit=unit)
    elif base == "time":
        read = _seconds_of_day
    else:
        read = partial(_seconds_since_1970, order=example, zone=unit)
    return np.array([*map(read, labels)], np.float64)


def _seconds_of_day(label: str) -> float:
    match = TIME_OF_DAY.fullmatch(_tidy(label))
    return np.nan if match is None else _seconds(match)


def _seconds_since_1970(label: str, order: str, zone: str = "") -> float:
    """Seconds of a date in an order, or as ISO 8601 has it, or in any order where its
    month has a name. Where the column has a time zone, those of moments as clocks show
    them there.
    """
    orders = [order, *DATES] if NAMED.search(label) else [order]
    moment = None
    if not zone:
        dates = (date_written(label, one) for one in orders)
        moment = next((date for date in dates if date is not None), None)
    if moment is None:
        try:
            moment = datetime.fromisoformat(label.strip())
        except ValueError:
            return np.nan
        if (moment.tzinfo is None) == bool(zone):
            return np.nan
        if zone:
            import pyarrow as pa

            moment = moment.astimezone(pa.lib.string_to_tzinfo(zone))
            moment = moment.replace(tzinfo=None)
    return (moment - datetime(1970, 1, 1)) / timedelta(seconds=1)
