"""The command reads later tables, and the rows of other models, as it read those of the
fit.
"""

import json
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from whole_tables import read_table

N = 200
FAST = ("--kernel", "gaussian", "--n-components", "64", "--alpha", "0.001")


@pytest.fixture
def draw(tmp_path, monkeypatch):
    """Numbers from 0 to 1, in a working directory of their own."""
    monkeypatch.chdir(tmp_path)
    return np.random.default_rng(0).uniform(size=N)


def write(path, lines):
    path.write_text("\n".join([*lines, ""]))


def predicted(done, *args):
    done("predict", *args, "--out", "p.csv")
    return read_table("p.csv")["y_predicted"].to_numpy()


def test_decimal_commas_of_the_fit(draw, tmp_path, done):
    rows = [f"{9 * x:.3f};2;{9 * x:.2f}".replace(".", ",") for x in draw]
    write(tmp_path / "t.csv", ["x;a;y", *rows])
    done("fit", "t.csv", "--target", "y", *FAST, "--out", "m")
    write(tmp_path / "one.csv", ["x;a", "1,234;2"])
    write(tmp_path / "two.csv", ["x;a", "1,234;2", "1,5;2"])
    one, two = predicted(done, "m", "one.csv"), predicted(done, "m", "two.csv")
    # A row alone is summed in another order than one among others
    assert one[0] == pytest.approx(two[0], rel=1e-12)
    assert one[0] == pytest.approx(1.234, abs=0.2)


@pytest.mark.parametrize("first_index", [0, 1])
def test_columns_of_libsvm_files_are_counted_as_in_the_fit(
    first_index, draw, tmp_path, done
):
    """Also where no later row has a value in the first column."""
    rows = [f"{5 * x:.3f} {first_index}:{x:.3f} {first_index + 2}:1" for x in draw]
    write(tmp_path / "t.svm", [*rows, f"0 {first_index + 1}:1"])
    report = done("fit", "t.svm", "--target", "label", *FAST, "--out", "m")
    assert ("Columns are counted from 0." in report["notes"]) == (first_index == 0)
    later = [f"0 {first_index + 1}:{x:.3f}" for x in (1, 2)]
    first = [f"0 {first_index}:0 {row[2:]}" for row in later]
    write(tmp_path / "later.svm", later)
    write(tmp_path / "first.svm", first)
    done("predict", "m", "later.svm", "--out", "one.csv")
    done("predict", "m", "first.svm", "--out", "two.csv")
    one, two = (tmp_path / "one.csv").read_text(), (tmp_path / "two.csv").read_text()
    assert one == two


def test_an_index_below_the_first_one_of_the_fit_is_refused(
    draw, tmp_path, done, refused
):
    rows = [f"{5 * x:.3f} 1:{x:.3f}" for x in draw]
    write(tmp_path / "t.svm", rows)
    done("fit", "t.svm", "--target", "label", *FAST, "--out", "m")
    write(tmp_path / "later.svm", ["0 0:1"])
    assert "an index is 0" in refused("predict", "m", "later.svm", "--out", "p.csv")


def test_numbers_with_points_between_thousands(draw, tmp_path, done):
    rows = [f"{x:.3f};{3000 * x:,.0f}".replace(",", "_") for x in draw]
    rows = [row.replace(".", ",").replace("_", ".") for row in rows]
    write(tmp_path / "t.csv", ["x;y", *rows])
    report = done("fit", "t.csv", "--target", "y", *FAST, "--out", "m")
    assert report["scores"]["rmse"]["baseline"] > 500
    assert any(
        "column 'y': read as numbers" in note.lower() for note in report["notes"]
    )


def test_units_of_the_fit(draw, tmp_path, done):
    """A column whose few later values would be numbers of CSV files."""
    rows = [f"{1000 * x:.2f},{x}" for x in draw]
    cells = [f'"{1000 + 9 * x:,.2f}",{x}' for x in draw]
    cells = [row.replace(",", "_", 1).replace(".", ",", 1) for row in cells]
    write(tmp_path / "t.csv", ["x,y", *(row.replace("_", ".") for row in cells)])
    assert rows
    done("fit", "t.csv", "--target", "y", *FAST, "--out", "m")
    write(tmp_path / "new.csv", ["x", "1.004"])
    write(tmp_path / "other.csv", ["x", '"1.004,00"'])
    assert predicted(done, "m", "new.csv") == predicted(done, "m", "other.csv")


def test_text_stays_text(draw, tmp_path, done):
    codes = np.where(draw > 0.5, "01001", "01008")
    rows = [f"{code},{x:.3f}" for code, x in zip(codes, draw, strict=True)]
    write(tmp_path / "t.csv", ["zip,y", *rows])
    done("fit", "t.csv", "--target", "y", "--text", "zip", *FAST, "--out", "m")
    write(tmp_path / "new.csv", ["zip", "01001", "01008"])
    high, low = predicted(done, "m", "new.csv")
    assert high > 0.6
    assert low < 0.4


def test_other_models_read_dates_alike(draw, tmp_path, run):
    """Days and months of which both orders are possible."""
    days = [date(2020, 1, 1) + timedelta(days=int(730 * x)) for x in draw]
    days = [day for day in days if day.day <= 12]
    gone = [(day - date(2020, 1, 1)).days + 0.5 for day in days]
    noise = np.random.default_rng(1).normal(scale=300, size=len(days))
    rows = [
        f"{day:%d/%m/%Y},{value}" for day, value in zip(days, gone + noise, strict=True)
    ]
    write(tmp_path / "t.csv", ["when,y", *rows])
    pairs = zip(days, gone + noise, strict=True)
    write(tmp_path / "iso.csv", ["when,y", *(f"{day},{value}" for day, value in pairs)])
    fits = ("t.csv", "--dates", "day-first"), ("iso.csv",)
    written, iso = (
        json.loads(run("fit", *fit, "--target", "y", *FAST, "--json")[1])
        for fit in fits
    )
    line = written["references"]["scores"]["linear model"]
    expected = iso["references"]["scores"]["linear model"]
    assert line["r2"]["value"] == pytest.approx(expected["r2"]["value"])
    assert line["rmse"]["baseline"] == written["scores"]["rmse"]["baseline"]


