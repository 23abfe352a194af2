"""Declares the commands and their options, and checks what is given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bochner.cli.errors import guarded
from bochner.cli.options import (
    Alpha,
    AnyTask,
    Components,
    Dask,
    Data,
    Device,
    Exclude,
    Features,
    Interval,
    Json,
    Kernel,
    Limit,
    Loss,
    Memory,
    Metric,
    Model,
    Sample,
    Seed,
    Solver,
    Target,
    Task,
    TestSize,
    Traceback,
    model_name,
    page_name,
    table_name,
)
from bochner.estimators.parameters import Given, conflict

EPILOG = "Exit codes: 0 success, 1 error in the data or the model, 2 wrong usage, 130 interrupted."

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich", epilog=EPILOG, no_args_is_help=False)


def _version(asked: bool) -> None:
    if asked:
        from bochner import __version__

        typer.echo(f"bochner {__version__}")
        raise typer.Exit


def _as_option(name: str, value: Any) -> str:
    return f"--{name.replace('_', '-')} {value}"


def _together(uncertainty: bool = False, loss: str = "auto", **others: Any) -> dict[str, Any]:
    """Parameters of an estimator; wrong usage where they exclude one another."""
    given = {name: others[name] for name in ("kernel", "features", "metric", "alpha", "solver")}
    if found := conflict(Given(**given, loss=loss, uncertainty=uncertainty, form=_as_option)):
        raise typer.BadParameter(found.message, param_hint=f"'--{found.parameter}'")
    return {**others, "loss": loss}


@app.callback(invoke_without_command=True)
def bochner(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Fit kernel machines to tables, score them, and predict.

    \b
    Examples:
      bochner demo
      bochner fit houses.csv --target price --out houses.safetensors
      bochner plan 'rows/*.parquet' --target price
      bochner predict houses.safetensors new.csv --out prices.csv
      bochner evaluate houses.safetensors sold.parquet
      bochner report houses.safetensors sold.parquet --out report.html
      bochner inspect houses.safetensors
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _show(report: dict[str, Any], as_json: bool, details: bool = False) -> None:
    from bochner.cli.printing import show

    show(report, as_json, details)


@app.command()
def demo(json: Json = False, traceback: Traceback = False) -> None:
    """Fit and score models on three small data sets that come with scikit-learn.

    \b
    Example:
      bochner demo
    """
    with guarded(traceback):
        from bochner.cli.installation import demo as run

        _show(run(), json)


@app.command()
def warmup(json: Json = False, traceback: Traceback = False) -> None:
    """Compile all inner loops and cache them, so that no later fit has to wait for them.

    \b
    Example, in an image of a container:
      NUMBA_CACHE_DIR=/opt/loops bochner warmup
    """
    with guarded(traceback):
        from bochner.cli.installation import warmup as run

        _show(run(), json)


@app.command()
def fit(
    data: Data,
    target: Target,
    out: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", parser=model_name, help="Save the model, refitted on all rows, to this file."),
    ] = None,
    task: AnyTask = Task.auto,
    test_size: TestSize = 0.2,
    seed: Seed = "0",
    kernel: Kernel = "auto",
    features: Features = "auto",
    n_components: Components = "auto",
    alpha: Alpha = "auto",
    loss: Loss = "auto",
    solver: Solver = "auto",
    metric: Metric = "auto",
    time_limit: Limit = None,
    uncertainty: Annotated[
        bool,
        typer.Option("--uncertainty", help="Also learn prediction intervals and standard deviations (regression)."),
    ] = False,
    exclude: Exclude = None,
    memory_limit: Memory = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the progress of a fit on a table larger than memory.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint if it exists.")] = False,
    sample: Sample = None,
    dask: Dask = None,
    device: Device = None,
    details: Annotated[
        bool, typer.Option("--details", help="Print the full report of the fit, not only the summary.")
    ] = False,
    json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Fit a model to a table, score it on a test split, and save it.

    A fifth of the rows is the test split. The saved model is refitted on all rows.

    \b
    Examples:
      bochner fit houses.csv --target price --out houses.safetensors
      bochner fit trees.parquet --target species --time-limit 10 --details
      bochner fit 'rows/*.parquet' --target y --memory-limit 1.5GB --out y.safetensors
    """
    parameters = _together(
        uncertainty,
        loss,
        kernel=kernel,
        features=features,
        n_components=n_components,
        metric=metric,
        alpha=alpha,
        solver=solver,
        time_limit=time_limit,
        random_state=seed,
        verbose=1,
    )
    if resume and checkpoint is None:
        raise typer.BadParameter("needs --checkpoint FILE to continue from", param_hint="'--resume'")
    with guarded(traceback):
        from bochner.cli import fitting
        from bochner.cli.fitting import Fit, Run

        run = Run(memory_limit, checkpoint, resume, sample, dask, device)
        what = Fit(data, target, out, task.value, test_size, exclude or [], parameters, uncertainty, run)
        with run.limited():
            report = fitting.fit(what)
        _show(report, json, details)


