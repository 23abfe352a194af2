"""What there is to say of the columns of delimited text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from bochner.data.delimited import listed
from bochner.data.text_values import Values, why_text

COMMAS = "write a decimal point, and nothing between thousands"


@dataclass(frozen=True)
class Remarks:
    """Remarks on columns.

    Attributes
    ----------
    types : dict of str to pyarrow.DataType
        Of the columns.
    few : dict of str to str
        Why columns are text that are not but for few values, and the cure.
    doubtful : list of str
        Columns that may be numbers with commas, others than those.
    """

    types: Mapping[str, pa.DataType]
    few: Mapping[str, str]
    doubtful: Collection[str]

    @classmethod
    def of(
        cls,
        values: Mapping[str, Values],
        types: Mapping[str, pa.DataType],
        doubtful: Collection[str],
        place: Callable[[int], str],
    ) -> Remarks:
        """Those on columns by their values.

        Parameters
        ----------
        values : dict of str to Values
            Of columns whose types follow from them.
        types : dict of str to pyarrow.DataType
        doubtful : list of str
            Columns that may be numbers with commas.
        place : callable
            Line of a row in words.
        """
        texts = {name: one for name, one in values.items() if pa.types.is_string(types[name])}
        few = {name: why for name, one in texts.items() if (why := why_text(one.odd, place))}
        return cls(types, few, [name for name in doubtful if name not in few])

    @property
    def reasons(self) -> dict[str, str]:
        """Why columns are text by mistake, perhaps, and the cure."""
        return {**self.few, **dict.fromkeys(self.doubtful, f"looks like numbers with commas; {COMMAS}")}

    def sentences(self, index: Collection[str], exclude: Collection[str] = ()) -> Iterator[str]:
        """Yield the remarks; of columns that number the rows that they are left out, of those to exclude nothing."""
        for name in index:
            yield f"{self._column(name)} numbers the rows, and is left out."
        for k, (name, kind) in enumerate(self.types.items(), 1):
            if name == "" and name not in (*index, *exclude) and not pa.types.is_null(kind):
                yield f"Column {k} has no name; give it one."
        for name, reason in self.few.items():
            yield f"{self._column(name)} {reason}."
        if self.doubtful:
            what, are, were = ("Columns", "look", "were") if len(self.doubtful) > 1 else ("Column", "looks", "was")
            names = listed(self.doubtful)
            yield f"{what} {names} {are} like numbers with commas, and {were} read as text; {COMMAS}."

    def _column(self, name: str) -> str:
        place = list(self.types).index(name) + 1
        return f"Column {name!r}" if name else f"Column {place}, which has no name,"
