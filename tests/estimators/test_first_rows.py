"""Fits in parts that begin with few rows: these fix the encodings again until there
are enough.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from bochner import (
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelPCA,
    load,
    save,
)

N = 300
X = np.random.default_rng(0).normal(size=(N, 3))
Y = X[:, 0] + np.sin(2 * X[:, 1])
FAST = {
    "kernel": "gaussian",
    "features": "fourier",
    "metric": "isotropic",
    "n_components": 100,
    "random_state": 0,
}
FRAME = pd.DataFrame(X, columns=list("abc")).assign(
    side=np.where(X[:, 2] > 0, "left", "right")
)


def fed(model, X, y, step, **options):
    for first in range(0, len(y), step):
        model.partial_fit(X[first : first + step], y[first : first + step], **options)
    return model


@pytest.mark.slow
def test_one_row_at_a_time():
    model = fed(KernelMachineRegressor(**FAST), X, Y, 1)
    whole = KernelMachineRegressor(**FAST).fit(X, Y)
    assert model.score(X, Y) > whole.score(X, Y) - 0.01
    assert model.encoder_.statistic_.summary.weight[0] == 256


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows",
    [X, FRAME, sp.csr_array(np.where(np.abs(X) > 0.3, X, 0))],
    ids=["array", "frame", "csr"],
)
def test_small_batches_of_every_kind(rows):
    named = {"classes": [False, True]}
    model = fed(KernelMachineClassifier(**FAST), rows, Y > 0, 7, **named)
    assert model.score(rows, Y > 0) > 0.85


def test_a_first_row_makes_no_column_constant():
    model = KernelMachineRegressor(**FAST).partial_fit(X[:1], Y[:1])
    np.testing.assert_allclose(model.predict(X[:3]), Y[0])
    assert model.partial_fit(X[1:200], Y[1:200]).score(X, Y) > 0.9


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table])
def test_types_that_widen(table):
    """A column without values, then of whole numbers, then of any, and other words
    of a category.
    """
    values = [[None] * 10, list(range(10)), X[20:40, 0].tolist()]
    words = [["left", "right"] * 5, ["left"] * 10, ["middle", "right"] * 10]
    model = KernelMachineRegressor(**FAST)
    for first, a, b in zip([0, 10, 20], values, words, strict=True):
        rows = table({"a": a, "b": b})
        model.partial_fit(rows, Y[first : first + len(a)])
    joined = {
        "a": np.concatenate([[np.nan] * 10, *values[1:]]),
        "b": np.concatenate(words),
    }
    once = KernelMachineRegressor(**FAST).partial_fit(pd.DataFrame(joined), Y[:40])
    np.testing.assert_allclose(model.predict(rows), once.predict(rows), rtol=1e-6)
    with pytest.raises(
        ValueError, match=r"columns of the tables differ|holds number values"
    ):
        model.partial_fit(table({"a": values[2], "b": values[2]}), Y[:20])


@pytest.mark.parametrize(
    "batches",
    [
        (FRAME[["a", "b", "c"]][30:60], pl.DataFrame(X[60:90], schema=list("abc"))),
        (pl.DataFrame(X[30:60], schema=list("abc")), FRAME[["a", "b", "c"]][60:90]),
        (sp.csr_array(X[30:60]), X[60:90]),
    ],
    ids=["pandas polars", "polars pandas", "sparse dense"],
)
def test_batches_of_several_kinds(batches):
    model = (
        KernelMachineRegressor(**FAST)
        .partial_fit(batches[0], Y[30:60])
        .partial_fit(batches[1], Y[60:90])
    )
    once = KernelMachineRegressor(**FAST).partial_fit(X[30:90], Y[30:90])
    np.testing.assert_allclose(
        model.predict(batches[1]), once.predict(X[60:90]), atol=1e-3
    )


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize(
    ("later", "message"),
    [
        (
            FRAME[["a", "b", "c"]][60:90],
            "some are arrays: give all of them in one form",
        ),
        (sp.csr_array(X[60:90]), "the encoder was fitted on dense data"),
    ],
)
def test_rows_of_another_form_after_an_array(later, message):
    model = KernelMachineRegressor(**FAST).partial_fit(X[30:60], Y[30:60])
    with pytest.raises(ValueError, match=message):
        model.partial_fit(later, Y[60:90])


def test_weights_beside_rows_without():
    model = KernelMachineRegressor(**FAST).partial_fit(X[:2], Y[:2])
    model.partial_fit(X[2:100], Y[2:100], np.full(98, 2.0)).partial_fit(
        X[100:200], Y[100:200]
    )
    once = KernelMachineRegressor(**FAST).partial_fit(
        X[:200], Y[:200], np.r_[1.0, 1.0, np.full(98, 2.0), np.ones(100)]
    )
    np.testing.assert_allclose(model.predict(X), once.predict(X), rtol=1e-6)


def test_what_is_prepared_stays():
    model = KernelMachineRegressor(**FAST).prepare(X[:50], Y[:50])
    encoder = model.encoder_
    assert fed(model, X, Y, 100).encoder_ is encoder


def test_a_saved_model_goes_on(tmp_path):
    first = KernelMachineRegressor(**FAST).partial_fit(X[:10], Y[:10])
    save(first, tmp_path / "m")
    again = load(tmp_path / "m").partial_fit(X[10:], Y[10:])
    np.testing.assert_array_equal(
        again.predict(X), first.partial_fit(X[10:], Y[10:]).predict(X)
    )
    framed = KernelMachineRegressor(**FAST).partial_fit(FRAME[:10], Y[:10])
    with pytest.warns(
        UserWarning,
        match="first 10 rows fix the scales and the kernel of the loaded model for "
        "good",
    ):
        save(framed, tmp_path / "m")
    np.testing.assert_array_equal(
        load(tmp_path / "m").predict(FRAME), framed.predict(FRAME)
    )


def test_merged_models_take_more_rows():
    first = KernelMachineRegressor(**FAST).prepare(X, Y)
    model = first.partial_fit(X[:5], Y[:5]) + KernelMachineRegressor(**FAST).prepare(
        X, Y
    ).partial_fit(X[5:], Y[5:])
    assert model.partial_fit(X, Y).score(X, Y) > 0.9


@pytest.mark.slow
def test_bins_of_few_rows_have_few_columns():
    given = {
        "features": "binning",
        "metric": "isotropic",
        "n_components": 20,
        "random_state": 0,
    }
    model = KernelMachineRegressor(**given).partial_fit(X, Y)
    assert model.features_.n_features_out <= 2400
    assert model.score(X, Y) > 0.8


@pytest.mark.parametrize("verbose", ["x", 2.5, None, -1, [1]])
def test_verbose_is_a_whole_number(verbose):
    with pytest.raises((TypeError, ValueError), match="verbose must be"):
        KernelMachineRegressor(verbose=verbose).fit(X, Y)


LATER = np.arange(N) >= 270
LATE = FRAME.assign(
    late=np.where(LATER, np.arange(N), 7), none=np.where(LATER, X[:, 0], np.nan)
)
PARTIAL = {
    "regressor": (KernelMachineRegressor(**FAST), "prepare"),
    "classifier": (KernelMachineClassifier(**FAST), "prepare"),
    "components": (KernelPCA(random_state=0), "fit"),
}


@pytest.mark.parametrize("name", PARTIAL)
@pytest.mark.parametrize("kind", ["frame", "array", "csr"])
def test_a_column_that_varies_only_later_is_named_once(name, kind):
    model, method = clone(PARTIAL[name][0]), PARTIAL[name][1]
    y = Y > 0 if name == "classifier" else Y
    options = {"classes": [False, True]} if name == "classifier" else {}
    rows = LATE if kind == "frame" else LATE[["a", "b", "late"]].to_numpy()
    rows = sp.csr_array(rows - [0, 0, 7]) if kind == "csr" else rows
    named = (
        "'late', 'none' had .* are ignored"
        if kind == "frame"
        else "'x2' had .* is ignored"
    )
    for first in range(0, 270, 90):
        model.partial_fit(rows[first : first + 90], y[first : first + 90], **options)
    with pytest.warns(
        UserWarning,
        match=rf"Columns? {named}, .* call {method} with a sample of all rows",
    ):
        model.partial_fit(rows[270:285], y[270:285], **options)
    model.partial_fit(rows[285:], y[285:], **options)


def test_no_caution_while_first_rows_are_gathered_or_after_a_sample_that_varies():
    fed(
        KernelMachineRegressor(**FAST),
        np.where(np.arange(N)[:, np.newaxis] < 100, 1.0, X),
        Y,
        40,
    )
    fed(KernelMachineRegressor(**FAST).prepare(LATE, Y), LATE, Y, 100)


def test_sorted_targets_are_told_of_once():
    order = np.argsort(Y)
    with pytest.warns(UserWarning, match="mean of the targets has moved") as told:
        fed(KernelMachineRegressor(**FAST), *tripled(order), 100)
    assert len(told) == 1
    labels = np.digitize(Y, [-0.5, 0.5])
    rows, numbers = tripled(order, labels)
    named = {"classes": [0, 1, 2]}
    with pytest.warns(UserWarning, match="none of '1', '2': shuffle") as told:
        fed(KernelMachineClassifier(**FAST), rows, numbers, 50, **named)
    assert len(told) == 1


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 300])
def test_shuffled_targets_are_not_told_of(step, recwarn):
    order = np.random.default_rng(1).permutation(N)
    fed(KernelMachineRegressor(**FAST), *tripled(order), step)
    labels = np.digitize(Y, [-0.5, 0.5])
    rows, numbers = tripled(order, labels)
    named = {"classes": [0, 1, 2]}
    fed(KernelMachineClassifier(**FAST), rows, numbers, step, **named)
    # A sample of all rows says which classes there are, whatever comes first
    prepared = KernelMachineClassifier(**FAST).prepare(rows, numbers)
    fed(prepared, np.sort(rows), np.sort(numbers), max(step, 100))
    assert not recwarn.list


def tripled(order, targets=Y):
    """Rows three times, each with its noise, in an order of the first ones."""
    places = np.repeat(order, 3)
    noise = np.random.default_rng(2).normal(0, 0.01, (len(places), 3))
    return X[places] + noise, targets[places]
