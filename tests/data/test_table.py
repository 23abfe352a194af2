"""Tables: the same matrix whatever the library, scikit-learn as the outside truth,
blocks as one.
"""

import datetime as dt
import os
import pickle
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import bochner
from bochner import FourierFeatures, KernelMachineRegressor
from bochner.data.table import TableEncoder, TableStatistic
from bochner.persistence import load, save

FRAMES = {
    "pandas": pd.DataFrame,
    "pandas arrow": lambda data: pa.table(data).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas object": lambda data: pd.DataFrame(
        {name: pd.Series(v, dtype=object) for name, v in data.items()}
    ),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}
frames = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())

MIXED = {
    "size": [1.5, None, 3.0, -2.0, 0.25],
    "count": [1, 2, 5, 9, 2],
    "few": [None, 3, 7, 7, 3],
    "flag": [True, False, None, True, True],
    "price": [Decimal("1.50"), None, Decimal("2.25"), Decimal("0.75"), Decimal("8.00")],
    "city": ["Oslo", None, "Rome", "Oslo", ""],
    "moment": [
        dt.datetime(2024, 2, 29, 6),
        None,
        dt.datetime(1969, 7, 20, 20, 17),
        dt.datetime(2000, 1, 1),
        None,
    ],
    "span": [
        dt.timedelta(days=1),
        dt.timedelta(seconds=-3),
        None,
        dt.timedelta(milliseconds=5),
        dt.timedelta(0),
    ],
    "hour": [dt.time(6), None, dt.time(18, 30), dt.time(0), dt.time(12)],
}


def encoded(X, **parameters):
    encoder = TableEncoder(**parameters)
    Z = encoder.fit_transform(X)
    assert Z.dtype == np.float32
    return Z, list(encoder.get_feature_names_out())


@parametrize_with_checks([TableEncoder()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@frames
def test_every_library_gives_the_same_matrix(frame):
    Z, names = encoded(pa.table(MIXED))
    other, other_names = encoded(frame(MIXED))
    np.testing.assert_array_equal(other, Z)
    assert other_names == names
    assert names == [
        "size", "size_missing", "count", "few", "few_missing", "flag", "flag_missing", "price", "price_missing",
        "city_", "city_Oslo", "city_Rome", "city_missing",
        "moment_days", "moment_year_cos", "moment_year_sin", "moment_week_cos", "moment_week_sin", "moment_day_cos",
        "moment_day_sin", "moment_missing",
        "span_seconds", "span_missing", "hour_day_cos", "hour_day_sin", "hour_missing",
    ]  # fmt: skip


def test_tags_tell_scikit_learn_what_is_taken():
    tags = get_tags(TableEncoder())
    inputs = tags.input_tags
    assert (inputs.sparse, inputs.allow_nan, inputs.categorical, inputs.string) == (
        True,
        True,
        True,
        True,
    )
    assert tags.transformer_tags.preserves_dtype == ["float32"]


def test_object_array_equals_frame():
    rows = np.array(list(zip(*MIXED.values(), strict=True)), dtype=object)
    np.testing.assert_array_equal(encoded(rows)[0], encoded(pa.table(MIXED))[0])
    assert encoded(rows)[1][:3] == ["x0", "x0_missing", "x1"]
    columns = [0, 1, 5]
    np.testing.assert_array_equal(
        encoded(rows[:, columns].tolist())[0], encoded(rows[:, columns])[0]
    )


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.longdouble, np.int8, np.uint64]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_agree_with_standard_scaler(dtype, order):
    X = np.asarray(
        np.random.default_rng(0).integers(0, 50, (20_000, 30)), dtype=dtype, order=order
    )
    X.flags.writeable = False
    expected = StandardScaler().fit_transform(X.astype(np.float64))
    np.testing.assert_allclose(encoded(X)[0], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        encoded(X, with_std=False)[0],
        X.astype(np.float64) - X.mean(0, dtype=float),
        rtol=1e-6,
    )
    weight = np.arange(20_000) % 4
    expected = (
        StandardScaler()
        .fit(X.astype(np.float64), sample_weight=weight)
        .transform(X.astype(np.float64))
    )
    np.testing.assert_allclose(
        TableEncoder().fit(X, sample_weight=weight).transform(X),
        expected,
        rtol=1e-6,
        atol=1e-6,
    )


@frames
def test_text_agrees_with_one_hot_encoder(frame):
    rng = np.random.default_rng(1)
    data = {
        "a": rng.choice(list("zebra"), 200).tolist(),
        "b": rng.choice(["1", "10", "9"], 200).tolist(),
    }
    oracle = OneHotEncoder(sparse_output=False).fit(pd.DataFrame(data))
    Z, names = encoded(frame(data))
    np.testing.assert_array_equal(Z, oracle.transform(pd.DataFrame(data)))
    assert names == list(oracle.get_feature_names_out())


def test_text_arrays():
    X = np.array([["a", "x"], ["b", "x"]])
    np.testing.assert_array_equal(encoded(X)[0], [[1, 0, 1], [0, 1, 1]])
    np.testing.assert_array_equal(
        encoded(X.astype(np.dtypes.StringDType()))[0], [[1, 0, 1], [0, 1, 1]]
    )


def test_two_values_become_zero_and_one():
    X = np.array([[3.0, 1], [7, 1], [7, 0]])
    encoder = TableEncoder().fit(X)
    np.testing.assert_array_equal(encoder.transform(X), [[0, 1], [1, 1], [1, 0]])
    np.testing.assert_array_equal(
        encoder.transform([[5.0, 2], [11, 0]]), [[0.5, 2], [2, 0]]
    )
    np.testing.assert_allclose(
        TableEncoder(with_std=False).fit_transform(X), X - X.mean(0), rtol=1e-6
    )
    np.testing.assert_array_equal(
        encoded(np.array([[True], [False], [True]]))[0], [[1], [0], [1]]
    )


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 + 0.1, 1e15, -1e300, True])
def test_constant_columns_are_zero(value):
    X = np.full((1001, 2), value)
    np.testing.assert_array_equal(encoded(X)[0], 0.0)
    np.testing.assert_array_equal(encoded(pd.DataFrame(X, columns=["a", "b"]))[0], 0.0)
    # Nothing was learnt about such a column, so that another value later on must not
    # move the row.
    assert TableEncoder().fit(np.full((9, 1), 5.0)).transform([[6e6]])[0, 0] == 0.0
    assert (
        TableEncoder(with_std=False).fit(np.full((9, 1), 5.0)).transform([[6.0]])[0, 0]
        == 1.0
    )


