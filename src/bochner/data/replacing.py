"""Writes a file so that it takes the place of an older one only once it is complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the name of a new file beside `path`, which takes its place at the end, or vanishes after an error."""
    target = os.path.realpath(os.fspath(path))
    if os.path.exists(target) and not os.path.isfile(target):
        wrong = IsADirectoryError if os.path.isdir(target) else OSError
        raise wrong(f"{target} is no regular file, and cannot be replaced by one")
    temporary = os.path.join(os.path.dirname(target), f".bochner-{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o777)
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
