"""Files that a path, a folder, a pattern or a list of these stands for."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from bochner.data.file_kinds import (
    COMPRESSED,
    AnyPath,
    is_arff,
    kind_by_content,
    kind_by_name,
)
from bochner.sources.base import SourceError, require_file

# Folders whose names hold the value of a column, and what stands for a missing one
HIVE = re.compile(r"[^=]+=[^=]*")
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
HEAD = 1 << 12
SKIPPED = (".", "_")


@dataclass(frozen=True)
class FileState:
    """A file as it was when it was opened.

    Attributes
    ----------
    path : str
    size : int
        Bytes.
    modified : int
        Nanoseconds.
    inode : int or None
        None in another process, where a shared disk may have numbers of its own.
    """

    path: str
    size: int
    modified: int
    inode: int | None = field(compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """With a path that is the same file wherever another process works."""
        return vars(self) | {"path": os.path.abspath(self.path), "inode": None}

    @classmethod
    def of(cls, path: AnyPath) -> FileState:
        """The state of a file at present; SourceError where there is none that can
        be read twice.
        """
        try:
            status = os.stat(path)
        except OSError as error:
            raise _unreadable(path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(
                f"{path}: not a regular file, and cannot be read twice; write its "
                "content to a file first"
            )
        return cls(os.fspath(path), status.st_size, status.st_mtime_ns, status.st_ino)

    def check(self, place: str = "") -> None:
        """Raise SourceError, which names the place in it, if the file is another one by
        now.
        """
        place = place or self.path
        if self.inode is None:  # opened in another process, maybe on another machine
            require_file(self.path)
        try:
            current_state = FileState.of(self.path)
        except SourceError as error:
            raise SourceError(
                f"{place}: the file vanished while it was read; restore it, and "
                "start again"
            ) from error
        if current_state != self or self.inode not in (None, current_state.inode):
            raise SourceError(
                f"{place}: the file changed while it was read; wait until it is "
                "complete, and start again"
            )


def arrow_file(path: AnyPath, mode: str = "rb") -> pa.OSFile:
    """A file that Arrow reads or writes, of any name: of text it takes only what is
    UTF-8.
    """
    return pa.OSFile(os.fsencode(path), mode)


def reason(error: BaseException) -> str:
    """What an error says, in its first line; of the system's errors without the name
    of the file.
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error).partition("\n")[0].strip().rstrip(".") or type(error).__name__


def _unreadable(path: AnyPath, error: OSError) -> SourceError:
    cure = "give a file that can be read"
    if isinstance(error, FileNotFoundError):
        cure = "check the folder and the spelling"
    return SourceError(f"{path}: {reason(error)}; {cure}")


def files_of(
    data: AnyPath | Sequence[AnyPath],
) -> list[Path]:
    """Files that a path, a folder, a pattern such as ``rows/*.parquet``, or a list of
    these stands for.

    Those of a folder, with the folders in it, and of a pattern are sorted by name,
    without those whose names begin with a point or an underscore, or lie in such
    folders; lists keep their order.

    Raises
    ------
    SourceError
        Where nothing is found, a file in a folder holds no table, files are of several
        kinds, or one comes twice.
    """
    entries = [data] if isinstance(data, str | os.PathLike) else list(data)
    if not entries:
        raise SourceError("the list of files is empty; give at least one")
    files = [file for entry in entries for file in _expanded(os.fspath(entry))]
    seen: dict[str, Path] = {}
    for file in files:
        before = seen.setdefault(os.path.realpath(file), file)
        if before is not file:
            what = "is given twice" if before == file else f"and {before} are one file"
            raise SourceError(
                f"{file} {what}, whose rows would count twice; leave one of them out"
            )
    first = kind_of(files[0])
    for file in files:
        if (kind := kind_of(file)) != first:
            raise SourceError(
                f"{file}: {kind}, but {files[0]} is {first}; give tables of one kind"
            )
    return files


