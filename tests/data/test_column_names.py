"""Names of columns that are no strings are kept and compared as strings are;
numbered columns are those of an array.
"""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from bochner import (
    FourierFeatures,
    KernelCCA,
    KernelMachineRegressor,
    KernelPCA,
    TableEncoder,
    load,
    save,
)
from bochner.data.columns import column_number

ROWS = np.random.default_rng(0).standard_normal((300, 2))
NAMES = {
    "integers": [10, 20],
    "numbered": [0, 1],
    "descending": [1, 0],
    "floats": [0.5, 1.5],
    "dates": pd.to_datetime(["2020-01-01", "2021-01-01"]),
    "levels": pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]),
}
MODELS = {
    "encoder": TableEncoder(),
    "map": FourierFeatures(n_components=10, random_state=0),
    "machine": KernelMachineRegressor(
        features="fourier", n_components=10, alpha=1.0, random_state=0
    ),
    "components": KernelPCA(n_components=2, random_state=0),
}


def answer(model, rows):
    return model.predict(rows) if hasattr(model, "predict") else model.transform(rows)


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("kind", MODELS)
def test_other_orders_are_refused(kind, names, tmp_path):
    frame = pd.DataFrame(ROWS, columns=NAMES[names])
    model = MODELS[kind].fit(frame, ROWS[:, 0])
    assert not hasattr(
        model, "feature_names_in_"
    )  # which scikit-learn has for strings alone
    save(model, tmp_path / "model")
    for one in (model, load(tmp_path / "model")):
        for rows in (
            (frame, frame[:1], ROWS, pd.DataFrame(ROWS))
            if names != "descending"
            else (frame, ROWS)
        ):
            np.testing.assert_allclose(
                answer(one, rows), answer(model, frame)[: len(rows)], rtol=1e-6
            )
        for rows in (frame.iloc[:, ::-1], frame.iloc[:1, ::-1]):
            with pytest.raises(
                ValueError,
                match=r"must be those of the fit, in their order: these are .*; "
                r"order them by",
            ):
                answer(one, rows)
    if names != "numbered":
        with pytest.raises(ValueError, match="must be those of the fit"):
            answer(model, frame.set_axis([7, 8], axis=1))


def test_numbered_columns_are_those_of_an_array():
    encoder = TableEncoder().fit(ROWS)
    expected = encoder.transform(ROWS)
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame(ROWS)), expected)
    np.testing.assert_array_equal(
        encoder.transform(pd.DataFrame(ROWS, columns=[10, 20])), expected
    )
    with pytest.raises(ValueError, match="these are '0', '1', got '1', '0'"):
        encoder.transform(pd.DataFrame(ROWS)[[1, 0]])


def test_names_in_another_library_are_their_texts():
    frame = pd.DataFrame(ROWS, columns=[10, 20])
    encoder = TableEncoder().fit(frame)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        np.testing.assert_array_equal(
            encoder.transform(pl.DataFrame(ROWS, schema=["10", "20"])),
            encoder.transform(frame),
        )


def test_later_parts_and_a_second_table():
    frame = pd.DataFrame(ROWS, columns=[10, 20])
    for model in map(clone, (MODELS["encoder"], MODELS["machine"])):
        parts = model.partial_fit(frame, ROWS[:, 0])
        with pytest.raises(ValueError, match="must be those of the fit"):
            parts.partial_fit(frame[[20, 10]], ROWS[:, 0])
    pair = KernelCCA(random_state=0).fit(ROWS, frame)
    with pytest.raises(ValueError, match="must be those of the fit"):
        pair.transform(ROWS, frame[[20, 10]])


@pytest.mark.parametrize("n", [2, 12, 13])
def test_an_unknown_column_is_told_the_names_of_twelve(n):
    names = [f"c{j}" for j in range(n)]
    with pytest.raises(ValueError, match="There is no column 'depth'") as caught:
        column_number("depth", names)
    said = str(caught.value)
    told = ", ".join(names[:12]) + (", ..." if n > 12 else "")
    assert said.endswith(f"give its number, from 0 to {n - 1}, or one of {told}.")