def test_rounding_is_not_variation():
    X = np.array([[0.3 * 1e9], [(0.1 + 0.2) * 1e9]])
    assert X[0] != X[1]
    np.testing.assert_allclose(encoded(X)[0], 0.0, atol=1e-6)


def test_variance_far_from_zero():
    x = 1e9 + np.random.default_rng(0).normal(size=(30_000, 3))
    Z = encoded(x)[0]
    np.testing.assert_allclose(Z.mean(0, dtype=float), 0, atol=1e-6)
    np.testing.assert_allclose(Z.std(0, dtype=float), 1, rtol=1e-6)


@pytest.mark.filterwarnings(
    "ignore:.*(levels that the fit did not see|missing values, and had none)"
)
@pytest.mark.parametrize(
    "frame", [np.array, pd.DataFrame, lambda X: pl.DataFrame(X, orient="row")]
)
def test_missing_numbers(frame):
    nan = np.nan
    X = np.array([[1.0, 1, nan], [nan, 2, nan], [5, 4, nan], [3, 5, nan]])
    encoder = TableEncoder().fit(frame(X))
    Z = encoder.transform(frame(X))
    assert Z.shape == (4, 3)
    np.testing.assert_array_equal(Z[:, 1], [0, 1, 0, 0])
    np.testing.assert_allclose(Z[:, 0], [-np.sqrt(1.5), 0, np.sqrt(1.5), 0], rtol=1e-6)
    np.testing.assert_array_equal(
        encoder.transform(frame(np.array([[nan, nan, np.inf]]))), [[0, 1, 0]]
    )


def test_missing_binary_takes_the_mean():
    Z, _ = encoded(np.array([[0.0], [2], [2], [np.nan]]))
    np.testing.assert_allclose(Z, [[0, 0], [1, 0], [1, 0], [2 / 3, 1]], rtol=1e-6)


@frames
def test_empty_columns_have_no_output_and_are_ignored(frame):
    encoder = TableEncoder().fit(frame({"a": [None, None], "b": [1.0, 2.0]}))
    assert list(encoder.get_feature_names_out()) == ["b"]
    for other in ([1.0, 2.0], ["x", "y"]):
        np.testing.assert_array_equal(
            encoder.transform(frame({"a": other, "b": [1.0, 2.0]})), [[0], [1]]
        )
    assert TableEncoder().fit_transform(np.full((3, 2), np.nan)).shape == (3, 0)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_named(bad):
    X = np.ones((30_000, 10))
    X[[20_001, 20_005], [7, 3]] = bad
    X[3, 1] = np.nan
    with pytest.raises(
        ValueError, match=r"infinity: column 'x7', row 20001; drop or clip"
    ):
        TableEncoder().fit(X)
    with pytest.raises(
        ValueError, match=r"infinity: column 'x7', row 20001; drop or clip"
    ):
        TableEncoder().fit(np.where(np.isinf(X), 0, X)).transform(X)
    data = {"a": [1.0, 2.0, 3.0], "b": [None, 1.0, bad]}
    for frame in FRAMES.values():
        with pytest.raises(
            ValueError, match=r"infinity: column 'b', row 2; drop or clip"
        ):
            TableEncoder().fit(frame(data))
        with pytest.raises(
            ValueError, match=r"infinity: column 'b', row 2; drop or clip"
        ):
            TableEncoder().fit(frame({"a": [1.0, 2.0], "b": [1.0, 2.0]})).transform(
                frame(data)
            )
    with pytest.raises(ValueError, match=r"infinity: column 'x1', row 2; drop or clip"):
        TableEncoder().fit(sp.csr_array([[0, 0], [1, 0], [0, bad]]))


def test_values_too_large_are_named():
    with pytest.raises(ValueError, match="column 'x1' holds values too large"):
        TableEncoder().fit([[1.0, 1e308], [2.0, -1e308], [2.0, 0.0]])
    with pytest.raises(ValueError, match="column 'x1', row 1: value too large"):
        TableEncoder().fit(np.arange(6.0).reshape(3, 2)).transform(
            [[0.0, 0.0], [0.0, 1e60]]
        )


@pytest.mark.parametrize("size", [1e160, 1e200, 1e300, 1e-170, 1e-310])
def test_numbers_whose_squares_are_none(size):
    """Their range takes the place of their deviation, which would be infinite or
    zero.
    """
    X = np.array([[0.0], [3.0], [4.0]]) * size
    Z = TableEncoder().fit_transform(X)
    np.testing.assert_allclose(np.diff(Z[:, 0]), [0.75, 0.25], rtol=1e-6)


