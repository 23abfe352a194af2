"""What one estimator without labels, or with few, takes, all take: each kind of rows
works, or is refused clearly.
"""

import os
import signal
import threading
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bochner
from bochner import (
    AnchorFeatures,
    FourierFeatures,
    KernelCCA,
    KernelKMeans,
    KernelPCA,
    NoveltyDetector,
    NystroemFeatures,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
    SpectralClustering,
    load,
    save,
)
from bochner.engines.local import at_most
from bochner.kernels import Gaussian
from bochner.sources.arrow_files import ParquetPart

N, NAMES = 150, ["a", "b", "c"]
RNG = np.random.default_rng(0)
GROUP = np.arange(N) % 3
X = RNG.integers(-4, 5, (N, 3)) + 12.0 * GROUP[:, np.newaxis] * [1, 0, 1]
FEW = np.arange(N) < 45
WAVES = FourierFeatures(Gaussian(2.0), 40, random_state=0)


@dataclass(frozen=True)
class Case:
    """An estimator, what it takes beside X, what it makes of rows, and what it does
    not take.
    """

    model: Any
    y: Any = None
    method: str = "transform"
    encodes: bool = True
    streams: bool = True
    smooth: bool = True
    fewest: int = 1


CASES = {
    "pca": Case(KernelPCA(2, random_state=0)),
    "spectral": Case(
        SpectralClustering(3, n_init=2, random_state=0),
        None,
        "predict",
        smooth=False,
        fewest=3,
    ),
    "k-means": Case(
        KernelKMeans(3, n_init=2, random_state=0),
        None,
        "predict",
        smooth=False,
        fewest=3,
    ),
    "cca": Case(
        KernelCCA(2, features=WAVES, y_features=WAVES, alpha=0.1, random_state=0),
        "table",
    ),
    "novelty": Case(
        NoveltyDetector(n_components=60, n_grids=20, random_state=0),
        None,
        "score_samples",
    ),
    "few labels": Case(
        SemiSupervisedClassifier(random_state=0),
        np.where(FEW, GROUP, -1),
        "predict_proba",
        smooth=False,
    ),
    "few numbers": Case(
        SemiSupervisedRegressor(random_state=0),
        np.where(FEW, X[:, 0] + 0.5, np.nan),
        "predict",
        smooth=False,
    ),
    "few labels by the graph": Case(
        SemiSupervisedClassifier(method="spreading", random_state=0),
        np.where(FEW, GROUP, -1),
        "predict_proba",
        smooth=False,
    ),
    "few numbers by the graph": Case(
        SemiSupervisedRegressor(method="spreading", random_state=0),
        np.where(FEW, X[:, 0] + 0.5, np.nan),
        "predict",
        smooth=False,
    ),
    "anchors": Case(AnchorFeatures(20, random_state=0), encodes=False, streams=False),
    "nystroem": Case(
        NystroemFeatures(Gaussian(5.0), 20, random_state=0),
        encodes=False,
        streams=False,
    ),
}


# Fits of machines to few rows beside the graph take seconds
BESIDE_A_GRAPH = "few labels", "few numbers"


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.slow) if name in BESIDE_A_GRAPH else name
        for name in CASES
    ]
)
def case(request):
    return CASES[request.param]


def fit(case, rows, y=None, **named):
    """A fitted clone; the second table of canonical correlations is the first one."""
    model, beside = clone(case.model), case.y if y is None else y
    if beside is None:
        return model.fit(rows, **named)
    n = len(rows) if isinstance(rows, list) else rows.shape[0]
    return model.fit(rows, rows if isinstance(beside, str) else beside[:n], **named)


def outcome(case, model, rows):
    found = getattr(model, case.method)(rows)
    return found.toarray() if sp.issparse(found) else np.asarray(found)


FOUND = {}


def of_array(case):
    """What a model of the array `X` makes of these rows, computed once for each
    case.
    """
    if id(case) not in FOUND:
        FOUND[id(case)] = outcome(case, fit(case, X), X)
    return FOUND[id(case)]


def agree(case, found, expected, tolerance):
    """Whether results are the same up to rounding; where k-means finds landmarks,
    that of a few rows may move them.
    """
    assert found.shape == expected.shape
    if case.smooth:
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    else:
        assert np.abs(found - expected).mean() <= 0.05 * np.std(expected)


