"""Effects of columns: means of predictions by brute force, closed forms, intervals
by drawn functions, grids.
"""

import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.inspection import partial_dependence

from bochner import KernelMachineClassifier, KernelMachineRegressor
from bochner.features import LinearFeatures
from bochner.kernels import Gaussian, Laplacian


def make_frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "height": rng.uniform(size=n),
            "width": rng.normal(size=n),
            "kind": rng.choice(["round", "square", "flat"], n),
            "day": pd.Timestamp("2025-01-01")
            + pd.to_timedelta(rng.integers(0, 100, n), "D"),
            "pair": rng.integers(0, 2, n),
        }
    )
    frame.loc[::9, "width"] = None
    frame.loc[::7, "kind"] = None
    return frame, np.sin(6 * frame["height"]) + (
        frame["kind"] == "round"
    ) + 0.1 * rng.normal(size=n)


def machine(**options):
    given = {
        "kernel": "gaussian",
        "features": "fourier",
        "n_components": 64,
        "metric": "isotropic",
        "random_state": 0,
    }
    return KernelMachineRegressor(**given | options)


@pytest.fixture(scope="module")
def rows():
    return make_frame()


@pytest.fixture(scope="module")
def model(rows):
    return machine(uncertainty="std").fit(*rows)


@pytest.fixture(scope="module")
def classifier(rows):
    X, y = rows
    options = {
        "features": "fourier",
        "n_components": 64,
        "metric": "isotropic",
        "random_state": 0,
    }
    return KernelMachineClassifier("gaussian", **options).fit(
        X, np.where(y > 1, "high", np.where(y > 0, "mid", "low"))
    )


def replaced(X, column, value):
    X = X.copy()
    X[column] = [value] * len(X)
    return X.astype({column: "datetime64[ns]"}) if column == "day" else X


