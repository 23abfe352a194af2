"""Labels keep the kind of their column: integers and booleans of nullable columns
are no floats.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from bochner import KernelMachineClassifier, SemiSupervisedClassifier, open_source

ROWS = np.random.default_rng(0).standard_normal((60, 2))
LARGE = np.where(ROWS[:, 0] > 0, 2**60 + 1, 2**60)  # one number in double precision
TRUE = ROWS[:, 0] > 0
COLUMNS = {
    "array": np.asarray,
    "series": pd.Series,
    "nullable": lambda y: pd.Series(y).convert_dtypes(),
    "nullable array": lambda y: pd.Series(y).convert_dtypes().array,
    "pandas of Arrow": lambda y: pd.Series(y).astype(
        "int64[pyarrow]" if y.dtype.kind == "i" else "bool[pyarrow]"
    ),
    "polars": pl.Series,
    "Arrow": pa.array,
    "chunks of Arrow": lambda y: pa.chunked_array([y[:20], y[20:]]),
}
MACHINE = KernelMachineClassifier(
    features="fourier", n_components=10, alpha=1.0, random_state=0
)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("labels", [LARGE, TRUE], ids=["integers", "booleans"])
def test_of_every_column(kind, labels):
    y = COLUMNS[kind](labels)
    fitted = clone(MACHINE).fit(ROWS, y)
    assert fitted.classes_.tolist() == np.unique(labels).tolist()
    assert fitted.classes_.dtype == fitted.predict(ROWS).dtype == labels.dtype
    parts = clone(MACHINE).partial_fit(ROWS, y, classes=np.unique(labels))
    assert parts.classes_.dtype == labels.dtype


@pytest.mark.parametrize("labels", [LARGE, TRUE], ids=["integers", "booleans"])
def test_beside_rows_without_a_label(labels):
    known = [None if k % 3 == 0 else label for k, label in enumerate(labels.tolist())]
    nullable = pd.array(known, dtype="boolean" if labels.dtype == bool else "Int64")
    columns = [
        nullable,
        pd.Series(nullable),
        pl.Series(known),
        pa.array(known),
        pa.chunked_array([known]),
    ]
    columns.append(np.ma.masked_array(labels, [label is None for label in known]))
    for y in columns:
        found = SemiSupervisedClassifier(method="spreading", random_state=0).fit(
            ROWS, y
        )
        assert found.classes_.tolist() == np.unique(labels).tolist()
        assert found.classes_.dtype == labels.dtype


def test_a_frame_of_one_column():
    with pytest.warns(UserWarning, match="column-vector y"):
        found = clone(MACHINE).fit(
            ROWS, pd.DataFrame({"y": pd.array(LARGE, dtype="Int64")})
        )
    assert found.classes_.tolist() == [2**60, 2**60 + 1]


def test_beside_rows_that_are_read():
    y = pd.Series(LARGE).convert_dtypes()
    source = open_source(lambda: iter([(ROWS, y)]))
    (batch,) = (batch for part in source.parts for batch in part.read())
    np.testing.assert_array_equal(batch.y, LARGE)


@pytest.mark.parametrize("kind", [pa.string_view(), pa.large_string()])
def test_text_of_arrow(kind):
    text = pa.array(np.where(TRUE, "yes", "no")).cast(kind)
    frames = (
        pa.table({"a": text, "x": ROWS[:, 1]}),
        pd.DataFrame({"a": pd.Series(text, dtype=pd.ArrowDtype(kind))}),
    )
    for frame in frames:
        model = clone(MACHINE).fit(frame, text)
        assert model.classes_.tolist() == ["no", "yes"]
        assert model.encoder_.get_feature_names_out().tolist()[:2] == ["a_no", "a_yes"]
        assert model.score(frame, text.to_pylist()) == 1.0
        assert model.predict(frame[:1]).tolist() == text[:1].to_pylist()


def test_booleans_among_objects_are_booleans():
    """As pandas leaves of a column of booleans without its missing values."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    y = pd.Series([*(X[:, 0] > 0), None]).dropna()
    assert y.dtype == object
    model = KernelMachineClassifier(random_state=0).fit(X, y)
    assert model.classes_.dtype == bool
    assert np.mean(model.predict(X) == y.astype(bool)) > 0.95


def test_booleans_as_objects_are_scored_as_what_they_are():
    """As pandas leaves a column that had missing values."""
    fitted = clone(MACHINE).fit(ROWS, TRUE)
    objects = pd.Series(TRUE.tolist(), dtype=object)
    assert fitted.score(ROWS, objects) == fitted.score(ROWS, TRUE)
    assert fitted.score(ROWS, objects.to_numpy()) == fitted.score(ROWS, TRUE)


@pytest.mark.parametrize("other", [1, 2.5, True])
def test_mixed_labels_are_refused(other):
    y = np.array([other, "b"] * 20, object)
    with pytest.raises(ValueError, match="make all of them text"):
        KernelMachineClassifier().fit(np.arange(80.0).reshape(40, 2), y)
