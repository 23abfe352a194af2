"""Missing values in arrays mean what they mean in data frames: NaN, None, masked
ones; and what is said of new ones.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import (
    FourierFeatures,
    KernelCCA,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelPCA,
    NoveltyDetector,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
    TableEncoder,
    open_source,
    settings,
)
from bochner.report.given_rows import Rows

RNG = np.random.default_rng(0)
FULL = RNG.standard_normal((300, 3))
GAPS = np.where(RNG.random((300, 3)) < [0.2, 0.1, 0.0], np.nan, FULL)
Y = FULL[:, 2] + np.isnan(GAPS[:, 0])
LABELS = (Y > 0.3).astype(int)
MACHINE = KernelMachineRegressor(
    features="fourier", n_components=20, alpha=0.1, random_state=0
)
MODELS = {
    "encoder": (TableEncoder(), None),
    "regressor": (MACHINE, Y),
    "classifier": (
        KernelMachineClassifier(
            features="fourier", n_components=20, alpha=0.1, random_state=0
        ),
        LABELS,
    ),
    "few numbers": (
        SemiSupervisedRegressor(random_state=0),
        np.where(FULL[:, 1] > 1, np.nan, Y),
    ),
    "few numbers by the graph": (
        SemiSupervisedRegressor(method="spreading", random_state=0),
        np.where(FULL[:, 1] > 1, np.nan, Y),
    ),
    "few labels": (
        SemiSupervisedClassifier(random_state=0),
        np.where(FULL[:, 1] > 1, -1, LABELS),
    ),
    "few labels by the graph": (
        SemiSupervisedClassifier(method="spreading", random_state=0),
        np.where(FULL[:, 1] > 1, -1, LABELS),
    ),
    "components": (KernelPCA(n_components=3, random_state=0), None),
    "novelty": (NoveltyDetector(random_state=0), None),
}


def answer(model, X):
    method = next(
        name
        for name in ("predict_proba", "score_samples", "predict", "transform")
        if hasattr(model, name)
    )
    return np.asarray(getattr(model, method)(X))


# Fits of machines to few rows beside the graph take seconds
BESIDE_A_GRAPH = "few numbers", "few labels"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(kind, marks=pytest.mark.slow) if kind in BESIDE_A_GRAPH else kind
        for kind in MODELS
    ],
)
def fitted(request):
    model, y = MODELS[request.param]
    return clone(model).fit(GAPS, y), clone(model).fit(pd.DataFrame(GAPS), y), y


def test_an_array_means_what_a_frame_means(fitted):
    of_array, of_frame, _ = fitted
    expected = answer(of_frame, pd.DataFrame(GAPS))
    assert np.isfinite(expected).all()
    for X in (
        GAPS,
        GAPS.tolist(),
        pd.DataFrame(GAPS),
        np.where(np.isnan(GAPS), None, GAPS),
    ):
        np.testing.assert_allclose(answer(of_array, X), expected, rtol=1e-6, atol=1e-6)
    one = answer(of_array, GAPS[:1])
    np.testing.assert_allclose(one, expected[:1], rtol=1e-4, atol=1e-5)
    assert of_array.__sklearn_tags__().input_tags.allow_nan


def test_masked_values_are_missing(fitted):
    model, _, y = fitted
    masked = np.ma.masked_array(np.where(np.isnan(GAPS), 1e6, GAPS), np.isnan(GAPS))
    expected = answer(model, GAPS)
    np.testing.assert_array_equal(answer(model, masked), expected)
    np.testing.assert_allclose(
        answer(clone(model).fit(masked, y), GAPS), expected, rtol=1e-6, atol=1e-6
    )
    np.testing.assert_array_equal(answer(model, masked[:1]), answer(model, GAPS[:1]))


def test_new_gaps_are_said(fitted):
    """Once, of columns that had none in the fit, also of a single row and of frames."""
    model = fitted[0]
    rows = GAPS.copy()
    rows[0] = [np.nan, 0.0, np.nan]
    for X in (
        rows,
        rows[:1],
        pd.DataFrame(rows),
        pd.DataFrame(rows[:1]),
        [[None, 0.0, None]],
        [[pd.NA, 0.0, pd.NA]],
    ):
        with pytest.warns(
            UserWarning,
            match="Column '?(x2|2)'? has missing values, and had none in the fit",
        ) as caught:
            found = answer(model, X)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert np.isfinite(found).all()
    if isinstance(model, TableEncoder):
        np.testing.assert_array_equal(
            found[0][model.get_feature_names_out().tolist().index("x2")], 0
        )


def test_infinity_stays_refused(fitted):
    model, _, y = fitted
    bad = np.where(np.arange(900).reshape(300, 3) == 7, np.inf, GAPS)
    for method in (
        lambda: answer(model, bad),
        lambda: clone(model).fit(bad, y),
        lambda: answer(model, bad[2:3]),
    ):
        with pytest.raises(ValueError, match="Input X contains infinity"):
            method()


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_rows_in_parts(kind):
    model, y = MODELS[kind]
    array, frame = clone(model), clone(model)
    options = {"classes": [0, 1]} if "label" in kind or kind == "classifier" else {}
    for part in (slice(0, 270), slice(270, 300)):
        own = [] if y is None else [y[part]]
        array.partial_fit(GAPS[part], *own, **options)
        frame.partial_fit(pd.DataFrame(GAPS[part]), *own, **options)
    np.testing.assert_allclose(
        answer(array, GAPS), answer(frame, pd.DataFrame(GAPS)), rtol=1e-6, atol=1e-6
    )


@pytest.mark.slow
def test_rows_that_are_read_in_passes(tmp_path):
    np.save(tmp_path / "rows.npy", GAPS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model = clone(MACHINE).fit(GAPS, Y)
    np.testing.assert_array_equal(
        model.predict(open_source(mapped)), model.predict(GAPS)
    )
    batches = clone(MACHINE).fit(
        lambda: iter([(GAPS[:200], Y[:200]), (GAPS[200:], Y[200:])]), None
    )
    with settings(memory_limit=40_000_000):
        limited = clone(MACHINE).fit(np.tile(GAPS, (200, 1)), np.tile(Y, 200))
    assert batches.encoder_.get_feature_names_out().tolist() == [
        "x0",
        "x0_missing",
        "x1",
        "x1_missing",
        "x2",
    ]
    assert np.corrcoef(batches.predict(GAPS), Y)[0, 1] > 0.9
    assert np.corrcoef(limited.predict(GAPS), Y)[0, 1] > 0.9


def test_sparse_rows_have_no_gaps():
    with pytest.raises(
        ValueError, match=r"Input X contains NaN .* pass a dense array or a data frame"
    ):
        clone(MACHINE).fit(sp.csr_array(GAPS), Y)


def test_maps_refuse_them():
    masked = np.ma.masked_array(FULL, np.isnan(GAPS))
    for X in (GAPS, masked):
        with pytest.raises(
            ValueError, match=r"Input X contains NaN .*TableEncoder before the map"
        ):
            FourierFeatures(n_components=10, random_state=0).fit(X)


def test_masks_of_rows_that_are_scored():
    model = clone(MACHINE).fit(GAPS, Y)
    masked = np.ma.masked_array(np.where(np.isnan(GAPS), 1e6, GAPS), np.isnan(GAPS))
    assert model.score(masked, Y) == model.score(GAPS, Y)
    np.testing.assert_array_equal(Rows.of(masked, Y, model).X, GAPS)
    with pytest.raises(ValueError, match="NaN"):
        model.score(GAPS, np.ma.masked_array(Y, Y > 1))


def test_a_second_table():
    pair = KernelCCA(random_state=0).fit(FULL, GAPS)
    np.testing.assert_allclose(
        pair.transform(FULL, GAPS)[1],
        KernelCCA(random_state=0)
        .fit(FULL, pd.DataFrame(GAPS))
        .transform(FULL, GAPS)[1],
    )


MIXED = pd.DataFrame(
    {
        "size": GAPS[:, 0],
        "town": np.where(FULL[:, 1] > 0, "Bern", "Jena"),
        "when": pd.date_range("2024-01-01", periods=300, freq="5h"),
        "open": FULL[:, 2] > 0.5,
    }
)


@pytest.mark.slow
def test_arrays_of_objects_are_read_as_frames():
    target = np.where(MIXED["open"], 2.0, 0.0) + (MIXED["town"] == "Bern")
    array = MIXED.to_numpy()
    assert array.dtype == object
    model = clone(MACHINE).fit(array, target)
    assert model.score(array, target) > 0.9
    np.testing.assert_allclose(
        model.predict(array),
        clone(MACHINE).fit(MIXED, target).predict(MIXED),
        rtol=1e-5,
        atol=1e-5,
    )
    np.testing.assert_allclose(
        model.predict(array[:1]), model.predict(array)[:1], rtol=1e-5
    )
    assert model.explain(array[:2]).values.shape[:2] == (2, 4)
    bagged = BaggingRegressor(clone(MACHINE), n_estimators=2, random_state=0).fit(
        MIXED, target
    )  # makes arrays of frames
    assert bagged.score(MIXED, target) > 0.5


def test_after_a_step_of_scikit_learn():
    scaled = make_pipeline(StandardScaler(), clone(MACHINE)).fit(pd.DataFrame(GAPS), Y)
    assert scaled.score(GAPS, Y) > 0.9


@pytest.mark.parametrize("model", ["regressor", "classifier"])
@pytest.mark.parametrize("kind", [float, int])
def test_a_masked_target_is_a_missing_one(model, kind):
    target = np.ma.masked_array((10 * LABELS).astype(kind), np.arange(300) == 4)
    with pytest.raises(
        ValueError, match=r"Input y contains NaN .a missing target., first in row 4"
    ):
        clone(MODELS[model][0]).fit(FULL, target)
    few = clone(MODELS["few labels by the graph"][0])
    assert few.fit(FULL, target).classes_.tolist() == [0, 10]
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        clone(MACHINE).fit(
            FULL, Y, sample_weight=np.ma.masked_array(np.ones(300), np.arange(300) == 4)
        )
