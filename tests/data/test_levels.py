"""Levels of later rows: which are those of the fit, whatever their type, and what is
said where hardly one is.
"""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bochner import KernelMachineRegressor, NoveltyDetector, TableEncoder, load, save
from bochner.data.columns import label_text
from bochner.data.table import TargetRows

CODES = np.array([1, 2, 4, 3, 2, 1, 4, 4])
ONE_HOT = np.eye(4)[CODES - 1]
TRUE = CODES > 2
SIZES = np.linspace(-1.0, 1.0, len(CODES))


def frame(column):
    return pd.DataFrame({"k": column})


WHOLE = {
    "categories of integers": frame(pd.Categorical(CODES)),
    "categories of floats": frame(pd.Categorical(CODES * 1.0)),
    "categories of text": frame(pd.Categorical(CODES.astype(str))),
    "text": frame(CODES.astype(str)),
    "integers": frame(CODES),
    "floats": frame(CODES * 1.0),
    "nullable integers": frame(pd.array(CODES, dtype="Int64")),
    "objects": frame(pd.Series(CODES * 1.0, dtype=object)),
    "polars integers": pl.DataFrame({"k": CODES}),
    "polars floats": pl.DataFrame({"k": CODES * 1.0}),
    "polars categories": pl.DataFrame(
        {"k": pl.Series(CODES.astype(str)).cast(pl.Categorical)}
    ),
    "Arrow integers": pa.table({"k": CODES.astype("u1")}),
    "Arrow dictionary": pa.table({"k": pa.array(CODES * 1.0).dictionary_encode()}),
}


@pytest.mark.parametrize("given", WHOLE)
@pytest.mark.parametrize(
    "fitted", ["categories of integers", "categories of floats", "Arrow dictionary"]
)
def test_whole_numbers_are_one_level_in_every_type(fitted, given):
    encoder = TableEncoder().fit(WHOLE[fitted])
    assert list(encoder.get_feature_names_out()) == ["k_1", "k_2", "k_3", "k_4"]
    np.testing.assert_array_equal(encoder.transform(WHOLE[given]), ONE_HOT)
    few = encoder.encode_few(WHOLE[given], np.float64)
    assert few is None or (few == ONE_HOT).all()


def test_a_missing_value_makes_floats_of_categories():
    encoder = TableEncoder().fit(frame(pd.Categorical([*CODES, None])))
    with_gap = frame(pd.Series([*CODES, None]).astype(float).astype("category"))
    np.testing.assert_array_equal(encoder.transform(with_gap)[:-1, :4], ONE_HOT)
    polars = pl.DataFrame(
        {"k": pl.Series([*CODES * 1.0, np.nan])}
    )  # whose NaN is no missing value
    np.testing.assert_array_equal(
        encoder.transform(polars), encoder.transform(with_gap)
    )


TRUTHS = {
    "categories": frame(pd.Categorical(TRUE)),
    "categories of integers": frame(pd.Categorical(TRUE.astype(int))),
    "categories of floats": frame(pd.Categorical(TRUE.astype(float))),
    "booleans": frame(TRUE),
    "integers": frame(TRUE.astype(int)),
    "text": frame(TRUE.astype(str)),
    "objects": frame(TRUE.astype(object)),
    "polars": pl.DataFrame({"k": TRUE}),
    "Arrow": pa.table({"k": TRUE}),
}


@pytest.mark.parametrize("given", TRUTHS)
@pytest.mark.parametrize("fitted", ["categories", "categories of integers"])
def test_booleans_are_zero_and_one(fitted, given):
    encoded = TableEncoder().fit(TRUTHS[fitted]).transform(TRUTHS[given])
    np.testing.assert_array_equal(encoded, np.column_stack([~TRUE, TRUE]))


def test_booleans_are_no_other_numbers():
    encoder = TableEncoder().fit(frame(pd.Categorical([0, 1, 2, 0, 1, 2])))
    with pytest.warns(
        UserWarning,
        match="2 of 2 values are levels that the fit did not see, such as 'True'",
    ):
        assert not encoder.transform(frame(pd.Categorical([True, True]))).any()


def test_intervals_by_their_numbers():
    whole, floats = (
        pd.cut(SIZES, pd.Index([-2, 0, 2], dtype=kind)) for kind in (int, float)
    )
    np.testing.assert_array_equal(
        TableEncoder().fit(frame(whole)).transform(frame(floats)),
        np.column_stack([SIZES <= 0, SIZES > 0]),
    )
    assert label_text(pd.Interval(0.0, 1.5, closed="left")) == "[0, 1.5)"


