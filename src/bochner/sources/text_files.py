"""Files of text as bytes, which can be cut at the starts of lines."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

CHUNK, LONGEST_LINE = 1 << 22, 1 << 24
MOST_CUTS = 4096
DIGESTED = 1 << 16


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


def lines_above(path: str, start: int) -> int:
    """Number of lines before a byte position."""
    return sum(chunk.count(b"\n") for chunk in chunks(path, 0, start))


def span_digest(path: str, start: int, stop: int) -> str:
    """Hash of the first and the last bytes from one position to another."""
    digest = blake2b(digest_size=16)
    for first in (start, max(start, stop - DIGESTED)):
        for chunk in chunks(path, first, min(first + DIGESTED, stop)):
            digest.update(chunk)
    return digest.hexdigest()