@app.command()
def plan(
    data: Data,
    target: Target,
    task: AnyTask = Task.auto,
    kernel: Kernel = "auto",
    features: Features = "auto",
    n_components: Components = "auto",
    alpha: Alpha = "auto",
    solver: Solver = "auto",
    metric: Metric = "auto",
    exclude: Exclude = None,
    memory_limit: Memory = None,
    sample: Sample = None,
    json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Estimate the passes, memory and time of a fit, without reading the rows.

    \b
    Example:
      bochner plan 'rows/*.parquet' --target price --memory-limit 1.5GB
    """
    parameters = _together(
        kernel=kernel, features=features, n_components=n_components, metric=metric, alpha=alpha, solver=solver
    )
    with guarded(traceback):
        from bochner.cli.fitting import Fit, Run
        from bochner.cli.fitting import plan as look

        run = Run(memory_limit, sample=sample)
        _show(look(Fit(data, target, None, task.value, 0.0, exclude or [], parameters, run=run)), json)


@app.command()
def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path, typer.Option(metavar="FILE", parser=table_name, help="File for the predictions: .csv or .parquet.")
    ],
    interval: Interval = None,
    std: Annotated[
        bool, typer.Option("--std", help="Add standard deviations (models fitted with --uncertainty).")
    ] = False,
    proba: Annotated[
        bool | None,
        typer.Option("--proba/--no-proba", help="Add a probability for each class. Default: yes, for a classifier."),
    ] = None,
    memory_limit: Memory = None,
    device: Device = None,
    json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Predict every row of a table, in order, and write the predictions to a new table.

    \b
    Examples:
      bochner predict houses.safetensors new.csv --out prices.csv
      bochner predict houses.safetensors new.csv --out prices.parquet --interval 0.9
    """
    with guarded(traceback):
        from bochner.cli import evaluation
        from bochner.cli.evaluation import PredictionOptions
        from bochner.cli.fitting import Run

        with Run(memory_limit, device=device).limited():
            report = evaluation.predict(model, data, out, PredictionOptions(interval, std, proba))
        _show(report, json)


@app.command()
def evaluate(
    model: Model,
    data: Data,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column with the true values, if the model does not name it.")
    ] = None,
    interval: Interval = None,
    json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Score a model on a table that contains the target.

    \b
    Example:
      bochner evaluate houses.safetensors sold.parquet
    """
    with guarded(traceback):
        from bochner.cli import evaluation

        _show(evaluation.evaluate(model, data, target, interval), json)


@app.command()
def report(
    model: Model,
    data: Data,
    out: Annotated[
        Path, typer.Option(metavar="FILE", parser=page_name, help="File for the page, such as report.html.")
    ],
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column with the true values, if the model does not name it.")
    ] = None,
    json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Write a report page of a model: one HTML file with scores, candidates, relevances, errors and costs.

    \b
    Example:
      bochner report houses.safetensors sold.parquet --out report.html
    """
    with guarded(traceback):
        from bochner.cli import evaluation

        _show(evaluation.report(model, data, out, target), json)


@app.command()
def inspect(model: Model, json: Json = False, traceback: Traceback = False) -> None:
    """Describe a model file. Nothing in the file is executed.

    \b
    Example:
      bochner inspect houses.safetensors
    """
    with guarded(traceback):
        from bochner.cli.facts import inspect as look

        _show(look(model), json)