def folder_columns(
    data: AnyPath | Sequence[AnyPath], files: Sequence[Path]
) -> dict[str, pa.Array]:
    """Columns whose values the names of folders hold, as ``year=2020`` does: whole
    numbers, else text, a value for each of the files.

    Parameters
    ----------
    data : path or sequence of paths
        Whose own folders hold none.
    files : sequence of Path
        As of `files_of`.

    Raises
    ------
    SourceError
        Where the folders of some files hold other columns.
    """
    entries = [data] if isinstance(data, str | os.PathLike) else data
    given = {part for entry in entries for part in Path(entry).parts}
    values: list[dict[str, str]] = []
    for file in files:
        folders = [part for part in file.parts[:-1] if part not in given]
        pairs = [part.split("=") for part in folders if HIVE.fullmatch(part)]
        values.append({unquote(name): unquote(value) for name, value in pairs})
    columns = {}
    for name in dict.fromkeys(name for of_file in values for name in of_file):
        for file, of_file in zip(files, values, strict=True):
            if name not in of_file:
                raise SourceError(
                    f"{file}: the names of its folders do not hold {name!r}, as those "
                    "of other files do; put it into such a folder"
                )
        texts = [None if one[name] == NO_VALUE else one[name] for one in values]
        columns[name] = pa.array(texts, pa.string())
        with suppress(pa.ArrowInvalid):
            columns[name] = columns[name].cast(pa.int64())
    return columns


def kind_of(path: AnyPath) -> str:
    """Kind of table in a file: "parquet", "arrow", "arff", "csv", "tsv" or "libsvm",
    by its content; of other text by its name.

    Raises
    ------
    SourceError
        Where the file is empty, or no table that is known here.
    """
    FileState.of(path)
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise _unreadable(path, error) from error
    if not head:
        raise SourceError(f"{path}: the file is empty; remove it, or write it again")
    if head.startswith(b"FEA1"):
        raise SourceError(
            f"{path}: a Feather file of version 1; write it again in version 2, or "
            "as Parquet"
        )
    content = kind_by_content(head)
    named = kind_by_name(path)
    if content in ("parquet", "arrow"):
        return content
    if content != "text" and content not in COMPRESSED:
        what = content if content != "safetensors" else "a model"
        raise SourceError(
            f"{path}: this is {what}, not a table; remove it, or write it as Parquet "
            "or CSV"
        )
    if named in ("parquet", "arrow"):
        raise SourceError(
            f"{path}: the name says {named}, but this is {content}; write the file "
            "again or rename it"
        )
    return "arff" if is_arff(head) else named or "csv"


def _expanded(entry: str) -> list[Path]:
    """Files of one path, folder or pattern."""
    if re.match(r"[a-z][a-z0-9+.-]+://", entry, re.IGNORECASE):
        raise SourceError(
            f"{entry}: files are read from this machine only; copy them, or mount "
            "what holds them"
        )
    if os.path.isdir(entry):
        return _files_in(Path(entry))
    if os.path.lexists(entry) or not glob.has_magic(entry):
        FileState.of(entry)
        return [Path(entry)]
    # Not those that are hidden or set aside, unless the pattern says so
    pattern = Path(entry)
    paths = [
        path
        for path in sorted(map(Path, glob.glob(entry, recursive=True)))
        if pattern.name.startswith(SKIPPED)
        or not any(
            part.startswith(SKIPPED) for part in path.parts if part not in pattern.parts
        )
    ]
    if "**" not in entry:  # which finds what is in the folders as well
        paths = [
            file
            for path in paths
            for file in (_files_in(path) if path.is_dir() else [path])
        ]
    paths = [path for path in paths if not path.is_dir()]
    if not paths:
        raise SourceError(
            f"{entry}: no file matches the pattern; check the folder and the spelling"
        )
    return paths


def _files_in(folder: Path) -> list[Path]:
    """Files of a folder and of the folders in it, sorted."""
    files = sorted(_walk(folder, ()))
    if not files:
        raise SourceError(
            f"{folder}: the folder holds no table; hidden files and files that begin "
            "with _ are ignored"
        )
    for file in files:
        if kind_of(file) in ("csv", "libsvm") and kind_by_name(file) is None:
            raise SourceError(
                f"{file}: a file of another kind in a folder of tables; remove it, put "
                "_ in front of its name, or give a pattern such as 'rows/*.csv'"
            )
    return files


def _walk(folder: Path, above: tuple[str, ...]) -> Iterator[Path]:
    real = os.path.realpath(folder)
    if real in above:
        raise SourceError(
            f"{folder}: a symbolic link to a folder that it lies in; remove the link"
        )
    try:
        entries = list(folder.iterdir())
    except OSError as error:
        raise SourceError(
            f"{folder}: {reason(error)}; give a folder that can be read"
        ) from error
    for entry in entries:
        if entry.name.startswith(SKIPPED):
            continue
        if entry.is_dir():
            yield from _walk(entry, (*above, real))
        else:
            FileState.of(entry)
            yield entry
