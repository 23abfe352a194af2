"""Digests of what small fits, the command and error messages give: ``python -m
benchmarks.golden OUT.json``.

``python -m benchmarks.golden --compare A.json B.json`` prints what differs between two
such files, and ends with exit code 1 where something does. ``--only NAME ...`` runs the
cases of these names. Of an array are kept its shape, its first values and its norm to
six significant digits, which tell how large a difference is, and a hash of all values,
rounded to a millionth of the largest. A case of which a name no longer exists is kept
as "gone". Numbers of different processors may differ, so that only files of one machine
are compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

import bochner
from bochner import kernels

Found = Iterator[tuple[str, Any]]
CASES: dict[str, Callable[[], Found]] = {}
SHOWN = 6  # values of an array, to as many digits
SPENT = re.compile(r"[<~]? ?\b\d[\d.,]*(e-?\d+)? ?(µs|ms|s|min|h|[kMGT]i?B|bytes)\b")
SPENT_KEYS = re.compile("seconds|memory|bytes")
LAST_NUMBER = re.compile(r"[\d.]+$")


def case(work: Callable[[], Found]) -> Callable[[], Found]:
    """Add a case under the name of its function."""
    CASES[work.__name__] = work
    return work


# What is kept of values


def digits(value: float) -> str:
    """A number to six significant digits."""
    return f"{value:.{SHOWN}g}"


def digest(text: str | bytes) -> str:
    """Short hash."""
    return hashlib.blake2b(
        text.encode() if isinstance(text, str) else text, digest_size=6
    ).hexdigest()


def summary(value: Any) -> Any:
    """What is kept of a value."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dict):
        return {str(key): summary(one) for key, one in value.items()}
    if isinstance(value, list) and not all(
        isinstance(one, int | float) for one in value
    ):
        return [summary(one) for one in value]
    array = np.asarray(value.toarray() if sp.issparse(value) else value)
    if array.dtype.kind not in "fiub":
        return {
            "shape": list(array.shape),
            "head": [str(one) for one in array.flat[:SHOWN]],
            "sha": digest(str([*array.flat])),
        }
    numbers = array.astype(np.float64)
    largest = np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)
    rounded = np.round(numbers / (largest or 1.0) * 1e6) + 0.0  # without negative zeros
    return {
        "shape": list(array.shape),
        "head": [digits(one) for one in numbers.flat[:SHOWN]],
        "norm": digits(float(np.sqrt(np.nansum(numbers**2)))),
        "sha": digest(rounded.tobytes()),
    }


def without_costs(text: str, folder: Path) -> list[str]:
    """Lines of what was printed, without seconds, memory and the folder of the
    files.
    """
    lines = list[str]()
    in_table = False
    for line in text.replace(str(folder), "FOLDER").splitlines():
        # The last column of a table of candidates is that of their seconds
        is_head = line.endswith("seconds")
        in_table = bool(line) and (in_table or is_head)
        if in_table and not is_head:
            line = LAST_NUMBER.sub("#", line)
        lines.append(SPENT.sub("#", line).rstrip())
    return lines


def without_cost_keys(report: Any) -> Any:
    """A report of the command without seconds and memory."""
    if isinstance(report, dict):
        return {
            key: without_cost_keys(one)
            for key, one in report.items()
            if not SPENT_KEYS.search(key)
        }
    if isinstance(report, list):
        return [without_cost_keys(one) for one in report]
    return digits(report) if isinstance(report, float) else report


def measured(work: Callable[[], Found]) -> dict[str, Any]:
    """All that a case gives, and its warnings; an exception ends it, and is kept as
    its text.
    """
    kept: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            for name, value in work():
                kept[name] = summary(value)
        except (AttributeError, ImportError) as error:
            kept["gone"] = str(error)
        except Exception as error:
            kept["error"] = f"{type(error).__name__}: {error}"
    if texts := sorted({SPENT.sub("#", str(one.message)) for one in said}):
        kept["warnings"] = " | ".join(texts)
    return kept


# Rows


def numbers(n: int = 400, d: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Uniform rows and a smooth target with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)


