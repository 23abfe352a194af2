"""The semi-supervised classifier and regressor on rows of all kinds."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import log_loss
from sklearn.semi_supervised import LabelSpreading

from bochner import (
    AnchorFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
    load,
    open_source,
    save,
    settings,
)
from bochner.engines.local import at_most

DIGITS, LABELS = load_digits(return_X_y=True)
MOONS, SIDES = make_moons(1000, noise=0.08, random_state=0)


def draw(labels, each, seed=0):
    """The labels, -1 but for a few of each class."""
    rng, y = np.random.default_rng(seed), np.full(len(labels), -1)
    for label in np.unique(labels):
        rows = rng.choice(np.flatnonzero(labels == label), each, replace=False)
        y[rows] = label
    return y


def spiral(n=2000):
    """Two arms, and the way along them from one end to the other."""
    rng = np.random.default_rng(0)
    t, side = rng.uniform(2, 10, n), rng.choice([-1, 1], n)
    return side[:, np.newaxis] * np.column_stack(
        [t * np.cos(t), t * np.sin(t)]
    ), side * t


def frame(n=1200):
    """Two groups that a text and a number tell apart, with gaps."""
    rng = np.random.default_rng(0)
    group = np.arange(n) % 2
    text = np.where(group, rng.choice(["a", "b"], n), rng.choice(["c", "d"], n)).astype(
        object
    )
    text[::50] = None
    return pd.DataFrame(
        {"size": group + 0.2 * rng.standard_normal(n), "kind": text}
    ), group


@pytest.mark.slow
def test_fewer_errors_than_label_spreading():
    wrong = []
    for seed in range(3):
        y = draw(LABELS, 3, seed)
        model = SemiSupervisedClassifier(random_state=seed).fit(DIGITS, y)
        peer = LabelSpreading(kernel="knn").fit(DIGITS, y)
        wrong.append([(m.transduction_ != LABELS)[y < 0].mean() for m in (model, peer)])
        assert model.method_ == "poisson"
    ours, theirs = np.mean(wrong, axis=0)
    assert ours < theirs
    assert ours < 0.1


@pytest.mark.parametrize("method", ["auto", "spreading", "poisson", "ridge"])
def test_moons(method):
    y = draw(SIDES, 6)
    model = SemiSupervisedClassifier(method=method, random_state=0).fit(
        MOONS[:800], y[:800]
    )
    assert (model.transduction_ != SIDES[:800]).mean() < 0.05
    assert (model.predict(MOONS[800:]) != SIDES[800:]).mean() < 0.05
    assert model.method_ == method or method == "auto"
    P = model.predict_proba(MOONS[800:])
    assert_allclose(P.sum(axis=1), 1)
    assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(MOONS[800:]))
    assert_array_equal(
        model.decision_function(MOONS[800:]) > 0, model.predict(MOONS[800:]) == 1
    )
    assert model.n_labelled_ == (y[:800] >= 0).sum()


@pytest.mark.slow
def test_probabilities_are_calibrated():
    y = draw(LABELS, 10)
    model = SemiSupervisedClassifier(random_state=0).fit(DIGITS, y)
    P = model.label_distributions_[y < 0]
    sure = P.max(axis=1).mean()
    assert abs(sure - (model.transduction_ == LABELS)[y < 0].mean()) < 0.05
    assert set(model.method_scores_) > {"Spreading(alpha=0.99)"}


@pytest.mark.slow
def test_same_for_a_seed_and_threads():
    y = draw(LABELS, 5)
    one = SemiSupervisedClassifier(random_state=0).fit(DIGITS, y)
    with at_most(1):
        other = SemiSupervisedClassifier(random_state=0).fit(DIGITS, y)
    assert_array_equal(one.feature_weights_, other.feature_weights_)


@pytest.mark.slow
def test_marks_of_other_labels():
    y = draw(SIDES, 6)
    expected = SemiSupervisedClassifier(random_state=0).fit(MOONS, y).transduction_
    names = np.array(["left", "right"])
    for mark in (None, np.nan, -1):
        text = np.array([mark if label < 0 else names[label] for label in y], object)
        found = SemiSupervisedClassifier(random_state=0).fit(MOONS, text)
        assert_array_equal(found.classes_, names)
        assert_array_equal(found.transduction_, names[expected])
    found = SemiSupervisedClassifier(random_state=0).fit(
        MOONS, np.where(y < 0, np.nan, y)
    )
    assert_array_equal(found.transduction_, expected)
    series = pd.Series(y).astype("Int64").mask(y < 0)
    assert_array_equal(
        SemiSupervisedClassifier(random_state=0).fit(MOONS, series).transduction_,
        expected,
    )
    categories = pd.Series(np.where(y < 0, None, names[y])).astype("category")
    assert_array_equal(
        SemiSupervisedClassifier(random_state=0).fit(MOONS, categories).transduction_,
        names[expected],
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_rare_class_does_not_spoil_what_other_labels_tell(seed):
    """Two overlapping classes, the smaller with 3 of 60 labels: no worse than to guess
    the larger one.
    """
    rng = np.random.default_rng(seed)
    is_rare = np.arange(1000) % 20 == 0
    X = rng.standard_normal((1000, 4)) + is_rare[:, np.newaxis]
    y = np.where(np.arange(1000) < 60, is_rare, -1)
    model = SemiSupervisedClassifier(random_state=0).fit(X, y)
    p = model.label_distributions_[60:]
    assert np.mean(model.transduction_[60:] != is_rare[60:]) < 0.08
    assert log_loss(is_rare[60:], p, labels=[0, 1]) < 0.25


def test_class_prior_moves_masses():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 2))
    y = np.full(2000, -1)
    y[:20] = X[:20, 0] > 0
    few, many = (
        np.mean(
            SemiSupervisedClassifier(method="spreading", class_prior=p, random_state=0)
            .fit(X, y)
            .transduction_
        )
        for p in ([0.9, 0.1], [0.1, 0.9])
    )
    assert few < 0.4 < 0.6 < many


@pytest.mark.parametrize("prior", [[0.8, 0.2], [0.2, 0.8]])
def test_class_prior_is_followed_where_labels_are_few(prior):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 2))
    X[500:, 0] += 2
    y = np.full(1000, -1)
    y[[0, 1, 500, 501]] = 0, 0, 1, 1
    model = SemiSupervisedClassifier(class_prior=prior, random_state=0).fit(X, y)
    assert (np.mean(model.transduction_) < 0.4) == (prior[1] < 0.5)
    with pytest.raises(ValueError, match="class_prior is: use method='spreading'"):
        SemiSupervisedClassifier(method="poisson", class_prior=prior).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("each", [4, 6])
def test_units_of_weights_and_copies_of_labels_do_not_matter(each):
    """A label that comes twice is no further one of its class."""
    y = draw(SIDES, each)
    model = SemiSupervisedClassifier(random_state=0).fit(MOONS, y)
    for unit in (0.1, 10.0):
        other = SemiSupervisedClassifier(random_state=0)
        other.fit(MOONS, y, np.full(len(y), unit))
        assert other.method_ == model.method_
        assert_allclose(
            other.label_distributions_, model.label_distributions_, rtol=1e-6
        )
    twice = SemiSupervisedClassifier(random_state=0)
    twice.fit(np.repeat(MOONS, 2, axis=0), np.repeat(y, 2))
    assert (twice.method_ == "poisson") == (each < 5)


@pytest.mark.slow
def test_scores_are_those_of_rows_with_a_target(tmp_path):
    y = draw(SIDES, 20)
    is_labelled = y >= 0
    model = SemiSupervisedClassifier(random_state=0).fit(MOONS, y)
    share = np.mean(model.predict(MOONS[is_labelled]) == y[is_labelled])
    assert model.score(MOONS, y) == share
    assert model.score(MOONS, y, 2.0 * np.ones(1000)) == share
    table = pd.DataFrame(MOONS, columns=["a", "b"])
    table["t"] = pd.Series(y, dtype=object).mask(~is_labelled, None)
    table.to_parquet(tmp_path / "rows.parquet")
    assert model.score(MOONS, table["t"]) == share
    read = SemiSupervisedClassifier(random_state=0).fit(tmp_path / "rows.parquet", "t")
    assert read.score(tmp_path / "rows.parquet", "t") > 0.9
    with pytest.raises(ValueError, match="No row has a target"):
        model.score(MOONS, np.full(1000, -1))
    targets = np.where(is_labelled, MOONS[:, 0], np.nan)
    numbers = SemiSupervisedRegressor(random_state=0).fit(MOONS, targets)
    expected = numbers.score(MOONS[is_labelled], MOONS[is_labelled, 0])
    assert numbers.score(MOONS, targets) == expected


@pytest.mark.parametrize(
    ("method", "atol"),
    [
        ("spreading", 1e-9),
        ("ridge", 1e-9),
        # Beside the graph is a machine, whose large coefficients round otherwise
        pytest.param("auto", 1e-8, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("unit", [1e-300, 1e-165, 1e150])
def test_tiny_and_huge_targets(unit, method, atol):
    targets = np.where(draw(SIDES, 20) >= 0, MOONS[:, 0], np.nan)
    options = {"method": method, "random_state": 0}
    expected = SemiSupervisedRegressor(**options).fit(MOONS, targets)
    model = SemiSupervisedRegressor(**options).fit(MOONS, unit * targets)
    assert_allclose(model.predict(MOONS) / unit, expected.predict(MOONS), atol=atol)


def test_frames():
    X, group = frame()
    y = draw(group, 20)
    model = SemiSupervisedClassifier(random_state=0).fit(X, y)
    assert (model.transduction_ != group).mean() < 0.03
    assert_array_equal(model.feature_names_in_, ["size", "kind"])
    named = X.assign(label=pd.Series(y).mask(y < 0))
    assert_array_equal(
        SemiSupervisedClassifier(random_state=0).fit(named, "label").transduction_,
        model.transduction_,
    )


def test_sparse_rows():
    y = draw(LABELS, 5)
    model = SemiSupervisedClassifier(random_state=0).fit(sp.csr_array(DIGITS), y)
    assert (model.transduction_ != LABELS).mean() < 0.12
    assert_array_equal(
        model.predict(sp.csr_array(DIGITS[:50])), model.predict(DIGITS[:50])
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_files_with_missing_labels(tmp_path, kind):
    n = 40_000
    X, group = frame(n)
    y = draw(group, 20).astype(object)
    y[y == -1] = None
    if kind == "text":
        y = np.array([None if label is None else "ab"[label] for label in y], object)
    for part, rows in enumerate(np.array_split(np.arange(n), 3)):
        table = pa.Table.from_pandas(X.iloc[rows], preserve_index=False)
        target = pa.array(list(y[rows]), pa.string() if kind == "text" else pa.int64())
        pq.write_table(
            table.append_column("label", target), tmp_path / f"{part}.parquet"
        )
    expected = group if kind == "numbers" else np.array(["a", "b"])[group]
    features = AnchorFeatures(300, "auto")
    whole = SemiSupervisedClassifier(features, random_state=0).fit(tmp_path, "label")
    assert (whole.transduction_ != expected).mean() < 0.03
    with settings(memory_limit="40 MB"):
        model = SemiSupervisedClassifier(features, random_state=0).fit(
            tmp_path, "label"
        )
    assert len(model.transduction_) == n
    assert (model.transduction_ != expected).mean() < 0.03
    assert (
        model.classes_.dtype.kind
        == whole.classes_.dtype.kind
        == ("i" if kind == "numbers" else "U")
    )
    assert (model.predict(tmp_path) != expected).mean() < 0.03
    assert (
        pq.read_table(
            model.predict_proba(tmp_path, out=tmp_path.parent / "out.parquet")
        ).num_rows
        == n
    )


@pytest.mark.parametrize("method", ["auto", "spreading", "ridge"])
def test_regression_along_a_spiral(method):
    X, t = spiral()
    y = np.where(np.arange(len(t)) < 50, t, np.nan)
    model = SemiSupervisedRegressor(method=method, random_state=0).fit(
        X[:1800], y[:1800]
    )
    supervised = KernelMachineRegressor(random_state=0).fit(X[:50], t[:50])
    error, theirs = (
        np.sqrt(np.mean((m.predict(X[1800:]) - t[1800:]) ** 2))
        for m in (model, supervised)
    )
    assert 1.5 * error < theirs
    assert error < 0.5
    assert np.sqrt(np.mean((model.transduction_ - t[:1800]) ** 2)) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "tolerance"),
    [
        ("spreading", {"rtol": 1e-6}),
        ("ridge", {"rtol": 1e-6}),
        # The machine of the labelled rows is another one for two targets
        ("auto", {"atol": 0.01}),
    ],
)
def test_regression_of_several_targets_and_units(method, tolerance):
    X, t = spiral()
    Y = np.column_stack([t, 1e6 - 1e5 * t])
    Y[50:] = np.nan
    options = {"method": method, "random_state": 0}
    model = SemiSupervisedRegressor(**options).fit(X, Y)
    assert model.transduction_.shape == (len(t), 2)
    assert_allclose(
        model.transduction_[:, 1], 1e6 - 1e5 * model.transduction_[:, 0], rtol=1e-6
    )
    one = SemiSupervisedRegressor(**options).fit(X, Y[:, 0])
    assert_allclose(one.transduction_, model.transduction_[:, 0], **tolerance)


@pytest.mark.slow
def test_regression_of_files(tmp_path):
    X, t = spiral(30_000)
    y = [value if i < 100 else None for i, value in enumerate(t)]
    pq.write_table(
        pa.table({"a": X[:, 0], "b": X[:, 1], "t": pa.array(y, pa.float64())}),
        tmp_path / "rows.parquet",
    )
    with settings(memory_limit="30 MB"):
        model = SemiSupervisedRegressor(
            AnchorFeatures(300, "auto"), random_state=0
        ).fit(tmp_path / "rows.parquet", "t")
    assert np.sqrt(np.mean((model.transduction_ - t) ** 2)) < 0.5


@pytest.mark.slow
def test_saved_and_loaded(tmp_path):
    X, group = frame()
    X_s, t = spiral()
    for model, rows in [
        (SemiSupervisedClassifier(random_state=0).fit(X, draw(group, 20)), X),
        (
            SemiSupervisedRegressor(random_state=0).fit(
                X_s, np.where(np.arange(len(t)) < 50, t, np.nan)
            ),
            X_s,
        ),
    ]:
        save(model, tmp_path / "model.safetensors")
        assert_array_equal(
            load(tmp_path / "model.safetensors").predict(rows), model.predict(rows)
        )


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (SemiSupervisedClassifier(), np.full(1000, -1), "No row has a label"),
        (SemiSupervisedClassifier(method="flow"), SIDES, "method"),
        (SemiSupervisedClassifier(alpha=1.0), SIDES, "alpha"),
        (SemiSupervisedClassifier(class_prior=[1.0]), SIDES, "class_prior"),
        (SemiSupervisedClassifier(features="fourier"), SIDES, "features"),
        (SemiSupervisedRegressor(), np.full(1000, np.nan), "No row has a target"),
        (SemiSupervisedRegressor(method="poisson"), SIDES, "method"),
        (SemiSupervisedRegressor(), np.full(1000, "a"), "SemiSupervisedClassifier"),
        (SemiSupervisedRegressor(), np.full(1000, np.inf), "infinity"),
    ],
)
def test_refusals(model, y, message):
    with pytest.raises(ValueError, match=message):
        model.fit(MOONS, y)


def test_other_maps_are_refused():
    with pytest.raises(TypeError, match="FourierFeatures"):
        SemiSupervisedClassifier(features=FourierFeatures()).fit(MOONS, SIDES)


def test_given_landmarks():
    model = SemiSupervisedClassifier(AnchorFeatures(60, 3), random_state=0).fit(
        MOONS, draw(SIDES, 6)
    )
    assert model.features_.n_features_out == 60
    assert (model.transduction_ != SIDES).mean() < 0.05


def test_labels_of_minus_one_and_one():
    with pytest.warns(UserWarning, match="All labels are 1") as seen:
        SemiSupervisedClassifier(random_state=0).fit(MOONS, 2 * SIDES - 1)
    assert seen[0].filename == __file__


@pytest.mark.slow
def test_supervised_models_name_the_semi_supervised():
    y = np.where(np.arange(1000) < 20, SIDES.astype(float), np.nan)
    for model in (KernelMachineClassifier(), KernelMachineRegressor()):
        with pytest.raises(
            ValueError,
            match=f"SemiSupervised{type(model).__name__.removeprefix('KernelMachine')}",
        ):
            model.fit(MOONS, y)
    with pytest.warns(UserWarning, match="SemiSupervisedClassifier"):
        KernelMachineClassifier().fit(MOONS, draw(SIDES, 20))


@pytest.mark.slow
@pytest.mark.parametrize("mark", ["-1", ""])
def test_text_of_marks_and_mixed_labels_are_named(mark):
    message = f"The text '{mark}' is taken for a class"
    with pytest.warns(UserWarning, match=message) as seen:
        SemiSupervisedClassifier(random_state=0).fit(
            MOONS, np.where(np.arange(1000) < 9, SIDES.astype(str), mark)
        )
    assert seen[0].filename == __file__
    with pytest.raises(ValueError, match="Some labels are text and others, such as 1"):
        SemiSupervisedClassifier().fit(MOONS, ["a" if side else 1 for side in SIDES])


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (
            SemiSupervisedClassifier(class_prior="balanced"),
            SIDES,
            "class_prior must be 2 positive numbers",
        ),
        (
            SemiSupervisedClassifier(class_prior={0: 0.5, 1: 0.5}),
            SIDES,
            "class_prior must be 2 positive numbers",
        ),
        (SemiSupervisedClassifier(standardize="yes"), SIDES, "standardize must be"),
        (SemiSupervisedRegressor(standardize=None), SIDES, "standardize must be"),
        (SemiSupervisedRegressor(), np.ones((1000, 1, 1)), "y must have the shape"),
        (
            SemiSupervisedRegressor(),
            np.where(np.arange(1000)[:, np.newaxis] % 2 == [0, 1], 1.0, np.nan),
            "No row has all of its targets",
        ),
    ],
)
def test_more_refusals(model, y, message):
    with pytest.raises(ValueError, match=message):
        model.fit(MOONS, y)


@pytest.mark.slow
@pytest.mark.parametrize("model", [SemiSupervisedRegressor, SemiSupervisedClassifier])
def test_groups_choose_and_are_no_input(model, tmp_path):
    """A named column is as an array; losses are of whole groups, and larger."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(40), 10)
    X = rng.normal(size=(40, 3))[group] + 0.05 * rng.normal(size=(400, 3))
    y = X[:, 0] + 2 * rng.normal(size=40)[group]
    y = y if model is SemiSupervisedRegressor else np.digitize(y, [-1, 1])
    known = np.where(
        rng.uniform(size=400) < 0.5, y, -1 if y.dtype.kind == "i" else np.nan
    )
    alone = model(random_state=0).fit(X, known)
    together = model(random_state=0).fit(X, known, groups=group)
    assert min(together.method_scores_.values()) > 2 * min(
        alone.method_scores_.values()
    )
    frame = pd.DataFrame(X, columns=list("abc")).assign(patient=group, y=known)
    named = model(random_state=0).fit(frame, "y", groups="patient")
    assert named.feature_names_in_.tolist() == list("abc")
    save(named, tmp_path / "model")
    np.testing.assert_array_equal(
        load(tmp_path / "model").predict(frame.drop(columns="y")),
        named.predict(frame[["a", "b", "c"]]),
    )
    np.testing.assert_allclose(
        [*named.method_scores_.values()], [*together.method_scores_.values()], rtol=1e-6
    )
    with pytest.raises(ValueError, match="one value for each of the 400 rows"):
        model().fit(X, known, groups=group[:3])
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    with pytest.raises(ValueError, match="groups need all rows in memory"):
        model().fit(open_source(path, sample=100), "y", groups="patient")
