"""The command: what it prints, its exit codes, its files, and one line for every
error that can be expected.
"""

import gzip
import html
import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import typer
from pyarrow import csv, parquet
from sklearn import datasets, metrics
from sklearn.calibration import calibration_curve

from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    LinearFeatures,
    __version__,
    load,
    save,
)
from bochner.cli import main
from bochner.cli.app import app
from bochner.cli.failures import guarded
from bochner.cli.target import (
    Target,
    TargetSummary,
    learned_task,
    read_target,
    stratified_split,
)
from bochner.features import binning
from bochner.kernels import Gaussian, Hat, Laplacian
from bochner.persistence import describe
from bochner.scores import summaries as scores
from machines import GAUSSIAN, N, houses, of_houses
from whole_tables import read_table

FAST = ("--kernel", "gaussian", "--n-components", "64", "--alpha", "0.1")
BINS = ("--features", "binning", "--n-components", "16", "--alpha", "0.1")
COMMAND = (sys.executable, "-c", "from bochner.cli import main; main()")


TABLE = houses()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory with houses.csv in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BOCHNER_DEBUG", raising=False)
    csv.write_csv(TABLE, "houses.csv")
    return tmp_path


def write(name, text):
    with open(name, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    return name


def read(name):
    with open(name, "rb") as file:
        return file.read()


def fit_model(done, target, *more, out="model.safetensors"):
    return done("fit", "houses.csv", "--target", target, "--out", out, *FAST, *more)


@pytest.fixture
def model_of(folder, request):
    """Put the model of a column into a file of the folder, as if a program had saved
    it with its target.
    """

    def put(target, path="model.safetensors"):
        name = "price_regressor" if target == "price" else f"{target}_classifier"
        model = request.getfixturevalue(name).model
        save(model, path, metadata={"target": target})

    return put


COMMANDS = (
    "demo",
    "warmup",
    "fit",
    "predict",
    "evaluate",
    "explain",
    "report",
    "inspect",
)


def test_the_package_is_the_command(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bochner", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("bochner", run_name="__main__")
    assert (end.value.code, capsys.readouterr().out) == (0, f"bochner {__version__}\n")


def test_version_and_help(run):
    assert run("--version") == (0, f"bochner {__version__}\n", "")
    for args in ((), ("--help",)):
        code, out, err = run(*args)
        assert (code, err) == (0, "")
        assert all(name in out for name in COMMANDS)
        assert "bochner fit houses.csv --target price" in out
    for name in COMMANDS:
        assert run(name, "--help")[0] == 0


@pytest.mark.parametrize("args", [["--help"], ["fit", "--help"]], ids=" ".join)
def test_help_loads_nothing_heavy(args):
    code = (
        "import atexit, sys; from bochner.cli import main; "
        "atexit.register(lambda: print([*sys.modules])); main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    loaded = done.stdout.splitlines()[-1]
    assert "'typer'" in loaded
    assert not any(
        f"'{name}'" in loaded
        for name in ("numpy", "scipy", "sklearn", "numba", "pyarrow")
    )


@pytest.mark.parametrize(
    "args",
    [
        ["fly"],
        ["fit"],
        ["fit", "houses.csv"],
        ["fit", "houses.csv", "--target", "x", "--task", "ranking"],
        ["fit", "houses.csv", "--target", "x", "--kernel", "triangle"],
        ["fit", "houses.csv", "--target", "x", "--features", "wavelets"],
        ["fit", "houses.csv", "--target", "x", "--solver", "qr"],
        ["fit", "houses.csv", "--target", "x", "--n-components", "0"],
        ["fit", "houses.csv", "--target", "x", "--n-components", "many"],
        ["fit", "houses.csv", "--target", "x", "--alpha", "-1"],
        ["fit", "houses.csv", "--target", "x", "--alpha", "nan"],
        ["fit", "houses.csv", "--target", "x", "--alpha", "little"],
        ["fit", "houses.csv", "--target", "x", "--test-size", "1"],
        ["fit", "houses.csv", "--target", "x", "--seed", "-1"],
        ["fit", "houses.csv", "--target", "x", "--out", "model.csv"],
        ["predict", "model.safetensors", "houses.csv"],
        ["predict", "model.safetensors", "houses.csv", "--out", "out.xlsx"],
        [
            "predict",
            "model.safetensors",
            "houses.csv",
            "--out",
            "p.csv",
            "--interval",
            "90",
        ],
        ["evaluate", "model.safetensors", "houses.csv", "--interval", "0"],
        ["report", "model.safetensors", "houses.csv"],
        ["report", "model.safetensors", "houses.csv", "--out", "report.csv"],
    ],
)
def test_wrong_usage(folder, refused, args):
    assert refused(*args, code=2)


@pytest.mark.parametrize(
    ("args", "matches"),
    [
        (
            ["--features", "binning", "--solver", "direct"],
            ["'--solver'", "--solver auto or --solver cg"],
        ),
        (
            ["--features", "binning", "--alpha", "loo"],
            ["'--alpha'", "--features fourier"],
        ),
        (
            ["--features", "binning", "--kernel", "gaussian"],
            ["'--kernel'", "laplacian, hat"],
        ),
        (["--solver", "cg", "--alpha", "gcv"], ["'--alpha'", "--solver direct"]),
        (
            ["--features", "binning", "--solver", "exact"],
            ["'--solver'", "--kernel laplacian"],
        ),
        (["--features", "hybrid", "--kernel", "hat"], ["'--kernel'", "--kernel auto"]),
        (
            ["--features", "hybrid", "--metric", "isotropic"],
            ["'--metric'", "auto, ard or full"],
        ),
    ],
)
def test_options_that_exclude_one_another(folder, refused, monkeypatch, args, matches):
    monkeypatch.setenv("COLUMNS", "200")
    for command in ("fit", "plan"):
        line = refused(command, "absent.csv", "--target", "x", *args, code=2)
        assert all(match in line for match in matches)


def test_regression_scores_are_those_of_sklearn(folder, done):
    report = fit_model(done, "price", "--seed", "3")
    assert report["task"] == "regression"
    assert report["rows_test"] == 24
    train, test = stratified_split(
        read_target(TABLE, "price", ""), "regression", 0.2, 3
    )
    assert sorted([*train, *test]) == list(range(N))
    X, y = TABLE.drop_columns(["price"]), TABLE["price"].to_numpy()
    model = KernelMachineRegressor(
        kernel="gaussian", n_components=64, alpha=0.1, random_state=3
    )
    predicted = model.fit(X.take(pa.array(train)), y[train]).predict(
        X.take(pa.array(test))
    )
    measured = report["scores"]
    assert measured["r2"]["value"] == pytest.approx(
        metrics.r2_score(y[test], predicted)
    )
    assert measured["rmse"]["value"] == pytest.approx(
        metrics.root_mean_squared_error(y[test], predicted)
    )
    mean = np.full(len(test), y[train].mean())
    assert measured["r2"]["baseline"] == pytest.approx(metrics.r2_score(y[test], mean))
    assert measured["rmse"]["baseline"] == pytest.approx(
        metrics.root_mean_squared_error(y[test], mean)
    )


def test_classification_scores_are_those_of_sklearn(folder, done):
    report = fit_model(done, "kind")
    assert report["task"] == "classification"
    target = read_target(TABLE, "kind", "")
    train, test = stratified_split(target, "classification", 0.2, 0)
    X, y = TABLE.drop_columns(["kind"]), target.values
    model = KernelMachineClassifier(
        kernel="gaussian", n_components=64, alpha=0.1, random_state=0
    )
    model.fit(X.take(pa.array(train)), y[train])
    proba = model.predict_proba(X.take(pa.array(test)))
    measured = report["scores"]
    assert measured["accuracy"]["value"] == pytest.approx(
        model.score(X.take(pa.array(test)), y[test])
    )
    assert measured["log_loss"]["value"] == pytest.approx(
        metrics.log_loss(y[test], proba)
    )
    classes, counts = np.unique(y[train], return_counts=True)
    assert measured["accuracy"]["baseline"] == pytest.approx(
        (y[test] == classes[counts.argmax()]).mean()
    )
    shares = np.tile(counts / counts.sum(), (len(test), 1))
    assert measured["log_loss"]["baseline"] == pytest.approx(
        metrics.log_loss(y[test], shares)
    )
    everywhere = np.unique(y, return_counts=True)[1] / N
    assert np.unique(y[test], return_counts=True)[1] / len(test) == pytest.approx(
        everywhere, abs=0.05
    )


@pytest.mark.slow
def test_standard_errors_are_those_of_repeated_samples():
    rng = np.random.default_rng(0)
    right = rng.random((2000, 60)) < 0.7
    runs = [
        scores.classification(
            r * 1, np.ones(60, int), np.full((60, 2), 0.5), np.array([0.3, 0.7])
        )
        for r in right
    ]
    found = np.array([run["accuracy"]["value"] for run in runs])
    assert np.mean(
        [run["accuracy"]["standard_error"] for run in runs]
    ) == pytest.approx(found.std(), rel=0.05)
    covered = [
        run["accuracy"]["interval"][0] <= 0.7 <= run["accuracy"]["interval"][1]
        for run in runs
    ]
    assert 0.93 < np.mean(covered) < 0.97
    y = rng.normal(size=(1000, 200))
    runs = [scores.regression(row, row + 0.5 * rng.normal(size=200), 0.0) for row in y]
    for key in ("r2", "rmse"):
        values = np.array([run[key]["value"] for run in runs])
        errors = np.mean([run[key]["standard_error"] for run in runs])
        assert errors == pytest.approx(values.std(), rel=0.1)


def scored_and_refitted(model, X, y, seed=0):
    """Fitted without the rows that the command holds out, then to all with what was
    chosen.
    """
    train, _ = stratified_split(
        Target("price", "number", y, np.arange(len(y)), 0), "regression", 0.2, seed
    )
    return model.fit(X.take(train), y[train]).refit(X, y)


def test_saved_model_is_fitted_on_all_rows_and_remembers_its_target(folder, done):
    report = fit_model(done, "price")
    assert report["rows_saved_model"] == N
    assert describe("model.safetensors")["metadata"]["target"] == "price"
    X, y = TABLE.drop_columns(["price"]), TABLE["price"].to_numpy()
    model = KernelMachineRegressor(
        kernel="gaussian", n_components=64, alpha=0.1, random_state=0
    )
    expected = scored_and_refitted(model, X, y).predict(X)
    np.testing.assert_allclose(
        load("model.safetensors").predict(X), expected, rtol=1e-9
    )


@pytest.mark.parametrize(
    "out", ["new prices.csv", "new.parquet", "new.csv.gz", "new.tsv"]
)
def test_predict_regression(folder, model_of, done, out):
    model_of("price")
    shuffled = TABLE.select(["sold", "kind", "z", "rooms", "x"]).append_column(
        "more", pa.array(range(N))
    )
    parquet.write_table(shuffled, "new data.parquet")
    report = done("predict", "model.safetensors", "new data.parquet", "--out", out)
    assert report["columns_ignored"] == ["more"]
    table = read_table(out)
    assert table.column_names == ["price_predicted"]
    model = load("model.safetensors")
    expected = model.predict(TABLE.drop_columns(["price"]))
    np.testing.assert_allclose(
        table["price_predicted"].to_numpy(), expected, rtol=1e-12
    )
    assert sorted(os.listdir()) == sorted(
        ["houses.csv", "model.safetensors", "new data.parquet", out]
    )


@pytest.mark.parametrize(
    ("target", "dtype"), [("kind", str), ("sold", bool), ("rooms", int)]
)
def test_predict_classes(folder, model_of, done, target, dtype):
    if target == "rooms":
        rooms = KernelMachineClassifier(**GAUSSIAN).fit(*of_houses("rooms"))
        save(rooms, "model.safetensors", metadata={"target": "rooms"})
    else:
        model_of(target)
    done("predict", "model.safetensors", "houses.csv", "--out", "p.parquet")
    table = read_table("p.parquet")
    model = load("model.safetensors")
    assert table.column_names == [
        f"{target}_predicted",
        *(f"{target}_probability_{label}" for label in model.classes_.tolist()),
    ]
    X = TABLE.drop_columns([target])
    assert table[0].to_pylist() == model.predict(X).tolist()
    assert all(type(label) is dtype for label in table[0].to_pylist())
    total = sum(column.to_numpy() for column in table.columns[1:])
    np.testing.assert_allclose(total, 1, rtol=1e-9)


def test_evaluate_agrees_with_fit_and_sklearn(folder, done):
    report = fit_model(done, "kind")
    parquet.write_table(houses(seed=1), "later.parquet")
    later = done("evaluate", "model.safetensors", "later.parquet")
    table = houses(seed=1)
    model = load("model.safetensors")
    accuracy = model.score(
        table.drop_columns(["kind"]), np.array(table["kind"].to_pylist())
    )
    assert later["scores"]["accuracy"]["value"] == pytest.approx(accuracy)
    assert set(later["scores"]) == set(report["scores"])
    fit_model(done, "price", out="price.safetensors")
    later = done("evaluate", "price.safetensors", "later.parquet")
    y = table["price"].to_numpy()
    baseline = metrics.r2_score(y, np.full(N, TABLE["price"].to_numpy().mean()))
    assert later["scores"]["r2"]["baseline"] == pytest.approx(baseline)


@pytest.fixture
def unsure(monkeypatch):
    """Intervals and deviations of constant width about the predictions, whatever the
    library has.
    """
    predict = KernelMachineRegressor.predict

    def with_std(self, X, return_std=False):
        mean = predict(self, X)
        return (mean, np.full(mean.shape, 0.5)) if return_std else mean

    def interval(self, X, coverage=0.9):
        if coverage > 0.99:
            raise ValueError("coverage=0.995 needs 199 rows.")
        mean = predict(self, X)
        return np.stack([mean - coverage, mean + coverage], axis=-1)

    monkeypatch.setattr(KernelMachineRegressor, "predict", with_std)
    monkeypatch.setattr(
        KernelMachineRegressor, "predict_interval", interval, raising=False
    )


@pytest.mark.slow
def test_intervals_and_deviations_are_written(folder, done, unsure):
    fit_model(done, "price", "--uncertainty")
    wanted = ("--interval", "0.5", "--std")
    report = done(
        "predict", "model.safetensors", "houses.csv", "--out", "p.parquet", *wanted
    )
    names = ["price_predicted", "price_std", "price_lower", "price_upper"]
    assert report["columns_written"] == names
    predicted, std, lower, upper = (
        column.to_numpy() for column in read_table("p.parquet").columns
    )
    np.testing.assert_allclose(upper - predicted, 0.5)
    np.testing.assert_allclose(predicted - lower, 0.5)
    np.testing.assert_array_equal(std, 0.5)
    done("predict", "model.safetensors", "houses.csv", "--out", "p.csv", "--std")
    assert read_table("p.csv").column_names == names[:2]
    rows = np.random.default_rng(0).normal(size=(50, 2))
    two = KernelMachineRegressor(
        kernel="gaussian", n_components=64, uncertainty=True
    ).fit(rows, rows)
    save(two, "two.safetensors")
    parquet.write_table(pa.table({"a": rows[:, 0], "b": rows[:, 1]}), "rows.parquet")
    done(
        "predict",
        "two.safetensors",
        "rows.parquet",
        "--out",
        "p.csv",
        "--interval",
        "0.9",
    )
    ends = [
        f"target_{what}_{k}" for k in (0, 1) for what in ("predicted", "lower", "upper")
    ]
    assert read_table("p.csv").column_names == ends


@pytest.mark.slow
def test_intervals_are_scored(folder, run, done, unsure):
    report = fit_model(done, "price", "--uncertainty")
    assert {"interval_coverage", "interval_width", "interval_score"} < set(
        report["scores"]
    )
    assert done("inspect", "model.safetensors")["scores"] == report["scores"]
    assert "intervals and standard deviations" in run("inspect", "model.safetensors")[1]
    parquet.write_table(houses(seed=1), "later.parquet")
    later = done("evaluate", "model.safetensors", "later.parquet")["scores"]
    y = houses(seed=1)["price"].to_numpy()
    errors = np.abs(
        y - load("model.safetensors").predict(houses(seed=1).drop_columns(["price"]))
    )
    assert later["interval_coverage"]["value"] == pytest.approx((errors <= 0.9).mean())
    assert later["interval_coverage"]["asked_for"] == 0.9
    assert later["interval_width"]["value"] == pytest.approx(1.8)
    assert later["interval_score"]["value"] == pytest.approx(
        (1.8 + 20 * np.maximum(errors - 0.9, 0)).mean()
    )
    narrow = done(
        "evaluate", "model.safetensors", "later.parquet", "--interval", "0.5"
    )["scores"]
    assert narrow["interval_width"]["value"] == pytest.approx(1.0)
    out = run("evaluate", "model.safetensors", "later.parquet", "--interval", "0.8")[1]
    assert "in intervals of 80 %" in out
    assert "Winkler score" in out
    assert "undefined" not in out


def test_scores_of_classes_are_those_of_sklearn(folder, run, done):
    for target in ("kind", "sold"):
        fit_model(done, target, "--test-size", "0")
        scored = done("evaluate", "model.safetensors", "houses.csv")["scores"]
        model, X = load("model.safetensors"), TABLE.drop_columns([target])
        y, proba = np.array(TABLE[target].to_pylist()), model.predict_proba(X)
        brier = metrics.brier_score_loss(y, proba if target == "kind" else proba[:, 1])
        assert scored["brier"]["value"] == pytest.approx(brier)
        happened = y == (model.predict(X) if target == "kind" else True)
        p = proba.max(axis=1) if target == "kind" else proba[:, 1]
        frequency, mean = calibration_curve(happened, p, n_bins=15, strategy="quantile")
        assert scored["calibration_error"]["value"] == pytest.approx(
            np.abs(frequency - mean).mean()
        )
        shares = np.tile(np.unique(y, return_counts=True)[1] / N, (N, 1))
        baseline = metrics.brier_score_loss(
            y, shares if target == "kind" else shares[:, 1]
        )
        assert scored["brier"]["baseline"] == pytest.approx(baseline)
        out = run("evaluate", "model.safetensors", "houses.csv")[1]
        assert all(
            name in out for name in ("log loss", "Brier score", "calibration error")
        )


def test_probabilities_are_left_out_on_demand(folder, model_of, done):
    model_of("kind")
    for option, count in (("--proba", 4), ("--no-proba", 1)):
        done("predict", "model.safetensors", "houses.csv", "--out", "p.csv", option)
        assert len(read_table("p.csv").column_names) == count


@pytest.mark.slow
def test_what_a_model_cannot_say(folder, run, done, refused, unsure):
    fit_model(done, "price")
    fit_model(done, "kind", out="kind.safetensors")
    predict = ("predict", "model.safetensors", "houses.csv", "--out", "p.csv")
    for option in (["--std"], ["--interval", "0.9"]):
        assert f"without uncertainty, which {option[0]} needs" in refused(
            *predict, *option
        )
        line = refused("predict", "kind.safetensors", *predict[2:], *option)
        assert f"predicts classes, and {option[0]} is for" in line
    assert "bochner fit --uncertainty" in refused(
        "evaluate", *predict[1:3], "--interval", "0.9"
    )
    assert "predicts numbers, and --proba is for classes" in refused(
        *predict, "--proba"
    )
    assert "--uncertainty is for regression" in refused(
        "fit", "houses.csv", "--target", "kind", "--uncertainty"
    )
    assert "--unbounded is for regression" in refused(
        "fit", "houses.csv", "--target", "kind", "--unbounded"
    )
    fit_model(done, "price", "--uncertainty", out="sure.safetensors")
    for command in (
        ("predict", "sure.safetensors", *predict[2:]),
        ("evaluate", "sure.safetensors", "houses.csv"),
    ):
        assert "199 rows" in refused(*command, "--interval", "0.995")
    assert "sure.safetensors" in refused(
        "predict", "sure.safetensors", *predict[2:], "--interval", "0.995"
    )


@pytest.mark.slow
def test_too_few_rows_for_intervals_are_a_note(folder, done, unsure, monkeypatch):
    def refuse(self, X, coverage=0.9):
        raise ValueError("coverage=0.9 needs 10 rows.")

    monkeypatch.setattr(KernelMachineRegressor, "predict_interval", refuse)
    report = fit_model(done, "price", "--uncertainty")
    assert report["notes"] == ["Intervals are not scored: coverage=0.9 needs 10 rows."]
    assert set(report["scores"]) == {"r2", "rmse"}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["price", "kind", "sold"])
def test_report_is_a_page(folder, done, run, target):
    scored = fit_model(done, target)["scores"]
    report = done("report", "model.safetensors", "houses.csv", "--out", "a b.html")
    page = read("a b.html").decode()
    assert report["bytes"] == len(page.encode())
    assert (report["rows"], report["target"]) == (N, target)
    task = "regression" if target == "price" else "classification"
    assert f"<title>Model report: {target} ({task}), model.safetensors, " in page
    assert "that &#39;bochner fit&#39; held out" in page
    assert "These scores are from a fit that did not use the held-out rows." in page
    assert (
        "bochner report model.safetensors houses.csv --out &#39;a b.html&#39;" in page
    )
    key = "r2" if target == "price" else "accuracy"
    assert f"{scored[key]['value']:.3f}" in page
    assert "bochner fit TRAINING_TABLE --target" in page
    assert "--seed 0 --kernel gaussian --n-components 64 --alpha 0.1" in page
    code, out, err = run(
        "report", "model.safetensors", "houses.csv", "--out", "a b.html"
    )
    assert (code, err) == (0, "")
    assert out.startswith("Wrote a b.html: ")


@pytest.mark.slow
def test_neighbours_are_of_the_table_of_the_fit(folder, model_of, done):
    """Of rows of the fit itself the first one is the row."""
    model_of("price")
    csv.write_csv(TABLE.slice(10, 40), "some.csv")
    asked = ("--out", "page.html", "--training", "houses.csv")
    done("report", "model.safetensors", "some.csv", *asked)
    page = read("page.html").decode()
    assert f"bochner report model.safetensors some.csv {' '.join(asked)}" in page
    rows = page.partition("and their neighbours<")[2].partition("</table>")[0]
    found = re.findall('<strong>([0-9]+)<.*?near: ([0-9]+)<.*?right">([0-9.]+)<', rows)
    assert len(found) == 10
    assert all(int(near) == int(own) + 10 for own, near, _ in found)
    assert {distance for *_, distance in found} == {"0.00"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [("--sample", "90", "--memory-limit", "4GB"), ("--uncertainty",)]
)
def test_printed_line_fits_the_same_model(folder, done, more):
    fit_model(
        done,
        "price",
        "--exclude",
        "kind",
        "--exclude",
        "sold",
        "--test-size",
        "0.4",
        "--seed",
        "3",
        *more,
    )
    done("report", "model.safetensors", "houses.csv", "--out", "page.html")
    page = html.unescape(read("page.html").decode())
    line = next(
        line for line in page.splitlines() if "bochner fit TRAINING_TABLE" in line
    )
    words = shlex.split(line[line.index("bochner fit ") :].split("<")[0])[2:]
    words[words.index("model.safetensors")] = "again.safetensors"
    done("fit", "houses.csv", *words[1:])
    one, two = (load(name) for name in ("model.safetensors", "again.safetensors"))
    assert list(one.feature_names_in_) == list(two.feature_names_in_)
    assert "kind" not in one.feature_names_in_
    np.testing.assert_array_equal(one.feature_weights_, two.feature_weights_)
    told = [
        describe(name)["metadata"]["scores"]
        for name in ("model.safetensors", "again.safetensors")
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize("target", ["price", "kind"])
def test_explain_writes_values_that_sum_to_the_prediction(
    folder, model_of, done, run, target
):
    model_of(target)
    report = done(
        "explain",
        "model.safetensors",
        "houses.csv",
        "--out",
        "values.parquet",
        "--rows",
        "9",
    )
    table = parquet.read_table("values.parquet").to_pandas()
    names = list(report["mean_absolute_values"])
    outputs = 1 if target == "price" else 3
    assert (report["rows"], report["rows_explained"], len(table)) == (N, 9, 9 * outputs)
    assert list(table.columns) == report["columns_written"]
    total = table[f"{target}_base"] + table[names].sum(axis=1)
    assert np.allclose(total, table[f"{target}_predicted"])
    rows = np.random.default_rng(0).choice(N, 9, replace=False)
    assert np.allclose(table["row"].unique(), np.sort(rows))
    code, out, err = run(
        "explain", "model.safetensors", "houses.csv", "--out", "values.csv"
    )
    assert (code, err) == (0, "")
    assert out.startswith("Wrote values.csv: Shapley values of ")


def test_a_report_where_the_score_held_out_is_undefined(folder, done):
    """The one row that is held out is of a class that no other row has."""
    rows = ["-0.8,0.23,0", "-1.32,0.57,0", "-0.25,-0.17,1", "0.43,0.3,1", "0.11,0.7,2"]
    write("few.csv", "\n".join(["a,b,y", *rows, ""]))
    options = ("--target", "y", "--task", "classification", "--seed", "5")
    scored = done("fit", "few.csv", *options, "--out", "m")["scores"]
    assert scored["log_loss"]["value"] is None
    write("more.csv", "\n".join(["a,b,y", *rows * 8, ""]))
    done("report", "m", "more.csv", "--out", "r.html")
    assert b"it is not better than" not in read("r.html")


def test_report_names_what_is_at_fault(model_of, refused):
    model_of("kind")
    csv.write_csv(TABLE.slice(0, 10), "few.csv")
    assert refused(
        "report", "model.safetensors", "few.csv", "--out", "r.html"
    ).startswith("error: few.csv: ")
    csv.write_csv(TABLE.drop_columns(["kind"]), "without.csv")
    assert "no column 'kind'" in refused(
        "report", "model.safetensors", "without.csv", "--out", "r.html"
    )
    assert not os.path.exists("r.html")


def test_evaluate_unknown_classes_and_missing_targets(model_of, done, refused):
    model_of("kind")
    kinds = TABLE["kind"].to_pylist()
    kinds[:3] = ["oval", None, None]
    with_oval = TABLE.drop_columns(["kind"]).append_column("kind", pa.array(kinds))
    csv.write_csv(with_oval, "oval.csv")
    report = done("evaluate", "model.safetensors", "oval.csv")
    assert (report["rows_without_target"], report["rows_test"]) == (2, N - 2)
    assert "1 row has a class that is not in the training rows" in report["notes"][0]
    parquet.write_table(
        TABLE.drop_columns(["kind"]).append_column("kind", pa.array(["oval"] * N)),
        "all.parquet",
    )
    assert "none of the classes 'long, thin'" in refused(
        "evaluate", "model.safetensors", "all.parquet"
    )
    parquet.write_table(TABLE.drop_columns(["kind"]), "without.parquet")
    assert "no column 'kind'" in refused(
        "evaluate", "model.safetensors", "without.parquet"
    )


def test_inspect(model_of, run, done):
    model_of("kind")
    report = done("inspect", "model.safetensors")
    assert report["columns"] == {
        "x": "number",
        "z": "number",
        "rooms": "number",
        "sold": "number",
        "price": "number",
    }
    assert report["classes"] == ["long, thin", "round", "square"]
    assert report["target"] == "kind"
    assert report["model"]["kernel"] == "Gaussian"
    assert report["model"]["alpha"] == 0.1
    assert report["model"]["n_components"] == 64
    assert report["file_bytes"] == os.path.getsize("model.safetensors")
    code, out, err = run("inspect", "model.safetensors")
    assert (code, err) == (0, "")
    assert "3: 'long, thin', 'round', 'square'" in out


def test_binning(folder, run, done):
    report = done(
        "fit",
        "houses.csv",
        "--target",
        "price",
        "--out",
        "m",
        *BINS,
        "--kernel",
        "hat",
        "--seed",
        "3",
    )
    X, y = TABLE.drop_columns(["price"]), TABLE["price"].to_numpy()
    model = KernelMachineRegressor(
        "hat", "binning", n_components=16, alpha=0.1, random_state=3
    )
    model = scored_and_refitted(model, X, y, seed=3)
    np.testing.assert_allclose(load("m").predict(X), model.predict(X), rtol=1e-9)
    facts = done("inspect", "m")["model"]
    assert facts.keys() == report["model"].keys()
    assert (facts["kernel"], facts["n_components"], facts["solver"]) == (
        "Hat",
        16,
        "cg",
    )
    assert (facts["n_iter"], facts["residual"]) == (model.n_iter_, model.residual_)
    assert facts["solver_reason"] == model.solver_reason_
    (part,) = facts["maps"]
    assert part["n_features"] == facts["n_features"] == len(model.feature_weights_)
    assert part["rows_per_bin"] == pytest.approx(N * 16 / len(model.feature_weights_))
    assert (part["alone"], part["n_buckets"], part["weight"]) == (
        model.features_.singleton_share_,
        None,
        1.0,
    )
    code, out, err = run("inspect", "m")
    assert (code, err) == (0, "")
    assert (
        f"16 grids, {len(model.feature_weights_):,} occupied bins; "
        f"{part['rows_per_bin']:.3g} rows per bin, " in out
    )
    assert (
        f"conjugate gradients, {model.n_iter_} iterations (the features are sparse)"
        in out
    )


@pytest.mark.parametrize("target", ["price", "sold"])
def test_binning_chooses_what_is_left_open(folder, run, done, target):
    code, out, err = run(
        "fit", "houses.csv", "--target", target, "--features", "binning", "--out", "m"
    )
    assert (code, err) == (0, "")
    assert "Laplacian kernel, lengthscale" in out
    assert "200 grids" in out
    done("predict", "m", "houses.csv", "--out", "p.csv")
    assert done("evaluate", "m", "houses.csv")["rows_test"] == N


@pytest.mark.slow
def test_solver(folder, run, done):
    fit = ("fit", "houses.csv", "--target", "price", *FAST)
    found = [done(*fit, "--solver", solver) for solver in ("auto", "direct", "cg")]
    assert [report["model"]["solver"] for report in found] == ["direct", "direct", "cg"]
    assert [report["model"]["n_iter"] is None for report in found] == [
        True,
        True,
        False,
    ]
    assert found[2]["model"]["solver_reason"] == "as requested"
    assert found[0]["scores"] == found[1]["scores"]
    assert found[2]["scores"]["r2"]["value"] == pytest.approx(
        found[0]["scores"]["r2"]["value"], abs=0.02
    )
    done(*fit, "--out", "m")
    assert "direct, by the Gram matrix" in run("inspect", "m")[1]
    done(*fit, "--solver", "exact", "--out", "m")
    out = run("inspect", "m")[1]
    assert "exact kernel matrix" in out
    assert " rows; ridge penalty" in out


def test_warnings_are_single_lines(folder, run, done, policy, monkeypatch):
    monkeypatch.setattr(binning, "MANY_ALONE", -1.0)
    code, out, err = run(
        "fit",
        "houses.csv",
        "--target",
        "price",
        "--out",
        "m",
        *BINS,
        "--test-size",
        "0.1",
        "--json",
    )
    assert code == 0
    assert json.loads(out)["out"] == "m"
    assert err.startswith("warning: ")
    assert "of the rows are alone in their bins" in err
    assert err.count("\n") == 1
    assert ".py" not in err
    assert run("inspect", "m")[2] == ""
    policy(most_iterations=1)
    err = run(
        "fit",
        "houses.csv",
        "--target",
        "price",
        *FAST,
        "--solver",
        "cg",
        "--alpha",
        "1e-6",
    )[2]
    assert err.startswith("warning: Conjugate gradients stopped after 1 iterations")
    assert err.count("\n") == 1


def test_a_folder_is_no_name_of_a_model(folder, refused):
    for out in ("here/", "here/there/"):
        error = refused(
            "fit", "houses.csv", "--target", "price", "--out", out, *FAST, code=2
        )
        assert "names a folder: add" in error


@pytest.mark.skipif(find_spec("torch") is not None, reason="PyTorch is there")
def test_a_device_without_its_library_is_one_line(folder, refused):
    error = refused(
        "fit",
        "houses.csv",
        "--target",
        "price",
        "--out",
        "m",
        *FAST,
        "--device",
        "cuda",
    )
    assert "python -m pip install torch" in error


@pytest.mark.parametrize(
    "error", [ImportError("no torch"), NotImplementedError("no torch")]
)
def test_errors_of_what_is_not_there_are_one_line(error, capsys):
    with pytest.raises(typer.Exit) as caught, guarded(False):
        raise error
    assert (caught.value.exit_code, capsys.readouterr().err) == (1, "error: no torch\n")


def test_warnings_of_other_libraries_stay_silent(folder, done, monkeypatch):
    fit = KernelMachineRegressor.fit

    def warned(*args):
        warnings.warn("not for users of bochner", UserWarning, stacklevel=1)
        return fit(*args)

    monkeypatch.setattr(KernelMachineRegressor, "fit", warned)
    done("fit", "houses.csv", "--target", "price", *FAST)


BIN_MAPS = [
    (LinearFeatures(), ["linear kernel; "]),
    (BinningFeatures(Laplacian(8.0), 10, n_buckets=64), ["10 grids of 64 buckets"]),
    (
        BinningFeatures(Laplacian(8.0) + Hat(9.0) * Laplacian(5.0), 10),
        ["Laplacian and Hat kernel", "lengthscales 5 to 9"],
    ),
    (
        ConcatenatedFeatures(
            [
                FourierFeatures(Gaussian(3.0), 32),
                BinningFeatures(Hat([9.0, 5, 5, 5, 5, 5, 5]), 10),
                LinearFeatures(),
            ]
        ),
        [
            "sum of 3 kernels",
            "map 1",
            "32 features",
            "map 2",
            "lengthscales 5 to 9, median 5; 10 grids",
            "map 3",
        ],
    ),
    (
        ConcatenatedFeatures(
            [LinearFeatures(), FourierFeatures(Gaussian(3.0), 32)], weights=[0.25, 4]
        ),
        ["weight 0.25: l"],
    ),
]


@pytest.mark.parametrize(
    ("features", "lines"), BIN_MAPS, ids=lambda item: type(item).__name__
)
@pytest.mark.parametrize("target", ["price", "sold"])
def test_models_with_maps_of_a_program(folder, run, done, features, lines, target):
    cls = KernelMachineClassifier if target == "sold" else KernelMachineRegressor
    X = TABLE.select(["x", "z", "kind", "rooms"])
    model = cls(features=features, random_state=0).fit(
        X, TABLE[target].to_numpy(zero_copy_only=False)
    )
    save(model, "own.safetensors")
    done("predict", "own.safetensors", "houses.csv", "--out", "p.parquet")
    assert read_table("p.parquet")[0].to_pylist() == model.predict(X).tolist()
    report = done("evaluate", "own.safetensors", "houses.csv", "--target", target)
    assert all(score["value"] > 0 for score in report["scores"].values())
    facts = done("inspect", "own.safetensors")["model"]
    parts = getattr(features, "maps", [features])
    assert [part["map"] for part in facts["maps"]] == [
        type(part).__name__ for part in parts
    ]
    assert (
        facts["n_features"]
        == sum(part["n_features"] for part in facts["maps"])
        == len(model.feature_weights_)
    )
    assert [part["weight"] for part in facts["maps"]] == list(
        getattr(model.features_, "weights_", [1.0])
    )
    assert facts["kernel"] == (facts["maps"][0]["kernel"] if len(parts) == 1 else None)
    code, out, err = run("inspect", "own.safetensors")
    assert (code, err) == (0, "")
    assert all(line in out for line in lines)


def test_fit_that_fails_numerically(folder, refused, monkeypatch):
    monkeypatch.setattr(
        KernelMachineRegressor, "predict", lambda self, X: np.full(X.num_rows, np.nan)
    )
    assert "larger --alpha" in refused("fit", "houses.csv", "--target", "price", *FAST)


def test_models_saved_by_a_program(folder, price_regressor, run, done, refused):
    save(price_regressor.model, "own.safetensors")
    done("predict", "own.safetensors", "houses.csv", "--out", "p.csv")
    assert read_table("p.csv").column_names == ["target_predicted"]
    assert "--target" in refused("evaluate", "own.safetensors", "houses.csv")
    assert "'x' is an input of the model" in refused(
        "evaluate", "own.safetensors", "houses.csv", "--target", "x"
    )
    assert (
        done("evaluate", "own.safetensors", "houses.csv", "--target", "price")[
            "scores"
        ]["r2"]["value"]
        > 0.5
    )
    assert "not named" in run("inspect", "own.safetensors")[1]
    rows = np.random.default_rng(0).normal(size=(50, 2))
    save(
        KernelMachineRegressor(kernel="gaussian", n_components=64).fit(rows, rows),
        "nameless.safetensors",
    )
    assert "columns without names" in refused(
        "predict", "nameless.safetensors", "houses.csv", "--out", "q.csv"
    )
    parquet.write_table(pa.table({"a": rows[:, 0], "b": rows[:, 1]}), "rows.parquet")
    done("predict", "nameless.safetensors", "rows.parquet", "--out", "q.csv")
    assert read_table("q.csv").column_names == [
        "target_predicted_0",
        "target_predicted_1",
    ]
    assert done("inspect", "nameless.safetensors")["columns"] == {
        "x0": "number",
        "x1": "number",
    }
    save(FourierFeatures(random_state=0).fit(rows), "map.safetensors")
    line = refused("inspect", "map.safetensors")
    assert "holds a FourierFeatures" in line
    assert "give a KernelMachineRegressor or a KernelMachineClassifier" in line


def test_a_column_of_the_model_is_no_index_of_rows(folder, done):
    """Which a column of this name is where a model does not know it."""
    X = TABLE.select(["x"]).add_column(0, "Unnamed: 0", pa.array(range(N)))
    y = TABLE["price"].to_numpy()
    with pytest.warns(UserWarning, match="'Unnamed: 0' seems to number the rows"):
        model = KernelMachineRegressor(**GAUSSIAN).fit(X, y)
    save(model, "model.safetensors", metadata={"target": "price"})
    csv.write_csv(X.append_column("price", TABLE["price"]), "counted.csv")
    scored = done("evaluate", "model.safetensors", "counted.csv")["scores"]
    assert scored["r2"]["value"] == pytest.approx(model.score(X, y))
    done("predict", "model.safetensors", "counted.csv", "--out", "p.parquet")
    np.testing.assert_allclose(
        read_table("p.parquet")["price_predicted"].to_numpy(), model.predict(X)
    )


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"] * 30, "classification"),
        ([True, False] * 30, "classification"),
        (pa.array(["a", "b"] * 30).dictionary_encode(), "classification"),
        (pa.array([3, 1000] * 30).dictionary_encode(), "classification"),
        ([0.5, 1.0, 2.0] * 20, "regression"),
        (pa.array([1, 2] * 30, pa.decimal128(5, 2)), "classification"),
        ([-1, 1] * 30, "classification"),
        ([1.0, 2.0, 3.0] * 20, "classification"),
        ([1.0, 2.0, 3.0, None, float("nan")] * 12, "classification"),
        (list(range(10)) * 6, "regression"),
        (list(range(10)) * 12, "classification"),
        (list(range(21)) * 20, "regression"),
        ([100, 200, 300] * 30, "regression"),
        (pa.array([2**63 + 1, 2**63, 5] * 20, pa.uint64()), "regression"),
        ([10**18 + k for k in range(60)], "regression"),
        ([1e20 + 1e6 * k for k in range(60)], "regression"),
    ],
)
def test_task_follows_from_the_target(values, task):
    read = read_target(pa.table({"y": values}), "y", "t.csv")
    learned, reason = learned_task(TargetSummary.of(read), "auto")
    assert learned == task
    assert reason
    other = "regression" if task == "classification" else "classification"
    if read.kind in ("integer", "boolean") and len(np.unique(read.values)) < len(
        read.values
    ):
        assert learned_task(TargetSummary.of(read), other) == (other, "")


@pytest.mark.parametrize(
    ("values", "task", "match"),
    [
        (pa.array(["2020-01-01"] * 5).cast(pa.date32()), "auto", "dates or durations"),
        ([[1], [2]], "auto", "not list"),
        (pa.nulls(5), "auto", "no values"),
        ([float("nan")] * 3, "auto", "no values"),
        ([None, None], "classification", "no values"),
        ([1.5, float("inf")], "auto", "infinite in row 1"),
        ([3] * 5, "auto", "is 3 in all of its 5 rows"),
        (["a"] * 5, "auto", "is a in all of its 5 rows"),
        (["a", None, "a"], "auto", "is a in all of its 2 rows, and missing in 1; "),
        ([f"u{k}" for k in range(30)], "auto", "identifier"),
        (list(range(30)), "classification", "identifier"),
        ([1.5, 2.5, 1.5], "classification", "fractional"),
        (["1", "2", None, "b"], "regression", "row 3 of column 'y' is 'b'"),
        (["1", "a", "3"], "regression", "row 1 of column 'y' is 'a'"),
    ],
)
def test_targets_that_cannot_be_learned(folder, refused, values, task, match):
    parquet.write_table(pa.table({"x": range(len(values)), "y": values}), "t.parquet")
    line = refused("fit", "t.parquet", "--target", "y", "--task", task, *FAST)
    assert line.startswith("error: t.parquet: ")
    assert match in line


def test_text_that_is_numbers_can_be_regressed(folder, done):
    table = pa.table({"x": range(30), "y": [str(k / 2) for k in range(30)]})
    parquet.write_table(table, "t.parquet")
    assert (
        done("fit", "t.parquet", "--target", "y", "--task", "regression", *FAST)[
            "scores"
        ]["r2"]["value"]
        > 0.9
    )


def test_rows_without_target_are_left_out_and_counted(folder, run, done):
    price = pa.array(
        [None if k < 7 else value for k, value in enumerate(TABLE["price"].to_pylist())]
    )
    parquet.write_table(
        TABLE.drop_columns(["price"]).append_column("price", price), "t.parquet"
    )
    report = done("fit", "t.parquet", "--target", "price", "--out", "m", *FAST)
    assert (
        report["rows"],
        report["rows_without_target"],
        report["rows_saved_model"],
    ) == (N, 7, N - 7)
    assert report["rows_train"] + report["rows_test"] == N - 7
    assert (
        "7 rows without a target were dropped"
        in run("fit", "t.parquet", "--target", "price", *FAST)[1]
    )
    model = KernelMachineRegressor(
        kernel="gaussian", n_components=64, alpha=0.1, random_state=0
    )
    X, y = TABLE.drop_columns(["price"]).slice(7), TABLE["price"].to_numpy()[7:]
    model = scored_and_refitted(model, X, y)
    np.testing.assert_allclose(load("m").predict(X), model.predict(X), rtol=1e-9)


def test_split_keeps_shares_and_learns_rare_classes():
    values = ["a"] * 60 + ["b"] * 39 + ["rare"]
    target = read_target(pa.table({"y": values}), "y", "")
    train, test = stratified_split(target, "classification", 0.2, 0)
    assert [list(target.values[test]).count(label) for label in ("a", "b", "rare")] == [
        12,
        8,
        0,
    ]
    assert 99 in train
    assert (
        stratified_split(target, "classification", 0.2, 0)[1].tolist() == test.tolist()
    )
    assert (
        stratified_split(target, "classification", 0.2, 1)[1].tolist() != test.tolist()
    )


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b"],
        ["a", "a", "b"],
        ["a", "b", "a", "b"],
        ["a", "a", "b", "c"],
        [0, 1, 1],
        [1.5, 2.5],
        [1, 2],
    ],
)
@pytest.mark.parametrize("features", ["fourier", "binning"])
def test_tiny_tables(folder, done, refused, values, features):
    """They are fitted, but a score of one row would say nothing."""
    parquet.write_table(pa.table({"x": range(len(values)), "y": values}), "t.parquet")
    args = "fit", "t.parquet", "--target", "y", "--out", "m", "--features", features
    assert "--test-size 0" in refused(*args)
    assert done(*args, "--test-size", "0")["rows_test"] == 0
    done("predict", "m", "t.parquet", "--out", "p.csv")
    done("evaluate", "m", "t.parquet")