def frozen_rows():
    rows = X.copy()
    rows.flags.writeable = False
    return rows


KINDS = {
    "single": X.astype(np.float32),
    "integer": X.astype(int),
    "Fortran": np.asfortranarray(X),
    "read-only": frozen_rows(),
    "objects": X.astype(object),
    "lists": X.tolist(),
    "pandas": pd.DataFrame(X, columns=NAMES),
    "polars": pl.DataFrame(X, schema=NAMES),
    "arrow": pa.table(dict(zip(NAMES, X.T, strict=True))),
    "csr": sp.csr_array(X),
    "coo": sp.coo_array(X),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_of_any_kind(case, kind):
    """Maps and lists may be computed in single precision; sparse rows are scaled
    about zero, as all encoders do.
    """
    rows = KINDS[kind]
    model = fit(case, rows)
    found, expected = outcome(case, model, rows), of_array(case)
    assert found.shape == expected.shape
    assert np.isfinite(found).all()
    if kind not in ("csr", "coo") and not (kind == "single" and not case.encodes):
        agree(case, found, expected, 1e-3)
    if kind in ("pandas", "polars", "arrow"):
        assert list(model.feature_names_in_) == NAMES


MIXED = pd.DataFrame(
    {
        "a": X[:, 0],
        "town": np.array(["Bern", None, "Ulm"], object)[GROUP],
        "kind": pd.Categorical(np.array(["x", "y", "z"])[GROUP]),
        "gaps": np.where(np.arange(N) % 7 == 0, np.nan, X[:, 1]),
    }
)


@pytest.mark.parametrize(
    "as_frame", [lambda frame: frame, pl.from_pandas], ids=["pandas", "polars"]
)
def test_text_categories_and_gaps(case, as_frame):
    frame = as_frame(MIXED)
    if case.encodes:
        found = outcome(case, fit(case, frame), frame)
        assert len(found) == N
        assert np.isfinite(found).all()
        return
    with pytest.raises(
        ValueError,
        match=r"text .*TableEncoder|columns of numbers .*drop or impute them",
    ):
        fit(case, frame)


EDGES = {
    "a constant column": np.column_stack([X[:, :2], np.full(N, 7.0)]),
    "one value": np.full((N, 3), 7.0),
    "few different rows": X[GROUP],
    "one row": X[:1],
    "two rows": X[:2],
}


@pytest.mark.filterwarnings(
    "ignore:Number of distinct clusters:sklearn.exceptions.ConvergenceWarning"
)
@pytest.mark.parametrize("name", EDGES)
def test_edges(case, name):
    rows = EDGES[name]
    if len(rows) < case.fewest:
        with pytest.raises(
            ValueError,
            match=f"n_clusters is 3, and X has {len(rows)} row.*take fewer clusters",
        ):
            fit(case, rows)
        return
    if isinstance(case.model, KernelCCA) and name in ("one value", "one row"):
        with pytest.raises(ValueError, match="All rows of X are equal"):
            fit(case, rows)
        return
    found = outcome(case, fit(case, rows), rows)
    assert len(found) == len(rows)
    assert np.isfinite(found).all()


def framed(rows):
    return pd.DataFrame(rows, columns=NAMES)


@pytest.mark.parametrize("as_rows", [np.asarray, framed], ids=["array", "frame"])
def test_an_empty_table(case, as_rows):
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        fit(case, as_rows(X[:0]))


def changed(value):
    rows = X.copy()
    rows[2, 1] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (
            changed(np.inf),
            r"infinity.* (row 2, column 1|column 'x1', row 2)[.;] [Dd]rop or clip",
        ),
        (
            sp.csr_array(changed(np.nan)),
            r"NaN in row 2, column 1\. .*[Ii]mpute|without missing values",
        ),
        (pd.DataFrame(changed(-np.inf), columns=NAMES), r"infinity.* 'b'.*rop or clip"),
    ],
    ids=["infinity", "sparse NaN", "infinity in a frame"],
)
def test_what_is_not_finite_is_named_with_its_cure(case, rows, match):
    with pytest.raises(ValueError, match=match):
        fit(case, rows)
    model = fit(case, KINDS["pandas"] if isinstance(rows, pd.DataFrame) else X)
    with pytest.raises(ValueError, match=match):
        getattr(model, case.method)(rows)


