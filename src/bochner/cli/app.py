"""The commands and their options."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bochner.cli.faults import guarded

EPILOG = "Exit codes: 0 done, 1 the data or the model is at fault, 2 wrong usage, 130 interrupted."

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich", epilog=EPILOG, no_args_is_help=False
)


class Task(StrEnum):
    """What to learn."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


class Features(StrEnum):
    """The map from rows to features."""

    auto = "auto"
    fourier = "fourier"
    binning = "binning"
    hybrid = "hybrid"


class Metric(StrEnum):
    """How distances of rows are measured."""

    auto = "auto"
    isotropic = "isotropic"
    ard = "ard"
    full = "full"


class Solver(StrEnum):
    """How the ridge problem is solved."""

    auto = "auto"
    direct = "direct"
    cg = "cg"
    exact = "exact"


def _version(asked: bool) -> None:
    if asked:
        from bochner import __version__

        typer.echo(f"bochner {__version__}")
        raise typer.Exit


def _kernel(name: str) -> str:
    from bochner.tuning.bandwidth import NAMED

    if name not in ("auto", *NAMED):
        raise typer.BadParameter(f"'{name}' is none of auto, {', '.join(NAMED)}")
    return name


def _n_components(text: str) -> str:
    if text != "auto" and not (text.isdecimal() and int(text)):
        raise typer.BadParameter(f"'{text}' is neither 'auto' nor a positive integer")
    return text


def _alpha(text: str) -> str:
    try:
        valid = text in ("auto", "loo", "gcv") or 0 < float(text) < float("inf")
    except ValueError:
        valid = False
    if not valid:
        raise typer.BadParameter(f"'{text}' is neither 'auto', 'loo' or 'gcv' nor a positive number")
    return text


def _check_together(features: Features, kernel: str, solver: Solver, alpha: str, metric: Metric) -> None:
    """Refuse options that exclude one another."""
    binning, criterion = features in (Features.binning, Features.hybrid), alpha in ("loo", "gcv")
    if binning and solver is Solver.direct:
        raise typer.BadParameter(
            "'direct' needs dense features, bins are sparse; use cg or auto", param_hint="'--solver'"
        )
    if binning and solver is Solver.exact:
        raise typer.BadParameter(
            "'exact' has no features; use --kernel laplacian for the kernel of bins", param_hint="'--solver'"
        )
    if criterion and (binning or solver is Solver.cg):
        without = "--features fourier" if binning else "--solver direct"
        raise typer.BadParameter(f"'{alpha}' needs {without}; else use auto or a number", param_hint="'--alpha'")
    if binning and kernel not in ("auto", *(names := _kernels_of_bins())):
        use = f"use auto, {' or '.join(names)}, or --features fourier"
        raise typer.BadParameter(f"'{kernel}' has no bins; {use}", param_hint="'--kernel'")

    if features is Features.hybrid and metric is Metric.isotropic:
        raise typer.BadParameter(
            "'isotropic' is none for hybrid features; use auto, ard or full", param_hint="'--metric'"
        )
    if binning and metric in (Metric.ard, Metric.full) and kernel not in ("auto", "laplacian"):
        raise typer.BadParameter(f"'{kernel}' has no learned bins; use auto or laplacian", param_hint="'--kernel'")


def _kernels_of_bins() -> list[str]:
    from bochner.tuning.bandwidth import NAMED

    names = []
    for name, kernel in NAMED.items():
        with suppress(ValueError):
            kernel().pitch_measure()
            names.append(name)
    return names


def _seconds(limit: float | None) -> float | None:
    if limit is not None and not 0 < limit < float("inf"):
        raise typer.BadParameter(f"{limit:g} is no positive number of seconds")
    return limit


def _test_size(size: float) -> float:
    if not 0 <= size < 1:
        raise typer.BadParameter(f"{size:g} is no share of the rows from 0 to less than 1")
    return size


def _seed(seed: int) -> int:
    if not 0 <= seed < 2**32:
        raise typer.BadParameter(f"{seed} is not in the range from 0 to {2**32 - 1}")
    return seed


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
    seed: Annotated[int, typer.Option(metavar="N", callback=_seed, help="Seed of the split and of the features.")] = 0,
    kernel: Annotated[
        str, typer.Option(metavar="NAME", callback=_kernel, help="auto, or gaussian, laplacian, hat, matern32, ...")
    ] = "auto",
    features: Annotated[
        Features,
        typer.Option(metavar="MAP", help="fourier, binning, hybrid: both, or auto: the best on rows held out."),
    ] = Features.auto,
    n_components: Annotated[
        str,
        typer.Option(metavar="N", callback=_n_components, help="Number of features, of grids for binning, or auto."),
    ] = "auto",
    alpha: Annotated[
        str, typer.Option(metavar="A", callback=_alpha, help="Ridge term: a number, or auto, loo, gcv.")
    ] = "auto",
    solver: Annotated[
        Solver, typer.Option(metavar="NAME", help="direct, cg, exact: all kernel values, or auto: by their costs.")
    ] = Solver.auto,
    metric: Annotated[
        Metric,
        typer.Option(metavar="KIND", help="isotropic, ard: a scale a column, full: a linear map, or auto: the best."),
    ] = Metric.auto,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", callback=_seconds, help="Time that a fit may take.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="Column to leave out; may be repeated.")
    ] = None,
    json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Fit a model to a table, score it on held-out rows, save it."""
    _check_together(features, kernel, solver, alpha, metric)
    with guarded(traceback):
        from bochner.cli import work

        what = work.Fit(
            data=data,
            target=target,
            out=out,
            task=task.value,
            test_size=test_size,
            seed=seed,
            kernel=kernel,
            features=features.value,
            n_components=n_components if n_components == "auto" else int(n_components),
            alpha=alpha if alpha in ("auto", "loo", "gcv") else float(alpha),
            solver=solver.value,
            metric=metric.value,
            time_limit=time_limit,
            exclude=exclude or [],
            verbose=1,
        )
        _show(work.fit(what), json)


@app.command()
def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path, typer.Option(metavar="FILE", callback=_table_name, help="Predictions, CSV or Parquet by the name.")
    ],
    json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Predict every row of a table, in its order, into a new table."""
    with guarded(traceback):
        from bochner.cli import work

        _show(work.predict(model, data, out), json)


@app.command()
def evaluate(
    model: Model,
    data: Data,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column of the truth, where the model does not name it.")
    ] = None,
    json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Score a model on a table that has the target."""
    with guarded(traceback):
        from bochner.cli import work

        _show(work.evaluate(model, data, target), json)


@app.command()
def inspect(model: Model, json: Json = False, traceback: Traceback = False) -> None:
    """Show what is inside a model file."""
    with guarded(traceback):
        from bochner.cli.facts import inspect as look

        _show(look(model), json)