def test_one_row(folder, done, refused):
    write("one.csv", "x,y\n1.5,2.5\n")
    assert "--test-size 0" in refused("fit", "one.csv", "--target", "y")
    report = done("fit", "one.csv", "--target", "y", "--test-size", "0", "--out", "m")
    assert (report["scores"], report["rows_test"]) == (None, 0)
    done("predict", "m", "one.csv", "--out", "p.csv")
    assert read_table("p.csv").to_pydict() == {"y_predicted": [2.5]}
    scored = done("evaluate", "m", "one.csv")["scores"]
    assert scored["r2"]["value"] is None
    assert scored["rmse"] == {
        "value": 0.0,
        "standard_error": None,
        "interval": None,
        "baseline": 0.0,
    }


def test_no_column_to_learn_from(folder, refused):
    write("one.csv", "y\n1\n2\n3.5\n")
    assert "no column to learn from" in refused("fit", "one.csv", "--target", "y")
    write("gaps.csv", "x,y\n,1\n,2\n,3.5\n")
    assert "no column to learn from" in refused("fit", "gaps.csv", "--target", "y")
    assert "no column 'kindd'; did you mean 'kind'?" in refused(
        "fit", "houses.csv", "--target", "price", "--exclude", "kindd"
    )
    assert "is the target" in refused(
        "fit", "houses.csv", "--target", "price", "--exclude", "price"
    )


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("", "empty"),
        ("x,y\n", "no rows"),
        (",x,y,\n1,2,3,4\n", "columns 1 and 4 have no name"),
        ("x,y\n1,2\n3\n", "line 3: "),
        (b"x,y\n\xc3\xa9,2\n\xe9,2\n", "UTF-8"),
        ("x,price\n1,2\ninf,3\n", "column 'x', line 3; "),
        ("x,Price \n1,2\n", "did you mean 'Price '?"),
        ("x,y\n1,2\n", "there are 'x', 'y'"),
    ],
)
def test_faulty_tables(folder, refused, content, match):
    line = refused("fit", write("t.csv", content), "--target", "price", *FAST)
    assert line.startswith("error: t.csv: ")
    assert match in line


