"""Where files of text can be cut: at the starts of lines."""

from __future__ import annotations

from collections.abc import Iterator

CHUNK, LONGEST_LINE = 1 << 22, 1 << 24
MOST_CUTS = 4096


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
