"""Declares the commands and their options, and checks what is given."""

from __future__ import annotations

import inspect as inspection
import logging
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from bochner.cli import options
from bochner.cli.failures import CommandError, guarded
from bochner.estimators.parameters import conflict
from bochner.settings import peak_bytes, require_addresses, settings

EPILOG = (
    "Exit codes: 0 success, 1 error in the data or the model, 2 wrong usage, "
    "130 interrupted, 143 terminated."
)
CONNECTING = 10  # seconds to wait for a scheduler
# Modules of 200 MB, imported before the memory of a run is measured
CODE = (
    "bochner.estimators.regressor",
    "bochner.estimators.classifier",
    "bochner.loops.trig",
)

app = typer.Typer(
    pretty_exceptions_enable=False, rich_markup_mode="rich", epilog=EPILOG
)


def _version(asked: bool) -> None:
    if asked:
        from bochner import __version__

        typer.echo(f"bochner {__version__}")
        raise typer.Exit


def dask_client(address: str) -> Any:
    """A client of the scheduler at an address, which the caller closes."""
    try:
        from dask.distributed import Client
    except ImportError:
        raise CommandError("--dask needs Dask: pip install 'bochner[dask]'") from None
    # What is wrong is said by the error
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=CONNECTING, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise CommandError(
            f"no Dask scheduler answers at {address}: {error}"
        ) from error


def _command(module: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare a command by the function that is decorated; the one of the same name in
    a module, imported once it is called, does the work.

    That one takes the arguments, and returns a report: it is printed with its cost and
    the names of the files, by `--json` as JSON, and errors are single lines. Memory
    limit, device and engine are set before.
    """

    def declare(declared: Callable[..., None]) -> Callable[..., None]:
        name = declared.__name__

        @wraps(declared)
        def run(*, json: bool, traceback: bool, **arguments: Any) -> None:
            with guarded(traceback, arguments.get("model")):
                # With fewer OpenBLAS tries to load for ever
                if "numpy" not in sys.modules:
                    require_addresses("The command", 1 << 30)
                # Parameters of an estimator that exclude one another
                if "solver" in arguments:
                    given = {"loss": "auto", "uncertainty": False} | arguments
                    if clash := conflict(SimpleNamespace(**given), "--{} {}".format):
                        hint = f"'--{clash.parameter}'"
                        raise typer.BadParameter(clash.message, param_hint=hint)
                from bochner.cli.printing import show
                from bochner.loops.clock import CLOCK

                work = getattr(import_module(f"bochner.cli.{module}"), name)
                start = CLOCK.seconds()
                # Loaded before, code does not count
                for code in CODE if "memory_limit" in arguments else ():
                    import_module(code)
                limit, device = map(arguments.get, ("memory_limit", "device"))
                address = arguments.get("dask")
                with (
                    settings(memory_limit=limit, device=device),
                    nullcontext() if address is None else dask_client(address) as dask,
                    settings(engine=dask),
                ):
                    report = work(**arguments)
                facts = {
                    "command": name,
                    "seconds": CLOCK.seconds() - start,
                    "peak_memory_bytes": peak_bytes(),
                }
                for file in ("model", "data", "out"):
                    if file in arguments:
                        facts[file] = str(arguments[file])
                show(facts | report, json)

        signature = inspection.signature(declared, eval_str=True)
        parameters = [*signature.parameters.values()]
        for last, kind in (("json", options.Json), ("traceback", options.Traceback)):
            parameters.append(
                inspection.Parameter(
                    last,
                    inspection.Parameter.KEYWORD_ONLY,
                    default=False,
                    annotation=kind,
                )
            )
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        app.command()(run)
        return run

    return declare


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


@_command("installation")
def demo() -> None:
    """Fit and score models on three small data sets that come with scikit-learn.

    \b
    Example:
      bochner demo
    """


@_command("installation")
def warmup() -> None:
    """Compile all inner loops and cache them, so that no later fit has to wait for
    them.

    \b
    Example, in an image of a container:
      NUMBA_CACHE_DIR=/opt/loops bochner warmup
    """


@_command("fitting")
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
    unbounded: options.Unbounded = False,
    group: options.Group = None,
    time: options.Time = None,
    exclude: options.Exclude = None,
    numeric: options.Numeric = None,
    text: options.AsText = None,
    dates: options.DayOrMonth = None,
    memory_limit: options.Memory = None,
    sample: options.Sample = None,
    dask: options.Dask = None,
    device: options.Device = None,
) -> None:
    """Fit a model to a table, score it on a test split, and save it.

    A fifth of the rows is the test split, drawn by chance, as whole groups
    (--group) or the latest (--time). The saved model is refitted on all rows.

    \b
    Examples:
      bochner fit houses.csv --target price --out houses.safetensors
      bochner fit trees.parquet --target species --time-limit 10
      bochner fit visits.csv --target cost --group patient --out v.safetensors
      bochner fit 'rows/*.parquet' --target y --memory-limit 1GB
    """


@_command("fitting")
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
) -> None:
    """Estimate the passes and memory of a fit, without reading the rows.

    \b
    Example:
      bochner plan 'rows/*.parquet' --target price --memory-limit 1.5GB
    """


@_command("evaluation")
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
) -> None:
    """Predict every row of a table, in order, and write the predictions to a new table.

    \b
    Examples:
      bochner predict houses.safetensors new.csv --out prices.csv
      bochner predict houses.safetensors new.csv --out prices.csv --interval 0.9
    """


@_command("evaluation")
def evaluate(
    model: options.Model,
    data: options.Data,
    target: options.TrueTarget = None,
    interval: options.Interval = None,
) -> None:
    """Score a model on a table that contains the target.

    \b
    Example:
      bochner evaluate houses.safetensors sold.parquet
    """


@_command("evaluation")
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
) -> None:
    """Explain predictions: write what each column adds to the prediction of each row
    (Shapley values).

    \b
    Example:
      bochner explain houses.safetensors new.csv --out values.csv
    """


@_command("evaluation")
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
    training: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="Table of the fit, from which the neighbours of the worst rows are "
            "taken.",
        ),
    ] = None,
) -> None:
    """Write a report page of a model: one HTML file with scores, importances, effects,
    errors, candidates and costs.

    \b
    Example:
      bochner report houses.safetensors sold.parquet --out report.html
    """


@_command("model_files")
def inspect(model: options.Model) -> None:
    """Describe a model file. Nothing in the file is executed.

    \b
    Example:
      bochner inspect houses.safetensors
    """