@pytest.mark.filterwarnings(
    "ignore:.*(levels that the fit did not see|missing values, and had none)"
)
def test_frequent_categories_and_the_rest():
    X = pd.DataFrame({"a": [*"ddccbbba", None]})
    encoder = TableEncoder(max_categories=2).fit(X)
    code = [f"a_code{i}" for i in range(16)]
    assert list(encoder.get_feature_names_out()) == [
        "a_b",
        "a_c",
        "a_other",
        *code,
        "a_missing",
    ]
    Z = np.delete(
        encoder.transform(pd.DataFrame({"a": ["d", "a", "new", "b", None]})),
        range(3, 19),
        axis=1,
    )
    np.testing.assert_array_equal(Z.argmax(1), [2, 2, 2, 0, 3])
    np.testing.assert_array_equal(Z.sum(1), 1)
    encoder = TableEncoder(max_categories=4).fit(X[:-1])
    assert list(encoder.get_feature_names_out()) == ["a_a", "a_b", "a_c", "a_d"]
    np.testing.assert_array_equal(
        encoder.transform(pd.DataFrame({"a": ["new", None]})), 0
    )
    encoder = TableEncoder(max_categories=1).fit(
        X, sample_weight=[1, 1, 1, 1, 1, 1, 1, 9, 1]
    )
    assert list(encoder.get_feature_names_out()) == [
        "a_a",
        "a_other",
        *code,
        "a_missing",
    ]


def test_categorical_types():
    labels = ["b", "a", None, "b"]
    expected, names = encoded(pd.DataFrame({"a": labels}))
    for column in (
        pd.Series(pd.Categorical(labels, categories=["b", "z", "a"], ordered=True)),
        pl.Series(labels, dtype=pl.Categorical),
        pl.Series(labels, dtype=pl.Enum(["b", "z", "a"])),
        pa.array(labels).dictionary_encode(),
        pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 2, 0]), pa.array(["b", "a", None])
        ),
    ):
        module = {"pandas": pd.DataFrame, "polars": pl.DataFrame}.get(
            type(column).__module__.split(".")[0], pa.table
        )
        Z, other_names = encoded(module({"a": column}))
        np.testing.assert_array_equal(Z, expected)
        assert other_names == names
    encoder = TableEncoder().fit(pd.DataFrame({"a": pd.Categorical([1, 2, None])}))
    assert list(encoder.get_feature_names_out()) == ["a_1", "a_2", "a_missing"]
    np.testing.assert_array_equal(
        encoder.transform(pd.DataFrame({"a": pd.Categorical([2])})), [[0, 1, 0]]
    )
    assert encoded(pd.DataFrame({"a": pd.cut([0.5, 1.5], [0, 1, 2])}))[1] == [
        "a_(0, 1]",
        "a_(1, 2]",
    ]
    repeated_labels = pd.DataFrame(
        {"a": pd.Categorical([1, "1"], categories=[1, "1", "unused"])}
    )
    np.testing.assert_array_equal(encoded(repeated_labels)[0], [[1], [1]])


@frames
def test_dates(frame):
    days = [dt.date(1970, 1, 1), None, dt.date(2024, 12, 31), dt.date(1969, 12, 29)]
    Z, names = encoded(pl.DataFrame({"d": days}), with_std=False)
    assert names == ["d_days"] + [
        f"d_{part}_{w}" for part in ("year", "week") for w in ("cos", "sin")
    ] + ["d_missing"]
    number = np.array([0, 20088, -3.0])
    known = [0, 2, 3]
    np.testing.assert_allclose(Z[known, 0], number - number.mean(), rtol=1e-6)
    angle = 2 * np.pi * np.array([0, 365 / 366, 362 / 365])
    np.testing.assert_allclose(
        Z[known, 1:3], np.c_[np.cos(angle), np.sin(angle)], atol=1e-6
    )
    angle = 2 * np.pi * np.array([3, 1, 0]) / 7
    np.testing.assert_allclose(
        Z[known, 3:5], np.c_[np.cos(angle), np.sin(angle)], atol=1e-6
    )
    np.testing.assert_array_equal(Z[1], [0, 0, 0, 0, 0, 1])
    if frame is not FRAMES["pandas"]:
        np.testing.assert_array_equal(encoded(frame({"d": days}), with_std=False)[0], Z)


def test_moments():
    naive = [
        dt.datetime(2024, 6, 3, 6),
        dt.datetime(2024, 1, 7, 18),
        dt.datetime(2023, 1, 2, 12),
    ]
    Z, names = encoded(pl.DataFrame({"t": naive}))
    assert names[-2:] == ["t_day_cos", "t_day_sin"]
    np.testing.assert_allclose(Z[:, -2:], [[0, 1], [0, -1], [-1, 0]], atol=1e-6)
    np.testing.assert_allclose(
        Z[0, 3:5], [np.cos(np.pi / 14), np.sin(np.pi / 14)], rtol=1e-6
    )
    zoned = pl.DataFrame({"t": naive}).with_columns(
        pl.col("t").dt.replace_time_zone("Asia/Tokyo")
    )
    objects = np.array([[value] for value in naive], dtype=object)
    for X in (
        zoned,
        zoned.to_arrow(),
        zoned.to_pandas(),
        objects,
        np.array(objects, "M8[h]"),
        np.array(objects, "M8[ns]"),
    ):
        np.testing.assert_allclose(encoded(X)[0], Z, atol=1e-6)


def test_circles_without_variation_are_dropped():
    X = pd.DataFrame({"t": pd.to_datetime(["2024-01-01", "2024-01-08", "2024-02-12"])})
    assert encoded(X)[1] == ["t_days", "t_year_cos", "t_year_sin"]
    assert encoded(pl.DataFrame({"t": [dt.time(3)] * 2, "a": [1, 2]}))[1] == ["a"]


