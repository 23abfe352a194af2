"""Reads one column of a table, of any library and type.

A column of any origin becomes one of two plain things. Everything that can be put on a
line becomes a float64 matrix of its *parts* (``PARTS``), missing values being NaN; text
becomes integer codes and their labels.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import count
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices, Mask
from bochner.data.written_values import (
    LEAST_NUMBERS,
    WRITTEN,
    is_missing_word,
    read_written,
)
from bochner.notices import listed, warn


def base_kind(kind: str) -> str:
    """A kind of column without a time zone, and without how values are written."""
    return kind.partition(" ")[0]


def zone_of(kind: str) -> str:
    """The time zone of a kind of column; empty where it has none."""
    return "" if WRITTEN in kind else kind.partition(" ")[2]


PARTS = {
    "number": ("",),
    "text": (),
    "mixed": (),
    "date": ("days", "year", "week"),
    "datetime": ("days", "year", "week", "day"),
    "duration": ("seconds",),
    "time": ("day",),
}
"""The parts of each kind of column: days and seconds are numbers, year, week and day
are turns of a circle."""


def parts_of(kind: str) -> tuple[str, ...]:
    """Parts of a kind of column, which may have more behind it: the time zone of
    moments, such as "datetime Asia/Tokyo", or how values of text are written, such as
    "number written 1.5 kg".
    """
    return PARTS[base_kind(kind)]


LINEAR = ("", "days", "seconds")
TIME_UNITS = ("D", "s", "ms", "us", "ns")  # of NumPy that Arrow has
SEVERAL = 3  # different values, most of which tell that a column is written otherwise
# How values of these kinds are read where they come as text
PLAIN = {
    "number": f"number{WRITTEN}1.5",
    "date": f"date{WRITTEN}year/month/day",
    "datetime": f"datetime{WRITTEN}year/month/day",
    "time": f"time{WRITTEN}hour:minute",
}
SURROGATE = re.compile("[\ud800-\udfff]")


def label_text(label: Any) -> str:
    """Text of a label of a category, without blanks at its end. Equal numbers have
    one text, whatever their type: that of 1.0 is 1.
    """
    if isinstance(label, str):
        return label.rstrip()
    if type(label).__name__ == "Interval":
        begin, end = "(["[label.closed_left], ")]"[label.closed_right]
        return f"{begin}{label_text(label.left)}, {label_text(label.right)}{end}"
    is_number = isinstance(label, numbers.Real | Decimal)
    is_whole = is_number and not isinstance(label, bool) and label % 1 == 0
    return str(int(label) if is_whole else label)


def read_column(column: Any, name: str, expected: str | None = None) -> tuple[str, Any]:
    """Read one column.

    Parameters
    ----------
    column : narwhals.Series or array of shape (n,)
    name : str
        Named in errors.
    expected : str, optional
        The kind that earlier rows had, or None. Where it is "mixed", numbers are read
        as text; moments with a time zone are read in the expected one; a column without
        any value takes the expected kind.

    Returns
    -------
    kind : str
        A key of `PARTS`.
    values : array of shape (n, parts), or (codes of shape (n,), labels)
        NaN, or the code -1, where a value is missing.

    Raises
    ------
    TypeError
        For a type that has no encoding.
    ValueError
        For infinite or complex numbers, and where the kind is not the expected one.
    """
    kind, values = read_unchecked(column, name, expected)
    if isinstance(values, np.ndarray):
        require_finite(values, [name])
    if expected is None:
        return kind, values
    is_written = WRITTEN in expected
    zone = zone_of(expected)
    form = expected if is_written else PLAIN.get(base_kind(expected))
    form = f"{form} {zone}" if form and zone else form
    if form is not None and isinstance(values, tuple):
        # Text by the form of the values of the fit. Values that are none count as
        # missing, with a warning where the fit would not have them; a tenth of its
        # numbers may have been odd ones where these were text as well
        codes, labels = values
        parts = as_written(codes, labels, form)
        # Words for a missing value are none that were lost
        words = [not is_missing_word(label) for label in labels]
        present = np.array([*words, False])[codes]
        lost = present & missing(parts)
        odd_values = list(dict.fromkeys(labels[code] for code in codes[lost].tolist()))
        what, _, example = form.partition(WRITTEN)
        fewest = SEVERAL if is_written else 1
        how = f" written as {example}" if is_written else ""
        if len(odd_values) >= fewest and 2 * lost.sum() > present.sum():
            raise ValueError(
                f"column {name!r} holds {odd_values[0]!r} and the like where the fit "
                f"saw {what}s{how or ' and no text'}; write them so, or leave the "
                "column out of both tables"
            )
        usual_share = 1 - LEAST_NUMBERS if is_written and what == "number" else 0.0
        if lost.sum() > usual_share * present.sum():
            warn(
                f"Column {name!r} holds {listed(odd_values, 3)} where the fit saw "
                f"{what}s{how}: such values count as missing.",
                subject=f"odd values of {name}",
            )
        return expected, parts
    if is_written:
        if kind == base_kind(expected):
            return expected, values
        expected = base_kind(expected)
    if expected == kind or {expected, kind} == {"text", "mixed"}:
        return kind, values
    if {expected, kind} == {"date", "datetime"}:
        # Dates are datetimes at midnight
        if expected == "date":
            return expected, np.column_stack([np.floor(values[:, 0]), values[:, 1:3]])
        midnight = np.where(missing(values), np.nan, 0.0)
        return expected, np.column_stack([values, midnight])
    if not missing(values).all():
        cure = "; convert the column to these, or fit again"
        if expected == "text":
            cure = "; read the column as text, as for the fit"
        elif {base_kind(kind), base_kind(expected)} <= {"date", "datetime"}:
            cure = (
                "; give the times the zone of the fit, or none, as pandas does by "
                f"X[column].dt.tz_localize({zone or None!r})"
            )
        raise ValueError(
            f"column {name!r} holds {kind} values where the fit saw {expected} "
            f"values{cure}"
        )
    n = len(missing(values))
    width = len(parts_of(expected))
    return expected, np.full((n, width), np.nan) if width else (np.full(n, -1), [])


def read_unchecked(
    column: Any, name: str, expected: str | None = None
) -> tuple[str, Any]:
    """Kind and values of a column as of `read_column`, whatever they are."""
    column = without_frame(column)
    if isinstance(column, np.ndarray):
        return _read_array(column, name, expected)
    import pyarrow as pa

    # A column whose type its frame declares
    native_dtype = _native_dtype(column)
    if native_dtype == "category":
        categories = column.to_native().cat
        labels = [label_text(label) for label in categories.categories]
        return "text", (categories.codes.to_numpy(), labels)
    if native_dtype.startswith("period"):  # of pandas: by the first moment of each
        first = column.to_native().dt.to_timestamp()
        column = nw.from_native(first, series_only=True)
    if column.dtype in (nw.Int128, nw.UInt128):
        column = column.cast(nw.Float64)
    try:
        array = column.to_arrow()
    except (pa.ArrowException, TypeError):  # of types that Arrow does not have
        return _read_array(column.to_numpy(), name, expected)
    return _read_arrow(array, name, expected)


def without_frame(column: Any) -> Any:
    """A column of Python objects as an array of these; others as they are."""
    if isinstance(column, nw.Series) and (
        column.dtype == nw.Object or _native_dtype(column) == "object"
    ):
        return column.to_numpy()
    return column


def label_places(labels: Iterable[Any], classes: Sequence[Any]) -> Indices:
    """Positions of labels among classes, by value, or by text; -1 of others."""
    places = {label_text(one): k for k, one in enumerate(classes)}
    places |= {one: k for k, one in enumerate(classes)}
    return np.array(
        [places.get(one, places.get(label_text(one), -1)) for one in labels], np.intp
    )


def text_codes(values: Iterable[Any]) -> tuple[Indices, list[str]]:
    """Codes and labels of values by their texts; -1 of those that are missing."""
    places: dict[str, int] = {}
    codes = [
        -1 if is_missing(value) else places.setdefault(label_text(value), len(places))
        for value in values
    ]
    return np.array(codes, np.intp), list(places)


def as_written(codes: NDArray, labels: list[str], kind: str) -> NDArray:
    """Parts of the values of a column of text that is read as a kind, shape (n,
    parts).
    """
    values = np.append(read_written(labels, kind), np.nan)[codes]
    base = base_kind(kind)
    if base == "date":
        values = 86400.0 * np.floor(values / 86400.0)
    return values[:, np.newaxis] if base == "number" else _turns(values, base)


def library_of(X: Any) -> str | None:
    """Library of a data frame of pandas or polars itself, "pandas" or "polars"; None
    of all else.
    """
    library = type(X).__module__.partition(".")[0]
    is_frame = type(X).__name__ == "DataFrame"
    return library if is_frame and library in ("pandas", "polars") else None


def table_columns(X: Any) -> tuple[list[Any], list[str] | None]:
    """Columns and names of a data frame, or of a NumPy array (whose names are None)."""
    if isinstance(X, np.ndarray):
        return list(X.T), None
    frame = nw.from_native(X, eager_only=True)
    return list(frame.iter_columns()), [str(name) for name in frame.columns]


def missing(values: Any) -> NDArray:
    """Boolean array of shape (n,): where a column that was read has no value."""
    return values[0] < 0 if isinstance(values, tuple) else np.isnan(values[:, 0])


def are_finite(values: NDArray) -> bool:
    """Whether all numbers are finite: the sum of the squares tells it in less time,
    unless some are huge. True of all that are no floating-point numbers.
    """
    if values.dtype.kind != "f":
        return True
    # Without a copy, in whatever order they are, and without threads of BLAS
    stored = values.ravel(order="K")
    squares = np.einsum("i,i", stored, stored)
    return math.isfinite(squares) or bool(np.isfinite(stored).all())


def entries(X: Any, is_bad: Callable[[NDArray], NDArray]) -> Iterator[tuple[int, int]]:
    """Rows and columns of the entries of an array or sparse matrix that are bad."""
    if not sp.issparse(X):
        return zip(*np.nonzero(is_bad(X)), strict=True)
    bad = is_bad(X.data)
    return zip(*(index[bad] for index in X.tocoo().coords), strict=True)


def require_finite(
    X: Any, names: Sequence[str] | None, start: int = 0, cure: str = ""
) -> None:
    """Raise ValueError at the first infinity of an array or sparse matrix, or NaN
    where there is a cure of it.

    Parameters
    ----------
    X : array or sparse matrix of shape (b, p)
    names : sequence of str or None
        Of the columns.
    start : int
        Number of the first row, for messages.
    cure : str
        Of NaN; empty where it is allowed.
    """
    if are_finite(X.data if sp.issparse(X) else X):
        return
    for row, j in entries(X, np.isinf):
        raise ValueError(
            f"Input X contains infinity: column {column_name(names, j)!r}, row "
            f"{start + row}; drop or clip such values"
        )
    for row, j in entries(X, np.isnan) if cure else ():
        name = j if names is None else repr(names[j])
        raise ValueError(
            f"Input X contains NaN in row {start + row}, column {name}. {cure}"
        )


def column_name(names: Sequence[str] | None, j: int) -> str:
    """Name of column `j`, in scikit-learn's way where the table has none."""
    return f"x{j}" if names is None else names[j]