def test_classes_that_were_read_from_text(draw, tmp_path, done):
    labels = np.where(draw > 0.5, "1", "0").astype(object)
    labels[::40] = "?"
    rows = [f"{x:.3f},{label}" for x, label in zip(draw, labels, strict=True)]
    write(tmp_path / "t.csv", ["x,y", *rows])
    done("fit", "t.csv", "--target", "y", *FAST, "--out", "m")
    report = done("evaluate", "m", "t.csv")
    assert report["rows_without_target"] == N / 40
    assert any("count as missing: '?'" in note for note in report["notes"])


def test_classes_that_may_stand_for_a_missing_value(draw, tmp_path, done):
    labels = np.where(draw > 0.5, "yes", "no").astype(object)
    labels[::40] = "--"
    rows = [f"{x:.3f},{label}" for x, label in zip(draw, labels, strict=True)]
    write(tmp_path / "t.csv", ["x,y", *rows])
    notes = done("fit", "t.csv", "--target", "y", *FAST)["notes"]
    assert any("'--' may stand for a missing value" in note for note in notes)


def test_classes_of_text_with_blanks(draw, tmp_path, done):
    labels = np.where(draw > 0.5, "yes", "no")
    csv.write_csv(pa.table({"x": draw, "y": labels}), tmp_path / "t.csv")
    blank = np.where(labels == "no", "no ", labels)
    csv.write_csv(pa.table({"x": draw, "y": blank}), tmp_path / "new.csv")
    done("fit", "t.csv", "--target", "y", *FAST, "--out", "m")
    score = done("evaluate", "m", "t.csv")["scores"]["accuracy"]["value"]
    assert done("evaluate", "m", "new.csv")["scores"]["accuracy"]["value"] == score


def test_targets_of_dates_are_refused(draw, tmp_path, refused):
    days = [date(2020, 1, 1) + timedelta(days=int(730 * x)) for x in draw]
    write(
        tmp_path / "t.csv",
        ["x,y", *(f"{k},{day:%d/%m/%Y}" for k, day in enumerate(days))],
    )
    assert "column 'y' holds dates or times" in refused("fit", "t.csv", "--target", "y")


def test_classes_of_text_in_passes(draw, tmp_path, done):
    labels = np.where(draw > 0.5, "yes", "no")
    csv.write_csv(pa.table({"x": draw, "y": labels}), tmp_path / "t.csv")
    report = done("fit", "t.csv", "--target", "y", "--sample", "150", *FAST)
    assert report["task"] == "classification"


def test_libsvm_files_without_values_of_the_last_columns(draw, tmp_path, done):
    rows = [f"{x:.3f} 1:{x:.3f} 3:{x * x:.3f}" for x in draw]
    write(tmp_path / "t.libsvm", rows)
    done("fit", "t.libsvm", "--target", "target", *FAST, "--out", "m")
    write(tmp_path / "new.libsvm", ["0 1:0.5", "0 1:0.25"])
    report = done("predict", "m", "new.libsvm", "--out", "p.csv")
    assert report["rows"] == 2


def test_folders_of_a_pattern_that_hold_values(draw, tmp_path, done):
    for year in (2020, 2021):
        (tmp_path / f"rows/year={year}").mkdir(parents=True)
        table = pa.table({"x": draw, "y": draw})
        csv.write_csv(table, tmp_path / f"rows/year={year}/t.csv")
    notes = done("fit", "rows/*/t.csv", "--target", "y", *FAST)["notes"]
    assert any("names of its folders hold values of 'year'" in note for note in notes)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_that_no_model_needs_are_in_some_files_only(draw, tmp_path, done, kind):
    table = pa.table({"x": draw, "y": draw})
    write_table = {"csv": csv.write_csv, "parquet": parquet.write_table}[kind]
    write_table(table, f"t.{kind}")
    done("fit", f"t.{kind}", "--target", "y", *FAST, "--out", "m")
    (tmp_path / "new").mkdir()
    write_table(table.select(["x"]), f"new/a.{kind}")
    write_table(table.append_column("more", table["x"]), f"new/b.{kind}")
    report = done("predict", "m", "new", "--out", "p.csv")
    assert report["rows"] == 2 * N
    predictions = read_table("p.csv")["y_predicted"].to_numpy()
    np.testing.assert_array_equal(predictions[:N], predictions[N:])


def test_decimal_commas_of_the_fit_are_not_those_of_arff(draw, tmp_path, done):
    """There commas separate the fields."""
    rows = [f"{9 * x:.3f};2;{9 * x:.2f}".replace(".", ",") for x in draw]
    write(tmp_path / "t.csv", ["x;a;y", *rows])
    done("fit", "t.csv", "--target", "y", *FAST, "--out", "m")
    write(tmp_path / "new.csv", ["x;a", "1,5;2"])
    head = ["@relation r", "@attribute x numeric", "@attribute a numeric", "@data"]
    write(tmp_path / "new.arff", [*head, "1.5,2"])
    expected = predicted(done, "m", "new.csv")
    assert predicted(done, "m", "new.arff") == expected