def test_spans_and_hours():
    X = pl.DataFrame(
        {"s": [dt.timedelta(0), dt.timedelta(hours=1), dt.timedelta(milliseconds=-500)]}
    )
    np.testing.assert_allclose(
        encoded(X, with_std=False)[0][:, 0],
        np.array([0, 3600, -0.5]) - 3599.5 / 3,
        rtol=1e-6,
    )
    X = pl.DataFrame({"h": [dt.time(0), dt.time(6), None]})
    np.testing.assert_allclose(
        encoded(X)[0], [[1, 0, 0], [0, 1, 0], [0, 0, 1]], atol=1e-6
    )


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([1, None, 2.5], ["a", "a_missing"]),
        ([1, Decimal("2.5"), np.float32(3), np.nan], ["a", "a_missing"]),
        ([True, None, False], ["a", "a_missing"]),
        ([True, 2, 3], ["a"]),
        ([10**30, 0, 7], ["a"]),
        (["x", None, "y"], ["a_x", "a_y", "a_missing"]),
        (["x", 1, 2.5, pd.NA, True], ["a_1", "a_2.5", "a_True", "a_x", "a_missing"]),
        ([None, pd.NaT], []),
    ],
)
def test_objects_are_judged_by_what_they_hold(values, names):
    values = pd.Series(values, dtype=object)
    assert encoded(pd.DataFrame({"a": values}))[1] == names
    assert encoded(values.to_numpy()[:, None])[1] == [
        name.replace("a", "x0", 1) for name in names
    ]


def test_objects_far_down_count():
    values = ["x"] * 200 + [1]
    assert encoded(pd.DataFrame({"a": pd.Series(values, dtype=object)}))[1] == [
        "a_1",
        "a_x",
    ]


def test_mixed_objects_read_numbers_as_text():
    encoder = TableEncoder().fit(np.array([["a"], [1]], dtype=object))
    np.testing.assert_array_equal(
        encoder.transform(np.array([[1]], dtype=object)), [[1, 0]]
    )
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({0: ["a"]})), [[0, 1]])
    encoder.partial_fit(np.array([[2]], dtype=object)).partial_fit(np.array([["b"]]))
    assert list(encoder.get_feature_names_out()) == ["x0_1", "x0_2", "x0_a", "x0_b"]


@pytest.mark.parametrize(
    "X",
    [
        pl.DataFrame({"ok": [1], "bad": [[1, 2]]}),
        pl.DataFrame({"ok": [1], "bad": [{"f": 1}]}),
        pl.DataFrame({"ok": [1], "bad": [b"x"]}),
        pl.DataFrame({"ok": [1], "bad": pl.Series([object()], dtype=pl.Object)}),
        pa.table(
            {"ok": [1], "bad": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))}
        ),
        pd.DataFrame({"ok": [1], "bad": [{"f": 1}]}),
        pd.DataFrame({"ok": [1, 2], "bad": [1, [2]]}),
        pd.DataFrame({"ok": [1], "bad": pd.interval_range(0, 1)}),
    ],
    ids=lambda X: str(X["bad"].type if isinstance(X, pa.Table) else X["bad"].dtype),
)
def test_unusable_types_are_named(X):
    with pytest.raises(
        TypeError,
        match=r"'bad' has type .* argument must be .* string.* number: drop the column",
    ):
        TableEncoder().fit(X)


@pytest.mark.parametrize("moment", [dt.date(2020, 5, 1), pd.Timestamp(2020, 5, 1)])
def test_dates_mixed_with_text_have_two_cures(moment):
    X = pd.DataFrame({"due": pd.Series([moment, "soon", None, moment], dtype=object)})
    with pytest.raises(TypeError, match="'due' mixes dates with text such as 'soon'"):
        TableEncoder().fit(X)
    TableEncoder().fit(X.replace("soon", None))
    TableEncoder().fit(X.map(lambda value: None if value is None else str(value)))


def test_unusable_arrays():
    with pytest.raises(
        TypeError, match=r"column 'x1' has type .* argument must be .* string.* number"
    ):
        TableEncoder().fit(np.array([[1.0, {"a": 1}]], dtype=object))
    with pytest.raises(TypeError, match="column 'x0' has type binary"):
        TableEncoder().fit(np.array([[b"a"]]))


@pytest.mark.parametrize(
    "X",
    [
        np.array([[1j]]),
        np.array([[1, 1j]], dtype=object),
        pd.DataFrame({"a": [1j]}),
        pd.DataFrame({"a": [1j, 2]}, dtype=object),
        sp.csr_array([[1j]]),
    ],
)
def test_complex_is_refused(X):
    with pytest.raises(ValueError, match="Complex data not supported"):
        TableEncoder().fit(X)


@pytest.mark.filterwarnings(
    "ignore:.*(levels that the fit did not see|missing values, and had none)"
)
@frames
def test_names_and_kinds_must_stay(frame):
    encoder = TableEncoder().fit(frame({"a": [1.0, 2.0, 4.0], "b": ["x", "y", "x"]}))
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        encoder.transform(frame({"b": ["x"], "a": [1.0]}))
    with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- c"):
        encoder.transform(frame({"a": [1.0], "c": ["x"]}))
    for method in (encoder.transform, encoder.partial_fit):
        with pytest.raises(
            ValueError,
            match="column 'a' holds 'x' and the like where the fit saw numbers and no",
        ):
            method(frame({"a": ["x"], "b": ["x"]}))
        with pytest.raises(
            ValueError,
            match="column 'b' holds number values where the fit saw text values",
        ):
            method(frame({"a": [1.0], "b": [1]}))
    np.testing.assert_array_equal(
        encoder.transform(frame({"a": [None], "b": [None]})), [[0, 0, 0]]
    )


def test_periods_are_their_first_moments():
    periods = pd.period_range("2019-11", periods=9, freq="M")
    encoded = TableEncoder().fit_transform(pd.DataFrame({"t": periods}))
    moments = pd.DataFrame({"t": periods.to_timestamp()})
    np.testing.assert_array_equal(encoded, TableEncoder().fit_transform(moments))


