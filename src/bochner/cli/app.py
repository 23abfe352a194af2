"""Declares the commands and their options, and checks what is given."""

from __future__ import annotations

import inspect as inspection
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from bochner.cli import options
from bochner.cli.failures import guarded
from bochner.estimators.parameters import Given, conflict
from bochner.settings import require_addresses

EPILOG = (
    "Exit codes: 0 success, 1 error in the data or the model, 2 wrong usage, "
    "130 interrupted, 143 terminated."
)
LIBRARY_ADDRESSES = 1 << 30  # with fewer OpenBLAS tries to load for ever

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=EPILOG,
    no_args_is_help=False,
)


def _version(asked: bool) -> None:
    if asked:
        from bochner import __version__

        typer.echo(f"bochner {__version__}")
        raise typer.Exit


def _as_option(name: str, value: Any) -> str:
    return f"--{name.replace('_', '-')} {value}"


def _together(
    uncertainty: bool = False, loss: str = "auto", **others: Any
) -> dict[str, Any]:
    """Parameters of an estimator; wrong usage where they exclude one another."""
    given = {
        name: others[name]
        for name in ("kernel", "features", "metric", "alpha", "solver")
    }
    if found := conflict(
        Given(**given, loss=loss, uncertainty=uncertainty, form=_as_option)
    ):
        raise typer.BadParameter(found.message, param_hint=f"'--{found.parameter}'")
    return {**others, "loss": loss}


def _command(work: Callable[..., dict[str, Any]]) -> Callable[..., None]:
    """A command whose function returns its report: it is printed, by `--json` as
    JSON, and errors are single lines.
    """

    @wraps(work)
    def run(*, json: bool, traceback: bool, **arguments: Any) -> None:
        with guarded(traceback, arguments.get("model")):
            if "numpy" not in sys.modules:
                require_addresses("The command", LIBRARY_ADDRESSES)
            from bochner.cli.printing import show

            report = {"command": work.__name__} | work(**arguments)
            show(report, json, arguments.get("details", False))

    own, more = (
        inspection.signature(work, eval_str=True),
        {"json": options.Json, "traceback": options.Traceback},
    )
    keyword = inspection.Parameter.KEYWORD_ONLY
    last = [
        inspection.Parameter(name, keyword, default=False, annotation=kind)
        for name, kind in more.items()
    ]
    parameters = [one.replace(kind=keyword) for one in own.parameters.values()] + last
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    app.command()(run)
    return run


@app.callback(invoke_without_command=True)
def bochner(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
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
      bochner explain houses.safetensors new.csv --out values.csv
      bochner report houses.safetensors sold.parquet --out report.html
      bochner inspect houses.safetensors
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@_command
def demo() -> dict[str, Any]:
    """Fit and score models on three small data sets that come with scikit-learn.

    \b
    Example:
      bochner demo
    """
    from bochner.cli.installation import demo as run

    return run()


@_command
def warmup() -> dict[str, Any]:
    """Compile all inner loops and cache them, so that no later fit has to wait for
    them.

    \b
    Example, in an image of a container:
      NUMBA_CACHE_DIR=/opt/loops bochner warmup
    """
    from bochner import warmup as run

    return run()._asdict() | {"notes": []}


@_command
def fit(
    data: options.Data,
    target: options.Target,
    out: options.SavedModel = None,
    task: options.AnyTask = options.Task.auto,
    test_size: options.TestSize = 0.2,
    seed: options.Seed = "0",
    kernel: options.Kernel = "auto",
    features: options.Features = "auto",
    n_components: options.Components = "auto",
    alpha: options.Alpha = "auto",
    loss: options.Loss = "auto",
    solver: options.Solver = "auto",
    metric: options.Metric = "auto",
    time_limit: options.Limit = None,
    uncertainty: options.Uncertainty = False,
    exclude: options.Exclude = None,
    numeric: options.Numeric = None,
    memory_limit: options.Memory = None,
    sample: options.Sample = None,
    dask: options.Dask = None,
    device: options.Device = None,
    details: options.Details = False,
) -> dict[str, Any]:
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
        numeric_features=numeric or None,
    )
    from bochner.cli.fitting import Fit, Run
    from bochner.cli.fitting import fit as run

    settings = Run(memory_limit, sample, dask, device)
    with settings.applied():
        return run(
            Fit(
                data,
                target,
                out,
                task.value,
                test_size,
                exclude or [],
                parameters,
                uncertainty,
                settings,
            )
        )