def labels(n_classes: int, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Rows and classes, the ranks of the target."""
    X, y = numbers(n)
    return X, np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))


def mixed(n: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers with gaps, text, dates and truth values, and a target."""
    rng = np.random.default_rng(1)
    X, y = numbers(n)
    size, kind = X[:, 0].copy(), rng.choice(["round", "square", "long"], n)
    size[::11] = np.nan
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(
        rng.integers(0, 700, n), unit="D"
    )
    table = {
        "size": size,
        "width": X[:, 1],
        "kind": kind,
        "day": days,
        "new": X[:, 2] > 0,
    }
    return pd.DataFrame(table), y + (kind == "round") + 0.001 * rng.integers(0, 2, n)


def regressor(*arguments: Any, **parameters: Any) -> Any:
    """A regressor with a seed."""
    return bochner.KernelMachineRegressor(*arguments, random_state=0, **parameters)


def classifier(*arguments: Any, **parameters: Any) -> Any:
    """A classifier with a seed."""
    return bochner.KernelMachineClassifier(*arguments, random_state=0, **parameters)


def fitted(model: Any, X: Any, y: Any, new: Any = None) -> Found:
    """Fit, and what the fit chose and predicts."""
    model.fit(X, y)
    yield (
        "chosen",
        {
            name: str(getattr(model, name))
            for name in ("solver_", "loss_", "n_iter_")
            if hasattr(model, name)
        },
    )
    yield "alpha", model.alpha_
    yield "map", f"{type(model.features_).__name__} of {model.features_.n_features_out}"
    yield from predicted(model, X[:100] if new is None else new)


def predicted(model: Any, X: Any) -> Found:
    """Predictions, and probabilities of classes."""
    yield "predictions", model.predict(X)
    if hasattr(model, "predict_proba"):
        yield "probabilities", model.predict_proba(X)


def explained(model: Any, X: Any, y: Any) -> Found:
    """What a fitted model tells of its columns and of rows."""
    yield (
        "importance of the fit",
        getattr(model, "importance_", None) and model.importance_.values,
    )
    found = model.importance(X, y, random_state=0)
    yield "importance", found.values
    yield "errors of the importance", found.errors
    explanation = model.explain(X[:10])
    yield "explanation", explanation.values
    yield "base value", explanation.base_values
    yield "interactions", model.interactions(X[:5]).values
    for kind in ("partial", "accumulated"):
        found = model.effects(X, kind=kind)
        yield f"{kind} effects", np.concatenate([np.ravel(one.mean) for one in found])


# Kinds of rows


@case
def arrays() -> Found:
    X, y = numbers()
    model = regressor()
    yield from fitted(model, X, y)
    yield from explained(model, X, y)
    yield "kernel", model.kernel_matrix(X[:5])
    yield "importances", model.feature_importances_


@case
def single_precision() -> Found:
    X, y = numbers()
    yield from fitted(
        regressor("gaussian", n_components=200),
        X.astype(np.float32),
        y.astype(np.float32),
    )


@case
def sparse_rows() -> Found:
    X, y = numbers()
    X[X < 0.3] = 0
    yield from fitted(regressor("gaussian"), sp.csr_array(X), y)


@case
def pandas_frame() -> Found:
    X, y = mixed()
    model = regressor()
    yield from fitted(model, X, y)
    yield from explained(model, X, y)
    yield "columns", [str(name) for name in model.encoder_.get_feature_names_out()]


@case
def polars_frame() -> Found:
    import polars

    X, y = mixed()
    yield from fitted(regressor("laplacian"), polars.from_pandas(X), y)


@case
def arrow_table() -> Found:
    import pyarrow

    X, y = mixed()
    yield from fitted(regressor(features="fourier"), pyarrow.Table.from_pandas(X), y)


@case
def parquet_in_passes() -> Found:
    X, y = mixed(1200)
    with tempfile.TemporaryDirectory() as name:
        for part in range(3):
            rows = slice(400 * part, 400 * (part + 1))
            X[rows].assign(target=y[rows]).to_parquet(Path(name) / f"{part}.parquet")
        for kind, model in {
            "default": regressor(),
            "given": regressor("gaussian", n_components=100),
        }.items():
            for part, value in fitted(
                model, bochner.open_source(name, sample=400), "target", X[:100]
            ):
                yield f"{kind}: {part}", value


@case
def dask_rows() -> Found:
    import dask.array

    X, y = numbers(900)
    rows = [
        dask.array.from_array(values, chunks=(300, *values.shape[1:]))
        for values in (X, y)
    ]
    yield from fitted(regressor("gaussian"), *rows, X[:100])


# Targets and losses


@case
def two_targets() -> Found:
    X, y = numbers()
    yield from fitted(regressor(), X, np.stack([y, X[:, 0] ** 2], axis=1))


@case
def two_classes() -> Found:
    X, y = labels(2)
    model = classifier()
    yield from fitted(model, X, y)
    yield "sets", model.predict_set(X[:50], 0.95)
    yield from explained(model, X, y)


@case
def three_classes() -> Found:
    X, y = mixed()
    kinds = np.array(["low", "middle", "high"])[
        np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    ]
    model = classifier(class_weight="balanced")
    yield from fitted(model, X, kinds)
    yield "explanation", model.explain(X[:5]).values


@case
def many_classes() -> Found:
    yield from fitted(classifier("gaussian"), *labels(15, 900))


@case
def losses_of_classes() -> Found:
    for loss in ("squared", "logistic", "squared_hinge"):
        for name, value in fitted(
            classifier("gaussian", n_components=100, loss=loss), *labels(2)
        ):
            yield f"{loss}: {name}", value


@case
def losses_of_numbers() -> Found:
    X, y = numbers()
    y[::20] += 30
    for loss in ("huber", "quantile"):
        for name, value in fitted(
            regressor("gaussian", n_components=100, loss=loss), X, y
        ):
            yield f"{loss}: {name}", value


@case
def counts() -> Found:
    X, y = numbers()
    yield from fitted(
        regressor(loss="poisson"), X, np.random.default_rng(2).poisson(np.exp(y))
    )


@case
def few_rows() -> Found:
    for model, rows in (
        (regressor(uncertainty=True), numbers(60)),
        (classifier(), labels(2, 60)),
    ):
        for name, value in fitted(model, *rows):
            yield f"{type(model).__name__}: {name}", value


@case
def weights() -> Found:
    X, y = numbers()
    weight = np.random.default_rng(3).integers(0, 3, len(y))
    for name in ("fourier", "binning"):
        model = regressor(features=name, metric="ard").fit(X, y, weight)
        yield name, model.predict(X[:100])
    model = classifier().fit(X, y > 0, weight)
    yield "classes", model.predict_proba(X[:100])


# Maps and solvers


def _of_maps(maps: dict[str, dict[str, Any]]) -> Found:
    for name, parameters in maps.items():
        for part, value in fitted(regressor(**parameters), *numbers()):
            yield f"{name}: {part}", value


@case
def learned_maps() -> Found:
    yield from _of_maps(
        {name: {"features": name} for name in ("fourier", "binning", "hybrid")}
    )
    yield from _of_maps({"full metric": {"features": "fourier", "metric": "full"}})


@case
def given_kernels() -> Found:
    kernel = 2.0 * kernels.Gaussian([1.0, 2.0, 0.5, 1.0]) + kernels.Laplacian(
        2.0
    ) * kernels.Matern(nu=2.5)
    yield from _of_maps(
        {"sum": {"kernel": kernel, "n_components": 200, "alpha": [0.01, 0.1, 1.0]}}
    )
    yield from _of_maps(
        {"loo": {"kernel": kernels.Gaussian(), "n_components": 100, "alpha": "loo"}}
    )
    yield from _of_maps(
        {"gcv": {"kernel": kernels.Gaussian(), "n_components": 100, "alpha": "gcv"}}
    )


@case
def given_maps() -> Found:
    bins, waves = (
        bochner.BinningFeatures(kernels.Laplacian(), 50),
        bochner.FourierFeatures(kernels.Gaussian(), 100),
    )
    maps = {
        "waves": waves,
        "bins": bins,
        "landmarks": bochner.NystroemFeatures(kernels.Gaussian(), 80),
        "anchors": bochner.AnchorFeatures(60),
        "linear": bochner.LinearFeatures(),
        "both": bochner.ConcatenatedFeatures([waves, bins]),
    }
    yield from _of_maps({name: {"features": one} for name, one in maps.items()})


@case
def transformers() -> Found:
    from sklearn.kernel_approximation import RBFSampler

    yield from _of_maps(
        {"sampler": {"features": RBFSampler(n_components=100, random_state=0)}}
    )
    X, y = numbers()
    for name in ("FourierFeatures", "BinningFeatures"):
        yield name, getattr(bochner, name)(random_state=0).fit_transform(X[:30])
    yield "metric", str(bochner.learn_metric(X, y, random_state=0))


@case
def exact_solver() -> Found:
    yield from _of_maps({"exact": {"kernel": "gaussian", "solver": "exact"}})


@case
def solvers() -> Found:
    yield from _of_maps(
        {
            name: {
                "kernel": kernels.Gaussian(),
                "n_components": 150,
                "alpha": 0.1,
                "solver": name,
            }
            for name in ("direct", "cg")
        }
    )


# Uncertainty


@case
def uncertainty() -> Found:
    X, y = numbers()
    for name in ("auto", "fourier", "binning"):
        model = regressor(features=name, uncertainty=True).fit(X, y)
        yield (
            f"{name}: predictions and deviations",
            np.stack(model.predict(X[:100], return_std=True)),
        )
        yield f"{name}: intervals", model.predict_interval(X[:100], 0.9)
        yield f"{name}: quantiles", model.predict_quantile(X[:100], [0.1, 0.7])
        yield f"{name}: samples", model.sample_y(X[:10], 3, random_state=0)


# Fits in parts


@case
def parts_that_merge() -> Found:
    X, y = numbers(900)
    first = regressor("gaussian", n_components=100).prepare(X[:300], y[:300])
    with tempfile.TemporaryDirectory() as name:
        bochner.save(first, Path(name) / "first.safetensors")
        copies = [bochner.load(Path(name) / "first.safetensors") for _ in range(2)]
    halves = [
        one.partial_fit(X[rows], y[rows])
        for one, rows in zip(copies, (slice(450), slice(450, 900)), strict=True)
    ]
    yield "merged", bochner.merge(halves).predict(X[:100])
    yield (
        "rows after rows",
        regressor("gaussian")
        .partial_fit(X[:200], y[:200])
        .partial_fit(X[200:], y[200:])
        .predict(X[:100]),
    )
    model = classifier("gaussian", n_components=100).partial_fit(
        X[:400], y[:400] > 0, classes=[False, True]
    )
    yield from predicted(model.partial_fit(X[400:], y[400:] > 0), X[:100])


@case
def fitted_again() -> Found:
    X, y = numbers(800)
    model = regressor(uncertainty=True).fit(X[:400], y[:400]).refit(X, y)
    yield from predicted(model, X[:100])
    yield "intervals", model.predict_interval(X[:100])
    yield "resized", model.resized(2).refit(X, y).predict(X[:100])
    yield (
        "classes",
        classifier().fit(X[:400], y[:400] > 0).refit(X, y > 0).predict_proba(X[:100]),
    )


@case
def model_files() -> Found:
    X, y = mixed()
    with tempfile.TemporaryDirectory() as name:
        for model in (
            regressor("laplacian", uncertainty=True).fit(X, y),
            classifier().fit(X, y > 1),
        ):
            bochner.save(model, Path(name) / "model.safetensors")
            again = bochner.load(Path(name) / "model.safetensors")
            yield (
                f"{type(model).__name__} is the same",
                bool(np.array_equal(again.predict(X), model.predict(X))),
            )


# Few targets and none


@case
def few_targets() -> Found:
    X, y = numbers(600)
    known = np.arange(600) % 20 == 0
    model = bochner.SemiSupervisedRegressor(random_state=0).fit(
        X, np.where(known, y, np.nan)
    )
    yield "numbers", model.predict(X[:100])
    model = bochner.SemiSupervisedClassifier(random_state=0).fit(
        X, np.where(known, (y > 0).astype(int), -1)
    )
    yield "classes", model.predict_proba(X[:100])


@case
def components() -> Found:
    X, y = numbers()
    model = bochner.KernelPCA(3, fit_inverse_transform=True, random_state=0).fit(X)
    places = model.transform(X)
    yield "places", np.abs(places[:100])
    yield "rows again", model.inverse_transform(places[:50])
    yield (
        "in parts",
        np.abs(
            bochner.KernelPCA(2, random_state=0)
            .partial_fit(X[:300])
            .partial_fit(X[300:])
            .transform(X[:50])
        ),
    )
    pair = bochner.KernelCCA(2, random_state=0).fit(
        X[:, :2], np.stack([y, X[:, 3]], axis=1)
    )
    yield "correlations", pair.correlations_of(X[:, :2], np.stack([y, X[:, 3]], axis=1))


@case
def clusters() -> Found:
    X, _ = numbers(500, 3)
    X += 4 * np.arange(3)[np.arange(500) % 3, np.newaxis]
    for name in ("SpectralClustering", "KernelKMeans"):
        model = getattr(bochner, name)(3, random_state=0).fit(X)
        yield f"{name}: rows", model.labels_
        yield f"{name}: new rows", model.predict(X[:50] + 0.1)


@case
def novelty() -> Found:
    X, _ = numbers(500)
    model = bochner.NoveltyDetector(random_state=0).fit(X)
    yield "scores", model.score_samples(np.vstack([X[:50], 3 * X[:50]]))
    yield "verdicts", model.predict(np.vstack([X[:50], 3 * X[:50]]))


# The command


def _tables(folder: Path) -> dict[str, tuple[str, list[str]]]:
    """Write ten files; names of their targets and options of the fit."""
    import pyarrow
    from pyarrow import feather
    from sklearn.datasets import dump_svmlight_file

    X, y = mixed(300)
    table = X.assign(
        price=100 + 10 * y, dear=np.where(y > 1, "yes", "no"), rooms=np.arange(300) % 4
    )
    table.drop(columns="dear").to_csv(folder / "mixed.csv", index=False)
    table.to_csv(folder / "classes.csv.gz", index=False)
    table.to_csv(folder / "tabs.tsv", sep="\t", index=False)
    table.drop(columns="day").to_csv(
        folder / "commas.csv", sep=";", decimal=",", index=False
    )
    table.to_parquet(folder / "rows.parquet")
    feather.write_feather(pyarrow.Table.from_pandas(table), folder / "rows.arrow")
    dump_svmlight_file(*numbers(300), str(folder / "rows.svm"), zero_based=False)
    (folder / "parts").mkdir()
    for part in range(3):
        table[100 * part : 100 * (part + 1)].to_parquet(
            folder / "parts" / f"{part}.parquet"
        )
    table.assign(day=table["day"].dt.strftime("%d.%m.%Y")).to_csv(
        folder / "days.csv", index=False
    )
    gaps = table.assign(price=table["price"].where(table["rooms"] > 0))
    gaps.to_csv(folder / "gaps.csv", index=False)
    fast = ["--kernel", "gaussian", "--n-components", "64"]
    return {
        "mixed.csv": ("price", ["--uncertainty"]),
        "classes.csv.gz": ("dear", []),
        "tabs.tsv": ("price", fast),
        "commas.csv": ("price", fast),
        "rows.parquet": ("rooms", ["--task", "classification", *fast]),
        "rows.arrow": ("price", ["--features", "binning", "--n-components", "20"]),
        "rows.svm": ("target", fast),
        "parts": ("price", ["--sample", "100", *fast]),
        "days.csv": ("dear", ["--exclude", "price", *fast]),
        "gaps.csv": ("price", fast),
    }


@case
def command() -> Found:
    from typer.testing import CliRunner

    from bochner.cli.app import app

    def said(*arguments: str) -> Any:
        result = CliRunner().invoke(app, arguments)
        if "--json" in arguments and result.exit_code == 0:
            return without_cost_keys(
                json.loads(result.stdout.replace(str(folder), "FOLDER"))
            )
        return "\n".join(
            [f"exit code {result.exit_code}", *without_costs(result.output, folder)]
        )

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = str(folder / "model.safetensors")
        for file, (target, options) in _tables(folder).items():
            path = str(folder / file)
            yield (
                f"fit {file}",
                said("fit", path, "--target", target, "--out", model, *options),
            )
            yield (
                f"fit {file} --json",
                said("fit", path, "--target", target, "--json", *options),
            )
            yield (
                f"predict {file}",
                said("predict", model, path, "--out", str(folder / "out.csv")),
            )
            out = pd.read_csv(folder / "out.csv")
            yield f"predicted {file}", out[out.columns[0]].to_numpy()
            yield f"evaluate {file}", said("evaluate", model, path)
            (folder / "out.csv").unlink()
        path = str(folder / "gaps.csv")
        yield (
            "explain",
            said(
                "explain",
                model,
                path,
                "--out",
                str(folder / "values.csv"),
                "--rows",
                "20",
            ),
        )
        yield "inspect", said("inspect", model)
        yield "plan", said("plan", path, "--target", "price")
        yield "evaluate --json", said("evaluate", model, path, "--json")
        yield "no such column", said("fit", path, "--target", "cost")
        yield "no such file", said("fit", str(folder / "none.csv"), "--target", "price")
        yield (
            "no such kernel",
            said("fit", path, "--target", "price", "--kernel", "round"),
        )


# Error messages


@case
def messages() -> Found:
    X, y = numbers(80)
    table, target = mixed(80)
    gap = X.copy()
    gap[3, 1] = np.nan
    fast = regressor("gaussian", n_components=20, alpha=0.1).fit(X, y)
    works: dict[str, Callable[[], Any]] = {
        "missing value": lambda: regressor().fit(gap, y),
        "infinite value": lambda: regressor().fit(
            np.where(np.isnan(gap), np.inf, gap), y
        ),
        "missing target": lambda: regressor().fit(X, gap[:, 1]),
        "text as target": lambda: regressor().fit(table, table["kind"]),
        "unequal lengths": lambda: regressor().fit(X, y[:-1]),
        "no rows": lambda: regressor().fit(X[:0], y[:0]),
        "one class": lambda: classifier().fit(X, np.ones(80)),
        "numbers as classes": lambda: classifier().fit(X, y),
        "negative weight": lambda: regressor().fit(X, y, -np.ones(80)),
        "unknown kernel": lambda: regressor("round").fit(X, y),
        "unknown features": lambda: regressor(features="round").fit(X, y),
        "bins of a Gaussian": lambda: regressor("gaussian", features="binning").fit(
            X, y
        ),
        "direct solver of bins": lambda: regressor(
            features="binning", solver="direct"
        ).fit(X, y),
        "negative penalty": lambda: regressor(alpha=-1).fit(X, y),
        "no components": lambda: regressor(n_components=0).fit(X, y),
        "negative counts": lambda: regressor(loss="poisson").fit(X, y),
        "not fitted": lambda: regressor().predict(X),
        "other columns": lambda: fast.predict(X[:, :2]),
        "no deviations": lambda: fast.predict(X, return_std=True),
        "no intervals": lambda: fast.predict_interval(X),
        "coverage": lambda: (
            regressor(uncertainty=True).fit(X, y).predict_interval(X, 2)
        ),
        "merge of others": lambda: bochner.merge([fast, fast]),
        "partial fit of bins": lambda: regressor(features="binning").partial_fit(X, y),
        "column that is gone": lambda: (
            regressor("gaussian").fit(table, target).predict(table.drop(columns="kind"))
        ),
        "effects of no column": lambda: fast.effects(X, "size"),
        "no such file": lambda: bochner.open_source("/none.parquet"),
        "no such model": lambda: bochner.load("/none.safetensors"),
    }
    for name, work in works.items():
        try:
            yield name, f"no error: {type(work()).__name__}"
        except Exception as error:
            yield name, f"{type(error).__name__}: {error}"


# The script


def differences(
    before: dict[str, Any], after: dict[str, Any], path: str = ""
) -> Iterator[str]:
    """Lines that tell what differs."""
    for name in [*before, *(name for name in after if name not in before)]:
        old, new, place = before.get(name), after.get(name), f"{path}{name}"
        if old == new:
            continue
        if (
            isinstance(old, dict)
            and isinstance(new, dict)
            and not {"sha"} <= {*old, *new}
        ):
            yield from differences(old, new, f"{place}: ")
        elif (
            isinstance(old, dict)
            and isinstance(new, dict)
            and {"norm"} <= {*old} & {*new}
        ):
            yield f"{place}: {size_of_difference(old, new)}"
        else:
            yield f"{place}:\n  - {old}\n  + {new}"


def size_of_difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The largest difference of the first values, and both norms."""
    if old["shape"] != new["shape"]:
        return f"shape {old['shape']} -> {new['shape']}"
    first, second = (np.array(one["head"], float) for one in (old, new))
    largest = np.abs(first).max(initial=1e-300)
    changed = np.abs(first - second).max(initial=0.0) / largest
    return (
        f"first values differ by {changed:.1e} of the largest; norm {old['norm']} "
        f"-> {new['norm']}"
    )


def main() -> int:
    """Run the cases into a file, or compare two files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument(
        "--compare", action="store_true", help="print what differs between two files"
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(CASES), default=list(CASES), metavar="NAME"
    )
    options = parser.parse_intermixed_args()
    if options.compare:
        old, new = (json.loads(Path(name).read_text()) for name in options.files)
        lines = list(differences(old, new))
        print(*(lines or ["no differences"]), sep="\n")
        return int(bool(lines))
    found = {}
    for name in options.only:
        start = time.perf_counter()
        found[name] = measured(CASES[name])
        ended = [found[name][key] for key in ("gone", "error") if key in found[name]]
        print(f"{name}: {time.perf_counter() - start:.1f} s", *ended, flush=True)
    Path(options.files[0]).write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
