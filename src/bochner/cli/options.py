"""The arguments and options that commands have in common, and the checks of what is
given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bochner.estimators.parameters import PARAMETERS, read_parameter
from bochner.settings import as_bytes

ADDRESS = re.compile(r"((tcp|tls|wss?|ucxx?)://)?[^\s/]+:\d+")  # of a scheduler


class Task(StrEnum):
    """What to learn."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


def _parameter(name: str, metavar: str, help: str = "") -> Any:
    """Option for a parameter of the estimators, whose table says what it may be."""

    def value(text: str | None) -> Any:
        try:
            return None if text is None else read_parameter(name, text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return typer.Option(
        metavar=metavar, callback=value, help=help or PARAMETERS[name].help
    )


def _checked(is_right: Callable[[Any], Any], message: str) -> Callable[[Any], Any]:
    """Callback of an option: what is given, or wrong usage with a message that has a
    place for it, where it is not right or a ValueError.
    """

    def check(value: Any) -> Any:
        with suppress(ValueError):
            if value is None or is_right(value):
                return value
        raise typer.BadParameter(message.format(value))

    return check


def _file_name(text: str) -> Path:
    """The name of a file to write, of which a path keeps no separator at the end."""
    if text.endswith(("/", os.sep)):
        raise typer.BadParameter(
            f"'{text}' names a folder: add the name of a file in it"
        )
    return Path(text)


def table_name(text: str) -> Path:
    """The name of a table to write."""
    from bochner.data.file_kinds import WRITTEN, is_table_name

    path = _file_name(text)
    if not is_table_name(path):
        raise typer.BadParameter(f"'{path}' must end in one of {', '.join(WRITTEN)}")
    return path


def model_name(text: str) -> Path:
    """The name of a model to write."""
    from bochner.data.file_kinds import is_table_name

    path = _file_name(text)
    if is_table_name(path):
        raise typer.BadParameter(
            f"'{path}' is the name of a table; choose a name such as model.safetensors"
        )
    return path


def page_name(text: str) -> Path:
    """The name of a page to write."""
    path = _file_name(text)
    if path.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(f"'{path}' must end in .html")
    return path


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="The table: CSV (.gz, .zst), TSV, Parquet, Arrow or LIBSVM; a file, a "
        "folder, or a quoted pattern.",
    ),
]
Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="The model file, written by 'bochner fit --out'."
    ),
]
Interval = Annotated[
    float | None,
    typer.Option(
        metavar="COVERAGE",
        callback=_checked(
            lambda coverage: 0 < coverage < 1,
            "{:g} is not a coverage: give a number between 0 and 1, such as 0.9",
        ),
        help="Add prediction intervals of this coverage, such as 0.9.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the report as one JSON object.")
]
Traceback = Annotated[
    bool,
    typer.Option(
        "--traceback", help="Print the traceback of an error (or set BOCHNER_DEBUG=1)."
    ),
]
Target = Annotated[str, typer.Option(metavar="NAME", help="The column to predict.")]
TrueTarget = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column with the true values, if the model does not name it.",
    ),
]
AnyTask = Annotated[
    Task,
    typer.Option(
        metavar="TASK",
        help="regression, classification, or auto, by the values of the target.",
    ),
]
Seed = Annotated[
    str,
    _parameter("random_state", "N", "Random seed of the split and of the features."),
]
Kernel = Annotated[str, _parameter("kernel", "NAME")]
Features = Annotated[str, _parameter("features", "MAP")]
Components = Annotated[str, _parameter("n_components", "N")]
Alpha = Annotated[str, _parameter("alpha", "A")]
Loss = Annotated[str, _parameter("loss", "NAME")]
Solver = Annotated[str, _parameter("solver", "NAME")]
Metric = Annotated[str, _parameter("metric", "KIND")]
Limit = Annotated[str | None, _parameter("time_limit", "SECONDS")]


def _some_columns(what: str) -> Any:
    """An option that names a column, and may be repeated."""
    return typer.Option(metavar="COL", help=f"{what} May be repeated.")


Exclude = Annotated[list[str] | None, _some_columns("A column to leave out.")]
Numeric = Annotated[
    list[str] | None,
    _some_columns("A column whose integers are quantities, never codes of categories."),
]
AsText = Annotated[
    list[str] | None,
    _some_columns("A column whose text is never read as dates or numbers."),
]


class Dates(StrEnum):
    """What stands first in dates that may be either."""

    day_first = "day-first"
    month_first = "month-first"


DayOrMonth = Annotated[
    Dates | None,
    typer.Option(
        help="What stands first in dates such as 1/2/2017, where all of a column may "
        "be either."
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="COL",
        help="A column of groups, such as patients: rows of a group are never on both "
        "sides of a split, and it is no input.",
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="COL",
        help="A column of dates or numbers: the latest rows are the test split, and "
        "earlier ones never validate later ones.",
    ),
]
TestSize = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        callback=_checked(
            lambda share: 0 <= share < 1,
            "{:g} is not a share of the rows: give a number from 0 to below 1",
        ),
        help="Share of the rows in the test split; 0 for no score.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        callback=_checked(as_bytes, "{!r} is not a size such as 1.5GB or '600 MB'"),
        help="Upper limit of the memory to use, such as 1.5GB.",
    ),
]
Sample = Annotated[
    int | None,
    typer.Option(
        metavar="ROWS",
        min=1,
        help="Select the model on the first ROWS rows, which saves a pass over all "
        "rows.",
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="SCHEDULER",
        callback=_checked(
            ADDRESS.fullmatch,
            "{!r} is not the address of a scheduler, such as tcp://host:8786",
        ),
        help="Address of a Dask scheduler, such as tcp://host:8786, whose workers "
        "process the rows.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="DEVICE",
        help="Device for the features, such as cuda or cuda:1. Default: the CPU.",
    ),
]
SavedModel = Annotated[
    Path | None,
    typer.Option(
        metavar="MODEL",
        parser=model_name,
        help="Save the model, refitted on all rows, to this file.",
    ),
]
Uncertainty = Annotated[
    bool,
    typer.Option(
        "--uncertainty",
        help="Also learn prediction intervals and standard deviations (regression).",
    ),
]
Unbounded = Annotated[
    bool,
    typer.Option(
        "--unbounded",
        help="Let predictions go beyond the range of the target (regression).",
    ),
]
