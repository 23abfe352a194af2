"""Parts of CSV files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from operator import add
from pathlib import Path

import pyarrow as pa

from bochner.data.csv_text import Remarks, is_number, names_left_out, numbered_columns, with_commas
from bochner.data.streams.lines import span_digest
from bochner.data.streams.text_rows import TextSpan, spans_of
from bochner.data.streams.text_types import Seen, Types, look
from bochner.engines.local import in_threads
from bochner.notices import warn
from bochner.sources.base import READ_BYTES, WHY_TEXT, Batch, SourceError
from bochner.sources.paths import FileState, labels
from bochner.sources.schema import Selection, require, unified


@dataclass(frozen=True)
class TextPart:
    """Rows of a CSV file, a `Part`.

    Attributes
    ----------
    span : TextSpan
    label : str
        Name of the file relative to the folder of all.
    selection : Selection
    schema : pyarrow.Schema
        Columns that are read.
    counted : int or None
        Rows, before any are left out; None where they have not been counted.
    """

    span: TextSpan
    label: str
    selection: Selection
    schema: pa.Schema
    counted: int | None

    @property
    def file(self) -> FileState:
        """The file that holds the rows."""
        return self.span.file

    @property
    def name(self) -> str:
        """The file, and the bytes in it."""
        return self.span.place

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where a condition, or no count, leaves that open."""
        return self.counted if self.selection.where is None else None

    def read(self, n_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield the rows in order, in batches of about so many bytes at most."""
        self.span.file.check(self.name)
        rows, types = 0, {column.name: column.type for column in self.schema}
        with self.span.problems():
            for batch in self.span.batches(self.schema.names, types, n_bytes):
                rows += batch.num_rows
                table = self.selection.apply(pa.Table.from_batches([batch]))
                if table.num_rows:
                    yield Batch(table)
        self.span.file.check(self.name)
        if self.counted not in (None, rows):
            raise SourceError(f"{self.name}: {rows} rows where there were {self.counted}; open the file again")

    def line(self, row: int) -> int:
        """Line of the file of one of the rows that are read, which count from 0."""
        if self.selection.where is None:
            return self.span.line(row)
        types, above = {column.name: column.type for column in self.schema}, 0
        for batch in self.span.batches(self.schema.names, types, READ_BYTES):
            kept = self.selection.rows(pa.Table.from_batches([batch]))
            if row < len(kept):
                return self.span.line(above + int(kept[row]))
            row, above = row - len(kept), above + batch.num_rows
        raise IndexError(f"{self.name}: no row {row}")

    def stamp(self) -> str:
        """Size, first and last bytes of the file, and what of it is read."""
        file, start, stop = self.span.file, self.span.start, self.span.stop
        place = f"{self.label} {file.size} {start} {stop} {span_digest(file.path, start, stop)}"
        types = " ".join(f"{column.name} {column.type}" for column in self.schema)
        return f"{place} {self.span.decimal_point} {types} {self.selection.stamp()}"


def parts(
    paths: Sequence[Path], selection: Selection, schema: pa.Schema | None = None
) -> tuple[tuple[TextPart, ...], pa.Schema]:
    """Parts of CSV files, and the schema of the columns that are wanted.

    Types are the first of Arrow's (null, whole numbers, booleans, dates, times, floats, text) that all values of all
    files have, which takes a look at all rows, and counts them.

    Parameters
    ----------
    paths : sequence of Path
    selection : Selection
    schema : pyarrow.Schema, optional
        Types of some or all columns; where it has all, there is no look at the rows, which are not counted then.

    Raises
    ------
    SourceError
        Where a file is no CSV, has other columns than the first, a row with too few or too many fields, or a value of
        another type than the schema gives.
    """
    spans = [span for path in paths for span in spans_of(path)]
    everything = dict.fromkeys(name for span in spans for name in span.names)
    require(everything, selection.exclude)
    require(everything, pa.schema(schema or ()).names, "schema: ")
    names = [_wanted(span, selection) for span in spans]
    known = {column.name: column.type for column in schema or () if column.name in names[0].names}
    files = [(span.file.path, some) for span, some in zip(spans, names, strict=True)]
    checked = unified(files, pa.schema(known.items()))
    counts: list[int | None] = [None] * len(spans)
    reasons: Mapping[str, str] = {}
    if len(known) < len(checked):
        spans, seen, doubtful = _looked(spans, checked.names, known)
        counts, types = [one.n_rows for one in seen], reduce(add, seen).types
        if not sum(one.n_rows for one in seen):
            raise SourceError(f"{paths[0]}: the table has column names but no rows")
        remarks = _remarks(spans, seen, doubtful)
        index = selection.index(_numbered(spans, seen))
        for sentence in remarks.sentences(index, selection.columns or selection.named):
            warn(sentence)
        selection, reasons = selection.without(index), remarks.reasons
        checked = pa.schema([(name, types[name]) for name in checked.names])
    _note_names(spans)
    left = replace(selection, exclude=tuple(name for name in selection.exclude if name in checked.names))
    needed, by_path = left.needed(checked), dict(zip(map(str, paths), labels(paths), strict=True))
    found = [
        TextPart(span, by_path[span.file.path], selection, needed, count)
        for span, count in zip(spans, counts, strict=True)
    ]
    return tuple(found), pa.schema([_explained(field, reasons) for field in left.schema(checked)])


def _explained(field: pa.Field, reasons: Mapping[str, str]) -> pa.Field:
    return field.with_metadata({WHY_TEXT: reasons[field.name]}) if field.name in reasons else field


def _wanted(span: TextSpan, selection: Selection) -> pa.Schema:
    """Columns that may be needed, their types not known yet; those to leave out may be in other files only."""
    schema = pa.schema([(name, pa.null()) for name in span.names])
    try:
        kept = Selection(selection.columns, tuple(set(selection.exclude) & set(span.names))).schema(schema)
    except SourceError as error:
        raise SourceError(f"{span.file.path}: {error}") from error
    return kept if selection.where is None else schema


def _looked(
    spans: Sequence[TextSpan], columns: Sequence[str], known: Types
) -> tuple[list[TextSpan], list[Seen], list[str]]:
    """Spans, with decimal commas where numbers have them; what is found in each; columns whose commas are doubtful."""
    seen = in_threads(lambda span: look(span, columns, known), spans)
    total, separator = reduce(add, seen), "," if any(span.separator == "," for span in spans) else spans[0].separator
    found, doubtful = with_commas({name: one.commas for name, one in total.values.items()}, separator)
    if len(doubtful) < len(found):
        again = [replace(span, decimal_point=",") for span in spans]
        fixed = {**known, **dict.fromkeys(doubtful, pa.string())}
        seen_again = in_threads(lambda span: look(span, columns, fixed), again)
        if _numbers(total) < _numbers(reduce(add, seen_again)):
            values = [{**one.values, **new.values} for one, new in zip(seen, seen_again, strict=True)]
            spans, seen = again, [replace(new, values=own) for new, own in zip(seen_again, values, strict=True)]
        doubtful = [name for name in found if name not in _numbers(reduce(add, seen))]
    return list(spans), seen, doubtful


def _remarks(spans: Sequence[TextSpan], seen: Sequence[Seen], doubtful: Sequence[str]) -> Remarks:
    """What there is to say of the columns of all files."""
    files, total = {span.file.path for span in spans}, reduce(add, seen)

    def place(row: int) -> str:
        k = bisect_right(ends := list(accumulate(one.n_rows for one in seen)), row)
        line = f"line {spans[k].line(row - (ends[k - 1] if k else 0))}"
        return f"{line} of {Path(spans[k].file.path).name}" if len(files) > 1 else line

    return Remarks.of(total.values, total.types, doubtful, place)


def _numbered(spans: Sequence[TextSpan], seen: Sequence[Seen]) -> list[str]:
    """First columns without a name that number the rows of all files, or of each."""
    files: dict[str, Seen] = {}
    for span, one in zip(spans, seen, strict=True):
        path = span.file.path
        files[path] = files[path] + one if path in files else one
    each = [one.values for one in files.values() if one.n_rows]
    names = spans[0].names
    return sorted({*numbered_columns(names, reduce(add, seen).values), *numbered_columns(names, *each)})


def _note_names(spans: Sequence[TextSpan]) -> None:
    """Say where the names of the columns are repeated."""
    paths = dict.fromkeys(span.file.path for span in spans)
    for path in paths:
        if lines := [row.line for span in spans if span.file.path == path for row in span.without]:
            warn(names_left_out(lines, f" of {Path(path).name}" if len(paths) > 1 else ""))


def _numbers(seen: Seen) -> set[str]:
    return {name for name, kind in seen.types.items() if is_number(kind)}