@pytest.mark.filterwarnings("ignore:.*missing values, and had none")
@frames
def test_numbers_and_dates_that_come_as_text(frame):
    days = [dt.date(2020, 1, 1), dt.date(2020, 1, 3), dt.date(2021, 5, 8)]
    encoder = TableEncoder().fit(frame({"a": [1.0, 2.5, -4.0], "t": days}))
    expected = encoder.transform(frame({"a": [1.0, None, 1e3], "t": [*days[:2], None]}))
    texts = frame({"a": ["1.0", "n/a", "1e3"], "t": ["2020-01-01", "2020-1-3", "?"]})
    np.testing.assert_array_equal(encoder.transform(texts), expected)
    # Few odd values count as missing, and are named
    odd = frame({"a": ["1.0", "dear", "1e3"], "t": ["2020-01-01", "2020-01-03", None]})
    with pytest.warns(UserWarning, match="'a' holds 'dear' where the fit saw numbers"):
        np.testing.assert_array_equal(encoder.transform(odd), expected)
    with pytest.raises(ValueError, match=r"'t' holds 'soon' and .* saw dates"):
        encoder.transform(frame({"a": [1.0], "t": ["soon"]}))


def test_repeated_column_names():
    with pytest.raises(ValueError, match=r"must be unique, but these repeat: \['a'\]"):
        TableEncoder().fit(pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]))
    with pytest.raises(ValueError, match=r"must be unique, but these repeat: \['a'\]"):
        TableEncoder().fit(pa.table([[1], [2]], names=["a", "a"]))


@pytest.mark.parametrize(
    "X",
    [
        np.ones((0, 2)),
        pd.DataFrame({"a": []}),
        pl.DataFrame({"a": []}),
        pa.table({"a": []}),
        sp.csr_array((0, 2)),
    ],
)
def test_no_rows(X):
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        TableEncoder().fit(X)


@pytest.mark.parametrize(
    "X", [np.ones((2, 0)), pd.DataFrame(index=[0, 1]), sp.csr_array((2, 0))]
)
def test_no_columns(X):
    with pytest.raises(ValueError, match=r"Found array with 0 feature\(s\)"):
        TableEncoder().fit(X)


@pytest.mark.parametrize(
    "X", [np.ones(3), pd.Series([1, 2]), pl.Series([1, 2]), sp.coo_array([1, 2])]
)
def test_one_dimension(X):
    with pytest.raises(ValueError, match="Reshape your data"):
        TableEncoder().fit(X)


def test_refusals():
    with pytest.raises(TypeError, match="lazy LazyFrame: collect"):
        TableEncoder().fit(pl.LazyFrame({"a": [1]}))
    with pytest.raises(NotFittedError):
        TableEncoder().get_feature_names_out()
    for bad in (0, 1.5):
        with pytest.raises(ValueError, match="max_categories must be an integer"):
            TableEncoder(max_categories=bad).fit([[1.0]])
    with pytest.raises(
        ValueError, match="sample_weight must not be negative; row 1 has -1"
    ):
        TableEncoder().fit([[1.0], [2.0]], sample_weight=[1, -1])


def test_odd_frames():
    X = pd.DataFrame(
        {"column_names": [1, 2, 4], "dtype": [0, 1, 2], "shape": [2, 3, 5]}
    )
    np.testing.assert_allclose(
        encoded(X)[0], StandardScaler().fit_transform(X), rtol=1e-6, atol=1e-7
    )
    assert encoded(pd.DataFrame([[1.0], [2.0]]))[1] == ["x0"]
    sparse = pd.DataFrame(
        {
            "a": pd.arrays.SparseArray([0, 5, 0]),
            "b": pd.array([1, None, 2], dtype="Int64"),
        }
    )
    np.testing.assert_array_equal(
        encoded(sparse)[0], [[0, 0, 0], [1, 0.5, 1], [0, 1, 0]]
    )


def test_output_names_are_unique():
    X = pd.DataFrame(
        {
            "a": ["missing", None, "b"],
            "a_b": [1, 2, 4],
            "a_missing": [3, None, 1],
            "a_b_2": [1, 3, 9],
        }
    )
    names = encoded(X)[1]
    assert len(set(names)) == len(names)
    assert names == [
        "a_b",
        "a_missing",
        "a_missing_2",
        "a_b_3",
        "a_missing_3",
        "a_missing_missing",
        "a_b_2",
    ]


def test_set_output_keeps_the_index():
    X = pd.DataFrame({"a": [1.0, 2, 4], "b": ["x", "y", "x"]}, index=[5, 6, 7])
    Z = TableEncoder().set_output(transform="pandas").fit_transform(X)
    assert list(Z.columns) == ["a", "b_x", "b_y"]
    assert list(Z.index) == [5, 6, 7]
    assert (Z.dtypes == np.float32).all()


@pytest.mark.parametrize(
    "container", [sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_array]
)
def test_sparse_is_scaled_and_not_centred(container):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(300, 6)) * (rng.random((300, 6)) < 0.3)
    dense[:, 1] = 3.0 * (dense[:, 1] != 0)
    dense[:, 2] = -2.0 * (dense[:, 2] != 0)
    dense[:, 3] = 5.0
    dense[:, 4] = 0.0
    X = container(dense)
    encoder = TableEncoder().fit(X)
    Z = encoder.transform(X)
    assert Z.format == "csr"
    assert Z.dtype == np.float32
    assert isinstance(Z, sp.sparray) == isinstance(X, sp.sparray)
    expected = dense / np.array([dense[:, 0].std(), 3, 2, np.inf, 1, dense[:, 5].std()])
    np.testing.assert_allclose(Z.toarray(), expected, rtol=1e-6, atol=1e-300)
    np.testing.assert_allclose(
        encoder.transform(dense), expected, rtol=1e-6, atol=1e-300
    )
    shift = TableEncoder().fit_transform(dense) - Z.toarray()
    np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-6)
    np.testing.assert_allclose(
        TableEncoder(with_std=False).fit_transform(X).toarray(), dense, rtol=1e-6
    )


