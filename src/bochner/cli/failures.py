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
        # Unless the message begins with the path, or with a file that it stands for
        place = text.partition(": ")[0].partition(", ")[0]
        is_file = os.sep in place and os.path.exists(place)
        if not is_file and not text.startswith(f"{path}:"):
            text = f"{path}: {text}"
        raise CommandError(text) from error


def inconsistent(path: Any, error: Exception) -> CommandError:
    """Error of a model file whose parts do not seem to fit one another, as they end
    in an error of Python in use.
    """
    return CommandError(
        f"{path}: the model in this file may be inconsistent "
        f"({type(error).__name__}: {error}); save the model again; if that does not "
        "help, it is a bug, and --traceback tells where"
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
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        """Print a warning, each text once, whatever its numbers."""
        text = "".join(c for c in str(message) if not c.isdigit())
        if text not in shown:
            shown.add(text)
            typer.echo(f"warning: {printable(message)}", err=True)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("always", category=UserWarning, module=r"bochner\.")
            warnings.showwarning = show
            yield
    except BrokenPipeError:
        raise
    except EXPECTED as error:
        _leave(error)
    except Exception as error:
        if model is None or isinstance(error, typer.Exit):
            raise
        _leave(inconsistent(model, error))


def _leave(error: BaseException) -> None:
    """Say in one line what is wrong, and end with an exit code."""
    line = printable(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        line = printable(f"{place}{error.strerror[:1].lower()}{error.strerror[1:]}")
    elif isinstance(error, MemoryError) and not printable(error):
        line = "not enough memory; use fewer rows, or a smaller --n-components"
    typer.echo(f"error: {line}", err=True)
    raise typer.Exit(1) from None