def test_missing_values_are_taken_or_refused_as_the_tags_say(case):
    if case.model.__sklearn_tags__().input_tags.allow_nan:
        assert np.isfinite(outcome(case, fit(case, changed(np.nan)), X)).all()
        return
    with pytest.raises(
        ValueError, match=r"NaN in row 2, column 1\. .*[Ii]mpute|without missing values"
    ):
        fit(case, changed(np.nan))
    with pytest.raises(ValueError, match=r"NaN in row 2, column 1\. .*[Ii]mpute"):
        getattr(fit(case, X), case.method)(changed(np.nan))


def test_other_columns_are_refused(case):
    model = fit(case, KINDS["pandas"])
    with pytest.raises(ValueError, match=r"feature|column"):
        getattr(model, case.method)(pd.DataFrame(X[:, :2], columns=NAMES[:2]))
    with pytest.raises(NotFittedError):
        getattr(clone(case.model), case.method)(X)


def test_a_weight_of_zero_is_an_absent_row(case):
    if case.model.__class__ in (AnchorFeatures, NystroemFeatures):
        pytest.skip("maps take no weights")
    weight = np.r_[np.ones(N), np.zeros(20)]
    more = np.vstack([X, 1e4 + RNG.standard_normal((20, 3))])
    y = (
        case.y
        if case.y is None or isinstance(case.y, str)
        else np.r_[case.y, case.y[:20]]
    )
    found = outcome(case, fit(case, more, y, sample_weight=weight), X)
    np.testing.assert_allclose(found, of_array(case), rtol=1e-5, atol=1e-5)


def test_clones_files_and_threads(case, tmp_path):
    """The same bits from a clone, a saved model and a deep copy, and on one thread
    and two.
    """
    with at_most(1):
        model = fit(case, X)
        found = outcome(case, model, X)
    with at_most(2):
        np.testing.assert_array_equal(outcome(case, fit(case, X), X), found)
    assert clone(model).get_params().keys() == case.model.get_params().keys()
    save(model, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        outcome(case, load(tmp_path / "model.safetensors"), X), found
    )
    np.testing.assert_array_equal(outcome(case, deepcopy(model), X), found)


def test_torch_tensors(case):
    torch = pytest.importorskip("torch")
    rows = torch.from_numpy(X)
    y = (
        case.y
        if case.y is None or isinstance(case.y, str)
        else torch.from_numpy(case.y)
    )
    model = fit(case, rows, y)
    found = getattr(model, case.method)(rows)
    assert sp.issparse(found) or isinstance(found, torch.Tensor)
    found = found.toarray() if sp.issparse(found) else found.numpy()
    np.testing.assert_allclose(found, of_array(case), rtol=1e-6, atol=1e-6)


@pytest.fixture
def small_tables(policy):
    """Tables of more than some rows are read in passes."""
    policy(gathered_rows=60, sampled_rows=5000)


def table(case):
    """The rows with targets and weights; those of a second table are columns too."""
    rows = pd.DataFrame(X, columns=NAMES).assign(w=1.0 + GROUP)
    if isinstance(case.y, str):
        return rows.assign(d=X[:, 2], e=X[:, 0]), ["d", "e"]
    return (rows, None) if case.y is None else (rows.assign(y=case.y), "y")