def test_sparse_blocks_and_weights():
    rng = np.random.default_rng(3)
    dense = rng.integers(-1, 2, (60, 5)) * rng.integers(0, 2, (60, 5)) * 1.5
    weight = rng.integers(0, 3, 60)
    X, order = sp.csr_array(dense), np.repeat(np.arange(60), weight)
    repeated_rows = TableEncoder().fit(X[order])
    blocks = TableEncoder()
    for rows in (slice(0, 7), slice(7, 50), slice(50, 60)):
        blocks.partial_fit(X[rows], sample_weight=weight[rows])
    np.testing.assert_allclose(
        blocks.transform(X).toarray(), repeated_rows.transform(X).toarray(), rtol=1e-6
    )
    with pytest.raises(ValueError, match="all dense or all sparse"):
        blocks.partial_fit(dense)
    with pytest.raises(ValueError, match="fitted on dense data"):
        TableEncoder().fit(dense).transform(X)
    with pytest.raises(ValueError, match="NaN"):
        TableEncoder().fit(sp.csr_array([[np.nan, 1.0]]))
    with pytest.raises(ValueError, match="NaN"):
        blocks.transform(sp.csr_array(np.full((1, 5), np.nan)))


def test_sparse_duplicates_are_summed_and_kept():
    X = sp.csr_array(
        (np.ones(3), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2)
    )
    np.testing.assert_array_equal(
        TableEncoder().fit(X).transform(X).toarray(), [[1, 0], [0, 1]]
    )
    assert X.nnz == 3


VALUES = {
    "a": st.none() | st.floats(-1e6, 1e6),
    "b": st.none() | st.integers(-2, 2),
    "c": st.none() | st.sampled_from(["x", "y", "zz", ""]),
    "d": st.none() | st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    "e": st.none() | st.booleans(),
}
TYPES = {"a": pl.Float64, "b": pl.Int64, "c": pl.String, "d": pl.Date, "e": pl.Boolean}
rows = st.lists(st.tuples(*VALUES.values()), min_size=3, max_size=25)


def same(a, b):
    """The two statistics agree to rounding, exactly where they count."""
    seen = [kind for kind in a.expected() if kind]
    assert seen == [kind for kind in b.expected() if kind]
    assert a.rows == b.rows
    assert a.categories == b.categories
    np.testing.assert_array_equal(a.missing, b.missing)
    for name, array in vars(a.summary).items():
        tolerance = (
            {"atol": 1e-6, "rtol": 1e-9} if name in ("mean", "squares") else {"rtol": 0}
        )
        np.testing.assert_allclose(vars(b.summary)[name], array, **tolerance)


def as_objects(frame):
    return np.array(frame.rows(), dtype=object)


@pytest.mark.slow
@given(
    data=rows,
    cuts=st.tuples(st.integers(0, 25), st.integers(0, 25)),
    library=st.sampled_from(["pl", "pa", "np"]),
)
@settings(derandomize=True, deadline=None, max_examples=120)
def test_blocks_add_up_to_the_whole(data, cuts, library):
    frame = pl.DataFrame(data, schema=TYPES, orient="row")
    i, j = sorted(min(cut, len(frame)) for cut in cuts)
    convert = {
        "pl": lambda X: X,
        "pa": pl.DataFrame.to_arrow,
        "np": lambda X: np.array(X.rows(), dtype=object),
    }[library]
    blocks = [frame[:i], frame[i:j], frame[j:]]
    if library == "np":
        blocks = [block for block in blocks if len(block)]
    parts = [TableStatistic.of(convert(block)) for block in blocks]
    whole = TableStatistic.of(convert(frame))
    left = parts[0]
    for part in parts[1:]:
        left = left + part
    right = parts[-1]
    for part in parts[-2::-1]:
        right = part + right
    same(whole, left)
    same(whole, right)


@pytest.mark.slow
@given(data=rows, weights=st.lists(st.integers(0, 3), min_size=25, max_size=25))
@settings(derandomize=True, deadline=None, max_examples=80)
def test_weights_are_repeated_rows(data, weights):
    frame = pl.DataFrame(data, schema=TYPES, orient="row")
    weight = np.array(weights[: len(frame)])
    again = TableStatistic.of(frame[np.repeat(np.arange(len(frame)), weight).tolist()])
    weighted = TableStatistic.of(frame, weight)
    assert weighted.rows == np.count_nonzero(weight)
    assert weighted.categories == again.categories
    for name, array in vars(again.summary).items():
        np.testing.assert_allclose(
            vars(weighted.summary)[name], array, rtol=1e-9, atol=1e-6
        )