ROWS = "".join(f"{x / 7:.3f},{x % 5},{x / 3:.3f}\n" for x in range(60))


def test_columns_that_are_text_because_of_few_values(folder, done, refused, run):
    fit = ("fit", write("t.csv", f"x,k,y\n{ROWS}0x10,1,2.5\n"), "--target", "y", *FAST)
    assert done(*fit)["notes"] == [
        "Column 'x': read as numbers; 1 of its values are none and count as missing: "
        "'0x10'.",
        "Read from text: x (number written 1.5); text_features= (--text in the "
        "command) names columns that stay text.",
    ]
    for option in ("--exclude", "--text"):
        notes = done(*fit, option, "x")["notes"]
        assert not any("read as numbers" in note for note in notes)
    done(
        "fit", write("good.csv", f"x,k,y\n{ROWS}"), "--target", "y", "--out", "m", *FAST
    )
    odd = "Column 'x' holds '0x10' where the fit saw numbers: such values count as"
    for command in (
        ("predict", "m", "t.csv", "--out", "p.csv"),
        ("evaluate", "m", "t.csv"),
    ):
        ended, _, warnings = run(*command)
        assert ended == 0
        assert odd in " ".join(warnings.split())
    write("words.csv", "x,k\n" + "".join(f"about {x},{x}\n" for x in range(9)))
    line = refused("predict", "m", "words.csv", "--out", "p.csv")
    assert "column 'x' holds 'about 0' and the like where the fit saw" in line


