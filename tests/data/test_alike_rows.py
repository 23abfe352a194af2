"""Columns by which rows belong together are named; plain tables have none."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

from bochner import KernelMachineClassifier, KernelMachineRegressor, TableEncoder
from bochner.data.alike_rows import _shares_between, column_of_groups, column_of_time


def asked(frame, y):
    """The columns of groups and of time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = TableEncoder().fit(frame)
    y = np.asarray(y, np.float64).reshape(len(y), -1)
    return column_of_groups(encoder, frame, 0), column_of_time(encoder, frame, y)


def patients(n=60, size=20, near=0.1, seed=0):
    rng = np.random.default_rng(seed)
    number = np.repeat(np.arange(n), size)
    X = rng.normal(size=(n, 4))[number] + near * rng.normal(size=(len(number), 4))
    return pd.DataFrame(X, columns=list("abcd")), number, rng.normal(size=n)[number]


@pytest.mark.parametrize("kind", ["text", "category", "integer", "shuffled"])
def test_groups_are_named(kind):
    frame, number, y = patients()
    names = pd.Series([f"p{k}" for k in number])
    values = {"text": names, "category": names.astype("category")}
    frame["patient"] = values.get(kind, number)
    if kind == "shuffled":
        frame = frame.sample(frac=1, random_state=0)
    assert asked(frame, y)[0] == "patient"
    assert asked(frame.to_numpy(), y)[0] == "x4" if kind == "integer" else True


def test_of_many_rows_some_groups_tell():
    frame, number, y = patients(3000, 10)
    assert asked(frame.assign(patient=number), y)[0] == "patient"


def test_constant_attributes_of_a_group_are_alike():
    """Age and sex of a patient, whatever else varies."""
    rng = np.random.default_rng(0)
    number = np.repeat(np.arange(80), 12)
    frame = pd.DataFrame(
        {
            "patient": [f"p{k}" for k in number],
            "age": rng.integers(20, 90, 80)[number],
            "sex": rng.choice(["f", "m"], 80)[number],
            "measured": rng.normal(size=len(number)),
        }
    )
    assert asked(frame, rng.normal(size=len(number)))[0] == "patient"


def test_a_day_may_be_a_group():
    """Hours of a day, whose weather is much the same."""
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(90), 24)
    frame = pd.DataFrame(
        {"day": pd.Timestamp("2020-01-01") + pd.to_timedelta(day, "D")}
    )
    for name in ("warm", "wet", "windy"):
        frame[name] = rng.normal(size=90)[day] + 0.1 * rng.normal(size=len(day))
    assert asked(frame, rng.normal(size=len(day)))[0] == "day"


def test_gaps_in_the_column_of_groups():
    frame, number, y = patients()
    frame["patient"] = np.where(np.arange(len(y)) % 50 == 0, np.nan, number)
    assert asked(frame, y)[0] == "patient"


def test_functions_of_a_number_are_no_groups():
    rng = np.random.default_rng(0)
    age = rng.integers(20, 80, 900)
    frame = pd.DataFrame({"age": age, "age2": age**2, "log": np.log(age)})
    frame["x"] = rng.normal(size=900)
    assert asked(frame, rng.normal(size=900))[0] is None


@pytest.mark.parametrize("near", [2.0, 1.0])
def test_rows_that_differ_within_groups_are_not_alike(near):
    frame, number, y = patients(near=near)
    assert asked(frame.assign(patient=number), y)[0] is None


def walk(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"day": pd.date_range("2020", periods=n)})
    frame["u"] = rng.normal(size=n)
    return frame, np.cumsum(rng.normal(size=n))


@pytest.mark.parametrize("order", [1, -1])
def test_time_is_named(order):
    frame, y = walk()
    assert asked(frame[::order].reset_index(drop=True), y[::order])[1] == "day"
    numbered = frame.drop(columns="day").assign(row=np.arange(len(y)))
    assert asked(numbered, y)[1] == "row"
    assert asked(frame, np.random.default_rng(0).normal(size=len(y)))[1] is None
    assert asked(frame[:40], y[:40])[1] is None


def plain_tables():
    for load in ("iris", "diabetes", "wine", "breast_cancer", "digits", "linnerud"):
        X, y = getattr(datasets, f"load_{load}")(return_X_y=True)
        yield load, pd.DataFrame(X), y
    for seed in range(8):
        yield f"friedman {seed}", *datasets.make_friedman1(500, 10, random_state=seed)
        yield f"classes {seed}", *datasets.make_classification(400, random_state=seed)
        rng = np.random.default_rng(seed)
        n = int(rng.integers(60, 3000))
        frame = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
        frame["town"] = rng.choice([f"t{k}" for k in range(n // 8 + 10)], n)
        frame["count"] = rng.poisson(20, n)
        frame["day"] = rng.choice(pd.date_range("2020", periods=300), n)
        yield f"mixed {seed}", frame, frame["a"] + rng.normal(size=n)
        codes = pd.DataFrame(rng.integers(0, 30, (n, 6)))
        yield f"integers {seed}", codes, rng.normal(size=n)


TABLES = {name: (pd.DataFrame(X), y) for name, X, y in plain_tables()}


@pytest.mark.parametrize("name", TABLES)
def test_plain_tables_have_none(name):
    X, y = TABLES[name]
    assert len(TABLES) >= 30
    assert asked(X, y) == (None, None)


def test_shares_are_intraclass_correlations():
    """Against variances that the draws have."""
    rng = np.random.default_rng(0)
    level = rng.permutation(np.repeat(np.arange(2000), rng.integers(1, 6, 2000)))
    between, within = np.array([2.0, 1.0, 0.5, 0.0]), np.array([0.0, 1.0, 1.5, 1.0])
    Z = between * rng.normal(size=(2000, 4))[level]
    Z = np.column_stack([Z + within * rng.normal(size=Z.shape), np.ones(len(Z))])
    wanted = between**2 / (between**2 + within**2)
    found = _shares_between(Z, level)
    np.testing.assert_allclose(found[:4], wanted, atol=0.04)
    assert np.isnan(found[4])


@pytest.mark.slow
@pytest.mark.parametrize("model", [KernelMachineRegressor, KernelMachineClassifier])
def test_a_fit_says_it_once_and_not_where_it_is_given(model):
    frame, number, y = patients(30, 8)
    y = y if model is KernelMachineRegressor else np.where(y > 0, "u", "v")
    frame["patient"] = number
    one = model(random_state=0, time_limit=3.0)
    with pytest.warns(
        UserWarning, match="Rows that share a value of 'patient'"
    ) as told:
        one.fit(frame, y)
    assert len([w for w in told if "much alike" in str(w.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one.fit(frame[list("abcd")], y, groups=number)
        one.set_params(cv=3).fit(frame, y)
        model(features="fourier", kernel="gaussian", alpha=1.0, metric="isotropic")


def test_a_fit_tells_of_time():
    frame, y = walk()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelMachineRegressor(random_state=0, time_limit=0.5).fit(frame, y)
    with pytest.warns(UserWarning, match=r"neighbours in 'day'.*TimeSeriesSplit\(\)"):
        KernelMachineRegressor(random_state=0, time_limit=3.0).fit(frame, y)