def column_names(names: Iterable[object] | None, n_columns: int) -> list[str]:
    """The names as they are given, or x0, x1, ... without any."""
    if names is None:
        return [f"x{j}" for j in range(n_columns)]
    return [str(name) for name in names]


def unique_names(names: Sequence[str], mark: str = "_", first: int = 2) -> list[str]:
    """Names with a mark and numbers, from the first on, behind those that repeat an
    earlier one; empty names stay.
    """
    taken = set(names)
    numbers = {name: count(first) for name in taken}
    unique = list[str]()
    used = set[str]()
    for name in names:
        new = name
        while new and (new in used or (new != name and new in taken)):
            new = f"{name}{mark}{next(numbers[name])}"
        used.add(new)
        unique.append(new)
    return unique


def column_number(column: Any, names: Sequence[str], what: str = "column") -> int:
    """Number of a column that is given by number or name."""
    if isinstance(column, str) and column in names:
        return list(names).index(column)
    # True is no column 1.
    is_number = isinstance(column, numbers.Integral) and not isinstance(column, bool)
    if is_number and -len(names) <= column < len(names):
        return int(column) % len(names)
    listed_names = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    raise ValueError(
        f"There is no {what} {column!r}: give its number, from 0 to "
        f"{len(names) - 1}, or one of {listed_names}."
    )


