"""Groups and time in the command: what is held out, scored and saved."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from bochner import load
from bochner.scores.summaries import classification, regression


def table(n_groups=30, size=12, seed=0):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), size)
    X = rng.normal(size=(n_groups, 3))[group] + 0.05 * rng.normal(size=(len(group), 3))
    y = X[:, 0] + rng.normal(size=n_groups)[group] + 0.1 * rng.normal(size=len(group))
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["patient"] = [f"p{k}" for k in group]
    frame["day"] = pd.date_range("2020-01-01", periods=len(y)).strftime("%d/%m/%Y")
    return frame.assign(y=y, kind=np.where(y > np.median(y), "high", "low"))


FRAME = table().sample(frac=1, random_state=0)


@pytest.fixture(scope="module", params=["csv", "parquet"])
def path(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("groups") / f"rows.{request.param}"
    if request.param == "csv":
        FRAME.to_csv(path, index=False)
    else:
        FRAME.to_parquet(path)
    return path


@pytest.mark.slow
def test_whole_groups_are_held_out(path, tmp_path, done, run):
    """The score is that of a fit to the other groups; the column is no input."""
    out = tmp_path / "model.safetensors"
    options = ["--target", "y", "--group", "patient", "--exclude", "day"]
    options += ["--exclude", "kind", "--time-limit", "2"]
    report = done("fit", path, *options, "--out", out)
    assert report["split"] == {"by": "group", "column": "patient"}
    assert report["rows_test"] == 6 * 12
    assert report["rows_test_are"] == "6 whole groups of 'patient'"
    assert report["columns"] == 3
    assert load(out).feature_names_in_.tolist() == list("abc")
    by_chance = done("fit", path, *options[:2], *options[4:], "--exclude", "patient")
    assert by_chance["split"]["by"] == "chance"
    score, other = (one["scores"]["r2"]["value"] for one in (report, by_chance))
    assert score < other - 0.2
    page = tmp_path / "page.html"
    assert run("report", out, path, "--out", page)[0] == 0
    assert "held-out rows, which are 6 whole groups of &#39;patient&#39;" in (
        page.read_text()
    )


def test_classes_keep_their_shares(path, done):
    report = done(
        "fit",
        path,
        *("--target", "kind", "--group", "patient", "--exclude", "y"),
        *("--exclude", "day", "--time-limit", "2"),
    )
    assert report["rows_test_are"] == "6 whole groups of 'patient'"
    assert report["scores"]["accuracy"]["standard_error"] > 0.05


def test_the_latest_rows_are_held_out(path, tmp_path, done):
    """Also where the file is in another order; dates of text are read."""
    out = tmp_path / "model.safetensors"
    report = done(
        "fit",
        path,
        *("--target", "y", "--time", "day", "--exclude", "kind"),
        *("--exclude", "patient", "--time-limit", "2", "--out", out),
    )
    assert report["split"] == {"by": "time", "column": "day"}
    assert report["rows_test_are"] == "the latest by 'day'"
    latest = table().tail(72)
    assert report["rows_test"] == 72
    assert report["baseline"]["value"] == pytest.approx(table().y[:-72].mean())
    assert "day" in load(out).feature_names_in_
    assert len(latest) == 72


def test_groups_of_a_table_in_passes(tmp_path, done):
    path = tmp_path / "rows.parquet"
    FRAME.drop(columns=["day", "kind"]).to_parquet(path, row_group_size=90)
    report = done(
        "fit",
        path,
        "--target",
        "y",
        "--group",
        "patient",
        "--sample",
        300,
        "--time-limit",
        2,
    )
    assert report["rows_test"] % 12 == 0
    assert report["rows_test_are"].endswith("whole groups of 'patient'")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--group", "doctor"], "no column 'doctor'"),
        (["--time", "when"], "no column 'when'"),
        (["--group", "y"], "column 'y' is the target; name another one"),
        (["--group", "kind", "--exclude", "kind"], "column 'kind' is excluded"),
        (["--time", "kind"], "text that is not read as dates"),
        (["--group", "patient", "--time", "day"], "leave one out"),
        (["--time", "day", "--sample", "100"], "--time sorts the rows in memory"),
        (["--group", "kind"], "has 2 groups, and a score needs 3: use --test-size 0"),
        (
            ["--group", "patient", "--solver", "exact"],
            "validates each row by all others",
        ),
    ],
)
def test_what_is_refused(path, options, message, run):
    code, _, err = run("fit", path, "--target", "y", *options)
    assert code == 1
    assert message in " ".join(err.split())


def test_gaps_are_refused(tmp_path, run):
    frame = FRAME.copy()
    frame.loc[frame.index[:3], ["patient", "day"]] = None
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    for option, column in (("--group", "patient"), ("--time", "day")):
        code, _, err = run("fit", path, "--target", "y", option, column)
        assert code == 1
        assert f"column '{column}' is missing in 3 rows" in " ".join(err.split())


class TestErrorsOfGroups:
    """Against the spread of scores over draws of groups."""

    def draws(self, n=400):
        rng = np.random.default_rng(0)
        for _ in range(n):
            group = np.repeat(np.arange(40), rng.integers(1, 12, 40))
            effect = rng.normal(size=40)[group]
            y = rng.normal(size=len(group))
            yield group, y, y + effect + 0.3 * rng.normal(size=len(group))

    def test_of_numbers(self):
        found = [
            (regression(y, p, None, g), r2_score(y, p)) for g, y, p in self.draws()
        ]
        values = [one["r2"]["value"] for one, _ in found]
        np.testing.assert_allclose(values, [plain for _, plain in found])
        told = np.mean([one["r2"]["standard_error"] for one, _ in found])
        assert told == pytest.approx(np.std(values), rel=0.15)
        by_rows = [regression(y, p)["r2"]["standard_error"] for _, y, p in self.draws()]
        assert np.mean(by_rows) < 0.7 * told

    def test_of_classes(self):
        values, told, inside = [], [], []
        for group, _, p in self.draws():
            labels = np.zeros(len(p), int)
            one = 1 / (1 + np.exp(-p - 1))
            found = classification(
                labels,
                (one < 0.5).astype(int),
                np.stack([one, 1 - one], 1),
                None,
                group,
            )
            values.append(found["accuracy"]["value"])
            told.append(found["accuracy"]["standard_error"])
            inside.append(found["accuracy"]["interval"])
        assert np.mean(told) == pytest.approx(np.std(values), rel=0.15)
        low, high = np.transpose(inside)
        covered = np.mean((low <= np.mean(values)) & (np.mean(values) <= high))
        assert 0.9 < covered < 0.99

    def test_all_right_is_not_certain(self):
        found = classification(
            np.zeros(60, int),
            np.zeros(60, int),
            np.tile([0.9, 0.1], (60, 1)),
            None,
            np.arange(60) % 6,
        )
        low, high = found["accuracy"]["interval"]
        assert (high, low < 0.65) == (1.0, True)
