"""Files of text as bytes, which can be cut at the starts of lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from bochner.sources.base import SourceError
from bochner.sources.paths import FileState, reason

CHUNK, LONGEST_LINE = 1 << 22, 1 << 24
MOST_CUTS = 4096
DIGESTED = 1 << 16


@dataclass(frozen=True)
class FileRange:
    """Whole lines of a file of text from one byte to another.

    Attributes
    ----------
    file : FileState
    label : str
        Name of the file relative to the folder of all.
    compression : str or None
        Of a file that is read as one range.
    start, stop : int
        Bytes.
    """

    file: FileState
    label: str
    compression: str | None
    start: int
    stop: int

    @property
    def name(self) -> str:
        """The file, and the bytes in it."""
        whole = self.start == 0 and self.stop == self.file.size
        return self.file.path if whole else f"{self.file.path}, bytes {self.start:,} to {self.stop:,}"

    @contextmanager
    def opened_bytes(self) -> Iterator[Any]:
        """A stream of the bytes."""
        if self.compression:
            with pa.input_stream(self.file.path, compression=self.compression) as stream:
                yield stream
        else:
            with pa.OSFile(self.file.path) as file:
                yield file.get_stream(self.start, self.stop - self.start)

    def lines_above(self) -> int:
        """Number of lines before the first."""
        return sum(chunk.count(b"\n") for chunk in chunks(self.file.path, 0, self.start))

    def place_stamp(self) -> str:
        """Size of the file, the range, and a hash of its first and last bytes."""
        digest = blake2b(digest_size=16)
        for first in (self.start, max(self.start, self.stop - DIGESTED)):
            for chunk in chunks(self.file.path, first, min(first + DIGESTED, self.stop)):
                digest.update(chunk)
        return f"{self.label} {self.file.size} {self.start} {self.stop} {digest.hexdigest()}"

    def damaged(self, error: OSError) -> SourceError:
        """What is wrong where the bytes cannot be read; SourceError at once where the file is another one by now."""
        self.file.check(self.name)
        what = f"damaged {self.compression} file" if self.compression else "damaged file"
        return SourceError(f"{self.file.path}: {what} ({reason(error)}); copy it again")


def line_starts(path: str, size: int, step: int) -> list[int]:
    """Byte positions of starts of lines, about `step` apart, with 0 in front and the size at the end.

    They depend on the file alone. A file of one line, or of none that ends soon, is not cut.
    """
    step, starts = max(step, -(-size // MOST_CUTS)), [0]
    with open(path, "rb") as file:
        for position in range(step, size, step):
            if position > starts[-1]:
                file.seek(position - 1)
                if not file.readline(LONGEST_LINE).endswith(b"\n"):
                    break
                starts.append(file.tell())
    return [*(start for start in starts if start < size), size]


def chunks(path: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a file from one position to another, some at a time."""
    with open(path, "rb") as file:
        file.seek(start)
        left = -1 if stop is None else stop - start
        while left and (chunk := file.read(CHUNK if left < 0 else min(CHUNK, left))):
            left -= len(chunk) if left > 0 else 0
            yield chunk
