"""How a table of text is written, by its first lines: encoding, separator, names, and
lines that are none of its rows.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, takewhile
from typing import Any, NamedTuple

import pyarrow as pa

from bochner.data.columns import unique_names
from bochner.data.file_kinds import is_arff
from bochner.data.written_values import is_missing_word
from bochner.notices import listed
from bochner.sources.base import SourceError
from bochner.sources.text_files import BOM, Row, rows_of

SEPARATORS = ",\t;|"
BLANK = " "  # the separator of columns that are separated by one or more blanks
FIRST_ROWS = 64  # that tell how a table is written
SHOWN_LINES = 3
PLACE = "\0"  # stands in a remark where the file is named if there are several
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
WINDOWS = "cp1252"  # what text is that is not UTF-8, most of the time
# What to say of encodings other than UTF-8
ENCODINGS = {
    WINDOWS: f"The text{PLACE} is not UTF-8, and is read as that of Windows (cp1252).",
    "utf-16": f"The text{PLACE} is UTF-16, and is read as such.",
}
WORD = re.compile(r'"(?:[^"]|"")*"|[^ ]+')
BYTES_OF_WORD = re.compile(rb'"(?:[^"]|"")*"|[^ \r\n]+')
SEPARATOR_LINE = re.compile(r"sep=(.)\1*", re.IGNORECASE)  # that Excel writes and reads
NUMBER = re.compile(r"[+-]?(\d+([.,]\d+)*\.?|[.,]\d+)([eE][+-]?\d+)?")
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")
KINDS = {"number": NUMBER, "date": DATE}
# Numbers by what stands before their decimals; the other mark may group thousands
DECIMALS = {
    mark: re.compile(
        rf"[+-]?((\d+|[1-9]\d{{0,2}}([{other}]\d{{3}})+)[{mark}]?\d*|[{mark}]\d+)"
        r"([eE][+-]?\d+)?"
    )
    for mark, other in (".,", ",.")
}
HUNDREDS = re.compile(r"[+-]?[1-9]\d\d")
YEARS = range(1800, 2101)
FEW_OTHERS = 0.1  # share of columns whose unit is a number
MANY_NAMES = 5  # numbers in order that are names rather than values
# First fields of rows below a table that sum it up
SUMS = re.compile(
    r"((grand |sub)?total|sums?|summe|gesamt|average|avg|mean|mittelwert)s?:?",
    re.IGNORECASE,
)
REMARK = re.compile(r"[\s:]")  # in what is no code of a row
MOST_SUMS = 8  # rows below a table, at most


@dataclass(frozen=True)
class Dialect:
    """How a table of text is written.

    Positions and line numbers are those of the text in UTF-8.

    Attributes
    ----------
    separator : str
        A blank stands for one or more of them.
    decimal_point : str
        A comma where more columns of the first rows have decimal commas than points, a
        point where fewer do; empty where nothing tells.
    encoding : str
        As Python names it.
    lone_returns : bool
        Whether lines end in carriage returns alone.
    begin, lines_above : int
        First byte of the names, or of the rows where there are none above them, and
        the number of lines before it.
    names : tuple of str
        Of the columns; empty where they are those in the first row.
    has_names : bool
        Whether the first row has names.
    without : tuple of Row
        Rows that are none of the table.
    form : str
        What else is to be done with each row: nothing where it is "plain"; separators
        that end it are left out ("ends"), "blanks" become one, or it is one of "arff".
    width : int
        Number of columns; 0 where it is not known.
    first_is_number : bool
        Whether the first column has numbers or dates.
    has_row_names : bool
        Whether the first column, which has no name, has names of the rows.
    text : tuple of str
        Columns that the file declares to be text.
    remarks : tuple of str
        What has been done, in sentences.
    """

    separator: str = ","
    decimal_point: str = "."
    encoding: str = "utf-8"
    lone_returns: bool = False
    begin: int = 0
    lines_above: int = 0
    names: tuple[str, ...] = ()
    has_names: bool = True
    without: tuple[Row, ...] = ()
    form: str = "plain"
    width: int = 0
    first_is_number: bool = False
    has_row_names: bool = False
    text: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def recoded(self, stream: Any) -> Any:
        """A stream of the text in UTF-8, with line feeds at the ends of lines."""
        if self.encoding != "utf-8":
            stream = pa.transcoding_input_stream(stream, self.encoding, "utf-8")
        if self.lone_returns:
            stream = pa.TransformInputStream(
                stream, lambda text: bytes(text).replace(b"\r", b"\n")
            )
        return stream

    def rewritten(self, row: bytes) -> bytes:
        """A row as Arrow reads it; empty where it is none."""
        if self.form == "ends":
            # Without separators behind the fields of the columns
            content = row.rstrip(b"\r\n")
            separator = self.separator.encode()
            fields = content.count(separator) + 1
            if b'"' in content:
                fields = len(fields_of(content, self.separator))
            return content.removesuffix(separator * (fields - self.width)) + b"\n"
        if self.form == "blanks":
            return b" ".join(BYTES_OF_WORD.findall(row)) + b"\n"
        return row_of(row) if self.form == "arff" else row

    def rows_below(self, rows: Sequence[Row]) -> int:
        """How many of the last rows of a file are none of the table."""
        lines = lines_of(rows[-MOST_SUMS - 1 :], self.separator)
        n = sums_below(lines, self.width)
        return n if self.first_is_number or _are_sums(lines, n, self.width) else 0

    def with_encoding_of(self, text: bytes, is_whole: bool = False) -> Dialect:
        """Copy the dialect, with the encoding of the first text that has other
        characters than those of ASCII.

        Text that is not UTF-8 is taken as that of Windows, unless other characters
        before are UTF-8.
        """
        encoding = "utf-8"
        if text.startswith(UTF_16):
            encoding = "utf-16"
        else:
            try:
                codecs.getincrementaldecoder("utf-8")().decode(text, final=is_whole)
            except UnicodeDecodeError as error:
                if text[: error.start].isascii():
                    encoding = WINDOWS
        return replace(self, encoding=encoding).saying(ENCODINGS.get(encoding, ""))

    def saying(self, *remarks: str) -> Dialect:
        """Copy the dialect, with more remarks; empty ones are left out."""
        return replace(self, remarks=(*self.remarks, *filter(None, remarks)))


class Line(NamedTuple):
    """A row of a table of text, and its fields."""

    row: Row
    fields: list[str]

    @property
    def filled(self) -> int:
        """Number of fields up to the last that is not empty."""
        places = [k for k, field in enumerate(self.fields, 1) if field.strip()]
        return max(places, default=0)

    def field(self, k: int) -> str:
        """A field without blanks around it; empty where the row is too short."""
        return self.fields[k].strip() if k < len(self.fields) else ""


def lines_of(rows: Iterable[Row], separator: str) -> list[Line]:
    """Rows with their fields."""
    return [Line(row, fields_of(row.content, separator)) for row in rows]


class Form(NamedTuple):
    """The first rows by a separator.

    Attributes
    ----------
    separator : str
    lines : list of Line
    width : int
        Number of fields that most of them have.
    share : float
        Of the rows that have `width` fields.
    """

    separator: str
    lines: list[Line]
    width: int
    share: float

    @classmethod
    def of(cls, head: bytes, separator: str, begin: int = 0) -> Form:
        """That of the first rows of a text, the first byte of which has a place."""
        rows = islice(rows_of([Row(1, begin, head)], separator), FIRST_ROWS)
        lines = lines_of(rows, separator)
        counts = Counter(len(line.fields) for line in lines)
        width = max(counts, key=lambda n: (counts[n], n), default=0)
        return cls(separator, lines, width, counts[width] / max(len(lines), 1))

    @property
    def numbers(self) -> float:
        """Share of the fields that are numbers, below the first row."""
        fields = [field.strip() for line in self.lines[1:] for field in line.fields]
        return sum(map(bool, map(kind_of, fields))) / max(len(fields), 1)


def fields_of(row: bytes, separator: str) -> list[str]:
    """Fields of a row; none where it cannot be split."""
    text = row.decode(errors="replace")
    if separator == BLANK:
        text = " ".join(WORD.findall(text))
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:  # a line break outside of quotes, or a field without an end
        return []


def kind_of(field: str) -> str:
    """Whether a field is a "number" or a "date"; empty for other text."""
    return next((kind for kind, form in KINDS.items() if form.fullmatch(field)), "")


def dialect_of(head: bytes, is_whole: bool, kind: str | None = None) -> Dialect:
    """How a table is written whose text begins so.

    Parameters
    ----------
    head : bytes
        Of the file, without compression.
    is_whole : bool
        Whether these are all of its bytes.
    kind : str, optional
        Of file, such as "tsv" or "arff".

    Raises
    ------
    SourceError
        Where an ARFF file has no header, or sparse rows.
    """
    dialect = Dialect().with_encoding_of(head, is_whole)
    if dialect.encoding != "utf-8":
        decoder = codecs.getincrementaldecoder(dialect.encoding)(errors="replace")
        head = decoder.decode(head).encode()
    if b"\r" in head and b"\n" not in head:
        dialect = replace(dialect, lone_returns=True)
        head = head.replace(b"\r", b"\n")
    if kind == "arff" or is_arff(head):
        return _of_arff(dialect, head)
    begin = len(BOM) if head.startswith(BOM) else 0
    head = head[begin:]
    dialect = replace(dialect, begin=begin)
    # A line that names the separator comes before all others
    first, _, _ = head.lstrip(b"\r\n").partition(b"\n")
    named = SEPARATOR_LINE.fullmatch(first.decode(errors="replace").rstrip("\r"))
    # The last line may go on behind the first bytes
    rows = head if is_whole else head[: head.rfind(b"\n") + 1]
    if named:
        form = Form.of(rows, named[1], begin)
        dialect = dialect.saying(f"Line 1{PLACE} names the separator, and is left out.")
    elif kind == "tsv":
        form = Form.of(rows, "\t", begin)
    else:
        # A comma where a line has one outside of quotes, else the commonest mark
        plain = "".join(first.decode(errors="replace").split('"')[::2])
        usual = "," if "," in plain else max(SEPARATORS, key=plain.count)
        # The separator that cuts most rows into one number of fields, and more fields
        # into numbers; the usual one where no other does better
        forms = [Form.of(rows, separator, begin) for separator in SEPARATORS]
        several = [one for one in forms if one.width > 1]
        form = max(
            several or [one for one in forms if one.separator == usual],
            key=lambda one: (one.share, one.numbers, one.separator == usual),
        )
        if form.width <= 1 or form.share != 1:
            words = Form.of(rows, BLANK, begin)
            form = words if _are_columns(words) else form
    if form.separator == BLANK:
        dialect = replace(dialect, form="blanks")
        dialect = dialect.saying(f"Columns{PLACE} are separated by blanks.")
    return _with_lines(replace(dialect, separator=form.separator), form, bool(named))


def _are_columns(words: Form) -> bool:
    """Whether the words of the first rows are the fields of columns, some of which
    are numbers.
    """
    first, *below = [len(line.fields) for line in words.lines] or [0]
    # Names of columns beside names of rows are one less
    are_whole = first in (words.width, words.width - 1) and set(below) == {words.width}
    if len(below) < 2 or words.width < 2 or not are_whole:
        return False
    numbers = _kinds(words.lines[1:], words.width).count("number")
    return numbers == words.width or numbers > 1


def _kinds(lines: Sequence[Line], width: int) -> list[str]:
    """Of each column "number", "date" or "text"; empty where all is missing."""
    kinds = []
    for k in range(width):
        values = [line.field(k) for line in lines]
        value_kinds = {
            kind_of(value) or "text" for value in values if not is_missing_word(value)
        }
        kinds.append("text" if len(value_kinds) > 1 else next(iter(value_kinds), ""))
    return kinds


def _with_lines(dialect: Dialect, form: Form, skipped: int) -> Dialect:
    """The dialect with what the first rows tell: the names, rows that are none of the
    table, separators without a column.
    """
    lines = form.lines[skipped:]
    if not lines:
        return dialect
    # Rows below the table, where the first rows are all rows
    table = lines[: len(lines) - sums_below(lines, form.width)]
    used = max(
        (line.filled for line in table if len(line.fields) == form.width), default=0
    )
    # Lines above the names
    top = _names_at(table, used, form.width)
    rows_above = [line.row for line in table[:top]]
    remarks = [left_out(rows_above, "above the column names")]
    first, *below = table[top:]
    if top or skipped:
        begin = first.row.start
        dialect = replace(dialect, begin=begin, lines_above=first.row.line - 1)
    # The names
    place = f"Line {first.row.line}{PLACE}"
    width = max(first.filled, used)
    rows = below
    if _looks_like_data(first, below, used):
        rows = table[top:]
        names = tuple(f"x{k}" for k in range(1, used + 1))
        dialect = replace(dialect, has_names=False, names=names)
        remarks.append(f"{place} looks like data: names x1, x2, ... are used.")
    else:
        without = []
        if below and _is_second_head(first, below[0], below[1:]):
            rows = below[1:]
            without = [below[0].row]
            remarks.append(
                f"Line {without[0].line}{PLACE} has names or units once more, and is "
                "left out."
            )
        # No row is lost without a word
        typed = [field.strip() for field in first.fields if kind_of(field.strip())]
        if 2 * len(typed) > len(first.fields) and not _are_usual_names(typed):
            remarks.append(
                f"{place} is taken for the column names, though they look like values."
            )
        given = first.fields
        has_row_names = not top and _are_beside_row_names(first, below, used)
        if has_row_names:
            given = ["", *given]
            remarks.append(
                f"{place} names all columns but the first: names of rows, which are "
                "left out."
            )
        given = given[:width]
        distinct = unique_names(given, ".", 1)  # as pandas has them
        pairs = zip(distinct, given, strict=True)
        renamed = {new: name for new, name in pairs if new != name}
        if renamed:
            are = "are" if len(renamed) > 1 else "is"
            remarks.append(
                f"Column names{PLACE} repeat, and the later {listed(renamed.values())} "
                f"{are} read as {listed(renamed)}."
            )
        if has_row_names or renamed:
            dialect = replace(dialect, names=tuple(distinct))
        dialect = replace(dialect, without=tuple(without), has_row_names=has_row_names)
    # Separators at the ends of lines, where no column has a name or a value
    lengths = [len(line.fields) for line in [first, *rows]]
    has_ends = width and min(lengths) >= width and max(lengths) > width
    if has_ends and all(line.filled <= width for line in [first, *rows]):
        n = max(lengths) - width
        what = f"{n} columns" if n > 1 else "1 column"
        are = "are" if n > 1 else "is"
        dialect = replace(dialect, form="ends")
        remarks.append(
            f"{what}{PLACE} at the end of the lines without a name and without values "
            f"{are} left out."
        )
    decimal_point = _decimal_mark(rows, used, dialect.separator)
    return replace(
        dialect,
        width=width,
        first_is_number=_kinds(rows, 1)[0] in KINDS,
        decimal_point=decimal_point,
    ).saying(*remarks)


def _are_beside_row_names(first: Line, below: Sequence[Line], width: int) -> bool:
    """Whether a first row names all columns but one, which has text that differs from
    row to row, or rising whole numbers: names of rows, as R writes them.
    """
    are_whole = len(first.fields) == first.filled == width - 1 > 0
    if not below or not are_whole or any(len(line.fields) != width for line in below):
        return False
    names = [line.field(0) for line in below]
    if all(map(str.isdecimal, names)):
        numbers = list(map(int, names))
        return all(one < other for one, other in pairwise(numbers))
    are_text = all(names) and not any(map(kind_of, names))
    return are_text and len(set(names)) == len(names)


def _decimal_mark(rows: Sequence[Line], width: int, separator: str) -> str:
    """The decimal mark that more columns of numbers have; empty where nothing tells.

    A mark before three digits may as well group thousands: it does beside whole numbers
    of three digits, such as 1.628 beside 817. Else points are decimal, and commas may
    be either.
    """
    if separator == ",":
        return "."
    marks = Counter[str]({".": 0, ",": 0})
    for k in range(width):
        values = [line.field(k) for line in rows]
        present = [value for value in values if not is_missing_word(value)]
        used = [mark for mark in DECIMALS if any(mark in value for value in present)]
        fitting = [
            mark
            for mark, form in DECIMALS.items()
            if used and all(map(form.fullmatch, present))
        ]
        if len(fitting) == 1:
            marks.update(fitting)
        elif fitting and len(used) == 1:
            (mark,) = used
            if any(map(HUNDREDS.fullmatch, present)):
                marks["," if mark == "." else "."] += 1
            elif mark == ".":
                marks[mark] += 1
    if marks["."] == marks[","]:
        return ""
    return max(marks, key=marks.__getitem__)


def _names_at(table: Sequence[Line], used: int, width: int) -> int:
    """Place of the row of names, below comments and titles; 0 where that is doubtful.

    Parameters
    ----------
    table : sequence of Line
    used : int
        Number of columns with values.
    width : int
        Number of fields of most rows.
    """
    comments = len(
        list(takewhile(lambda line: line.row.content.startswith(b"#"), table))
    )
    full = [
        k
        for k, line in enumerate(table)
        if k >= comments and len(line.fields) >= used and line.filled >= min(used, 2)
    ]
    if used < 2 or not full or full[0] == len(table) - 1:
        return 0
    place = full[0]
    kinds = _kinds(table[place + 1 :], used)
    fields = [table[place].field(k) for k in range(used)]
    are_names = all(fields[1:]) and not any(map(kind_of, fields))
    if are_names:
        # A title with separators behind it may be the only name of the columns
        titles = table[comments:place]
        is_padded = any(len(line.fields) == width and line.filled for line in titles)
        return 0 if is_padded and not set(kinds) & set(KINDS) else place
    if comments and place == comments:
        # The last comment may be the names
        return comments - (len(table[comments - 1].fields) == used)
    return 0


def _looks_like_data(first: Line, below: Sequence[Line], width: int) -> bool:
    """Whether a first row has values rather than names: numbers and dates where all
    rows below have some, unless its numbers may be names.
    """
    if len(below) < 2 or len(first.fields) < width:
        return False
    kinds = _kinds(below, width)
    present = {
        k: kind
        for k, kind in enumerate(kinds)
        if kind in KINDS and not is_missing_word(first.field(k))
    }
    if not present or any(kind_of(first.field(k)) != present[k] for k in present):
        return False
    return (
        "date" in present.values()
        or _recurs(first, below, kinds)
        or not _may_be_names([*map(first.field, present)])
    )


def _recurs(row: Line, below: Sequence[Line], kinds: Sequence[str]) -> bool:
    """Whether a text of a row comes again in its column, of one of some kinds."""
    return any(
        kind == "text"
        and not is_missing_word(row.field(k))
        and any(line.field(k) == row.field(k) for line in below)
        for k, kind in enumerate(kinds)
    )


def _are_usual_names(fields: Sequence[str]) -> bool:
    """Whether numbers are years, or follow on one another, as names of columns do."""
    if not all(field.isdecimal() for field in fields):
        return False
    numbers = [int(field) for field in fields]
    follow = all(b - a == 1 for a, b in pairwise(numbers))
    return follow or all(number in YEARS for number in numbers)


def _may_be_names(fields: Sequence[str]) -> bool:
    """Whether numbers may be names: whole ones in order, years, or many in order."""
    try:
        numbers = [float(field.replace(",", ".")) for field in fields]
    except ValueError:  # commas between thousands
        return False
    rising = all(a < b for a, b in pairwise(numbers))
    falling = all(a > b for a, b in pairwise(numbers))
    if len(numbers) >= MANY_NAMES and (rising or falling):
        return True
    if not all(field.isdecimal() for field in fields):
        return False
    are_years = all(number in YEARS for number in numbers)
    return rising or (are_years and len(set(numbers)) == len(numbers))


def _is_second_head(names: Line, second: Line, below: Sequence[Line]) -> bool:
    """Whether the row below the names has names or units: text or nothing where all
    rows below it have numbers or dates.
    """
    if len(below) < 2 or second.row.content == names.row.content:
        return False
    width = len(names.fields)
    kinds = _kinds(below, width)
    typed = [second.field(k) for k, kind in enumerate(kinds) if kind in KINDS]
    texts = [field for field in typed if not _is_value(field)]
    others = [field for field in typed if kind_of(field)]
    if not texts or _recurs(second, below, kinds):
        return False
    if any(field[0] in "<>~" for field in texts):  # values that are not exact
        return False
    # A single value may be an odd one, unless it stands in all columns
    if len(typed) == 1:
        return width > 1 and {second.field(k) for k in range(width)} == set(texts)
    several = len(texts) > 1 and 2 * len(texts) >= len(typed)
    return several and len(others) <= FEW_OTHERS * len(typed)


def sums_below(lines: Sequence[Line], width: int) -> int:
    """How many of the last rows stand below a table: sums and remarks in one field,
    where the first column has numbers; else sums with less than half of the fields.
    """
    n = 0
    if not lines:
        return 0
    for k, line in enumerate(reversed(lines[1:][-MOST_SUMS:]), 1):
        if _is_below(line, width) or (n and not line.filled):
            n = k
        elif line.filled:
            break
    # The row above them shows that rows are cut where they begin
    above = lines[-n - 1]
    if len(above.fields) < width:
        return 0
    is_told = above is lines[0] or _is_value(above.field(0))
    return n if is_told or _are_sums(lines, n, width) else 0


def _are_sums(lines: Sequence[Line], n: int, width: int) -> bool:
    """Whether the last n lines have the word for a sum and few other fields, or
    none.
    """
    for line in lines[len(lines) - n :]:
        n_filled = sum(bool(field.strip()) for field in line.fields)
        is_named = SUMS.fullmatch(line.field(0)) is not None
        if n_filled and (not is_named or 2 * n_filled >= width):
            return False
    return True


def _is_below(line: Line, width: int) -> bool:
    first = line.field(0)
    if width < 2 or is_missing_word(first) or kind_of(first):
        return False
    is_remark = line.filled == 1 and width > 2 and REMARK.search(first) is not None
    is_short = len(line.fields) < width
    return is_short or is_remark or SUMS.fullmatch(first) is not None


def _is_value(field: str) -> bool:
    """Whether a field is a number, a date or missing."""
    return is_missing_word(field) or bool(kind_of(field))


def left_out(rows: Sequence[Row], what: str) -> str:
    """That rows which are something are left out, in a sentence; empty where there are
    none.
    """
    if not rows:
        return ""
    lines = [f"{row.line:,}" for row in rows]
    if len(lines) == 1:
        return f"Line {lines[0]}{PLACE} is {what}, and is left out."
    if len(lines) > SHOWN_LINES:
        lines[SHOWN_LINES:] = [f"{len(lines) - SHOWN_LINES:,} more"]
    listed_lines = f"{', '.join(lines[:-1])} and {lines[-1]}"
    return f"Lines {listed_lines}{PLACE} are {what}, and are left out."


# A name in quotes or of one word, and the type behind it
ATTRIBUTE = re.compile(
    rb"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{]+)\s*(.*)""",
    re.IGNORECASE,
)
# Values of a row, in quotes or not
VALUES = re.compile(rb"""(?:^|,)\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^,]*)""")
ESCAPED = re.compile(rb"\\(.)")
QUOTES = (b"'", b'"')


