"""Keeps what is done of long work in a file that survives a kill at any moment, and that one process holds.

The file is a safetensors file of named arrays, written as they come, with JSON values and a checksum of all of it.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from bochner.engines.journal import Contents
from bochner.notices import warn
from bochner.whole_files import replacing


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


FORMAT, VERSION = "bochner-checkpoint", "1"
ROOM = 1 << 15  # bytes for the list of arrays, which is known when they are written: some 200
CODES = {"<f8": "F64", "<f4": "F32", "<i8": "I64", "<u8": "U64", "|b1": "BOOL"}
BLANK = "0" * 8
CHUNK = 1 << 24


class Damaged(ValueError):
    """A file is not what was written; the message says why."""


def write_arrays(path: str, arrays: Iterable[tuple[str, NDArray]], header: Mapping[str, Any]) -> None:
    """Write a new file of arrays, which may be made one by one, and a header of JSON values.

    Raises
    ------
    ValueError
        Where an array is neither of float, 64-bit int nor bool type, or there are more than some hundreds.
    """
    about = {"format": FORMAT, "version": VERSION, "crc32": BLANK, "header": json.dumps(header, allow_nan=False)}
    entries: dict[str, Any] = {"__metadata__": about}
    room = -(-(len(json.dumps(entries)) + ROOM) // 8) * 8
    end = check = 0
    with open(path, "xb") as file:
        file.seek(8 + room)
        for name, array in arrays:
            kind = array.dtype.newbyteorder("<").str
            if kind not in CODES:
                raise ValueError(f"array {name!r} is of type {array.dtype}, which checkpoints cannot hold")
            data = np.ascontiguousarray(array, kind).reshape(-1).view(np.uint8).data
            file.write(data)
            check, begin, end = crc32(data, check), end, end + data.nbytes
            entries[name] = {"dtype": CODES[kind], "shape": array.shape, "data_offsets": [begin, end]}
        text = json.dumps(entries).encode()
        if len(text) > room:
            raise ValueError(f"{len(entries) - 1:,} arrays are more than a checkpoint can hold")
        text = text.replace(_mark(BLANK), _mark(f"{crc32(text, check):08x}"), 1)
        file.seek(0)
        file.write(room.to_bytes(8, "little") + text.ljust(room))


def read_arrays(path: str) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """Read what `write_arrays` has written; Damaged for anything else."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            about, names = file.metadata() or {}, file.keys()
            arrays = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, ValueError) as error:
        raise Damaged(f"it is not a checkpoint, or is truncated ({error})") from None
    if about.get("format") != FORMAT:
        raise Damaged(f"it holds {about.get('format')!r}")
    if about.get("version") != VERSION:
        raise Damaged(f"its format version is {about.get('version')}, and only version {VERSION} is known")
    if about.get("crc32") != _checksum(path, about.get("crc32", "")):
        raise Damaged("its checksum does not match its content")
    return arrays, json.loads(about["header"])


def _checksum(path: str, found: str) -> str:
    """Checksum of a file: of the arrays, and then of the header, where the checksum that it holds is blank."""
    check = 0
    with open(path, "rb") as file:
        text = file.read(int.from_bytes(file.read(8), "little")).rstrip()
        while chunk := file.read(CHUNK):
            check = crc32(chunk, check)
    return f"{crc32(text.replace(_mark(found), _mark(BLANK), 1), check):08x}"


def _mark(check: str) -> bytes:
    return b'"crc32": "%s"' % check.encode()


SHARE = 0.01  # of the time, that writing may take
FRESH = "delete it, or use another name for the checkpoint"


class CheckpointError(ValueError):
    """A checkpoint is damaged, in use, or of other work; the message says what differs and what to do."""


def require_none(path: str | os.PathLike[str]) -> None:
    """Raise CheckpointError where there is a checkpoint, which only a fit that goes on from it may write over."""
    if os.path.lexists(path):
        raise CheckpointError(f"The checkpoint {path} exists: continue from it with resume=True, or {FRESH}.")


