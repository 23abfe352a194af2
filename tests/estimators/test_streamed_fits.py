"""Fits of rows that are read in passes: the same from any source, and as good as
those of rows in memory.
"""

from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file

from bochner import (
    BinningFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    open_source,
)
from bochner.kernels import Gaussian, Laplacian
from bochner.selection import policy
from bochner.sources.imported import ImportedPart

N, D, SAMPLE = 6000, 4, 2000
NAMES = [f"x{j}" for j in range(D)]


def drawn(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(N, D)).astype(np.float32)
    return X, np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(N)


@pytest.fixture(scope="module")
def data():
    return drawn(0)


@pytest.fixture
def streams(monkeypatch):
    """Tables of more than some rows are not gathered."""
    small = replace(policy.POLICY, gathered_rows=1000, sampled_rows=SAMPLE)
    for module in ("bochner.inputs.opened", "bochner.estimators.machine"):
        monkeypatch.setattr(f"{module}.POLICY", small)


def table(X, y):
    return pa.table({**dict(zip(NAMES, X.T, strict=True)), "y": y})


def written(folder, kind, X, y):
    """The rows in files of a kind; what `fit` takes for X and y."""
    rows = table(X, y)
    if kind == "parquet":
        for k in range(3):
            part = rows.slice(k * N // 3, N // 3)
            pa.parquet.write_table(part, folder / f"{k}.parquet", row_group_size=700)
    elif kind == "one group":
        pa.parquet.write_table(rows, folder / "rows.parquet")
    elif kind == "csv":
        pl.from_arrow(rows).cast(pl.Float64).write_csv(folder / "rows.csv")
    elif kind == "arrow":
        with pa.ipc.new_file(folder / "rows.arrow", rows.schema) as file:
            file.write_table(rows, max_chunksize=500)
    elif kind == "dataset":
        written(folder, "parquet", X, y)
        return pa.dataset.dataset(folder), "y"
    elif kind == "libsvm":
        dump_svmlight_file(X, y, str(folder / "rows.svm"))
        return folder / "rows.svm", None
    elif kind == "factory":
        return (lambda: (rows.slice(k, 6) for k in range(0, N, 6))), "y"
    elif kind == "frame":
        return open_source(rows), "y"
    return folder, "y"


def regressor(**changes):
    given = {
        "features": FourierFeatures(Gaussian(0.5), 200, random_state=0),
        "alpha": 1.0,
        "random_state": 0,
    }
    return KernelMachineRegressor(**(given | changes))


KINDS = [
    "parquet",
    "one group",
    "csv",
    "arrow",
    "dataset",
    "libsvm",
    "factory",
    "frame",
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_model_of_arrays(kind, data, streams, tmp_path):
    X, y = data
    source, target = written(tmp_path, kind, X, y)
    held = (
        sp.csr_array(X)
        if kind == "libsvm"
        else X
        if target is None
        else pl.DataFrame(X, schema=NAMES).to_arrow()
    )
    model = regressor().fit(source, target)
    assert model.solver_reason_ == "one pass over the rows"
    np.testing.assert_allclose(
        model.predict(held), _solved(model, X, y), atol=1e-5 * y.std()
    )


def _solved(model, X, y):
    """Predictions of the ridge regression on the features of all rows, by NumPy."""
    Z = (
        FourierFeatures(Gaussian(0.5), 200, random_state=0)
        .fit(X.astype(float))
        .transform(X.astype(float))
    )
    Zc, yc = Z - Z.mean(axis=0), y - y.mean()
    return (
        Zc @ np.linalg.solve(Zc.T @ Zc + model.alpha_ * np.eye(Z.shape[1]), Zc.T @ yc)
        + y.mean()
    )


def test_choices_are_the_same_from_any_source(data, streams, tmp_path):
    X, y = data
    found = []
    for kind in ("parquet", "csv", "frame"):
        (tmp_path / kind).mkdir()
        source, target = written(tmp_path / kind, kind, X, y)
        found.append(regressor(alpha="auto").fit(source, target))
    truth = found[0].predict(pl.DataFrame(X, schema=NAMES))
    for model in found[1:]:
        assert model.alpha_ == pytest.approx(found[0].alpha_, rel=1e-6)
        np.testing.assert_allclose(
            model.predict(pl.DataFrame(X, schema=NAMES)), truth, atol=1e-4
        )


@pytest.mark.slow
@pytest.mark.parametrize("features", ["fourier", "binning", "hybrid"])
def test_as_good_as_in_memory(features, data, streams, tmp_path, monkeypatch):
    X, y = data
    source, target = written(tmp_path, "parquet", X, y)
    frame, noiseless = (
        pl.DataFrame(X, schema=NAMES),
        np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2],
    )

    def error(model):
        return np.sqrt(np.mean((model.predict(frame) - noiseless) ** 2))

    machines = [
        KernelMachineRegressor(features=features, n_components=200, random_state=seed)
        for seed in range(3)
    ]
    models = [clone(machine).fit(source, target) for machine in machines]
    assert all(model.report_ is not None for model in models)
    streamed = np.mean([error(model) for model in models])
    monkeypatch.undo()
    held = np.mean([error(machine.fit(frame, y)) for machine in machines])
    assert streamed < 1.25 * held + 0.005


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "target"), [("parquet", "smooth"), ("dask", "steps")])
def test_candidates_are_compared_on_a_sample(kind, target, data, policy, tmp_path):
    """A third of the rows is the sample, and half of that is raced."""
    policy(
        gathered_rows=1000,
        sampled_rows=SAMPLE,
        most_raced=2500,
        raced_rows=800,
        compared_rows=500,
    )
    X, y = data
    if target == "steps":
        y = (
            np.floor(4 * X[:, 0])
            + np.floor(3 * X[:, 1])
            + 0.1 * np.random.default_rng(1).standard_normal(N)
        )
    if kind == "dask":
        source = pytest.importorskip("dask.dataframe").from_pandas(
            table(X, y).to_pandas(), npartitions=3
        )
    else:
        source, _ = written(tmp_path, kind, X, y)
    model = KernelMachineRegressor(random_state=0).fit(source, "y")
    fourier = model.report_.chosen.startswith("Fourier features, ")
    assert fourier == (target == "smooth")
    assert model.solver_ == ("direct" if fourier else "cg")
    error = np.sqrt(
        np.mean((np.asarray(model.predict(pl.DataFrame(X, schema=NAMES))) - y) ** 2)
    )
    assert error < (0.105 if fourier else 0.2)  # of a noise of .1