def test_a_target_with_few_words_among_numbers(folder, done):
    """In memory their rows are left out; the command says how many."""
    path = write("t.csv", f"x,k,y\n{ROWS}1.5,1,?\n1.6,1,$2\n")
    for task in ("auto", "regression"):
        report = done("fit", path, *FAST, "--target", "y", "--task", task)
        assert (report["task"], report["rows_without_target"]) == ("regression", 1)
        assert (
            "Column 'y': read as numbers of unit $; 1 of its values are none and count "
            "as missing: '?'." in report["notes"]
        )


def test_a_streamed_target_with_few_words_among_numbers(folder, done, refused):
    """Of a table that stays where it is they are refused."""
    more = ("--sample", "50")
    fit = ("fit", write("t.csv", f"x,k,y\n{ROWS}1.5,1,?\n"), *FAST, *more, "--target")
    for task in ("auto", "regression"):
        line = refused(*fit, "y", "--task", task).splitlines()[-1]
        assert (
            "column 'y' is text because of 1 of 61 values, first '?' in line 62; "
            in line
        )
        assert line.endswith("if it holds classes, use --task classification")
    rows = "".join(f"{k / 7},1,${k}\n" for k in range(60))
    line = refused(
        "fit", write("d.csv", f"x,k,y\n{rows}"), *FAST, *more, "--target", "y"
    )
    assert (
        "'y' holds numbers with something round them, such as $0; write plain" in line
    )