def _of_arff(dialect: Dialect, head: bytes) -> Dialect:
    """The dialect of an ARFF file whose text begins so, in UTF-8, with what stands
    above its rows: names of columns, and those of text or of named classes.

    Raises
    ------
    SourceError
        Where there is no header, or the rows are sparse.
    """
    names = []
    text = []
    stream = io.BytesIO(head)
    for line in stream:
        content = line.strip()
        if content.lower() == b"@data":
            break
        if match := ATTRIBUTE.match(content):
            name = _unquoted(match[1]).decode(errors="replace")
            names.append(name)
            if match[2].lower().startswith((b"{", b"string")):
                text.append(name)
    else:
        raise SourceError(
            "an ARFF file without a line @data; write @attribute lines and @data above "
            "the rows, or rename it .csv if it is a CSV"
        )
    begin = stream.tell()
    first = next(filter(None, map(row_of, stream)), b"")
    if first.startswith(b"{"):
        raise SourceError(
            "an ARFF file with sparse rows, such as {0 1, 3 2}; write all values of "
            "each row, such as 1,0,0,2"
        )
    return replace(
        dialect,
        form="arff",
        begin=begin,
        lines_above=head.count(b"\n", 0, begin),
        names=tuple(names),
        has_names=False,
        width=len(names),
        text=tuple(text),
    )


def row_of(row: bytes) -> bytes:
    """A row of an ARFF file as one of a CSV; empty where it is a comment."""
    content = row.strip()
    if not content or content.startswith(b"%"):
        return b""
    if b"," not in content:
        content = content.replace(b"\t", b",")
    if any(quote in content for quote in QUOTES):
        values = map(_requoted, VALUES.findall(content))
    else:
        values = map(bytes.strip, content.split(b","))
    return b",".join(values) + b"\n"


def _unquoted(word: bytes) -> bytes:
    """A word without the quotes around it."""
    if not word.startswith(QUOTES):
        return word.strip()
    return ESCAPED.sub(rb"\1", word[1:-1])


def _requoted(word: bytes) -> bytes:
    """A word with the quotes of a CSV, where it has quotes."""
    text = _unquoted(word)
    is_quoted = word.startswith(QUOTES)
    return b'"' + text.replace(b'"', b'""') + b'"' if is_quoted else text
