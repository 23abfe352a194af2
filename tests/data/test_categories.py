"""Categories beyond those that have a column: codes that tell them apart, and which
output columns are tied.
"""

import datetime as dt
import subprocess
import sys
from hashlib import blake2b

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from scipy.stats import binom, chisquare, poisson

from bochner import load, save
from bochner.data.columns import distinct
from bochner.data.table import TableEncoder

CODE = [f"a_code{i}" for i in range(16)]
FREQUENT = [f"f{i}" for i in range(3)]


def fitted(labels, **parameters):
    return TableEncoder(max_categories=3, **parameters).fit(pd.DataFrame({"a": labels}))


def parts(encoder, labels):
    """The columns of an encoded table, by name."""
    Z = encoder.transform(pd.DataFrame({"a": pd.Series(labels, dtype=object)}))
    names = list(encoder.get_feature_names_out())
    return {
        "kept": Z[:, :3],
        "other": Z[:, 3],
        "code": Z[:, 4:20],
        "missing": Z[:, 20:],
        "names": names,
    }


def code(text):
    """A code bit by bit."""
    digest = blake2b(text.encode(), digest_size=2).digest()
    return [((digest[i // 8] >> (7 - i % 8)) & 1) / 4 for i in range(16)]


@pytest.mark.slow
@pytest.mark.parametrize("gap", [[], [None]], ids=["complete", "with gaps"])
def test_rare_categories_get_a_code_and_frequent_ones_do_not(gap):
    rare = [f"r{i}" for i in range(50)] + ["", "é", "日本"]
    encoder = fitted(FREQUENT * 2 + rare + gap)
    out = parts(encoder, FREQUENT + rare + gap)
    assert out["names"] == ["a_f0", "a_f1", "a_f2", "a_other", *CODE] + [
        "a_missing"
    ] * len(gap)
    assert encoder.n_features_out_ == len(out["names"])
    np.testing.assert_array_equal(out["kept"], np.eye(len(FREQUENT + rare + gap), 3))
    np.testing.assert_array_equal(
        out["other"], [0] * 3 + [1] * len(rare) + [0] * len(gap)
    )
    expected = [[0] * 16] * 3 + [code(text) for text in rare] + [[0] * 16] * len(gap)
    np.testing.assert_array_equal(out["code"], expected)
    np.testing.assert_array_equal(
        out["missing"].ravel(), ([0] * (3 + len(rare)) + [1]) * len(gap)
    )


def test_distances_of_codes_follow_the_binomial_law():
    n = 2000
    labels = [f"category {i}" for i in range(n)]
    codes = parts(fitted(FREQUENT * 2 + labels), labels)["code"]
    distances = pdist(codes, "cityblock")
    # Distances of two pairs of labels are independent, even if the pairs share a label,
    # so that the variance of the mean over all pairs is that of one distance, 16 / 4 /
    # 4^2, over their number.
    pairs = n * (n - 1) / 2
    assert abs(distances.mean() - 2.0) < 4.0 * np.sqrt(0.25 / pairs)
    assert (
        poisson.ppf(1e-4, pairs / 2**16)
        < np.count_nonzero(distances == 0)
        < poisson.ppf(1 - 1e-4, pairs / 2**16)
    )
    apart = np.abs(codes[::2] - codes[1::2]).sum(axis=1)
    bins = np.clip(np.round(apart * 4), 4, 12).astype(int) - 4
    law = np.diff(np.r_[0, binom.cdf(np.arange(4, 12), 16, 0.5), 1])
    assert chisquare(np.bincount(bins, minlength=9), law * len(apart)).pvalue > 1e-4
    assert np.abs(codes.mean(axis=0) * 4 - 0.5).max() < 4.5 * 0.5 / np.sqrt(n)
    assert np.abs(np.corrcoef(codes.T) - np.eye(16)).max() < 4.5 / np.sqrt(n)


def test_two_rare_categories_are_as_far_apart_as_two_frequent_ones():
    labels = [f"r{i}" for i in range(400)]
    Z = fitted(FREQUENT * 2 + labels).transform(pd.DataFrame({"a": labels}))
    frequent = fitted(FREQUENT).transform(pd.DataFrame({"a": FREQUENT}))
    np.testing.assert_array_equal(pdist(frequent, "cityblock"), 2.0)
    assert abs(pdist(Z, "cityblock").mean() - 2.0) < 0.01


def test_codes_are_the_same_everywhere():
    expected = "1101011100101011"
    (row,) = parts(fitted([*FREQUENT * 2, "Bern"]), ["Bern"])["code"]
    assert "".join(str(int(bit)) for bit in row * 4) == expected
    program = (
        "import pandas as pd; from bochner import TableEncoder; X = "
        "pd.DataFrame({'a': ['x', 'x', 'Bern']});"
        "print(*(TableEncoder(max_categories=1).fit_transform(X)[2, 2:] * "
        "4).astype(int), sep='')"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == expected


@pytest.mark.filterwarnings(
    "ignore:.*(levels that the fit did not see|missing values, and had none)"
)
def test_unseen_categories_have_codes_where_the_fit_saw_rare_ones():
    rare = parts(
        fitted([*FREQUENT, *FREQUENT, "r", None]), ["new", "r", "newer", None, "f1"]
    )
    np.testing.assert_array_equal(rare["other"], [1, 1, 1, 0, 0])
    np.testing.assert_array_equal(
        rare["code"], [code("new"), code("r"), code("newer"), [0] * 16, [0] * 16]
    )
    np.testing.assert_array_equal(rare["missing"], [[0], [0], [0], [1], [0]])
    complete = parts(fitted([*FREQUENT, *FREQUENT, "r"]), [None, "f0"])
    np.testing.assert_array_equal(complete["code"], 0)
    np.testing.assert_array_equal(complete["other"], 0)


@pytest.mark.filterwarnings(
    "ignore:.*(levels that the fit did not see|missing values, and had none)"
)
def test_no_codes_where_all_categories_have_a_column():
    encoder = fitted([*FREQUENT, None])
    assert list(encoder.get_feature_names_out()) == [
        "a_f0",
        "a_f1",
        "a_f2",
        "a_missing",
    ]
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"a": ["new"]})), 0)
    many = pd.DataFrame(
        {"a": [f"f{i % 3}" for i in range(9)], "b": [f"b{i}" for i in range(9)]}
    )
    names = TableEncoder(max_categories=3).fit(many).get_feature_names_out()
    assert [name for name in names if "_code" in name] == [
        f"b_code{i}" for i in range(16)
    ]


@pytest.mark.filterwarnings(
    "ignore:.*(levels that the fit did not see|missing values, and had none)"
)
def test_partial_fit_grows_past_the_limit():
    encoder = fitted(FREQUENT)
    assert encoder.n_features_out_ == 3
    encoder.partial_fit(pd.DataFrame({"a": ["f2", "r1", "f0", "f1"]}))
    assert list(encoder.get_feature_names_out()) == [
        "a_f0",
        "a_f1",
        "a_f2",
        "a_other",
        *CODE,
    ]
    whole = fitted([*FREQUENT, "f2", "r1", "f0", "f1"])
    X = pd.DataFrame({"a": ["r1", "f2", "new", None]})
    np.testing.assert_array_equal(encoder.transform(X), whole.transform(X))
    encoder.forget_categories()
    np.testing.assert_array_equal(encoder.transform(X), whole.transform(X))


def test_every_library_and_every_block_gives_the_same_codes():
    labels = [f"l{i % 40}" if i % 7 else None for i in range(300)]
    whole = pd.DataFrame({"a": labels})
    encoder = TableEncoder(max_categories=3).fit(whole)
    Z = encoder.transform(whole)
    assert encoder.encode(whole, np.float64).dtype == np.float64
    np.testing.assert_array_equal(encoder.encode(whole, np.float64), Z)
    for table in (
        pl.DataFrame({"a": labels}),
        pl.DataFrame({"a": pl.Series(labels, dtype=pl.Categorical)}),
        pa.table({"a": pa.array(labels).dictionary_encode()}),
        whole.astype("category"),
    ):
        np.testing.assert_array_equal(encoder.transform(table), Z)
        np.testing.assert_array_equal(encoder.transform(table[100:140]), Z[100:140])


def test_text_that_is_not_unicode():
    labels = pd.Index(["x", "\ud800", "y"], dtype=object)
    X = pd.DataFrame({"a": pd.Categorical.from_codes([0, 0, 1, 2], labels)})
    Z = TableEncoder(max_categories=1).fit_transform(X)
    np.testing.assert_array_equal(Z[:, 1], [0, 0, 1, 1])
    assert (Z[2, 2:] != Z[3, 2:]).any()


def test_an_encoder_with_codes_is_saved(tmp_path):
    X = pd.DataFrame({"a": [*FREQUENT * 2, "r1", "r2", None], "n": np.arange(9.0)})
    encoder = TableEncoder(max_categories=3).fit(X)
    save(encoder, tmp_path / "encoder")
    back = load(tmp_path / "encoder")
    more = pd.DataFrame({"a": ["f0", "r2", "new", None], "n": [0.0, 1.0, 2.0, 3.0]})
    np.testing.assert_array_equal(back.transform(more), encoder.transform(more))
    np.testing.assert_array_equal(back.column_groups(), encoder.column_groups())
    assert list(back.get_feature_names_out()) == list(encoder.get_feature_names_out())
    np.testing.assert_array_equal(
        back.partial_fit(more).transform(X), encoder.partial_fit(more).transform(X)
    )


def tied_names(encoder):
    """Names of the output columns, group by group."""
    groups, names = encoder.column_groups(), encoder.get_feature_names_out()
    assert groups.dtype.kind == "i"
    assert groups.shape == (encoder.n_features_out_,)
    _, first = np.unique(groups, return_index=True)
    np.testing.assert_array_equal(groups[np.sort(first)], np.arange(len(first)))
    return [names[groups == group].tolist() for group in range(len(first))]


def test_ties_of_a_mixed_table():
    days = [dt.datetime(2024, 1, 1 + 3 * i, i) for i in range(8)]
    X = {
        "n": [1.0, None, 3, 4, 5, 6, 7, 8],
        "a": ["x", None, *"yzuvwx"],
        "t": [None, *days[1:]],
        "m": range(8),
    }
    encoder = TableEncoder(max_categories=2).fit(pl.DataFrame(X, strict=False))
    assert tied_names(encoder) == [
        ["n"], ["n_missing"], ["a_u", "a_x"], ["a_other"], CODE, ["a_missing"],
        ["t_days"], ["t_year_cos", "t_year_sin"], ["t_week_cos", "t_week_sin"], ["t_day_cos", "t_day_sin"],
        ["t_missing"], ["m"],
    ]  # fmt: skip


def test_ties_of_times_that_are_only_circles():
    X = pl.DataFrame(
        {
            "h": [dt.time(0), dt.time(6)],
            "s": [dt.timedelta(0), dt.timedelta(1)],
            "a": ["x", "y"],
        }
    )
    assert tied_names(TableEncoder().fit(X)) == [
        ["h_day_cos", "h_day_sin"],
        ["s_seconds"],
        ["a_x", "a_y"],
    ]


def test_two_text_columns_are_not_tied_to_one_another():
    X = pd.DataFrame({"a": list("xyz"), "b": list("xyz")})
    groups = TableEncoder(max_categories=1).fit(X).column_groups()
    np.testing.assert_array_equal(groups, [0, 1] + [2] * 16 + [3, 4] + [5] * 16)


@pytest.mark.parametrize(
    "X", [np.eye(4), sp.csr_array(np.eye(4)), pd.DataFrame(np.eye(4))]
)
def test_numbers_are_not_tied(X):
    np.testing.assert_array_equal(TableEncoder().fit(X).column_groups(), np.arange(4))


def test_nothing_to_tie():
    assert TableEncoder().fit(np.full((3, 2), np.nan)).column_groups().shape == (0,)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "a", "b"], dtype=object),
        np.array([2, True, 1, 0.5], dtype=object),
        np.array([3, 1, 3]),
        np.array([False, True]),
        np.array(["é", "", "a"]),
    ],
    ids=["text", "mixed numbers", "integers", "booleans", "strings"],
)
def test_distinct_labels_are_those_of_numpy(labels):
    np.testing.assert_array_equal(distinct(labels), np.unique(labels))