@pytest.mark.parametrize("more", [(), ("--sample", "50")])
def test_a_target_that_is_meant_to_be_classes(folder, done, more):
    fit = (
        "fit",
        write("k.csv", f"x,k,y\n1.5,?,2.5\n1.4,?,2.5\n{ROWS}"),
        *FAST,
        *more,
        "--target",
    )
    assert done(*fit, "k", "--task", "classification")["task"] == "classification"


@pytest.mark.parametrize("more", [(), ("--sample", "50")])
def test_names_that_come_again_and_row_numbers(folder, done, more):
    lines = ["", *(f"{k}," for k in np.random.default_rng(0).permutation(120))]
    content = [f",x,k,y\n{ROWS}x,k,y\n{ROWS}".splitlines()[k] for k in range(122)]
    numbered = [
        content[0],
        *(lines[k] + row for k, row in enumerate(content[1:61], 1)),
        content[0],
    ]
    numbered += [lines[k] + row for k, row in enumerate(content[62:], 61)]
    path = write("t.csv", "\n".join(numbered) + "\n")
    report = done("fit", path, "--target", "y", "--out", "m", *FAST, *more)
    assert (report["task"], report["rows"], report["columns"]) == ("regression", 120, 2)
    assert report["notes"][:2] == [
        "Column 1, which has no name, is taken for numbers of the rows, and is left out.",
        "Line 62 is the column names again, and is left out.",
    ]
    assert [note[:25] for note in report["notes"][2:]] == (
        [] if more else ["60 of 120 rows are copies"]
    )
    done("predict", "m", write("new.csv", f"x,k,y\n{ROWS}"), "--out", "p.csv")
    assert done("predict", "m", path, "--out", "p.csv")["rows"] == 120


