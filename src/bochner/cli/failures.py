"""Turns expected errors into one line and an exit code; only the unexpected shows a
traceback.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import typer

from bochner.engines.base import EngineError
from bochner.markup import printed

FAILED, INTERRUPTED = 1, 130
printed_errors: list[
    str
] = []  # lines on standard error, for whoever must know whether there was one


Facts: TypeAlias = dict[str, Any]  # of a report or a model, fit for JSON


class CommandError(Exception):
    """What is wrong with the data or the model, where, and the cure."""


EXPECTED = (
    CommandError,
    EngineError,
    ValueError,
    TypeError,
    OSError,
    MemoryError,
    NotImplementedError,
    ImportError,
)


def printable(text: Any) -> str:
    """Text in one line, without anything that could steer a terminal."""
    lines = str(text).replace("\r\n", "\n").split("\n")
    if len(lines) > 1:
        lines = [line.strip() for line in lines if line.strip()]
    return printed(" ".join(lines))


@contextmanager
def errors_of(path: Any) -> Iterator[None]:
    """Name a file in the errors of work on its content."""
    try:
        yield
    except (CommandError, OSError):
        raise
    except (ValueError, TypeError, NotImplementedError) as error:
        text = str(error)
        raise CommandError(
            text if _names_file(text, path) else f"{path}: {text}"
        ) from error


def _names_file(text: str, path: Any) -> bool:
    """Whether a message begins with the path, or with a file that it stands for."""
    place = text.partition(": ")[0].partition(", ")[0]
    return text.startswith(f"{path}:") or (os.sep in place and os.path.exists(place))


def inconsistent(path: Any, error: Exception) -> CommandError:
    """Error of a model file whose parts do not seem to fit one another, as they end
    in an error of Python in use.
    """
    cure = (
        "save the model again; if that does not help, it is a bug, and "
        "--traceback tells where"
    )
    return CommandError(
        f"{path}: the model in this file may be inconsistent "
        f"({type(error).__name__}: {error}); {cure}"
    )


@contextmanager
def guarded(traceback: bool, model: Any = None) -> Iterator[None]:
    """Turn expected errors into one line on standard error and an exit code, and advice
    of bochner into a line.

    Warnings of other libraries stay silent. With `traceback`, or the environment
    variable BOCHNER_DEBUG, errors and warnings pass as they are.

    Parameters
    ----------
    traceback : bool
    model : path, optional
        Of the model file that is used, which any other error may come from.
    """
    if traceback or os.environ.get("BOCHNER_DEBUG", "0") not in ("", "0"):
        yield
        return
    try:
        with _warnings_as_lines():
            yield
    except KeyboardInterrupt:
        _leave("interrupted", INTERRUPTED)
    except BrokenPipeError:
        raise
    except EXPECTED as error:
        _leave(f"error: {_line(error)}", FAILED)
    except Exception as error:
        if model is None or isinstance(error, typer.Exit):
            raise
        _leave(f"error: {_line(inconsistent(model, error))}", FAILED)


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print what bochner warns its users of, each text once, whatever its numbers."""
    shown: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: Any = None,
        line: Any = None,
    ) -> None:
        text = "".join(c for c in str(message) if not c.isdigit())
        if text not in shown:
            shown.add(text)
            typer.echo(f"warning: {printable(message)}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning, module=r"bochner\.")
        warnings.showwarning = show
        yield


def _leave(line: str, code: int) -> None:
    typer.echo(line, err=True)
    printed_errors.append(line)
    raise typer.Exit(code) from None


def _line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        return printable(f"{place}{error.strerror[:1].lower()}{error.strerror[1:]}")
    if isinstance(error, MemoryError):
        return (
            printable(error)
            or "not enough memory; use fewer rows, or a smaller --n-components"
        )
    return printable(error) or type(error).__name__
