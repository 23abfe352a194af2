"""What the report measures: columns, explained rows, classes, other models; against
known answers and brute force.
"""

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_ind
from sklearn.metrics import (
    confusion_matrix,
    precision_recall_curve,
    roc_auc_score,
    roc_curve,
)
from sklearn.neighbors import NearestNeighbors

from bochner import KernelMachineClassifier, KernelMachineRegressor
from bochner.estimators.explained_scores import training_rows_among
from bochner.explanations.effects import own_values
from bochner.kernels import Gaussian
from bochner.markup import number
from bochner.persistence import load, save
from bochner.report.findings import Origin, find
from bochner.report.given_columns import capped_share, columns
from bochner.report.given_rows import Rows, predict
from bochner.report.model_charts import classes
from bochner.report.worst_rows import neighbours, worst


@pytest.fixture(scope="module")
def wide():
    """A product of two of 20 columns, a line in a third one, and a model of it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(600, 20))
    y = 3 * X[:, 4] * X[:, 9] + X[:, 2]
    model = KernelMachineRegressor(
        "gaussian", metric="ard", n_components=256, random_state=0
    ).fit(X[:400], y[:400])
    return model, X[400:], y[400:]


@pytest.fixture(scope="module")
def binary():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"x": rng.normal(size=400), "kind": rng.choice(["a", "b"], 400)})
    y = np.where(X["x"] + rng.normal(size=400) > 0.8, "yes", "no")
    model = KernelMachineClassifier(
        "gaussian", n_components=64, metric="isotropic", random_state=0
    )
    return model.fit(X[:250], y[:250]), X[250:], y[250:]


@pytest.mark.slow
def test_columns_are_ranked_and_pairs_found_among_many(wide):
    model, X, y = wide
    found = find(model, X, y, Origin()).explained
    assert set(found.columns[:3]) == {2, 4, 9}
    assert [one.column for one in found.effects][:3] == [
        f"x{j}" for j in found.columns[:3]
    ]
    assert set(found.interactions.top_pairs(1)[0][:2]) == {"x4", "x9"}
    assert len(found.interactions.feature_names) == 10


def test_three_rows_are_those_of_smallest_median_and_largest_loss(wide):
    model, X, y = wide
    found = find(model, X, y, Origin()).explained
    off = (model.predict(X) - y) ** 2
    where = dict(found.told)
    assert off[where["smallest loss"]] == off.min()
    assert off[where["largest loss"]] == off.max()
    assert off[where["median loss"]] == np.sort(off)[len(off) // 2]
    told = [i for _, i in found.told]
    np.testing.assert_allclose(
        found.attribution.predictions[:3], model.predict(X)[told], atol=1e-8
    )


def test_interactions_with_other_columns_held_are_those_of_the_function_of_the_few(
    wide,
):
    model, X, _ = wide
    rows = Rows.of(X, np.arange(200.0), model)
    from bochner.report.explained import PAIRED_BACKGROUND, PAIRED_ROWS, _interactions

    found = _interactions(model, rows, [4, 9], 7)
    some, others = rows.sample(PAIRED_ROWS, 8), rows.sample(PAIRED_BACKGROUND, 9)

    def at(a, b):
        row = X[7].copy()
        row[[4, 9]] = a, b
        return row

    for i in range(3):
        x = some.X[i]
        # Two players: the interaction is the mixed difference
        mixed = [
            [at(x[4], x[9]), at(x[4], b[9]), at(b[4], x[9]), at(b[4], b[9])]
            for b in others.X
        ]
        f = model.predict(np.array(mixed).reshape(-1, 20)).reshape(-1, 4)
        expected = (f[:, 0] - f[:, 1] - f[:, 2] + f[:, 3]).mean()
        assert found.values[i, 0, 1] == pytest.approx(expected, abs=1e-8)


def test_frames_keep_other_columns_held():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(60, 18)), columns=[f"c{j}" for j in range(18)])
    X["c17"] = rng.choice(["u", "v"], 60)
    model = KernelMachineRegressor("gaussian", n_components=32, random_state=0).fit(
        X, X["c0"]
    )
    from bochner.report.explained import _held_but

    rows = Rows.of(X[::-1], X["c0"][::-1], model)
    made = _held_but(rows, 5, rows.take(np.arange(8, 12)), [0, 17])
    own = X[::-1].reset_index(drop=True)
    for name in X:
        expected = own[name][8:12] if name in ("c0", "c17") else [own[name][5]] * 4
        assert made[name].tolist() == list(expected)


def test_areas_and_tables_of_classes_are_right(binary):
    model, X, y = binary
    found = find(model, X, y, Origin())
    shown = classes(found)
    yes, p = np.asarray(y) == "yes", model.predict_proba(X)[:, 1]
    wins = (p[yes][:, None] > p[~yes]).mean() + 0.5 * (
        p[yes][:, None] == p[~yes]
    ).mean()
    assert f"AUC = {wins:.2f}" in shown["curves"][0]
    assert f">{wins:.3f}<" in shown["table"]
    counts = confusion_matrix(y, model.predict(X)).ravel().tolist()
    cells = re.findall(r">(\d+)</text>", shown["confusions"])
    assert list(map(int, cells)) == counts
    above = p >= 0.3
    assert f">{(above & yes).sum() / above.sum():.3f}<" in shown["thresholds"]
    assert shown["calibration"]["error"] == pytest.approx(
        found.scores["calibration_error"]["value"]
    )


def line_of(figure):
    """The points of the curve of a chart whose axes go from -.01 to 1.01."""
    svg = ElementTree.fromstring(figure).find("svg")
    box = svg.find(".//clipPath/rect")
    left, top, width, height = (
        float(box.get(name)) for name in ("x", "y", "width", "height")
    )
    curve = next(
        path for path in svg.iter("path") if "--c0" in path.get("style", "")
    ).get("d")
    x, y = np.array(re.findall(r"[-\d.]+", curve), float).reshape(-1, 2).T
    return 1.02 * (x - left) / width - 0.01, 1.01 - 1.02 * (y - top) / height


def test_curves_are_those_of_sklearn(binary):
    """Within the width of the line: corners that nobody sees are left out."""
    model, X, y = binary
    roc, precision = classes(find(model, X, y, Origin()))["curves"]
    yes, p = np.asarray(y) == "yes", model.predict_proba(X)[:, 1]
    rates, (precisions, recalls, _) = roc_curve(yes, p), precision_recall_curve(yes, p)
    steps = np.repeat(recalls, 2)[1:], np.repeat(precisions, 2)[:-1]
    for figure, expected in ((roc, rates[:2]), (precision, steps)):
        drawn = np.column_stack(line_of(figure))
        corners = np.column_stack(expected)
        apart = np.abs(drawn[:, np.newaxis] - corners).max(axis=2)
        assert len(drawn) > 10
        assert apart.min(axis=1).max() < 0.005
        assert 1 - apart.min(axis=0)[[0, -1]] == pytest.approx([1, 1], abs=0.005)


@pytest.mark.slow
def test_classes_that_do_not_occur_are_no_error():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 2))
    labels = np.array(["a", "b", "c"])[np.arange(90) % 3]
    model = KernelMachineClassifier("gaussian", n_components=16, random_state=0).fit(
        X, labels
    )
    page = model.report_html(X[labels != "b"], labels[labels != "b"])
    assert "n/a" in page
    assert "ROC curve of each class" in page
    page = model.report_html(X[labels == "a"], labels[labels == "a"])
    assert "ROC curve" not in page
    assert "Classes with fewer than 20 of these rows: b, c." in page


@pytest.mark.slow
def test_remarks_on_columns():
    rng = np.random.default_rng(4)
    X = pd.DataFrame(
        {
            "usual": rng.normal(size=300),
            "moved": rng.normal(size=300),
            "flat": np.ones(300),
        }
    )
    X["name"] = [f"row {i}" for i in range(300)]
    X["copy"] = rng.normal(size=300)
    X.loc[::4, "usual"] = np.nan
    y = np.asarray(X["copy"] * 3)
    model = KernelMachineRegressor("gaussian", n_components=64, random_state=0).fit(
        X[:150], y[:150]
    )
    given = X[150:].copy()
    given["moved"] += 4
    rows = Rows.of(given, y[150:], model)
    found = {one.name: one for one in columns(model, rows, predict(model, rows))}
    assert found["usual"].remarks(150) == []
    assert found["usual"].missing == pytest.approx(given["usual"].isna().mean())
    assert found["moved"].remarks(150) == ["differs from the training rows"]
    assert found["flat"].remarks(150) == ["constant"]
    assert found["name"].remarks(150)[0] == "like an identifier"
    assert found["copy"].remarks(150) == ["predicts the target alone: a leak?"]
    page = model.report_html(given, y[150:])
    assert "Columns that differ from the training rows: moved" in page
    assert "One column alone predicts the target: copy." in page


def given(X, y, n=300):
    """A quick model of the first rows, and what its report says of the columns of the
    others.
    """
    kind = KernelMachineRegressor if y.dtype.kind == "f" else KernelMachineClassifier
    model = kind("gaussian", n_components=16, alpha=0.1, random_state=0)
    model.fit(X[:n], y[:n])
    rows = Rows.of(X[n:], y[n:], model)
    return {one.name: one for one in columns(model, rows, predict(model, rows))}


def test_copies_of_a_column_are_named_and_other_columns_are_not():
    rng = np.random.default_rng(20)
    level = rng.integers(0, 8, 500)
    X = pd.DataFrame(
        {
            "number": level,
            "level": np.array(list("fcahbged"))[level],
            "coarse": level // 2,
            "length": rng.lognormal(size=500),
            "rare": (np.arange(500) % 100 == 7).astype(float),
        }
    )
    X["log"] = -np.log(X["length"])
    X["other rare"] = X["rare"]
    found = given(X, rng.normal(size=500))
    twins = {name: one.twin for name, one in found.items()}
    assert twins.pop("number") == "level"
    assert twins.pop("level") == "number"
    assert twins.pop("length") == "log"
    assert twins.pop("log") == "length"
    assert set(twins.values()) == {""}
    assert found["level"].remarks(200) == ["one-to-one with number"]


@pytest.mark.filterwarnings("ignore:Column 'length'. -999")
def test_words_and_numbers_that_stand_for_missing_values_are_remarked():
    rng = np.random.default_rng(21)
    X = pd.DataFrame(
        {
            "job": rng.choice(["cook", "smith"], 500),
            "length": rng.normal(20, 3, 500).round(1),
            "age": rng.integers(20, 90, 500),
        }
    )
    X.loc[::10, "job"] = "?"
    X.loc[::20, "length"] = -999
    found = given(X, rng.normal(size=500))
    assert found["job"].remarks(200) == ["'?' in 10 % of the rows: missing?"]
    assert found["length"].remarks(200) == ["-999 in 5.0 % of the rows: missing?"]
    assert found["age"].remarks(200) == []


def test_a_cap_is_a_greatest_target_that_many_rows_have():
    y = np.random.default_rng(22).exponential(size=1000)
    assert capped_share(y) == 0
    assert capped_share(np.minimum(y, 2.0)) == pytest.approx(np.mean(y >= 2))
    assert capped_share(np.minimum(y, 6.0)) == 0  # some rows
    assert capped_share(np.arange(1000) % 5) == 0  # ratings
    assert capped_share(np.arange(1000) % 100) == 0  # counts that are all as frequent
    assert capped_share(np.ones(50)) == 0


def test_a_column_alone_is_rated_by_the_area_under_the_curve():
    """As no single column moves the most probable class, accuracy would be that of the
    most frequent class.
    """
    rng = np.random.default_rng(23)
    X = pd.DataFrame({"level": rng.choice(["a", "b"], 2300)})
    X["none"] = rng.normal(size=2300)
    y = np.where(rng.random(2300) < np.where(X["level"] == "a", 0.4, 0.1), "yes", "no")
    found = given(X, y)
    area = roc_auc_score(y[300:] == "yes", X["level"][300:] == "a")
    assert area > 0.65
    assert found["level"].alone == pytest.approx(area, abs=0.02)
    assert found["none"].alone == pytest.approx(0.5, abs=0.05)
    several = np.where(X["level"] == "a", y, "third")
    parts = [several[300:] == name for name in np.unique(several)]
    areas = [roc_auc_score(part, X["level"][300:] == "a") for part in parts]
    areas = [max(area, 1 - area) for area in areas]
    expected = np.average(areas, weights=[part.sum() for part in parts])
    assert given(X, several)["level"].alone == pytest.approx(expected, abs=0.02)


def test_drift_is_by_all_training_rows(tmp_path):
    """Against the tests of SciPy on the rows themselves."""
    rng = np.random.default_rng(24)
    X = pd.DataFrame(
        {
            "same": rng.normal(size=3000),
            "moved": rng.normal(size=3000),
            "level": rng.choice(list("abcde"), 3000),
            "flat": np.full(3000, 0.1),
            "new": np.append(np.full(2000, np.nan), rng.normal(size=1000)),
        }
    )
    X.loc[2000:, "moved"] += 0.1
    X.loc[2000::10, "level"] = "z"
    model = KernelMachineRegressor("gaussian", n_components=16, alpha=0.1)
    y = rng.normal(size=3000)
    model.fit(X[:2000], y[:2000])
    rows = Rows.of(X[2000:], y[2000:], model)
    found = {one.name: one for one in columns(model, rows, predict(model, rows))}
    for name in ("same", "moved"):
        # Means and gaps of five columns
        p = ttest_ind(X[name][:2000], X[name][2000:], equal_var=False).pvalue
        assert found[name].drift == pytest.approx(min(10 * p, 1), rel=0.01)
    assert found["flat"].drift == 1
    assert found["new"].drift == 0
    assert found["level"].drift is None
    assert found["level"].remarks(1000) == ["new levels in 10 % of the rows"]
    # A saved model has all of this
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert columns(again, rows, predict(again, rows)) == list(found.values())


def test_neighbours_are_the_nearest_rows_of_the_kernel():
    rng = np.random.default_rng(25)
    X = rng.uniform(-1, 1, size=(60, 1))
    X[7] = X[8]
    y = X[:, 0] + np.where(np.arange(60) == 7, 5.0, 0.0)
    model = KernelMachineRegressor(Gaussian(1.0), solver="exact", alpha=0.1)
    found = find(model.fit(X, y), X, y, Origin())
    asked = np.array([7, 20])
    rows = found.rows.take(asked)
    near, distances = neighbours(model, rows, found.rows, asked)
    expected = NearestNeighbors(n_neighbors=4).fit(X).kneighbors(X[asked])[1]
    assert near[0, 0] == 8
    assert distances[0, 0] == pytest.approx(0, abs=1e-6)
    assert set(near[1]) == set(expected[1]) - {20}
    shown = worst(found)
    first = re.findall("<tr>.*?</tr>", shown)[1:3]
    assert "<strong>7</strong>" in first[0]
    assert f">{number(y[7])}<" in first[0]
    assert "near: 8<" in first[1]
    assert f">{number(y[8])}<" in first[1]
    # Of other rows, which are those of the fit
    page = model.report_html(X[:30], y[:30], X_train=X[::-1], y_train=y[::-1])
    assert "training rows that are nearest" in page
    first = re.findall("<tr>.*?</tr>", page.partition("and their neighbours<")[2])[1:3]
    assert "<strong>7</strong>" in first[0]
    assert "near: 51<" in first[1]  # of two copies, 8 as counted from the end


@pytest.mark.slow
@pytest.mark.parametrize("text", [False, True])
def test_training_rows_are_told_from_others(text):
    """By the rows that the model keeps: a training score is never the first of a
    page.
    """
    rng = np.random.default_rng(5)
    X, y = (
        pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc")),
        rng.normal(size=300),
    )
    if text:
        X["b"] = np.array([f"level {k}" for k in rng.permutation(300) // 2])
    model = KernelMachineRegressor(
        "gaussian", n_components=200, alpha=1e-6, random_state=0
    ).fit(X[:200], y[:200])
    said = "100 of the 100 training rows that the model keeps are among them"
    assert training_rows_among(model, X[:200]) == said
    assert training_rows_among(model, X[199:39:-1]).endswith(said[3:])
    assert training_rows_among(model, X[200:]) == ""
    page, others = (
        model.report_html(X[:200], y[:200]),
        model.report_html(X[200:], y[200:]),
    )
    first = page.partition('<ul class="summary">')[2][:200]
    assert first.startswith(
        f"\n<li>The rows of this page are training rows ({said}): R² "
    )
    assert "Scores on 200 training rows" in page
    assert "training rows (" not in others


def test_levels_of_few_kinds_are_no_training_rows():
    rng = np.random.default_rng(6)
    X, y = (
        pd.DataFrame(rng.integers(0, 3, (300, 2)).astype(str), columns=["a", "b"]),
        rng.normal(size=300),
    )
    model = KernelMachineRegressor("gaussian", n_components=32, random_state=0).fit(
        X[:200], y[:200]
    )
    assert training_rows_among(model, X[200:], n_fitted=200) == ""
    assert training_rows_among(model, X[:200], n_fitted=200).startswith(
        "100 of the 100"
    )


@pytest.mark.slow
def test_errors_of_numbers_are_in_the_unit_of_the_target(wide):
    model, X, y = wide
    page, off = model.report_html(X, y), np.abs(model.predict(X) - y)
    assert f">{number(off.mean())}<" in page
    assert f">{number((off**2).mean() ** 0.5)}<" in page
    assert "Targets against predictions" in page


@pytest.mark.slow
def test_training_rows_with_mean_targets_of_levels_are_told():
    """A training row has means of the other rows, and looks new by these."""
    rng = np.random.default_rng(7)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=2000),
            "town": [f"t{k}" for k in rng.integers(0, 200, 2000)],
        }
    )
    y = X["size"] + rng.normal(size=200)[X["town"].str[1:].astype(int)]
    model = KernelMachineRegressor(
        features="fourier", n_components=64, metric="ard", random_state=0
    ).fit(X, y)
    assert model.encoder_.has_level_means
    assert training_rows_among(model, X).startswith("100 of the 100 ")
    assert training_rows_among(model, X.assign(size=X["size"] + 0.001)) == ""


def small_model(frame, y):
    """Quick to fit, and to report on."""
    return KernelMachineRegressor(
        "gaussian", n_components=32, metric="isotropic", alpha=0.1, random_state=0
    ).fit(frame, y)


def test_missing_values_of_nullable_columns_are_none():
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "text": pd.array(["a", "b", None], dtype="string"),
            "day": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
        }
    )
    X = Rows.of(frame, np.zeros(3), None, fewest=1).X
    assert [own_values(X, j).index(None) for j in range(3)] == [1, 2, 1]


@pytest.mark.filterwarnings("ignore:.*'gone'")
def test_a_column_that_is_missing_in_all_rows_is_reported():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["there", "gone"])
    model = small_model(frame, frame["there"])
    page = model.report_html(frame.assign(gone=np.nan), frame["there"])
    assert "gone" in page


def test_training_rows_are_checked_at_once():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    model = small_model(X, X[:, 0])
    asked = X, X[:, 0], Origin()
    assert len(find(model, *asked, (X[:3], X[:3, 0], None)).fitted) == 3
    missing = np.where(np.arange(60) == 7, np.nan, X[:, 0])
    for rows, targets in ((X, missing), (X[:, :1], X[:, 0])):
        with pytest.raises(ValueError, match=r"^Training rows: "):
            find(model, *asked, (rows, targets, None))
