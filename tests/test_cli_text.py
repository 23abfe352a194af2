"""The command on CSV files whose columns are all text to the model: their rows are
counted as those of any file.
"""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from bochner import KernelMachineClassifier, save
from bochner.cli import tables
from whole_tables import read_table

N = 120


@pytest.fixture(scope="module")
def model():
    """Of two columns of text and a target of text; and all three in a table."""
    draw = np.random.default_rng(0).choice
    colour, shape = draw(["red", "blue"], N), draw(["ball", "cube", "ring"], N)
    rolls = np.where((shape == "ball") & (colour == "red"), "yes", "no")
    X = pa.table({"colour": colour, "shape": shape})
    fitted = KernelMachineClassifier("gaussian", alpha=0.1, random_state=0).fit(
        X, rolls
    )
    return fitted, X.append_column("rolls", pa.array(rolls))


@pytest.fixture
def words(tmp_path, monkeypatch, model):
    """A working directory with words.csv, and a model of it as a program saves it."""
    monkeypatch.chdir(tmp_path)
    fitted, table = model
    csv.write_csv(table, "words.csv")
    save(fitted, "m.safetensors", metadata={"target": "rolls"})
    return tmp_path


@pytest.mark.slow
def test_rows_are_counted(words, run):
    fit = ("fit", "words.csv", "--target", "rolls", "--kernel", "gaussian")
    for command, said in (
        ((*fit, "--alpha", "0.1"), f"words.csv: {N} rows; 2 columns"),
        (("evaluate", "m.safetensors", "words.csv"), f"words.csv: {N} rows\n"),
        (
            ("report", "m.safetensors", "words.csv", "--out", "page.html"),
            f", on {N} rows. ",
        ),
        (
            ("predict", "m.safetensors", "words.csv", "--out", "p.csv"),
            f"Wrote p.csv: {N} rows",
        ),
        (
            ("explain", "m.safetensors", "words.csv", "--out", "e.csv"),
            f"Wrote e.csv: Shapley values of {N} rows",
        ),
    ):
        code, out, err = run(*command)
        assert (code, err) == (0, "")
        assert said in out


def test_explained_rows_are_drawn_and_named(words, done):
    report = done(
        "explain", "m.safetensors", "words.csv", "--out", "e.csv", "--rows", "20"
    )
    assert (report["rows"], report["rows_explained"]) == (N, 20)
    assert any(f"Explained 20 of {N} rows" in note for note in report["notes"])
    rows = read_table("e.csv")["row"].to_pylist()
    assert rows != list(range(20))
    predicted = done("evaluate", "m.safetensors", "words.csv")
    assert predicted["rows"] == N


def test_more_rows_than_tell_the_score_are_not_read(words, done, monkeypatch):
    monkeypatch.setattr(tables, "gathers", lambda *table: False)
    monkeypatch.setattr(tables, "SCORED_ROWS", 40)
    report = done("evaluate", "m.safetensors", "words.csv")
    assert report["rows"] == N
    assert 0 < report["rows_test"] < N
    assert any("Scored on about 40 rows" in note for note in report["notes"])


@pytest.mark.slow
def test_long_questions_are_short_in_print_and_whole_in_files(
    tmp_path, monkeypatch, run
):
    monkeypatch.chdir(tmp_path)
    question = "How much do you agree " + "that the shop " * 20
    draw = np.random.default_rng(1).normal
    columns = {f"{question}{end}": draw(size=N) for end in ("is near?", "is open?")}
    csv.write_csv(pa.table({**columns, "y": sum(columns.values())}), "asked.csv")
    fit = (
        "fit",
        "asked.csv",
        "--target",
        "y",
        "--out",
        "m",
        "--kernel",
        "gaussian",
        "--alpha",
        "0.1",
    )
    printed = [
        run(*fit),
        run("explain", "m", "asked.csv", "--out", "e.csv"),
        run("inspect", "m"),
    ]
    for _, out, _ in printed:
        assert "How much do you agre…" in out
        assert "is near?" in out
        assert "is open?" in out
        assert question[:60] not in out
    assert set(columns) <= set(read_table("e.csv").column_names)
    run("report", "m", "asked.csv", "--out", "page.html")
    assert question[:60] not in (tmp_path / "page.html").read_text()