def test_dense_features_by_conjugate_gradients(data, streams, tmp_path):
    X, y = data
    source, target = written(tmp_path, "parquet", X, y)
    frame = pl.DataFrame(X, schema=NAMES)
    direct = regressor().fit(source, target).predict(frame)
    iterated = regressor(solver="cg", tol=1e-6).fit(source, target)
    assert iterated.n_iter_ > 1
    np.testing.assert_allclose(iterated.predict(frame), direct, atol=1e-4 * y.std())


def test_hashed_bins_take_one_pass(data, streams, tmp_path):
    X, y = data
    source, target = written(tmp_path, "parquet", X, y)
    features = BinningFeatures(Laplacian(2.0), n_grids=20, n_buckets=32, random_state=0)
    model = regressor(features=features).fit(source, target)
    assert model.solver_ == "direct"
    assert model.score(pl.DataFrame(X, schema=NAMES), y) > 0.8


@pytest.mark.parametrize("features", ["bins", "waves"])
def test_any_features_of_rows_that_nobody_has_counted(features, data):
    X, y = data
    rows = table(X, y)
    source = open_source(
        lambda: (rows.slice(k, 500) for k in range(0, N, 500)), sample=SAMPLE
    )
    own = (
        {"features": BinningFeatures(Laplacian(2.0), 20, random_state=0)}
        if features == "bins"
        else {}
    )
    model = regressor(solver="cg", **own).fit(source, "y")
    assert model.score(pl.DataFrame(X, schema=NAMES), y) > 0.8


@pytest.mark.parametrize("class_weight", [None, "balanced", {"high": 1.0, "low": 5.0}])
def test_classes(class_weight, data, streams, tmp_path):
    X, y = data
    labels = np.where(y > 0.8, "high", "low")
    pa.parquet.write_table(
        table(X, y).append_column("label", pa.array(labels)), tmp_path / "rows.parquet"
    )
    machine = KernelMachineClassifier(
        features=FourierFeatures(Gaussian(0.5), 200, random_state=0),
        alpha=1.0,
        class_weight=class_weight,
    )
    model = machine.fit(open_source(tmp_path, exclude=["y"]), "label")
    frame = pl.DataFrame(X, schema=NAMES)
    counts = {label: float(np.sum(labels == label)) for label in ("high", "low")}
    weights = (
        {label: N / (2 * count) for label, count in counts.items()}
        if class_weight == "balanced"
        else class_weight
    )
    reference = KernelMachineClassifier(
        features=machine.features, alpha=1.0, class_weight=weights
    )
    truth = (
        reference.prepare(frame, labels)
        .partial_fit(frame, labels)
        .decision_function(frame)
    )
    np.testing.assert_allclose(model.decision_function(frame), truth, atol=1e-4)
    assert model.classes_.tolist() == ["high", "low"]
    assert model.score(frame, labels) > 0.8
    assert model.loss_ == "squared"