@_command
def plan(
    data: options.Data,
    target: options.Target,
    task: options.AnyTask = options.Task.auto,
    kernel: options.Kernel = "auto",
    features: options.Features = "auto",
    n_components: options.Components = "auto",
    alpha: options.Alpha = "auto",
    solver: options.Solver = "auto",
    metric: options.Metric = "auto",
    exclude: options.Exclude = None,
    memory_limit: options.Memory = None,
    sample: options.Sample = None,
) -> dict[str, Any]:
    """Estimate the passes and memory of a fit, without reading the rows.

    \b
    Example:
      bochner plan 'rows/*.parquet' --target price --memory-limit 1.5GB
    """
    parameters = _together(
        kernel=kernel,
        features=features,
        n_components=n_components,
        metric=metric,
        alpha=alpha,
        solver=solver,
    )
    from bochner.cli.fitting import Fit, Run
    from bochner.cli.fitting import plan as run

    settings = Run(memory_limit, sample=sample)
    return run(
        Fit(
            data, target, None, task.value, 0.0, exclude or [], parameters, run=settings
        )
    )


@_command
def predict(
    model: options.Model,
    data: options.Data,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            parser=options.table_name,
            help="File for the predictions: .csv or .parquet.",
        ),
    ],
    interval: options.Interval = None,
    std: Annotated[
        bool,
        typer.Option(
            "--std", help="Add standard deviations (models fitted with --uncertainty)."
        ),
    ] = False,
    proba: Annotated[
        bool | None,
        typer.Option(
            "--proba/--no-proba",
            help="Add a probability for each class. Default: yes, for a classifier.",
        ),
    ] = None,
    memory_limit: options.Memory = None,
    device: options.Device = None,
) -> dict[str, Any]:
    """Predict every row of a table, in order, and write the predictions to a new table.

    \b
    Examples:
      bochner predict houses.safetensors new.csv --out prices.csv
      bochner predict houses.safetensors new.csv --out prices.parquet --interval 0.9
    """
    from bochner.cli.evaluation import PredictionOptions
    from bochner.cli.evaluation import predict as run
    from bochner.cli.fitting import Run

    with Run(memory_limit, device=device).applied():
        return run(model, data, out, PredictionOptions(interval, std, proba))


@_command
def evaluate(
    model: options.Model,
    data: options.Data,
    target: options.TrueTarget = None,
    interval: options.Interval = None,
) -> dict[str, Any]:
    """Score a model on a table that contains the target.

    \b
    Example:
      bochner evaluate houses.safetensors sold.parquet
    """
    from bochner.cli.evaluation import evaluate as run

    return run(model, data, target, interval)


@_command
def explain(
    model: options.Model,
    data: options.Data,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            parser=options.table_name,
            help="File for the values: .csv or .parquet.",
        ),
    ],
    rows: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Rows to explain; of more they are drawn at random.",
        ),
    ] = 1000,
) -> dict[str, Any]:
    """Explain predictions: write what each column adds to the prediction of each row
    (Shapley values).

    \b
    Example:
      bochner explain houses.safetensors new.csv --out values.csv
    """
    from bochner.cli.evaluation import explain as run

    return run(model, data, out, rows)


@_command
def report(
    model: options.Model,
    data: options.Data,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            parser=options.page_name,
            help="File for the page, such as report.html.",
        ),
    ],
    target: options.TrueTarget = None,
) -> dict[str, Any]:
    """Write a report page of a model: one HTML file with scores, importances, effects,
    errors, candidates and costs.

    \b
    Example:
      bochner report houses.safetensors sold.parquet --out report.html
    """
    from bochner.cli.evaluation import report as run

    return run(model, data, out, target)


@_command
def inspect(model: options.Model) -> dict[str, Any]:
    """Describe a model file. Nothing in the file is executed.

    \b
    Example:
      bochner inspect houses.safetensors
    """
    from bochner.cli.model_files import inspect as run

    return run(model)
