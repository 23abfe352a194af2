"""Other models beside those of the command: on the same rows, and never a training
score at the head.
"""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from rich.console import Console
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, r2_score

from bochner.cli import printing, references, tables
from bochner.cli.target import read_target, split_rows
from bochner.persistence import describe

FAST = ("--kernel", "gaussian", "--n-components", "512", "--alpha", "0.000001")
N = 300


def rows(seed, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = X @ [1.0, -0.5, 0.2] + rng.normal(size=n)
    return pa.table(
        {
            "a": X[:, 0],
            "b": X[:, 1],
            "c": 100 * X[:, 2],
            "y": y,
            "up": np.where(y > 0, "yes", "no"),
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with noisy lines in rows.csv, and new rows of these in
    new.csv.
    """
    monkeypatch.chdir(tmp_path)
    csv.write_csv(rows(0), "rows.csv")
    csv.write_csv(rows(1), "new.csv")
    return tmp_path


def fit(done, target, *more):
    other = "up" if target == "y" else "y"
    return done(
        "fit",
        "rows.csv",
        "--target",
        target,
        "--exclude",
        other,
        "--out",
        "m",
        *FAST,
        *more,
    )


FITTED = {}


def fit_once(done, target):
    """As `fit`, which runs once in a process for each target: its report, and the
    model in a file of the folder.
    """
    if target not in FITTED:
        FITTED[target] = fit(done, target), Path("m").read_bytes()
    report, content = FITTED[target]
    Path("m").write_bytes(content)
    return report


def halves(target, task):
    """Columns and targets of the training rows of the command, and of its test rows."""
    table, notes = rows(0), []
    X = table.select(["a", "b", "c"])
    parts = split_rows(X, read_target(table, target, ""), task, 0.2, 0, notes)
    return [
        (X.take(pa.array(part)).to_pandas(), table[target].to_numpy()[part])
        for part in parts
    ]


def summary(page):
    return re.findall(r"<li>(.*?)</li>", page.partition('<ul class="summary">')[2])


def test_the_linear_model_learns_all_training_rows(folder, done):
    """Ridge regression of standardised columns, by its normal equations."""
    found = fit_once(done, "y")["references"]
    (X, y), (X_test, y_test) = halves("y", "regression")
    mean, scale = X.mean(), X.std(ddof=0)
    Z, Z_test = ((one - mean) / scale for one in (X, X_test))
    coef = np.linalg.solve(Z.T @ Z + np.eye(3), Z.T @ (y - y.mean()))
    assert found["rows"] == len(y) == 240
    linear = found["scores"]["linear model"]["r2"]["value"]
    assert linear == pytest.approx(r2_score(y_test, Z_test @ coef + y.mean()), abs=1e-5)
    assert json.loads(describe("m")["metadata"]["references"]) == found


def test_classes_are_boosted_too(folder, done):
    found = fit_once(done, "up")["references"]
    (X, y), (X_test, y_test) = halves("up", "classification")
    boosted = HistGradientBoostingClassifier(random_state=0).fit(X, y)
    value = found["scores"]["gradient boosting"]["accuracy"]["value"]
    assert value == pytest.approx(
        accuracy_score(y_test, boosted.predict(X_test)), abs=0.02
    )


def test_what_other_models_reach_is_printed(done):
    report = fit_once(done, "up")
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        for part in printing.PARTS["fit"]({**report, "command": "fit"}):
            console.print(part)
    (line,) = (one for one in capture.get().splitlines() if one.startswith("others"))
    accuracies = [
        scores["accuracy"]["value"]
        for scores in report["references"]["scores"].values()
    ]
    linear, boosted = accuracies
    assert line.split(None, 1)[1].rstrip() == (
        f"accuracy: linear model {linear:.3f}, gradient boosting {boosted:.3f} "
        "(scikit-learn, default settings)"
    )


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True])
def test_of_too_many_rows_a_sample_is_learned_and_told(
    folder, done, monkeypatch, streamed
):
    monkeypatch.setattr(references, "HELD_ENTRIES", 3 * 120)
    monkeypatch.setattr(references, "FEWEST", 50)
    more = ("--sample", "250") if streamed else ()
    found = fit(done, "y", *more)["references"]
    assert 60 < found["rows"] < 180 if streamed else found["rows"] == 120
    done("report", "m", "new.csv", "--out", "page.html")
    page = (folder / "page.html").read_text()
    assert (
        f"fitted on {found['rows']} training rows of the scored fit, and scored on "
        "the same rows" in page
    )


@pytest.mark.slow
def test_where_too_few_rows_could_be_learned_there_is_no_other_model(
    folder, done, monkeypatch
):
    monkeypatch.setattr(references, "HELD_ENTRIES", 3 * 120)
    assert fit(done, "y")["references"] is None
    done("report", "m", "new.csv", "--out", "page.html")
    assert "linear model" not in (folder / "page.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["y", "up"])
def test_a_page_of_training_rows_begins_with_rows_held_out(folder, done, target):
    scored = fit_once(done, target)
    name, key = ("R²", "r2") if target == "y" else ("Accuracy", "accuracy")
    held_out = (
        f"{name} {scored['scores'][key]['value']:.3f} on the rows that "
        "&#39;bochner fit&#39; held out"
    )
    linear = scored["references"]["scores"]["linear model"][key]["value"]
    done("report", "m", "rows.csv", "--out", "page.html")
    first, second = summary((folder / "page.html").read_text())[:2]
    assert first.startswith(held_out)
    assert f"; linear model {linear:.3f}; gradient boosting " in first
    assert second.startswith("The rows of this page are training rows (100 of the 100 ")
    assert second.endswith("says nothing of new rows.")
    done("report", "m", "new.csv", "--out", "page.html")
    lines = summary((folder / "page.html").read_text())
    assert lines[1].startswith(f"{name} ")
    assert " on the rows of this page (95 % interval " in lines[1]
    assert not any("training rows (" in line for line in lines)
    assert "linear model" not in lines[1]


def test_better_models_are_named(folder, done):
    fit_once(done, "y")
    done("report", "m", "new.csv", "--out", "page.html")
    assert (
        "On the rows that the fit held out it is not better than: linear model"
        in (folder / "page.html").read_text()
    )


def test_a_score_on_training_rows_says_so(folder, done):
    scored = fit_once(done, "y")["scores"]
    (note,) = done("evaluate", "m", "rows.csv")["notes"]
    assert note == (
        "These are training rows (100 of the 100 training rows that the model keeps "
        "are among them): their scores say "
        "nothing of new rows. On rows that it held out, 'bochner fit' measured R² "
        f"{scored['r2']['value']:.3f}."
    )
    assert done("evaluate", "m", "new.csv")["notes"] == []


def test_a_sample_of_training_rows_is_recognised(folder, done, monkeypatch):
    fit_once(done, "y")
    monkeypatch.setattr(tables, "gathers", lambda *table: False)
    monkeypatch.setattr(tables, "SCORED_ROWS", 60)
    notes = done("evaluate", "m", "rows.csv")["notes"]
    assert any(note.startswith("These are training rows (") for note in notes)
    assert len(done("evaluate", "m", "new.csv")["notes"]) == 1