@pytest.mark.slow
def test_partial_dependence_is_the_mean_of_predictions_for_rows_of_one_value(
    rows, model, classifier
):
    X, _ = rows
    for fitted, answer in (
        (model, model.predict),
        (classifier, classifier.predict_proba),
    ):
        effects = fitted.effects(X, list(X), n_curves=300)
        assert effects.n_rows == len(X)
        for effect in effects:
            for g in (0, len(effect.values) // 2, len(effect.values) - 1):
                each = answer(replaced(X, effect.column, effect.values[g])).reshape(
                    len(X), -1
                )
                np.testing.assert_allclose(effect.mean[g], each.mean(axis=0), atol=1e-6)
                own = np.sort(effect.curves[:, g], axis=0)
                np.testing.assert_allclose(own, np.sort(each, axis=0), atol=1e-5)


def test_values_are_in_the_units_of_the_columns(rows, model):
    X, _ = rows
    effects = model.effects(X, list(X))
    assert [one.column for one in effects] == list(X)
    assert [one.is_level for one in effects] == [False, False, True, False, True]
    assert effects["kind"].labels == [*X["kind"].value_counts().index, "missing"]
    assert effects["width"].values[-1] is None
    assert np.isnan(effects["width"].positions[-1])
    assert set(effects["day"].values) <= set(X["day"])
    assert effects["day"].unit == "days"
    assert effects["pair"].values == [0, 1]
    assert all(one.shares.sum() == pytest.approx(1) for one in effects)
    assert effects["kind"].shares[-1] == pytest.approx(X["kind"].isna().mean())
    assert (np.diff(effects["height"].positions) > 0).all()


@pytest.mark.parametrize(
    "convert", [pl.from_pandas, lambda X: X.convert_dtypes(dtype_backend="pyarrow")]
)
def test_frames_of_other_libraries_have_the_same_effects(rows, model, convert):
    X, _ = rows
    for kind in ("partial", "accumulated"):
        own, other = (
            model.effects(frame, ["height", "kind", "day"], kind=kind)
            for frame in (X, convert(X))
        )
        for one, two in zip(own, other, strict=True):
            np.testing.assert_allclose(one.mean, two.mean, atol=1e-6)
            assert one.labels == two.labels


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_arrays_agree_with_scikit_learn(convert):
    X = np.random.default_rng(1).normal(size=(120, 3))
    model = KernelMachineRegressor(
        Laplacian(3.0), n_components=64, alpha=0.1, random_state=0
    )
    model.fit(convert(X), X[:, 0] ** 2)
    effect = model.effects(convert(X), "x0", n_curves=120)[0]
    known = partial_dependence(
        model, X, [0], custom_values={0: effect.positions}, kind="both", method="brute"
    )
    np.testing.assert_allclose(effect.mean[:, 0], known["average"][0], atol=1e-5)
    np.testing.assert_allclose(
        np.sort(effect.curves[:, 0, 0]),
        np.sort(known["individual"][0, :, 0]),
        atol=1e-5,
    )


def test_two_classes_have_the_probability_of_the_second(sold_classifier):
    model, X = sold_classifier.model, sold_classifier.X.to_pandas()
    effects = model.effects(X, "x")
    assert effects.outputs == ("True",)
    assert effects.what == "probability"
    value = effects[0].values[3]
    assert effects[0].mean[3, 0] == pytest.approx(
        model.predict_proba(replaced(X, "x", value))[:, 1].mean()
    )


def test_accumulated_effects_of_a_linear_function_are_lines_of_mean_zero():
    """Also where columns depend on each other, and of a product of independent ones."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(2000, 2))
    X[:, 1] += 2 * X[:, 0]
    model = KernelMachineRegressor(features=LinearFeatures(), alpha=1e-6).fit(
        X, 3 * X[:, 0] - X[:, 1]
    )
    for effect, slope in zip(
        model.effects(X, [0, 1], kind="accumulated"), (3.0, -1.0), strict=True
    ):
        line = slope * effect.positions
        np.testing.assert_allclose(
            effect.mean[:, 0] - effect.mean[0, 0], line - line[0], atol=0.02
        )
        assert np.interp(
            X[:, int(effect.column[1])], effect.positions, effect.mean[:, 0]
        ).mean() == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("n", [1, 50])
def test_accumulated_effects_of_one_value_are_zero(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    model = KernelMachineRegressor(
        features=LinearFeatures(), alpha=1e-6, uncertainty="std"
    ).fit(X, X.sum(axis=1) + 0.1 * rng.normal(size=200))
    asked = np.column_stack([np.full(n, 1.5), X[:n, 1]])
    effect = model.effects(asked, [0], kind="accumulated")[0]
    assert (effect.mean == 0).all()


def test_accumulated_effects_of_levels_are_differences_of_neighbours():
    """The levels a, b and c come with higher and higher heights: their neighbours
    are known.
    """
    rng = np.random.default_rng(3)
    level = rng.integers(0, 3, 600)
    X = pd.DataFrame(
        {
            "height": level + 0.1 * rng.normal(size=600),
            "kind": np.array(["b", "a", "c"])[[1, 0, 2]][level],
        }
    )
    model = machine().fit(X, X["height"] + 2.0 * level)
    effect = model.effects(X, "kind", kind="accumulated")[0]
    assert effect.values in (["a", "b", "c"], ["c", "b", "a"])
    assert float(effect.shares @ effect.mean[:, 0]) == pytest.approx(0, abs=1e-9)
    both = X[X["kind"].isin(effect.values[:2])]
    step = model.predict(both.assign(kind=effect.values[1])) - model.predict(
        both.assign(kind=effect.values[0])
    )
    assert effect.mean[1, 0] - effect.mean[0, 0] == pytest.approx(step.mean(), abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["partial", "accumulated"])
@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplacian(4.0)])
def test_intervals_are_those_of_drawn_functions(kind, kernel):
    """Deviations of the same sums of functions that are drawn from the posterior;
    1,000 draws tell them to 2 %.
    """
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=150)
    model = KernelMachineRegressor(
        kernel, n_components=128, alpha=0.1, uncertainty="std", random_state=0
    ).fit(X, y)
    effect = model.effects(X, 0, kind=kind, n_points=5, coverage=0.6826894921370859)[0]
    half = (effect.high - effect.low)[:, 0] / 2
    if kind == "partial":
        drawn = [
            model.sample_y(np.column_stack([np.full(150, v), X[:, 1]]), 1000, 1).mean(
                axis=0
            )
            for v in effect.values
        ]
        np.testing.assert_allclose(half, np.std(drawn, axis=1), rtol=0.12)
    else:
        ends = np.array(effect.values)
        step = np.clip(np.searchsorted(ends, X[:, 0]), 1, 4) - 1
        inside = (ends[0] <= X[:, 0]) & (X[:, 0] <= ends[-1])
        sides = [np.column_stack([ends[step + k], X[:, 1]])[inside] for k in range(2)]
        change = np.subtract(*(model.sample_y(side, 1000, 1) for side in sides[::-1]))
        own = np.stack([change[step[inside] == k].mean(axis=0) for k in range(4)])
        sums = np.vstack([np.zeros(1000), np.cumsum(own, axis=0)])
        share = np.bincount(step[inside]) / inside.sum()
        sums -= share @ (sums[1:] + sums[:-1]) / 2
        np.testing.assert_allclose(half, sums.std(axis=1), rtol=0.15)


@pytest.mark.slow
def test_interval_of_a_single_row_is_that_of_the_function(model, rows):
    X = rows[0][:1]
    effect = model.effects(X, "height", coverage=0.5)[0]
    assert len(effect.values) == 1
    variance, _ = model.posterior_.variances(
        model.features_, model._encoded(X, np.float64)
    )
    half = 0.6744897501960817 * np.sqrt(variance[0]) * model.target_scale_
    np.testing.assert_allclose(effect.high - effect.mean, half[np.newaxis], rtol=1e-6)


def test_a_spike_leaves_points_for_the_other_values():
    """As the gains of adult, of which 95 % are zero."""
    rng = np.random.default_rng(5)
    gain = np.where(rng.uniform(size=2000) < 0.95, 0.0, rng.integers(100, 5000, 2000))
    gain[:20] = 99_999.0
    X = np.column_stack([gain, rng.normal(size=2000)])
    model = machine(kernel=Gaussian(1.0), metric="auto").fit(X, np.log1p(gain))
    effect = model.effects(X, 0)[0]
    assert 15 <= len(effect.values) <= 20
    assert effect.values[0] == 0
    assert effect.values[-1] == 99_999


def test_records_as_frame_and_json(model, rows):
    effects = model.effects(rows[0], ["width", "day", "kind"])
    frame = effects.to_frame()
    assert len(frame) == sum(len(one.values) for one in effects)
    assert frame.columns.tolist() == [
        "column",
        "value",
        "output",
        "mean",
        "low",
        "high",
        "share",
    ]
    known = json.loads(effects.to_json())
    assert [one["column"] for one in known["columns"]] == ["width", "day", "kind"]
    assert known["columns"][0]["values"][-1] is None
    assert known["columns"][1]["values"][0].startswith("2025-01")
    np.testing.assert_allclose(known["columns"][2]["mean"], effects["kind"].mean)
    assert "missing" in effects._repr_html_()


@pytest.mark.parametrize(
    ("name", "column", "output"),
    [
        ("price_regressor", "kind", []),
        ("kind_classifier", "x", ["class"]),
        ("hybrid_regressor", 0, ["target"]),
    ],
)
def test_the_table_has_a_head_for_each_of_its_cells(name, column, output, request):
    machine = request.getfixturevalue(name)
    effects = machine.model.effects(machine.X, column)
    head, *rows = effects._repr_html_().split("<tr>")[1:]
    heads = re.findall(r">([^<>]+)</th>", head)
    measured = "probability" if name == "kind_classifier" else "prediction"
    assert heads == [
        "column",
        *output,
        f"lowest mean {measured}",
        "highest",
        "difference",
    ]
    assert [len(re.findall(r"</t[hd]>", row)) for row in rows] == [len(heads)]


def test_what_cannot_be_shown_is_an_error(model, rows):
    X, _ = rows
    for options, message in (
        (
            {"columns": "depth"},
            "There is no column 'depth': give its number, from 0 to 4, or one of "
            "height, width",
        ),
        ({"columns": 5}, "There is no column 5"),
        ({"columns": True}, "There is no column True"),
        (
            {"kind": "total"},
            "kind must be one of 'partial', 'accumulated', got 'total'",
        ),
        ({"n_points": 1}, "n_points must be 2 or more"),
        ({"n_rows": 0}, "n_rows must be 1 or more"),
        ({"coverage": 1.0}, "coverage must be between 0 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            model.effects(X, **options)
    with pytest.raises(ValueError, match="seen at fit time, yet now missing"):
        model.effects(X.drop(columns="day"))
    with pytest.raises(KeyError, match="no effect of 'day'; there are height"):
        model.effects(X, "height")["day"]
    with pytest.raises(ValueError, match="There is no effect to draw"):
        model.effects(X, []).plot()


def test_numbers_beside_frequent_ones_have_two_points_at_least():
    """A hundredth of those that are rare lies beyond either of them."""
    rng = np.random.default_rng(0)
    rare = 5 + rng.uniform(size=201)
    x = np.concatenate([np.repeat([0.0, 1.0, 2.0], 250), rare])[:, np.newaxis]
    effect = machine().fit(x, np.sin(x[:, 0])).effects(x, 0, n_points=4)[0]
    ends = np.quantile(rare, [0.01, 0.99], method="inverted_cdf")
    np.testing.assert_allclose(effect.positions, [0, 1, 2, *ends], rtol=1e-12)