class Checkpoint:
    """One file of named arrays, and what they belong to.

    What is to be kept is told by `keeping`, and changes within `change` alone, at the end of which it is written where
    it is time: `every` seconds after the last writing, and a hundred times as long as that took. A signal to terminate
    has it written at once, as an interrupt has. Where the disk is full the older file stays, and the work goes on.

    As a context manager it removes the file when the work is done, and leaves it after an error.

    Parameters
    ----------
    path : str or path
    identity : dict of str to str
        What the work is: its data, settings, seed, versions; compared entry by entry.
    every : float, default=60
        Seconds from one writing to the next, at least.
    resume : bool, default=False
        Whether to begin with what the file holds; otherwise there must be none.

    Attributes
    ----------
    arrays : dict of str to array
        What the file held when this was opened, for whoever goes on from it to take out; the rest is written along.
    facts : dict
        Further JSON values, written along with the arrays.

    Raises
    ------
    CheckpointError
        Where another process uses the file, or it is damaged, or of other work, or exists without `resume`.
    """

    arrays: dict[str, NDArray]
    facts: dict[str, Any]

    def __init__(
        self, path: str | os.PathLike[str], identity: Mapping[str, str], every: float = 60.0, resume: bool = False
    ) -> None:
        self.path, self.identity, self.every = os.path.realpath(os.fspath(path)), dict(identity), every
        self.arrays, self.facts = {}, {}
        self._exclusive, self._busy = threading.Lock(), False  # busy: the main thread changes what is kept
        self._contents: Contents | None = None
        self._signal: int | None = None
        self._former: Any = None
        self._warned, self._last, self._lasted = False, time.monotonic(), 0.0
        try:
            self._lock = FileLock(self.path + ".lock")
        except InUse as error:
            raise CheckpointError(
                f"The checkpoint {self.path} is in use by {error}: wait for it, or use another name."
            ) from None
        try:
            self._open(resume)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, resume: bool) -> None:
        if not os.path.lexists(self.path):
            return
        if not resume:
            require_none(self.path)
        try:
            self.arrays, header = read_arrays(self.path)
            identity, facts = dict(header["identity"]), dict(header["facts"])
        except (Damaged, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{self.path} is not a complete checkpoint: {error}; {FRESH}.") from None
        names = sorted(identity.keys() | self.identity.keys())
        other = [name for name in names if identity.get(name) != self.identity.get(name)]
        if other:
            was = [f"{name} was {_shown(identity, name)}, and is now {_shown(self.identity, name)}" for name in other]
            raise CheckpointError(
                f"The checkpoint {self.path} belongs to another fit: {'; '.join(was)}. Fit as before, or {FRESH}."
            )
        self.facts |= facts

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.close()

    def close(self) -> None:
        """Leave the file to whoever goes on from it."""
        self._lock.release()

    def finish(self) -> None:
        """Remove the file, as the work is done."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        self._lock.release()

    @contextmanager
    def keeping(self, contents: Contents) -> Iterator[None]:
        """Write what `contents` yields, pairs of a name and an array, now and then while the block runs."""
        self._contents, main = contents, _in_main_thread()
        if main:
            self._former = signal.signal(signal.SIGTERM, self._on_signal)
        try:
            yield
        except KeyboardInterrupt:
            with self._exclusive:
                if self._contents is not None:
                    self._write(self._contents)
            raise
        finally:
            if main:
                signal.signal(signal.SIGTERM, self._former or signal.SIG_DFL)
            self._contents = None

    @contextmanager
    def change(self) -> Iterator[None]:
        """Change what is kept, which nobody writes meanwhile; at the end it is written where it is time.

        After an error it may be half changed, and is not written any more.
        """
        main = _in_main_thread()
        self._busy |= main
        try:
            with self._exclusive:
                try:
                    yield
                except BaseException:
                    self._contents = None
                    raise
                if self._contents is not None and self._is_due():
                    self._write(self._contents)
        finally:
            if main:
                self._busy = False
                if self._signal is not None:
                    self._terminate(self._signal)

    def _is_due(self) -> bool:
        return time.monotonic() - self._last >= max(self.every, self._lasted / SHARE)

    def _write(self, contents: Contents) -> None:
        begun = time.monotonic()
        header = {"identity": self.identity, "facts": self.facts}
        try:
            with replacing(self.path, durable=True) as temporary:
                write_arrays(temporary, chain(contents(), self.arrays.items()), header)
        except OSError as error:
            self._warn(error)
        self._last = time.monotonic()
        self._lasted = self._last - begun

    def _warn(self, error: OSError) -> None:
        """Tell once that nothing is kept."""
        if self._warned:
            return
        self._warned = True
        cause = f"{type(error).__name__}: {error.strerror or error}"
        cure = "the work continues, and the file stays as it was; free space on the disk"
        warn(f"The checkpoint {self.path} cannot be written ({cause}): {cure}.")

    def _on_signal(self, number: int, frame: object) -> None:
        """Write now; or, where this came amid a change in the same thread, at the end of that."""
        self._signal = number
        if not self._busy:
            self._terminate(number)

    def _terminate(self, number: int) -> None:
        """Write, and let the signal do what it did before."""
        self._busy = True  # another such signal meanwhile asks for nothing more
        with self._exclusive:
            if self._contents is not None:
                self._write(self._contents)
        self._busy, self._signal = False, None
        signal.signal(number, self._former or signal.SIG_DFL)
        signal.raise_signal(number)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _shown(identity: Mapping[str, str], name: str) -> str:
    return repr(identity[name]) if name in identity else "not given"
