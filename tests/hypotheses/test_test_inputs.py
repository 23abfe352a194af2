"""Tables of any kind give the test that arrays of their numbers do, and refusals name cause and cure."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from bochner import independence_test, load, save, two_sample_test

FAST = {"n_permutations": 99, "n_components": 40, "random_state": 0}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((60, 3)), rng.standard_normal((50, 3)) + 0.2


def torch_tensor(X):
    return pytest.importorskip("torch").tensor(X, requires_grad=True)


def dask_array(X):
    return pytest.importorskip("dask.array").from_array(X, chunks=20)


def dask_frame(X):
    frame = pd.DataFrame(X).rename(columns=str) if X.ndim == 2 else pd.Series(X, name="one")
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)


KINDS = [torch_tensor, dask_array, dask_frame, pd.DataFrame, np.ndarray.tolist]


@pytest.mark.parametrize("kind", KINDS)
def test_two_samples_of_any_kind(rows, kind):
    X, Y = rows
    found, wanted = two_sample_test(kind(X), kind(Y), **FAST), two_sample_test(X, Y, **FAST)
    assert found.p_value == wanted.p_value
    np.testing.assert_allclose(found.shares, wanted.shares, rtol=1e-4)


@pytest.mark.parametrize("kind", [*KINDS, pl.Series, pd.Index])
def test_independence_of_any_kind_with_one_column(rows, kind):
    X, y = rows[0], rows[0][:, 0] + 1
    first = X if kind in (pl.Series, pd.Index) else kind(X)
    found, wanted = independence_test(first, kind(y), **FAST), independence_test(X, y, **FAST)
    assert found.p_value == wanted.p_value
    assert found.effect_size == pytest.approx(wanted.effect_size, rel=1e-5)


@pytest.mark.parametrize(
    "kind", [list, np.array, pd.Categorical, pl.Series, lambda y: np.array(y, object), lambda y: pd.DataFrame({"y": y})]
)
def test_labels_as_text(rows, kind):
    X, labels = rows[0], np.where(rows[0][:, 0] > 0, "high", "low").tolist()
    assert independence_test(X, kind(labels), **FAST).p_value == 0.01


def test_series_of_other_names_are_samples_of_one_column(rows):
    before, after = pd.Series(rows[0][:, 0], name="before"), pl.Series("after", rows[1][:, 0])
    found = two_sample_test(before, after, **FAST)
    assert found.columns == ("before",)
    assert found.p_value == two_sample_test(rows[0][:, 0], rows[1][:, 0], **FAST).p_value


@pytest.mark.parametrize("null", ["permutation", "chi2"])
def test_a_constant_table_depends_on_nothing(rows, null):
    found = independence_test(rows[0], np.ones(60), null=null, **FAST)
    assert (found.p_value, found.effect_size) == (1.0, 0.0)


def test_refusals_say_what_to_do(rows):
    X, Y = rows
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for first, second, message in [
        (sp.csr_array(X), Y, "X is sparse and Y is dense"),
        (frame, Y, "The columns of X have names and those of Y have none"),
        (frame, frame[["b", "a", "c"]], "the same columns in other orders"),
        (frame, frame.assign(a="text"), "'a' holds number values in X and text values in Y"),
        (np.array(["a", 1, "b", 2], object), X[:, 0], "both text and other values"),
    ]:
        with pytest.raises(ValueError, match=message):
            two_sample_test(first, second, **FAST)
    with pytest.raises(ValueError, match="an array whose columns have no names"):
        independence_test(X, "a")
    with pytest.raises(ValueError, match="names all columns of X"):
        independence_test(frame, ["a", "b", "c"])
    with pytest.raises(ValueError, match="null must be one of"):
        independence_test(X, X, null=np.ones(2))
    with pytest.raises(ValueError, match="standardize must be"):
        two_sample_test(X, Y, standardize=np.ones(3))


def test_p_values_of_one_table_cut_in_two_are_uniform():
    """Of mixed columns, by Kolmogorov and Smirnov; p is a rank among 40, so that it is compared on their grid."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"x": rng.lognormal(size=60), "g": rng.choice(list("aaab"), 60), "h": rng.choice([0.0, np.nan], 60)}
    )
    found = []
    for seed in range(60):
        order = np.random.default_rng(seed).permutation(60)
        halves = frame.iloc[order[:25]], frame.iloc[order[25:]]
        found.append(two_sample_test(*halves, n_permutations=39, n_components=20, random_state=seed).p_value)
    levels = np.arange(1, 41) / 40
    shares = np.searchsorted(np.sort(found), levels + 1e-9) / 60
    assert np.abs(shares - levels).max() < 1.63 / np.sqrt(60)


def test_categories_and_missing_values_that_differ_are_named():
    rng = np.random.default_rng(4)
    n = 400
    before = pd.DataFrame({"x": rng.standard_normal(n), "colour": rng.choice(["red", "green", "blue", "grey"], n)})
    after = before.assign(colour=rng.choice(["red", "green", "blue", "grey"], n, p=[0.5, 0.0, 0.25, 0.25]))
    found = two_sample_test(before, after, random_state=0)
    assert {name for name, _ in found.top_columns(2, encoded=True)} == {"colour_red", "colour_green"}
    assert found.encoded_shares.sum() == pytest.approx(1)
    assert found.encoded_shares[found.encoded_columns.index("x")] == pytest.approx(found.shares[0])
    gaps = two_sample_test(before, before.assign(x=before.x.where(rng.random(n) < 0.7)), random_state=0)
    assert gaps.top_columns(1, encoded=True)[0][0] == "x_missing"
    display = found.plot(encoded=True)
    assert set(display.names[:2]) == {"colour_red", "colour_green"}
    plt.close(display.figure_)


def test_many_rare_categories_do_not_hide_the_one_that_differs():
    rng = np.random.default_rng(6)
    town = np.array([f"town {k}" for k in range(60)])
    before = pd.DataFrame({"town": rng.choice(town, 800), "kind": rng.choice(["a", "b"], 800)})
    after = pd.DataFrame({"town": rng.choice(town, 800), "kind": rng.choice(["a", "b"], 800, p=[0.3, 0.7])})
    assert two_sample_test(before, after, random_state=0).top_columns(1)[0][0] == "kind"


def test_categories_that_depend_are_named_and_kept_in_a_file(tmp_path):
    rng = np.random.default_rng(5)
    kind = rng.choice(["a", "b", "c"], 300)
    y = (kind == "b") + 0.1 * rng.standard_normal(300)
    found = independence_test(pd.DataFrame({"kind": kind, "other": rng.standard_normal(300)}), y, **FAST)
    assert found.top_columns(2, encoded=True)[1][0] == "kind_b"
    assert found.encoded_columns == ("kind_a", "kind_b", "kind_c", "other", "y0")
    save(found, tmp_path / "test.safetensors")
    assert load(tmp_path / "test.safetensors").top_columns(9, encoded=True) == found.top_columns(9, encoded=True)
