"""A file that one process at a time may hold."""

from __future__ import annotations

import os
from contextlib import suppress


class InUse(OSError):
    """Another holds the file; the message says who."""


class FileLock:
    """Holds a file of this name until it is released; at the end of the process it is free in any case.

    Where the system knows no such locks (Windows), the file itself is the lock, which a killed process leaves behind.

    Raises
    ------
    InUse
        Where another holds it, of this process or of another.
    """

    def __init__(self, path: str) -> None:
        self.path, self._descriptor = path, -1
        while self._descriptor < 0:
            self._descriptor = self._acquire()
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, str(os.getpid()).encode())

    def _acquire(self) -> int:
        """A descriptor of the locked file; -1 where its holder has removed it meanwhile."""
        try:
            import fcntl
        except ImportError:
            return self._create()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(self.path) and os.path.samestat(os.fstat(descriptor), os.stat(self.path)):
                return descriptor
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace")
            os.close(descriptor)
            raise InUse(f"process {holder or 'unknown'}, which holds {self.path}") from None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return -1

    def _create(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            with open(self.path) as file:
                holder = file.read(32)
            raise InUse(f"process {holder or 'unknown'} (if it has ended, delete {self.path})") from None

    def release(self) -> None:
        """Let others hold it; once more is as once."""
        if self._descriptor < 0:
            return
        with suppress(OSError):  # Windows removes no open file
            os.unlink(self.path)
        os.close(self._descriptor)
        self._descriptor = -1
        if os.name == "nt":
            with suppress(OSError):
                os.unlink(self.path)