def _native_dtype(series: nw.Series) -> str:
    """Type in the words of the column's own library, or narwhals' where it has no
    `dtype`.
    """
    return str(getattr(series.to_native(), "dtype", series.dtype))


def levels(array: Any) -> tuple[list[Any], Indices]:
    """Different values of an Arrow array, and the place of each row's among them; -1
    of those that are missing.
    """
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):  # of frames of pandas that were joined
        array = array.combine_chunks()
    array = array.dictionary_encode()
    codes = array.indices.cast(pa.int64()).fill_null(-1)
    return array.dictionary.to_pylist(), codes.to_numpy(zero_copy_only=False)


def _read_arrow(array: Any, name: str, expected: str | None) -> tuple[str, Any]:
    """Read an Arrow array by its type."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types as is_a

    if array.type == pa.string_view():
        array = array.cast(pa.large_string())
    kind = array.type
    number_tests = is_a.is_integer, is_a.is_floating, is_a.is_decimal, is_a.is_boolean
    is_number = any(test(kind) for test in number_tests)
    text_tests = is_a.is_dictionary, is_a.is_string, is_a.is_large_string
    is_text = any(test(kind) for test in text_tests)
    if is_text or (is_number and expected == "mixed"):
        labels, codes = levels(array)
        gaps = np.array([*map(is_missing, labels), False])
        return "text", (np.where(gaps[codes], -1, codes), [*map(label_text, labels)])
    if is_a.is_date(kind) or is_a.is_timestamp(kind):
        label = "date" if is_a.is_date(kind) else "datetime"
        if is_a.is_timestamp(kind) and kind.tz is not None:
            # Moments as clocks show them in the expected zone, or else in their own
            zone = zone_of(expected or "") or kind.tz
            label = f"datetime {zone}"
            try:
                array = pc.local_timestamp(array.cast(pa.timestamp(kind.unit, zone)))
            except pa.ArrowInvalid as error:
                raise ValueError(
                    f"column {name!r}: {error}; convert the times to a zone that is "
                    "known, such as UTC"
                ) from None
        seconds = floats(array, pa.timestamp("us"), pa.int64()) / 1e6
        return label, _turns(seconds, label)
    if is_a.is_duration(kind):
        return "duration", floats(array, pa.duration("us"), pa.int64())[:, None] / 1e6
    if is_a.is_time(kind):
        return "time", _turns(floats(array, pa.time64("us"), pa.int64()) / 1e6, "time")
    if is_a.is_null(kind) or is_number:
        return "number", floats(array)[:, None]
    raise _unusable(name, kind)


def floats(array: Any, *types: Any) -> Floats:
    """Cast an Arrow array through `types` to float64, nulls becoming NaN."""
    import pyarrow as pa

    for kind in (*types, pa.float64()):
        array = array.cast(kind, safe=False)
    return array.to_numpy(zero_copy_only=False)


def _turns(seconds: NDArray, kind: str) -> NDArray:
    """Parts of moments given in seconds since 1970: days, and positions in the year,
    the week (from Monday), the day.

    Positions lie in [0, 1) and move without jumps, so that 6 a.m. on a Monday is 1/28
    of the week.
    """
    gap = np.isnan(seconds)
    seconds = np.where(gap, 0.0, seconds)
    days = seconds / 86400.0
    year = np.floor(days).astype("M8[D]").astype("M8[Y]")
    begin, end = (
        y.astype("M8[D]").astype(np.int64)
        for y in (year, year + np.timedelta64(1, "Y"))
    )
    parts = {
        "days": days,
        "year": (days - begin) / (end - begin),
        "week": (days + 3.0) % 7.0 / 7.0,
        "day": seconds % 86400.0 / 86400.0,
    }
    out = np.stack([parts[part] for part in parts_of(kind)], axis=1)
    out[gap] = np.nan
    return out


def _read_array(values: NDArray, name: str, expected: str | None) -> tuple[str, Any]:
    """Read a NumPy column of any dtype; objects by what they are."""
    import pyarrow as pa

    kind = values.dtype.kind
    if kind == "f":
        values = values.astype(np.float64)
    if kind in "biuf" and expected != "mixed":
        return "number", values.astype(np.float64, copy=False)[:, None]
    if kind == "c":
        raise ValueError(f"Complex data not supported: column {name!r}")
    if kind in "mM" and np.datetime_data(values.dtype)[0] not in TIME_UNITS:
        values = values.astype(f"{kind}8[us]")
    if kind in "UT":
        values = values.astype(object)
    if values.dtype == object:
        if expected == "mixed":
            return _read_objects(values, name, as_text=True)
        kinds = {
            type(value)
            for value in values
            if isinstance(value, date) and not is_missing(value)
        }
        # Numbers and the like among dates would count as moments
        for value in values if kinds else ():
            if not isinstance(value, (date, str)) and not is_missing(value):
                raise TypeError(
                    f"column {name!r} mixes dates with {value!r}: make it None, which "
                    "is a missing value, or a date, as pandas does by pd.to_datetime"
                )
        if date in kinds and len(kinds) > 1:
            # Dates beside moments are moments at midnight
            midnight = datetime.min.time()
            moments_of_all = [
                datetime.combine(value, midnight) if type(value) is date else value
                for value in values
            ]
            values = np.array([*moments_of_all, None], object)[:-1]
        moments = (value for value in values if isinstance(value, datetime))
        if len({value.tzinfo is None for value in moments}) > 1:
            raise ValueError(
                f"column {name!r} holds times with and without a time zone; give all "
                "of them one"
            )
    try:
        array = pa.array(values, from_pandas=True)
    except UnicodeEncodeError:
        raise lone_surrogate(values, name) from None
    except (pa.ArrowException, TypeError, OverflowError):
        return _read_objects(values, name)
    return _read_arrow(array, name, expected)


def _read_objects(values: NDArray, name: str, as_text: bool = False) -> tuple[str, Any]:
    """Read Python objects: numbers as numbers unless `as_text`, numbers and strings
    as text.
    """
    present = [value for value in values if not is_missing(value)]
    texts = [value for value in present if isinstance(value, str)]
    for value in present:
        if isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real):
            raise ValueError(f"Complex data not supported: column {name!r}")
        if isinstance(value, date) and texts:
            raise TypeError(
                f"column {name!r} mixes dates with text such as {texts[0]!r}: make the "
                "text None, which is a missing value, or turn all of the column into "
                "text"
            )
        if not isinstance(value, (str, numbers.Real, Decimal, np.bool_)):
            raise _unusable(name, type(value).__name__)
    if as_text or texts:
        return "mixed", text_codes(values)
    floats_or_nan = [np.nan if is_missing(value) else float(value) for value in values]
    return "number", np.array(floats_or_nan)[:, np.newaxis]


def lone_surrogate(values: NDArray, name: str) -> ValueError:
    """What is wrong with a column of objects that has text which UTF-8 cannot
    encode, and the cure.
    """
    row = next(
        row
        for row, value in enumerate(values)
        if isinstance(value, str) and SURROGATE.search(value)
    )
    cure = "replace it, for example by text.encode('utf-8', 'replace').decode()"
    return ValueError(
        f"column {name!r}, row {row}: {values[row]!r} holds half of a surrogate "
        f"pair; {cure}"
    )


def is_missing(value: Any) -> bool:
    """None, NaN, and pandas' NA and NaT."""
    if isinstance(value, (float, np.floating, Decimal)):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _unusable(name: str, kind: Any) -> TypeError:
    return TypeError(
        f"column {name!r} has type {kind}, but an argument must be a string, a date or "
        "a number: drop the column, or turn it into one of these"
    )