@given(cuts=st.lists(st.integers(1, 499), max_size=4, unique=True))
@settings(derandomize=True, deadline=None, max_examples=30)
def test_partial_fit_of_numbers(cuts):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(500, 4)) * [1, 1e-3, 1e6, 0] + [1e4, 0, 0, 7]
    X[rng.random(X.shape) < 0.1] = np.nan
    encoder = TableEncoder()
    for block in np.split(X, sorted(cuts)):
        encoder.partial_fit(block)
    whole = TableEncoder().fit(X)
    np.testing.assert_allclose(
        encoder.transform(X), whole.transform(X), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(whole.transform(X[17:18]), whole.transform(X)[17:18])


def test_blocks_of_the_array_path_agree(monkeypatch):
    X = np.random.default_rng(0).normal(size=(1000, 7))
    X[3, 2] = np.nan
    expected = encoded(X)[0]
    monkeypatch.setattr("bochner.data.encodings.TILE_ENTRIES", 70)
    monkeypatch.setattr("bochner.data.table_statistic.BLOCK_ENTRIES", 70)
    np.testing.assert_allclose(encoded(X)[0], expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        encoded(pd.DataFrame(X))[0], expected, rtol=1e-5, atol=1e-7
    )


def test_fit_forgets_and_inputs_stay():
    X = pd.DataFrame({"a": [1.0, None, 4], "b": ["x", "y", "x"]})
    before = X.copy()
    encoder = TableEncoder().fit(pd.DataFrame({"q": [1, 2]})).fit(X)
    assert list(encoder.feature_names_in_) == ["a", "b"]
    encoder.transform(X)
    pd.testing.assert_frame_equal(X, before)
    encoder.fit(X.to_numpy())
    assert not hasattr(encoder, "feature_names_in_")


def test_state_is_plain():
    """Nothing but numbers, strings, lists, dicts, numeric arrays, and classes of
    this package.
    """

    def walk(value):
        if isinstance(value, np.ndarray):
            assert value.dtype.kind in "biuf"
        elif isinstance(value, dict):
            assert all(type(key) is str for key in value)
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)
        elif type(value).__module__.startswith("bochner."):
            walk(vars(value))
        else:
            assert value is None or type(value) in (int, float, str, bool)

    encoder = TableEncoder(max_categories=1).fit(pd.DataFrame(MIXED))
    state = dict(vars(encoder))
    assert all(type(name) is str for name in state.pop("feature_names_in_"))
    walk(state)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(encoder)).transform(pd.DataFrame(MIXED)),  # noqa: S301
        encoder.transform(pd.DataFrame(MIXED)),
    )


def test_adult():
    path = Path(os.environ.get("BOCHNER_DATA", "")) / "adult.parquet"
    if "BOCHNER_DATA" not in os.environ or not path.exists():
        pytest.skip("adult.parquet is not in BOCHNER_DATA")
    X = pd.read_parquet(path)
    Z, names = encoded(X)
    np.testing.assert_array_equal(Z, encoded(pl.read_parquet(path))[0])
    text = X.select_dtypes(exclude="number")
    oracle = OneHotEncoder(sparse_output=False, dtype=np.float32).fit(text)
    at = [names.index(name) for name in oracle.get_feature_names_out()]
    np.testing.assert_array_equal(Z[:, at], oracle.transform(text))


@pytest.mark.parametrize("module", ["pandas", "polars", "pyarrow"])
def test_dates_and_datetimes_stand_for_one_another(module):
    days = [dt.date(2021, 3, 4), dt.date(2022, 11, 30), None, dt.date(2023, 1, 1)]
    moments = [day and dt.datetime(day.year, day.month, day.day, 18) for day in days]
    table = (
        pa.table({"t": pa.array(days, pa.date32())}),
        pa.table({"t": pa.array(moments, pa.timestamp("us"))}),
    )
    turn = {
        "pandas": pa.Table.to_pandas,
        "polars": pl.from_arrow,
        "pyarrow": lambda t: t,
    }[module]
    for mine, other in ((0, 1), (1, 0)):
        encoder = TableEncoder().fit(turn(table[mine]))
        same, crossed = (
            encoder.transform(turn(table[mine])),
            encoder.transform(turn(table[other])),
        )
        assert same.shape == crossed.shape
        # At most one day of some 666 apart on the line, and of 7 on the circle of the
        # week.
        np.testing.assert_allclose(crossed, same, atol=2 * np.pi / 7)


def test_integers_beyond_double_precision():
    values = [2**62 + 1, 2**61, None, 2**60]
    for column in (pa.array(values), pa.array(values, pa.uint64())):
        Z = TableEncoder().fit_transform(pa.table({"id": column}))
        assert np.isfinite(Z).all()
        assert len(np.unique(Z[:, 0])) == 4


def test_sparse_without_entries():
    assert TableEncoder().fit_transform(sp.csr_array((5, 3))).nnz == 0


@pytest.mark.parametrize("scale", [1e-170, 1e-200])
def test_variances_that_underflow(scale):
    x = np.random.default_rng(0).normal(size=(50, 1)) * scale
    Z = TableEncoder().fit_transform(x)
    assert np.isfinite(Z).all()
    assert np.ptp(Z) > 0


def test_plain_pandas_numbers_are_encoded_as_arrays():
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[3, 1] = np.nan
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(c=range(0, 80, 2))
    np.testing.assert_array_equal(
        TableEncoder().fit_transform(frame),
        TableEncoder().fit_transform(frame.to_numpy()),
    )


def test_forgotten_categories_leave_the_encoding_as_it_is():
    frame = pd.DataFrame(
        {"a": [f"person {i % 150}" for i in range(400)], "b": np.arange(400) / 2}
    )
    encoder = TableEncoder().fit(frame)
    before = encoder.transform(frame)
    encoder.forget_categories()
    np.testing.assert_array_equal(encoder.transform(frame), before)
    assert not any(encoder.statistic_.categories.values())


