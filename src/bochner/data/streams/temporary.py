"""A folder for rows that can be had once only, as long as they are needed."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from typing import Any


class TemporaryFolder:
    """A folder that is deleted with the object; a copy in another process is its path alone, and does not own it.

    Attributes
    ----------
    path : str
    """

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="bochner-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (self.path,)