DATES = (
    "The target holds dates or durations; turn them into numbers, or into "
    "strings for classes."
)


def unmasked(values: Any) -> Any:
    """A masked array of NumPy as one whose masked values are missing: NaN or NaT, or
    None among objects; others as they are.
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    data = np.array(values.data)
    if np.ma.is_masked(values):
        if data.dtype.kind not in "fmM":
            data = data.astype(object)
        data[values.mask] = None  # NaN and NaT of numbers and times
    return data


def values_of(column: Any) -> Any:
    """Targets, labels or weights as an array in which integers and booleans stay such,
    whatever column they came in.

    Parameters
    ----------
    column : array, or series, array or frame of one column of any library
        Others are returned as they are.

    Returns
    -------
    array of shape (n,), of a frame (n, 1)
        Objects, with None where they are missing, of integers and booleans of which
        some are missing or masked.
    """
    import pyarrow as pa

    column = unmasked(column)
    if not isinstance(column, np.ndarray | list):
        series: Any = column
        if isinstance(column, pa.Array):
            series = pa.chunked_array([column])
        # An array or an index of pandas
        if hasattr(column, "isna") and not hasattr(column, "iloc"):
            from pandas import Series

            series = Series(column)
        series = nw.from_native(series, pass_through=True, allow_series=True)
        if isinstance(series, nw.DataFrame) and series.shape[1] == 1:
            return np.reshape(values_of(series[:, 0].to_native()), (-1, 1))
        if isinstance(series, nw.Series) and (
            series.dtype.is_integer() or series.dtype == nw.Boolean
        ):
            if not series.null_count():
                return series.to_numpy()
            values = [
                None if is_missing(value) else value for value in series.to_list()
            ]
            return np.array(values, dtype=object)
    # Booleans are objects where pandas leaves such of a column with missing values
    are_booleans = str(getattr(column, "dtype", "")) == "object" and all(
        isinstance(label, bool | np.bool_) for label in np.ravel(column)
    )
    return np.asarray(column, bool) if are_booleans else column


def missing_targets(y: NDArray) -> Mask:
    """Where an array of targets lacks a value, of its shape; ValueError where it
    holds dates.
    """
    if y.dtype.kind in "mM":
        raise ValueError(DATES)
    if y.dtype.kind == "f":
        return np.isnan(y)
    if y.dtype != object or set(map(type, y.ravel())) <= {str, int, bool}:
        return np.zeros(y.shape, bool)
    return np.fromiter(map(is_missing, y.ravel()), bool, y.size).reshape(y.shape)


def distinct(labels: NDArray) -> NDArray:
    """Sorted distinct labels, as `numpy.unique` finds them, of text in a tenth of
    the time.
    """
    if labels.dtype == object:
        labels = np.array(list(set(labels.tolist())), dtype=object)
    return np.unique(labels)


def first_row(where: Any) -> int:
    """Number of the first row that is marked, or has an entry that is; shape (n,) or
    (n, K).
    """
    return int(np.argwhere(where)[0, 0])