@pytest.mark.parametrize("library", ["pandas", "nullable", "polars", "arrow"])
@pytest.mark.parametrize("kinds", ["f", "fb", "fib", "fibn"])
def test_frames_of_numbers_are_encoded_at_once(library, kinds, monkeypatch):
    """Like the plain array that they are, not column by column."""
    rng = np.random.default_rng(0)
    columns = {
        "f": rng.standard_normal(50),
        "g": rng.standard_normal(50).astype(np.float32),
    }
    columns |= {"i": rng.integers(0, 9, 50)} if "i" in kinds else {}
    columns |= {"b": rng.integers(0, 2, 50).astype(bool)} if "b" in kinds else {}
    gaps = "n" in kinds
    lists = {
        name: [
            None if gaps and k == 7 else value
            for k, value in enumerate(values.tolist())
        ]
        for name, values in columns.items()
    }
    plain = np.array(
        [
            [np.nan if value is None else float(value) for value in values]
            for values in lists.values()
        ]
    ).T
    plain = (
        plain
        if gaps
        else np.column_stack([values.astype(float) for values in columns.values()])
    )
    source = lists if gaps else columns
    frame = {
        "pandas": lambda: pd.DataFrame(
            columns if not gaps else {k: np.array(v, float) for k, v in lists.items()}
        ),
        "nullable": lambda: pd.DataFrame(source).convert_dtypes(),
        "polars": lambda: pl.DataFrame(source),
        "arrow": lambda: pa.table(source),
    }[library]()
    expected = TableEncoder().fit_transform(plain)
    encoder = TableEncoder().fit(frame)
    monkeypatch.setattr(TableEncoder, "values_of", None)
    np.testing.assert_allclose(encoder.transform(frame), expected, rtol=1e-5, atol=1e-6)


def test_integers_beyond_64_bits():
    frame = pl.DataFrame(
        {"a": pl.Series(range(6), dtype=pl.Int128), "b": np.arange(6.0)}
    )
    np.testing.assert_allclose(
        np.diff(TableEncoder().fit_transform(frame)[:, 0]),
        1 / np.std(np.arange(6)),
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    "fit", [TableEncoder().fit, FourierFeatures().fit, KernelMachineRegressor().fit]
)
def test_more_columns_than_there_is_memory_for(fit):
    X = sp.csr_matrix((5, 2 * 10**9))
    match = (
        "A table of 2,000,000,000 columns needs 320 GB and .* are free.*FeatureHasher"
    )
    with bochner.settings(memory_limit="4 GB"), pytest.raises(MemoryError, match=match):
        fit(X, np.arange(5.0))


@pytest.mark.parametrize("kind", ["frame", "array", "strings"])
def test_half_of_a_surrogate_pair_is_named(kind):
    values = np.array(["x", "y", "a\ud800", "z"], dtype=object).reshape(-1, 1)
    X = {
        "frame": pd.DataFrame(values, columns=["town"], dtype=object),
        "array": values,
        "strings": values.astype(str),
    }[kind]
    name = "town" if kind == "frame" else "x0"
    match = (
        rf"column '{name}', row 2: 'a\\ud800' holds half of a surrogate pair; replace"
    )
    with pytest.raises(ValueError, match=match):
        TableEncoder().fit(X)
    if kind == "frame":
        with pytest.raises(ValueError, match="column 'town', row 2"):
            bochner.open_source(X)


def test_sums_of_a_statistic_that_was_loaded_are_those_of_the_table(tmp_path):
    """Though a file holds attributes in another order."""
    X = np.random.default_rng(5).normal(3, 2, size=(60, 2))
    first = TableEncoder().fit(np.column_stack([X[:30, 0], np.full(30, np.nan)]))
    save(first, tmp_path / "first.safetensors")
    loaded = load(tmp_path / "first.safetensors").statistic_
    # A column without any value yet takes the kind of the other block
    total = loaded + TableStatistic.of(X[30:])
    np.testing.assert_allclose(total.summary.mean, [X[:, 0].mean(), X[30:, 1].mean()])
    squares = [60 * X[:, 0].var(), 30 * X[30:, 1].var()]
    np.testing.assert_allclose(total.summary.squares, squares)
    times = pd.DataFrame({"a": X[30:, 0], "b": pd.Timestamp("2025-01-01")})
    total = loaded + TableStatistic.of(times)
    assert total.summary.mean[0] == pytest.approx(X[:, 0].mean())
    assert total.summary.low[0] == X[:, 0].min()


@pytest.mark.parametrize("odd", [0, 20200103, 1.5])
def test_numbers_among_dates_are_refused(odd):
    """They would count as nanoseconds."""
    for moment in (pd.Timestamp(2020, 5, 1), dt.date(2020, 5, 1)):
        for values in ([moment, odd], [odd, moment]):
            X = pd.DataFrame({"due": pd.Series(values, dtype=object)})
            with pytest.raises(TypeError, match=r"'due' mixes dates .*make it None"):
                TableEncoder().fit(X)


@pytest.mark.parametrize("order", [1, -1])
def test_dates_among_moments_are_midnights(order):
    values = [
        dt.date(2020, 5, 1),
        None,
        dt.datetime(2020, 5, 2, 12),
        dt.date(2020, 6, 3),
    ]
    mixed = pd.DataFrame({"due": pd.Series(values[::order], dtype=object)})
    expected = pd.DataFrame({"due": pd.to_datetime(mixed["due"])})
    np.testing.assert_array_equal(
        TableEncoder().fit_transform(mixed), TableEncoder().fit_transform(expected)
    )


def test_missing_moments_are_no_dates():
    """Pandas' NaT is a moment to Python."""
    numbers = pd.DataFrame({"a": pd.Series([1.5, pd.NaT, 2.0], dtype=object)})
    assert TableEncoder().fit(numbers).statistic_.kinds == ["number"]
    days = pd.DataFrame({"a": pd.Series([dt.date(2020, 5, 1), pd.NaT], dtype=object)})
    assert TableEncoder().fit(days).statistic_.kinds == ["date"]


def test_record_batches_are_refused_with_a_cure():
    batch = pa.RecordBatch.from_pydict({"a": [1.0, 2.0, 3.0]})
    with pytest.raises(TypeError, match=r"pass pa.Table.from_batches\(\[X\]\)"):
        TableEncoder().fit(batch)
    TableEncoder().fit(pa.Table.from_batches([batch]))