def test_weights_and_missing_targets(data, streams, tmp_path):
    X, y = data
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float)
    rows = table(X, y).append_column("w", pa.array(weight))
    pa.parquet.write_table(rows, tmp_path / "rows.parquet")
    model = regressor().fit(tmp_path, "y", "w")
    parts = (
        regressor()
        .prepare(rows.select(NAMES), y, weight)
        .partial_fit(rows.select(NAMES), y, weight)
    )
    np.testing.assert_allclose(
        model.predict(rows.select(NAMES)), parts.predict(rows.select(NAMES)), atol=1e-4
    )
    holes = rows.set_column(D, "y", pa.array(np.where(np.arange(N) == 77, np.nan, y)))
    pa.parquet.write_table(holes, tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="row 77"):
        regressor().fit(tmp_path, "y", "w")


def test_large_arrays_are_read_in_passes(data, streams):
    X, y = data
    model = regressor(alpha="auto").fit(X, y)
    assert model.solver_reason_ == "one pass over the rows"
    assert model.score(X, y) > 0.9
    assert (
        regressor(loss="huber").fit(X, y).score(X, y) > 0.9
    )  # which needs all of them


def test_small_tables_are_gathered(data, tmp_path):
    X, y = data
    source, target = written(tmp_path, "parquet", X, y)
    frame = pl.DataFrame(X, schema=NAMES)
    model, whole = (regressor(alpha="auto") for _ in range(2))
    np.testing.assert_allclose(
        model.fit(source, target).predict(frame),
        whole.fit(frame, y).predict(frame),
        rtol=1e-6,
    )
    factory = regressor(alpha="auto").fit(lambda: iter([table(X, y)]), "y")
    np.testing.assert_allclose(factory.predict(frame), whole.predict(frame), rtol=1e-6)


def test_a_sample_that_is_given_leaves_a_pass_out(data, monkeypatch):
    X, y = data
    calls = []
    passes = []
    read = ImportedPart.read

    def batches():
        calls.append(1)
        return iter(table(X, y).to_batches(max_chunksize=500))

    def counting(*arguments):
        passes.append(1)
        return read(*arguments)

    monkeypatch.setattr(ImportedPart, "read", counting)
    source = open_source(batches, sample=1500)
    assert len(source.parts) == 1
    model = regressor().fit(source, "y")
    assert len(calls) == 1
    assert len(passes) == 2  # the sample, and all rows
    assert model.score(pl.DataFrame(X, schema=NAMES), y) > 0.9


@pytest.mark.parametrize("alpha", ["auto", 0.3])
def test_iterations_over_rows_that_nobody_has_counted(data, alpha):
    rows = table(*data)
    known, unknown = (
        regressor(solver="cg", alpha=alpha, tol=1e-8).fit(
            open_source(rows, where=where, sample=1500), "y"
        )
        for where in (None, pc.field("y") > -1e9)
    )
    assert unknown.alpha_ == pytest.approx(known.alpha_, rel=1e-6)
    X = rows.drop_columns(["y"])
    np.testing.assert_allclose(unknown.predict(X), known.predict(X), atol=1e-4)