def in_parts(folder, frame):
    for k in range(3):
        part = pa.Table.from_pandas(
            frame.iloc[k * N // 3 : (k + 1) * N // 3], preserve_index=False
        )
        pa.parquet.write_table(part, folder / f"{k}.parquet", row_group_size=20)
    return str(folder)


def fit_named(case, rows, y, **named):
    model = clone(case.model)
    return model.fit(rows, **named) if y is None else model.fit(rows, y, **named)


@pytest.mark.parametrize("gathered", [True, False], ids=["gathered", "in passes"])
def test_a_folder_with_named_weights_and_targets(case, gathered, tmp_path, request):
    if not case.streams:
        with pytest.raises(TypeError, match="takes rows in memory"):
            clone(case.model).fit(str(tmp_path))
        return
    if not gathered:
        request.getfixturevalue("small_tables")
    frame, y = table(case)
    model = fit_named(case, in_parts(tmp_path, frame), y, sample_weight="w")
    expected = outcome(case, fit_named(case, frame, y, sample_weight="w"), frame[NAMES])
    agree(case, outcome(case, model, frame[NAMES]), expected, 2e-2)


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_collections_of_dask(case, kind):
    dask = pytest.importorskip(f"dask.{'array' if kind == 'array' else 'dataframe'}")
    frame, y = table(case)
    if kind == "array":
        rows, y = dask.from_array(X, chunks=(60, 3)), case.y
        y = (
            rows
            if isinstance(y, str)
            else y
            if y is None
            else dask.from_array(y, chunks=60)
        )
        held = fit(case, X)
    else:
        rows = dask.from_pandas(frame if case.streams else frame[NAMES], npartitions=3)
        named = {"sample_weight": "w"} if case.streams else {}
        held = fit_named(case, frame if case.streams else frame[NAMES], y, **named)
        model = fit_named(case, rows, y, **named)
    if kind == "array":
        model = fit_named(case, rows, y)
    given = X if kind == "array" else frame[NAMES]
    found, expected = outcome(case, model, given), outcome(case, held, given)
    agree(case, found, expected, 1e-4)
    later = getattr(model, case.method)(rows if kind == "array" else rows[NAMES])
    assert (later.compute() if hasattr(later, "compute") else later).shape[0] == N


@pytest.mark.filterwarnings(
    "ignore:resource_tracker:UserWarning",
    "ignore:Port .* is already in use:UserWarning",
)
@pytest.mark.usefixtures("small_tables")
def test_workers_of_a_cluster(case, client, tmp_path):
    if not case.streams:
        pytest.skip("maps are fitted to rows in memory")
    frame, y = table(case)
    folder = in_parts(tmp_path, frame)
    found = []
    for engine in (None, client):
        with bochner.settings(engine=engine):
            found.append(
                outcome(
                    case, fit_named(case, folder, y, sample_weight="w"), frame[NAMES]
                )
            )
    np.testing.assert_array_equal(*found)


@pytest.mark.usefixtures("interruptible", "small_tables")
def test_an_interrupt_leaves_nothing_behind(case, tmp_path, monkeypatch):
    """The model is not fitted, no thread goes on, and a later fit is that of a new
    model.
    """
    if not case.streams:
        pytest.skip("maps are fitted to rows in memory")
    frame, y = table(case)
    folder, model, times = in_parts(tmp_path, frame), clone(case.model), []

    def interrupting(part, *arguments):
        times.append(part)
        if len(times) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return reads(part, *arguments)

    reads, before = ParquetPart.read, threading.active_count()
    beside = [] if y is None else [y]
    with monkeypatch.context() as patch:
        patch.setattr(ParquetPart, "read", interrupting)
        with pytest.raises(KeyboardInterrupt):
            model.fit(folder, *beside, sample_weight="w")
    assert threading.active_count() <= before + 2
    with pytest.raises(NotFittedError):
        getattr(model, case.method)(frame[NAMES])
    expected = outcome(
        case, fit_named(case, folder, y, sample_weight="w"), frame[NAMES]
    )
    found = model.fit(folder, *beside, sample_weight="w")
    np.testing.assert_array_equal(outcome(case, found, frame[NAMES]), expected)


def test_what_is_made_of_a_folder(case, tmp_path):
    """The same as of its rows in memory; only feature maps take none."""
    folder = in_parts(tmp_path, framed(X))
    model = fit(case, framed(X))
    if not case.streams:
        with pytest.raises(TypeError, match="takes rows in memory"):
            getattr(model, case.method)(folder)
        return
    # The machine beside a graph has large coefficients, whose sums in blocks of other
    # sizes round otherwise
    np.testing.assert_allclose(
        outcome(case, model, folder),
        outcome(case, model, framed(X)),
        rtol=1e-6 if isinstance(case.model, SemiSupervisedRegressor) else 1e-9,
        atol=1e-9,
    )


def test_no_model_is_left_of_a_fit_that_failed(case):
    if "standardize" not in case.model.get_params():
        return
    model = fit(case, X)
    with pytest.raises(ValueError, match="standardize must be True, False or"):
        model.set_params(standardize="yes").fit(
            X, case.y if not isinstance(case.y, str) else X
        )
    with pytest.raises(NotFittedError):
        getattr(model, case.method)(X)