@pytest.mark.parametrize(
    ("command", "row", "match"),
    [
        (
            ("fit", "t.csv", "--target", "y"),
            "inf,1,2",
            "infinity: column 'x', line 64; drop",
        ),
        (
            ("fit", "t.csv", "--target", "y"),
            "1,1,inf",
            "column 'y' is infinite in line 64; ",
        ),
        (
            ("fit", "t.csv", "--target", "k", "--task", "regression"),
            "1,many,1",
            "line 6 of column 'k' is 'three'",
        ),
        (
            ("fit", "t.csv", "--target", "y"),
            "1,1",
            "line 64: 3 fields expected, 2 found",
        ),
        (
            ("predict", "m", "t.csv", "--out", "p.csv"),
            "inf,1,2",
            "infinity: column 'x', line 64; drop",
        ),
        (("evaluate", "m", "t.csv"), "inf,1,2", "infinity: column 'x', line 64; drop"),
    ],
)
def test_every_message_counts_the_lines_of_the_file(
    folder, done, refused, command, row, match
):
    """Blank lines are lines of the file, though no rows."""
    if "m" in command:
        done(
            "fit",
            write("good.csv", f"x,k,y\n{ROWS}"),
            "--target",
            "y",
            "--out",
            "m",
            *FAST,
        )
    words = (
        ROWS.replace(",3,", ",three,").replace(",4,", ",four,")
        if "many" in row
        else ROWS
    )
    write("t.csv", f"x,k,y\n\n{words}1,1,2\n{row}\n")
    assert match in refused(*command)