def test_predictions_block_by_block(data, tmp_path):
    X, y = data
    source, target = written(tmp_path, "parquet", X, y)
    model = regressor().fit(source, target)
    truth = model.predict(pl.DataFrame(X, schema=NAMES))
    np.testing.assert_allclose(model.predict(source), truth, rtol=1e-6)
    assert model.predict(source, out=tmp_path / "out.csv") == tmp_path / "out.csv"
    np.testing.assert_allclose(
        pl.read_csv(tmp_path / "out.csv")["predicted"], truth, rtol=1e-6
    )
    classifier = KernelMachineClassifier("gaussian", n_components=50, alpha=1.0).fit(
        pl.DataFrame(X, schema=NAMES), y > 0.8
    )
    path = classifier.predict_proba(
        tmp_path / "0.parquet", out=tmp_path / "proba.parquet"
    )
    assert pl.read_parquet(path).columns == ["probability_False", "probability_True"]
    assert classifier.predict(tmp_path / "0.parquet").shape == (N // 3,)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_predictions_replace_no_file_that_is_read(kind, data, tmp_path):
    X, y = data
    written(tmp_path, kind, X, y)
    first = sorted(tmp_path.iterdir())[0]
    before = first.read_bytes()
    model = regressor().fit(pl.DataFrame(X, schema=NAMES), y)
    with pytest.raises(
        ValueError,
        match=f"{first.name}: the rows are read from this file; give another name",
    ):
        model.predict(tmp_path, out=first)
    assert first.read_bytes() == before


def test_predictions_replace_no_arrow_file_of_another_name(data, tmp_path):
    X, y = data
    frame = pl.DataFrame(X, schema=NAMES)
    frame.write_ipc(tmp_path / "rows.parquet")
    before = (tmp_path / "rows.parquet").read_bytes()
    model = regressor().fit(frame, y)
    frame.write_ipc(tmp_path / "more.arrow")
    files = [tmp_path / "more.arrow", tmp_path / "rows.parquet"]
    for source in (files[1], files):
        with pytest.raises(ValueError, match="the rows are read from this file"):
            model.predict(source, out=files[1])
    assert (tmp_path / "rows.parquet").read_bytes() == before


def test_what_cannot_be_streamed_is_refused(data, streams, tmp_path):
    X, y = data
    source, target = written(tmp_path, "parquet", X, y)
    with pytest.raises(ValueError, match="loss='huber' needs all rows in memory"):
        regressor(loss="huber").fit(source, target)
    with pytest.raises(TypeError, match="y must be the name of a column"):
        regressor().fit(source, y)
    with pytest.raises(ValueError, match="no column 'z'"):
        regressor().fit(source, "z")
    with pytest.raises(ValueError, match="this source is larger"):
        regressor().partial_fit(source, target)


@pytest.mark.slow
def test_intervals_are_calibrated_by_the_sample(data, streams, tmp_path):
    X, y = data
    source, target = written(tmp_path, "parquet", X, y)
    machines = [
        regressor(alpha="auto", uncertainty="intervals", random_state=seed)
        for seed in range(4)
    ]
    X, y = drawn(1)
    ends = [
        machine.fit(source, target).predict_interval(pl.DataFrame(X, schema=NAMES), 0.9)
        for machine in machines
    ]
    assert (
        0.87
        < np.mean([(low <= y) & (y <= high) for low, high in (own.T for own in ends)])
        < 0.93
    )


@pytest.mark.slow
@pytest.mark.parametrize("features", ["fourier", "binning"])
def test_refit_on_all_rows_keeps_what_was_chosen(features, data, streams, tmp_path):
    X, y = data
    (tmp_path / "rows").mkdir()
    source, target = written(tmp_path / "rows", "parquet", X, y)
    frame = pl.DataFrame(X, schema=NAMES)
    model = KernelMachineRegressor(
        features=features, n_components=60, random_state=0
    ).fit(source, target)
    before, alpha = model.predict(frame), model.alpha_
    again = model.refit(source, target)
    assert (again.alpha_, again.solver_) == (
        alpha,
        "direct" if features == "fourier" else "cg",
    )
    moved = np.sqrt(np.mean(np.square(again.predict(frame) - before))) / y.std()
    assert moved < (1e-4 if features == "fourier" else 0.05)
    shifted = table(X, y + 10)
    again.refit(open_source(lambda: iter([shifted]), sample=500), "y")
    assert (
        np.sqrt(np.mean(np.square(again.predict(frame) - before - 10))) < 0.05 * y.std()
    )


def test_labels_that_come_after_the_sample_are_refused(data, tmp_path):
    X, y = data
    labels = np.where(np.arange(N) < 3000, "a", "b")
    rows = table(X, y).append_column("label", pa.array(labels))
    with pytest.raises(
        ValueError, match="some labels are not in the first rows, such as 'b'"
    ):
        KernelMachineClassifier("gaussian", n_components=20, alpha=1.0).fit(
            open_source(lambda: iter([rows]), exclude=["y"], sample=1000), "label"
        )
