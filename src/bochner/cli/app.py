"""Declares the commands and their options, and checks what is given."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bochner.cli.errors import guarded
from bochner.estimators.exclusions import Given, conflict
from bochner.estimators.parameters import PARAMETERS, read_parameter

EPILOG = "Exit codes: 0 done, 1 the data or the model is at fault, 2 wrong usage, 130 interrupted."

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich", epilog=EPILOG, no_args_is_help=False
)


class Task(StrEnum):
    """What to learn."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


def _version(asked: bool) -> None:
    if asked:
        from bochner import __version__

        typer.echo(f"bochner {__version__}")
        raise typer.Exit


def _parameter(name: str, metavar: str, help: str = "") -> Any:
    """Option for a parameter of the estimators, whose table says what it may be."""

    def value(text: str | None) -> Any:
        try:
            return None if text is None else read_parameter(name, text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return typer.Option(metavar=metavar, callback=value, help=help or PARAMETERS[name].help)


def _as_option(name: str, value: Any) -> str:
    return f"--{name.replace('_', '-')} {value}"


def _test_size(size: float) -> float:
    if not 0 <= size < 1:
        raise typer.BadParameter(f"{size:g} is no share of the rows from 0 to less than 1")
    return size


def _coverage(coverage: float | None) -> float | None:
    if coverage is not None and not 0 < coverage < 1:
        raise typer.BadParameter(f"{coverage:g} is no coverage between 0 and 1, as 0.9 is")
    return coverage


def _table_name(path: Path) -> Path:
    from bochner.data.files import SUFFIXES, kind_by_name

    if kind_by_name(path) is None:
        raise typer.BadParameter(f"'{path}' must end in one of {', '.join(SUFFIXES)}")
    return path


def _model_name(path: Path | None) -> Path | None:
    from bochner.data.files import kind_by_name

    if path is not None and kind_by_name(path):
        raise typer.BadParameter(f"'{path}' is the name of a table; call a model for example model.safetensors")
    return path


Data = Annotated[Path, typer.Argument(metavar="DATA", help="Table: .csv, .csv.gz, .tsv, .parquet or .pq.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model that 'bochner fit --out' wrote.")]
Interval = Annotated[
    float | None,
    typer.Option(metavar="COVERAGE", callback=_coverage, help="Prediction intervals, for example of 0.9."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show where an error arose (or BOCHNER_DEBUG=1).")]


@app.callback(invoke_without_command=True)
def bochner(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Kernel machines for tables: fit, score, predict.

    \b
      bochner demo
      bochner fit houses.csv --target price --out houses.safetensors
      bochner predict houses.safetensors new.csv --out prices.csv
      bochner evaluate houses.safetensors sold.parquet
      bochner inspect houses.safetensors
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _show(report: dict[str, Any], as_json: bool) -> None:
    from bochner.cli.report import show

    show(report, as_json)


@app.command()
def demo(json: Json = False, traceback: Traceback = False) -> None:
    """Fit and score on small data sets that are always there."""
    with guarded(traceback):
        from bochner.cli.demo import demo as run

        _show(run(), json)


@app.command()
def warmup(json: Json = False, traceback: Traceback = False) -> None:
    """Compile all loops and keep them, so that no fit has to wait for it."""
    with guarded(traceback):
        from bochner.cli.warmup import warmup as run

        _show(run(), json)


@app.command()
def fit(
    data: Data,
    target: Annotated[str, typer.Option(metavar="NAME", help="Column to predict.")],
    out: Annotated[
        Path | None, typer.Option(metavar="MODEL", callback=_model_name, help="Save a model, fitted on all rows.")
    ] = None,
    task: Annotated[
        Task, typer.Option(metavar="TASK", help="regression, classification, or auto: by the target's values.")
    ] = Task.auto,
    test_size: Annotated[
        float,
        typer.Option(metavar="SHARE", callback=_test_size, help="Share of the rows held out for the score; 0: none."),
    ] = 0.2,
    seed: Annotated[str, _parameter("random_state", "N", "Seed of the split and of the features.")] = "0",
    kernel: Annotated[str, _parameter("kernel", "NAME")] = "auto",
    features: Annotated[str, _parameter("features", "MAP")] = "auto",
    n_components: Annotated[str, _parameter("n_components", "N")] = "auto",
    alpha: Annotated[str, _parameter("alpha", "A")] = "auto",
    loss: Annotated[str, _parameter("loss", "NAME")] = "auto",
    solver: Annotated[str, _parameter("solver", "NAME")] = "auto",
    metric: Annotated[str, _parameter("metric", "KIND")] = "auto",
    time_limit: Annotated[str | None, _parameter("time_limit", "SECONDS")] = None,
    uncertainty: Annotated[
        bool, typer.Option("--uncertainty", help="Let the model know intervals and standard deviations (regression).")
    ] = False,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="Column to leave out; may be repeated.")
    ] = None,
    json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Fit a model to a table, score it on held-out rows, save it."""
    if found := conflict(Given(kernel, features, metric, alpha, solver, loss, uncertainty, _as_option)):
        raise typer.BadParameter(found.message, param_hint=f"'--{found.parameter}'")
    with guarded(traceback):
        from bochner.cli import commands

        parameters = {
            "kernel": kernel,
            "features": features,
            "n_components": n_components,
            "metric": metric,
            "alpha": alpha,
            "loss": loss,
            "solver": solver,
            "time_limit": time_limit,
            "random_state": seed,
            "verbose": 1,
        }
        what = commands.Fit(data, target, out, task.value, test_size, exclude or [], parameters, uncertainty)
        _show(commands.fit(what), json)


@app.command()
def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path, typer.Option(metavar="FILE", callback=_table_name, help="Predictions, CSV or Parquet by the name.")
    ],
    interval: Interval = None,
    std: Annotated[bool, typer.Option("--std", help="Standard deviations too.")] = False,
    proba: Annotated[
        bool | None,
        typer.Option("--proba/--no-proba", help="A probability for each class: by default where there are classes."),
    ] = None,
    json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Predict every row of a table, in its order, into a new table."""
    with guarded(traceback):
        from bochner.cli import commands
        from bochner.cli.predictions import Wanted

        _show(commands.predict(model, data, out, Wanted(interval, std, proba)), json)


@app.command()
def evaluate(
    model: Model,
    data: Data,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column of the truth, where the model does not name it.")
    ] = None,
    interval: Interval = None,
    json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Score a model on a table that has the target."""
    with guarded(traceback):
        from bochner.cli import commands

        _show(commands.evaluate(model, data, target, interval), json)


@app.command()
def inspect(model: Model, json: Json = False, traceback: Traceback = False) -> None:
    """Show what is inside a model file."""
    with guarded(traceback):
        from bochner.cli.facts import inspect as look

        _show(look(model), json)