@pytest.mark.parametrize("command", ["fit", "predict", "explain", "evaluate", "report"])
@pytest.mark.parametrize("path", ["t.csv", "parts"])
def test_every_command_names_the_row_of_an_infinite_value(
    model_of, refused, command, path
):
    """Also in rows that are read piece by piece, as of a folder of two files."""
    model_of("price")
    x = TABLE["x"].to_numpy().copy()
    x[-1] = np.inf
    j = TABLE.column_names.index("x")
    table = TABLE.set_column(j, "x", pa.array(x))
    csv.write_csv(table, "t.csv")
    os.mkdir("parts")
    parquet.write_table(table.slice(0, N // 3), "parts/1.parquet")
    parquet.write_table(table.slice(N // 3), "parts/2.parquet")
    options = {
        "fit": (path, "--target", "price", *FAST),
        "predict": ("model.safetensors", path, "--out", "p.csv"),
        "explain": ("model.safetensors", path, "--out", "p.csv", "--rows", "9"),
        "evaluate": ("model.safetensors", path),
        "report": ("model.safetensors", path, "--out", "p.html"),
    }
    # Below the names of the columns, and counted from 0
    place = f"line {N + 1}" if path == "t.csv" else f"row {N - 1}"
    line = refused(command, *options[command])
    assert f"infinity: column 'x', {place}; drop" in line


def test_models_and_tables_swapped_or_missing(model_of, refused):
    model_of("price")
    assert "is a model, not a table" in refused(
        "fit", "model.safetensors", "--target", "x"
    )
    assert "is a model, not a table" in refused(
        "predict", "model.safetensors", "model.safetensors", "--out", "p.csv"
    )
    assert "is a table, not a model" in refused(
        "predict", "houses.csv", "model.safetensors", "--out", "p.csv"
    )
    parquet.write_table(TABLE, "table")
    assert "is a table, not a model" in refused("inspect", "table")
    assert refused("fit", "absent.csv", "--target", "x").startswith(
        "error: absent.csv: no such file or directory; "
    )
    assert refused("inspect", "absent") == "error: absent: no such file or directory\n"
    assert "model.safetensors: this is a model, not a table" in refused(
        "fit", ".", "--target", "x"
    )
    content = read("model.safetensors")
    write("cut", content[:-8])
    assert "truncated" in refused("inspect", "cut")


def test_outputs_are_checked_before_the_work(model_of, refused, monkeypatch):
    model_of("price")
    monkeypatch.setattr(
        KernelMachineRegressor, "fit", lambda *args: pytest.fail("too late")
    )
    fit = ("fit", "houses.csv", "--target", "price", "--out")
    assert "does not exist; create it" in refused(*fit, "absent/m")
    os.mkdir("folder")
    assert "is a folder" in refused(*fit, "folder")
    os.symlink("houses.csv", "link")
    assert "is also the input" in refused(*fit, "link")
    assert "not a regular file" in refused(*fit, os.devnull)
    assert "is also the input" in refused(
        "predict", "model.safetensors", "houses.csv", "--out", "./houses.csv"
    )
    assert "does not exist" in refused(
        "predict", "model.safetensors", "houses.csv", "--out", "absent/p.csv"
    )
    os.rename("houses.csv", "folder/houses.csv")
    assert "is also the input" in refused(
        "predict", "model.safetensors", "folder", "--out", "folder/houses.csv"
    )


def test_predict_with_columns_that_differ(model_of, refused):
    model_of("price")
    parquet.write_table(TABLE.drop_columns(["x", "kind"]), "few.parquet")
    line = refused("predict", "model.safetensors", "few.parquet", "--out", "p.csv")
    assert "columns that are missing: 'x', 'kind'" in line
    parquet.write_table(TABLE.set_column(0, "x", pa.array(["few"] * N)), "few.parquet")
    line = refused("predict", "model.safetensors", "few.parquet", "--out", "p.csv")
    assert line.startswith("error: few.parquet: column 'x' holds 'few' and the like")


def test_text_column_that_looks_like_numbers_in_another_file(folder, done):
    codes = ["01", "02", "x"] * 10
    values = [float(code == "02") + k / 100 for k, code in enumerate(codes)]
    csv.write_csv(pa.table({"code": codes, "k": range(30), "y": values}), "train.csv")
    done("fit", "train.csv", "--target", "y", "--out", "m", *FAST)
    write("new.csv", "code,k\n01,1\n02,2\n")
    done("predict", "m", "new.csv", "--out", "p.csv")
    predicted = read_table("p.csv")["y_predicted"].to_pylist()
    expected = load("m").predict(pa.table({"code": ["01", "02"], "k": [1, 2]}))
    np.testing.assert_allclose(predicted, expected)
    csv.write_csv(pa.table({"y": codes, "x": values}), "train.csv")
    done("fit", "train.csv", "--target", "y", "--out", "m", *FAST)
    write("later.csv", "x,y\n1.02,02\n0.01,01\n")
    assert done("evaluate", "m", "later.csv")["notes"] == []


def test_notes_on_columns(folder, done):
    table = TABLE.append_column(
        "id", pa.array([f"u{k}" for k in range(N)])
    ).append_column("", pa.array(range(N)))
    csv.write_csv(table, "t.csv")
    notes = done("fit", "t.csv", "--target", "price", *FAST)["notes"]
    assert len(notes) == 3
    assert notes[0] == "Column 8 has no name; give it one."
    assert "Column '' seems to number the rows" in notes[1]
    assert "--exclude 'id'" in notes[2]
    report = done(
        "fit", "t.csv", "--target", "price", "--exclude", "id", "--exclude", "", *FAST
    )
    assert (report["notes"], report["columns"]) == ([], 5)


def test_names_cannot_steer_the_terminal(folder, run, done, refused):
    name = "[red]x[/red]\x1b[31m\n‮"
    table = pa.table({name: TABLE["x"], "y[/]": TABLE["price"]})
    parquet.write_table(table, "[b].parquet")
    for args in (("--target", name), ("--target", "y[/]")):
        code, out, _ = run("fit", "[b].parquet", *args, "--out", "m", *FAST)
        assert code == 0
        assert "\x1b" not in out
        assert "‮" not in out
        assert "[b].parquet" in out
    out = run("inspect", "m")[1]
    assert r"[red]x[/red]\x1b[31m" in out
    assert list(done("inspect", "m")["columns"]) == [name]
    assert r"\x1b[31m" in refused("fit", "[b].parquet", "--target", "x\x1b[31m")


def test_other_formats_of_input(folder, done):
    write("houses.csv.gz", gzip.compress(read("houses.csv")))
    parquet.write_table(TABLE, "houses.pq")
    csv.write_csv(TABLE, "houses.tsv", csv.WriteOptions(delimiter="\t"))
    found = [
        done("fit", name, "--target", "price", *FAST)["scores"]
        for name in ("houses.csv", "houses.csv.gz", "houses.pq", "houses.tsv")
    ]
    assert found[1:] == found[:-1]


def test_traceback_on_demand(folder, run, monkeypatch):
    with pytest.raises(Exception, match="no column 'q'"):
        app(["fit", "houses.csv", "--target", "q", "--traceback"])
    monkeypatch.setenv("BOCHNER_DEBUG", "1")
    with pytest.raises(FileNotFoundError):
        app(["inspect", "absent"])
    monkeypatch.setenv("BOCHNER_DEBUG", "0")
    assert run("inspect", "absent")[0] == 1


def test_memory_error_is_one_line(folder, refused, monkeypatch):
    def fit(*args):
        raise MemoryError

    monkeypatch.setattr(KernelMachineRegressor, "fit", fit)
    assert "not enough memory" in refused("fit", "houses.csv", "--target", "price")


def test_unexpected_errors_pass(folder, monkeypatch):
    def fit(*args):
        raise RuntimeError("surprise")

    monkeypatch.setattr(KernelMachineRegressor, "fit", fit)
    with pytest.raises(RuntimeError, match="surprise"):
        app(["fit", "houses.csv", "--target", "price"])


def test_interrupt_in_process(folder, capsys, monkeypatch):
    def fit(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(KernelMachineRegressor, "fit", fit)
    words = ["bochner", "fit", "houses.csv", "--target", "price", "--out", "m"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130
    assert capsys.readouterr() == ("", "interrupted\n")
    assert os.listdir() == ["houses.csv"]


def test_failed_write_leaves_the_old_predictions(model_of, done, run, monkeypatch):
    model_of("price")
    done("predict", "model.safetensors", "houses.csv", "--out", "p.parquet")
    before = read("p.parquet")

    class Interrupted(parquet.ParquetWriter):
        def write_table(self, table, row_group_size=None):
            super().write_table(table, row_group_size)
            raise KeyboardInterrupt

    monkeypatch.setattr(parquet, "ParquetWriter", Interrupted)
    assert (
        run("predict", "model.safetensors", "houses.csv", "--out", "p.parquet")[0]
        == 130
    )
    assert read("p.parquet") == before
    assert sorted(os.listdir()) == ["houses.csv", "model.safetensors", "p.parquet"]


@pytest.mark.slow
def test_warmup(run):
    """What it has compiled once it finds again; where nothing can be kept it fails."""
    from bochner.loops import compile

    assert run("warmup")[0] == 0
    code, out, err = run("warmup")
    assert (code, err) == (0, "")
    assert re.fullmatch(
        r"Compiled 0 loops in [\d.]+ s; \d+ were cached already. The cache is .*\.\n",
        out,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile, "LOOPS", [])
        code, _, err = run("warmup")
    assert code == 1
    assert "NUMBA_CACHE_DIR" in err


@pytest.fixture
def small_data_sets(monkeypatch):
    """The data sets of the demonstration have few rows."""
    for name in ("digits", "diabetes"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        monkeypatch.setattr(
            datasets, f"load_{name}", lambda return_X_y, X=X[:200], y=y[:200]: (X, y)
        )
    function = datasets.make_friedman1
    monkeypatch.setattr(
        datasets, "make_friedman1", lambda n, **options: function(200, **options)
    )


@pytest.mark.slow
def test_demo(run, small_data_sets):
    """On all rows it runs in the gate."""
    from bochner.cli import installation

    code, out, err = run("demo")
    assert (code, err) == (0, "")
    assert all(
        name in out
        for name in ("digits", "function", "diabetes", "R²", "accuracy", "linear model")
    )
    assert "limits R² to 0.9" in " ".join(out.split())
    source = read(installation.__file__).decode()
    for line in installation.CODE.splitlines():
        assert source.count(line) >= 2
        assert line in out


def documented(section):
    """Keys in the table of a section of docs/command_json.md, those of the
    introduction included for a command.
    """
    text = (Path(__file__).parents[1] / "docs" / "command_json.md").read_text()
    sections = dict(re.findall(r"^#+ ([\w ]+)\n(.*?)(?=^#|\Z)", text, re.S | re.M))
    rows = re.findall(r"^\| (`.*?) \|", sections[section], re.M)
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


@pytest.mark.slow
def test_json_is_as_documented(folder, done, small_data_sets):
    common = documented("The JSON of the command")
    write_many("many.csv")
    report = done(
        "fit",
        "many.csv",
        "--target",
        "price",
        "--out",
        "m",
        "--test-size",
        "0.1",
        "--n-components",
        "64",
    )
    reports = [
        report,
        done("fit", "houses.csv", "--target", "kind", *BINS),
        done("plan", "houses.csv", "--target", "price"),
        done("predict", "m", "houses.csv", "--out", "p.csv"),
        done("evaluate", "m", "houses.csv"),
        done("report", "m", "houses.csv", "--out", "report.html"),
        done("inspect", "m"),
        done("demo"),
        done("warmup"),
    ]
    for one in reports:
        assert one.keys() == documented(one["command"]) | common
    for one in reports[:2]:
        assert one["model"].keys() == documented("model")
        assert all(part.keys() <= documented("map") for part in one["model"]["maps"])
        assert all(
            score.keys() <= documented("score") for score in one["scores"].values()
        )
    assert report["model"]["choice"].keys() == documented("choice")


def write_many(name):
    """A table of 600 rows, on which a fit has candidates."""
    csv.write_csv(pa.concat_tables([houses(seed) for seed in range(5)]), name)


@pytest.mark.slow
def test_fit_prints_a_summary_and_inspect_the_rest(folder, run):
    write_many("many.csv")
    fit = ("fit", "many.csv", "--target", "price", "--out", "m", "--n-components", "64")
    summary, details = run(*fit)[1], run("inspect", "m")[1]
    assert [line.split()[0] for line in summary.splitlines()] == [
        "data",
        "task",
        "model",
        "R²",
        "RMSE",
        "others",
        "saved",
    ]
    firsts = {line.split()[0] for line in details.splitlines() if line.strip()}
    assert {"holds", "columns", "solver", "R²", "RMSE", "candidates"} <= firsts
    unscored = run("fit", "houses.csv", "--target", "price", *FAST, "--test-size", "0")[
        1
    ]
    assert "none, because there are no test rows" in unscored


def test_pipe_is_plain_and_silent(folder):
    """Also one that is narrow, and takes ASCII alone."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "40"}
    fit = [*COMMAND, "fit", "houses.csv", "--target", "price", *FAST, "--out", "m"]
    done = subprocess.run(fit, env=environment, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\x1b" not in done.stdout
    assert b"R\\xb2" in done.stdout
    assert not any(line.endswith(b" ") for line in done.stdout.splitlines())
    assert os.path.exists("m")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="SIGINT as a shell sends it")
def test_interrupt_leaves_nothing(folder, interruptible):
    rng = np.random.default_rng(0)
    columns = {f"x{k}": rng.normal(size=200_000) for k in range(20)}
    parquet.write_table(
        pa.table({**columns, "y": sum(columns.values())}), "large.parquet"
    )
    code = (
        "import bochner.cli.evaluation; from bochner.cli import main; "
        "print('ready', flush=True); main()"
    )
    args = [
        sys.executable,
        "-c",
        code,
        "fit",
        "large.parquet",
        "--target",
        "y",
        "--out",
        "m",
    ]
    process = subprocess.Popen(
        args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
    assert sorted(os.listdir()) == ["houses.csv", "large.parquet"]


def test_a_table_of_two_rows_has_no_score(run, tmp_path):
    (tmp_path / "two.csv").write_text("a,b\n1,x\n2,y\n")
    code, _, err = run("fit", str(tmp_path / "two.csv"), "--target", "b")
    assert code
    assert (
        "2 rows with a target cannot be split for a score; give 5 or more, or use "
        "--test-size 0" in err
    )