@pytest.mark.parametrize("is_seen", [False, True])
def test_levels_beyond_those_that_are_kept(is_seen):
    """Rare levels have codes and means by their text."""
    codes = np.repeat(np.arange(150), 4)
    target = np.random.default_rng(0).standard_normal(150)[codes][:, np.newaxis]
    whole, floats, others = (
        frame(pd.Categorical(k)).assign(x=np.arange(600) / 2)
        for k in (codes, 1.0 * codes, -codes)
    )
    encoder = TableEncoder().fit(whole)
    if is_seen:
        encoder = encoder.with_seen_levels(TargetRows(whole, target, None))
        encoder, _ = encoder.with_level_means(TargetRows(whole, target, None, 0))
        assert encoder.has_level_means
    np.testing.assert_array_equal(encoder.transform(floats), encoder.transform(whole))
    if is_seen:
        with pytest.warns(
            UserWarning, match="596 of 600 values are levels .*, such as '-149'"
        ):
            encoder.transform(others)


def test_levels_of_an_earlier_release():
    """Its files hold categories of floats as 1.0."""
    encoder = TableEncoder().fit(frame(pd.Categorical(["1.0", "2.0", "3.0", "4.0"])))
    np.testing.assert_array_equal(
        encoder.transform(WHOLE["categories of floats"]), ONE_HOT
    )


def test_numbers_where_the_fit_saw_text():
    for levels in (["a", "b"], ["01", "02", "12"]):  # numbers have lost zeros
        with pytest.raises(
            ValueError,
            match=r"holds number values .* text values; read the column as text",
        ):
            TableEncoder().fit(frame(levels)).transform(frame([12]))
    mixed = TableEncoder().fit(frame(pd.Series(["a", 1, 12], dtype=object)))
    np.testing.assert_array_equal(
        mixed.transform(frame([12, 1])), [[0, 1, 0], [1, 0, 0]]
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            np.char.add(" ", CODES.astype(str)),
            "column 'k': 8 of 8 values are .*, such as ' 1'; the fit saw '1'$",
        ),
        (np.char.add("0", CODES.astype(str)), "such as '01'; the fit saw '1'"),
        (
            ["7", "8", "9", "1", None, None, "7", "7"],
            "column 'k': 5 of 6 values are levels .*, such as '7'",
        ),
    ],
)
def test_levels_that_the_fit_did_not_see(given, message):
    encoder = TableEncoder().fit(frame([*CODES.astype(str), None]))
    with pytest.warns(UserWarning, match=message) as caught:
        encoder.transform(frame(pd.Series(given, dtype=object)))
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_new_identifiers_are_usual():
    """Of a column most of whose levels came once."""
    encoder = TableEncoder().fit(frame(["u1", "u2", "u3", "u4", "u4"]))
    assert not encoder.transform(frame(["u5", "u6"])).any()


def test_few_new_levels_are_no_matter():
    encoder = TableEncoder().fit(frame(CODES.astype(str)))
    encoder.transform(frame(["1", "2", "7", "8"]))  # warnings are errors here
    encoder.transform(
        frame(pd.Categorical(["1", "1"], categories=["1", "7", "8", "9"]))
    )


@pytest.fixture(scope="module")
def machine():
    table = pd.DataFrame({"x": np.tile(SIZES, 8), "k": np.tile(CODES, 8).astype(str)})
    return KernelMachineRegressor(
        features="fourier", n_components=10, uncertainty="std", random_state=0
    ).fit(table, table["x"])


@pytest.mark.slow
def test_models_say_it_once(machine, tmp_path):
    """However few rows there are, for all columns together, and once for all blocks
    of a file.
    """
    rows = pd.DataFrame({"x": SIZES, "k": "9"})
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=2)
    save(machine, tmp_path / "model")
    for model in (machine, load(tmp_path / "model")):
        for given in (
            rows,
            rows[:1],
            pl.from_pandas(rows[:1]),
            tmp_path / "rows.parquet",
        ):
            with pytest.warns(
                UserWarning, match="column 'k': .* the fit did not see, such as '9'"
            ) as caught:
                model.predict(given)
            assert len(caught) == 1
    with pytest.warns(UserWarning, match="did not see") as caught:
        machine.predict(rows, return_std=True)
    assert len(caught) == 1
    novelty = NoveltyDetector(random_state=0).fit(rows.assign(k="1"))
    with pytest.warns(UserWarning, match="column 'k': 8 of 8"):
        novelty.score_samples(rows)


@pytest.mark.slow
def test_a_fit_says_nothing_of_its_own_levels(machine):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weight = np.r_[np.ones(8), np.zeros(56)]
        table = pd.DataFrame(
            {"x": np.tile(SIZES, 8), "k": np.repeat(np.arange(8), 8).astype(str)}
        )
        KernelMachineRegressor(
            features="fourier", n_components=10, alpha=1.0, random_state=0
        ).fit(table, table["x"], sample_weight=weight)


def test_blanks_at_the_end_of_a_level_say_nothing():
    rows = frame(["yes", "no", "yes ", "no\t", "yes  "])
    encoder = TableEncoder().fit(rows)
    assert encoder.get_feature_names_out().tolist() == ["k_no", "k_yes"]
    expected = [[0, 1], [1, 0], [0, 1], [1, 0], [0, 1]]
    np.testing.assert_array_equal(encoder.transform(rows), expected)
    np.testing.assert_array_equal(encoder.transform(rows[2:3]), [[0, 1]])
