"""Rows that come one after the other: what is learned, what is forgotten, and what stays exact."""

import copy
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge, SGDRegressor

from bochner import (
    BinningFeatures,
    FourierFeatures,
    KernelMachineRegressor,
    OnlineKernelClassifier,
    OnlineKernelRegressor,
    load,
    open_source,
    save,
)
from bochner.kernels import Gaussian
from bochner.online.base import MOST_ENTRIES, History

N = 1200


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(N) + 5


@pytest.fixture
def features():
    return FourierFeatures(Gaussian(1.5), 100, random_state=0)


def in_batches(model, X, y, size, **named):
    for first in range(0, len(y), size):
        model.partial_fit(X[first : first + size], y[first : first + size], **named)
    return model


@pytest.mark.parametrize("alpha", [1.0, 1e-3])
@pytest.mark.parametrize("size", [1, 300, 1000])
def test_without_forgetting_it_is_the_batch_solution(rows, features, alpha, size):
    X, y = rows[0][:600], rows[1][:600]
    exact = KernelMachineRegressor(features=features, alpha=alpha, solver="direct", tol=1e-3).fit(X, y)
    assert exact.feature_weights_.dtype == np.float64
    Z = features.fit(X - X.mean(axis=0)).transform(X - X.mean(axis=0))
    ridge = Ridge(alpha, solver="cholesky").fit(Z, y).predict(Z)
    model = OnlineKernelRegressor(features=features, alpha=alpha).prepare(X, y)
    found = in_batches(model, X, y, size).predict(X)
    np.testing.assert_allclose(found, exact.predict(X), rtol=0, atol=1e-8)
    np.testing.assert_allclose(found, ridge, rtol=0, atol=1e-8)
    assert model.n_rows_ == 600


@pytest.mark.parametrize("size", [1, 37, 400])
def test_forgetting_weights_rows_by_their_age(rows, features, size):
    X, y = rows[0][:400], rows[1][:400]
    age = np.arange(400)[::-1]
    Z = features.fit(X - X.mean(axis=0)).transform(X - X.mean(axis=0))
    exact = Ridge(0.5, solver="cholesky").fit(Z, y, sample_weight=0.5 ** (age / 50))
    model = OnlineKernelRegressor(features=features, alpha=0.5, half_life=50).prepare(X, y)
    np.testing.assert_allclose(in_batches(model, X, y, size).predict(X), exact.predict(Z), rtol=0, atol=1e-8)
    same = OnlineKernelRegressor(features=features, alpha=0.5, forgetting=0.5 ** (1 / 50)).fit(X, y)
    np.testing.assert_allclose(same.predict(X), exact.predict(Z), rtol=0, atol=1e-8)


def test_first_rows_fix_scales_until_there_are_enough(rows):
    X, y = rows[0] * [1.0, 100.0, 1e-3] + 10, rows[1]
    model = OnlineKernelRegressor(n_components=100, random_state=0)
    one, many = (in_batches(copy.deepcopy(model), X, y, size) for size in (1, 256))
    np.testing.assert_allclose(one.encoder_.statistic_.summary.mean, X[:256].mean(axis=0))
    assert one._first is None
    np.testing.assert_allclose(one.predict(X), many.predict(X), rtol=0, atol=1e-8)


def test_predictions_between_rows_change_nothing(rows):
    asked, quiet = (OnlineKernelRegressor(n_components=50, random_state=0) for _ in range(2))
    for first, end in pairwise([*range(60), *range(60, 301, 20)]):
        for model in (asked, quiet):
            model.partial_fit(rows[0][first:end], rows[1][first:end])
        assert np.isfinite(asked.predict(rows[0][:2])).all()
    np.testing.assert_allclose(asked.predict(rows[0]), quiet.predict(rows[0]), rtol=0, atol=1e-8)


def test_drift_is_followed_better_than_by_gradient_steps():
    """Half of the best of many step sizes, on the same features, and a tenth of the default one."""
    rng, n = np.random.default_rng(0), 5000
    X = rng.uniform(-3, 3, (n, 1))
    truth = np.sin(2 * X[:, 0] + 2 * np.pi * np.arange(n) / 20_000)
    y = truth + 0.1 * rng.standard_normal(n)

    def regret(model, rows):
        total = 0.0
        for first in range(0, n, 50):
            part = slice(first, first + 50)
            if first:
                total += np.square(model.predict(rows[part]) - truth[part]).sum()
            model.partial_fit(rows[part], y[part])
        return total / n

    features = FourierFeatures(Gaussian(1.0), 100, random_state=0)
    own = regret(OnlineKernelRegressor(features=features, half_life=100), X)
    Z = features.fit(X).transform(X)
    steps = (0.03, 0.1, 0.3, 1.0)
    best = min(regret(SGDRegressor(learning_rate="constant", eta0=eta, random_state=0), Z) for eta in steps)
    assert own < best / 2
    assert own < regret(SGDRegressor(random_state=0), Z) / 10


def test_history_falls_where_the_world_changes(rows):
    X, y = rows
    y = np.where(np.arange(N) < 800, y, 10 - y)
    model = OnlineKernelRegressor(half_life=100, block_size=50, random_state=0).fit(X, y)
    seen, scores = model.score_history_.T
    assert (np.diff(seen) == 50).all()
    assert seen[-1] == N
    change = scores[seen == 850]
    assert change < scores[(seen > 400) & (seen <= 800)].min() - 0.5
    assert scores[-1] > change + 0.5
    assert model.prequential_score_ == pytest.approx(scores.mean())


def test_history_is_bounded():
    history, rng = History(0, 10), np.random.default_rng(0)
    losses = rng.uniform(size=(3 * MOST_ENTRIES, 10))
    for loss in losses:
        history.add(loss, np.ones(10))
    assert len(history.entries) <= MOST_ENTRIES
    assert history.scores()[-1, 0] == losses.size
    assert history.score() == pytest.approx(1 - losses.mean())
    np.testing.assert_allclose(history.scores()[0, 1], 1 - losses[: history.span // 10].mean())


def test_health_of_long_streams():
    """A hundred half-lives, a constant column, a tiny ridge penalty, equal rows."""
    rng = np.random.default_rng(0)
    model = OnlineKernelRegressor(kernel=Gaussian(3.0), n_components=60, alpha=1e-13, forgetting=0.999, block_size=512)
    for _ in range(30):
        X = np.column_stack([rng.uniform(-1, 1, 5120), np.full(5120, 7.0)])
        model.partial_fit(X, 2 * X[:, 0])
    np.testing.assert_allclose(model.predict(X), 2 * X[:, 0], atol=1e-4)
    model.partial_fit(np.tile(X[:1], (20_000, 1)), np.full(20_000, 3.0))  # all else is forgotten
    found = model.predict(X)
    assert np.isfinite(found).all()
    assert found[0] == pytest.approx(3.0, abs=1e-6)


def test_rows_without_weight_count_for_nothing(rows, features):
    X, y = rows
    weight = np.random.default_rng(0).integers(0, 3, N)
    model = OnlineKernelRegressor(features=features, alpha=1.0).prepare(X, y).partial_fit(X, y, sample_weight=weight)
    again = OnlineKernelRegressor(features=features, alpha=1.0).prepare(X, y)
    again.partial_fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(model.predict(X), again.predict(X), rtol=0, atol=1e-8)


def test_several_targets(rows, features):
    X, y = rows
    both = OnlineKernelRegressor(features=features).fit(X, np.column_stack([y, -3 * y]))
    one = OnlineKernelRegressor(features=features).fit(X, y)
    np.testing.assert_allclose(both.predict(X), np.column_stack([one.predict(X), -3 * one.predict(X)]), atol=1e-9)
    assert both.prequential_score_ == pytest.approx(one.prequential_score_)
    with pytest.raises(ValueError, match="2 targets"):
        both.partial_fit(X, y)


@pytest.mark.filterwarnings("ignore:Columns .* had no two different values")
def test_classes(rows):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order] / 16, y[order]
    model = in_batches(OnlineKernelClassifier(random_state=0), X[:1500], y[:1500], 100, classes=np.arange(10))
    assert model.score(X[1500:], y[1500:]) > 0.97
    p = model.predict_proba(X[1500:])
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(p.argmax(axis=1), model.predict(X[1500:]))
    assert np.log(p[np.arange(len(p)), y[1500:]]).mean() > -0.2
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X[:2], [3, 11])
    with pytest.raises(ValueError, match="first call"):
        OnlineKernelClassifier().partial_fit(X, y)


def test_labels_of_text_and_classes_that_come_late(rows):
    X, y = rows[0], np.where(rows[0][:, 0] > 0, "up", "down")
    model = OnlineKernelClassifier(random_state=0).prepare(X, y, classes=["down", "up", "sideways"])
    with pytest.raises(NotFittedError, match="no rows yet"):
        model.predict(X)
    model.partial_fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.predict_proba(X).shape == (N, 3)


@pytest.mark.parametrize("kind", ["pandas", "sparse", "files"])
def test_rows_of_other_kinds(rows, kind, tmp_path):
    X, y = rows
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "text": np.where(X[:, 2] > 0, "yes", "no"), "y": y})
    model = OnlineKernelRegressor(random_state=0)
    if kind == "pandas":
        for first in range(0, N, 100):
            model.partial_fit(frame[first : first + 100], "y")
        X = frame.drop(columns="y")
    elif kind == "sparse":
        X = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0))
        in_batches(model, X, y, 100)
    else:
        for k in range(4):
            frame[300 * k : 300 * (k + 1)].to_csv(tmp_path / f"{k}.csv", index=False)
        model.fit(str(tmp_path), "y")
        X = frame.drop(columns="y")
    assert model.n_rows_ == N
    assert model.score(X, y) > 0.8


def test_streams_are_read_in_order(rows):
    X, y = rows
    parts = [slice(first, first + 300) for first in range(0, N, 300)]
    source = open_source(lambda: ((X[part], y[part]) for part in parts), sample=100)  # which is never gathered
    own = {"half_life": 30, "kernel": Gaussian(2.0), "random_state": 0}
    once = in_batches(OnlineKernelRegressor(**own), X, y, 300)
    for whole in (OnlineKernelRegressor(**own).fit(source), OnlineKernelRegressor(**own).partial_fit(source)):
        assert whole.n_rows_ == N
        np.testing.assert_allclose(whole.predict(X), once.predict(X), rtol=0, atol=1e-8)
    np.testing.assert_allclose(once.predict(source), once.predict(X), rtol=0, atol=1e-12)
    signs = open_source(lambda: ((X[part], y[part] > 5) for part in parts), sample=100)
    classes = OnlineKernelClassifier(random_state=0).fit(signs)
    assert classes.classes_.tolist() == [False, True]
    assert classes.score(X, y > 5) > 0.9


@pytest.mark.parametrize("rows_seen", [10, N])
def test_saved_models_go_on(rows, rows_seen, tmp_path):
    X, y = rows
    for model, target in ((OnlineKernelRegressor(random_state=0), y), (OnlineKernelClassifier(random_state=0), y > 5)):
        named = {} if target is y else {"classes": [False, True]}
        model.partial_fit(X[:rows_seen], target[:rows_seen], **named)
        save(model, tmp_path / "model.safetensors")
        again = load(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        for one in (model, again):
            one.partial_fit(X, target)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.score_history_, model.score_history_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"forgetting": 1.5}, "forgetting must be above 0 and at most 1"),
        ({"half_life": 0}, "half_life must be a positive number"),
        ({"half_life": 10, "forgetting": 0.9}, "give only one of them"),
        ({"block_size": 0}, "block_size must be a positive integer"),
        ({"alpha": "auto"}, "must be numbers"),
        ({"features": "binning"}, "features must be 'fourier'"),
        ({"features": None}, "features must be 'fourier'"),
        ({"forgetting": "slow"}, "forgetting must be above 0 and at most 1"),
        ({"forgetting": None}, "forgetting must be above 0 and at most 1"),
        ({"half_life": "a day"}, "half_life must be a positive number"),
        ({"half_life": True}, "half_life must be a positive number"),
        ({"block_size": True}, "block_size must be a positive integer"),
        ({"alpha": [0.1, 1.0]}, "must be numbers"),
        ({"alpha": None}, "must be numbers"),
        ({"features": BinningFeatures()}, "dense features of fixed weights"),
    ],
)
def test_parameters_are_checked(rows, parameters, message):
    with pytest.raises(ValueError, match=message):
        OnlineKernelRegressor(**parameters).fit(rows[0][:50], rows[1][:50])


@pytest.mark.parametrize("kind", [lambda X: pd.DataFrame(X).rename(columns=str), sp.csr_array])
def test_few_first_rows_that_a_file_cannot_hold(rows, kind, tmp_path):
    """A copy keeps them, and goes on as the model does; a file does not, which a warning says."""
    X, y = kind(rows[0]), rows[1]
    first, rest = (X.iloc[:10], X.iloc[10:]) if hasattr(X, "iloc") else (X[:10], X[10:])
    model = OnlineKernelRegressor(random_state=0).partial_fit(first, y[:10])
    again = copy.deepcopy(model)
    with pytest.warns(UserWarning, match="The first 10 rows fix the scales") as seen:
        save(model, tmp_path / "model.safetensors")
    assert seen[0].filename == __file__
    np.testing.assert_array_equal(load(tmp_path / "model.safetensors").predict(X), model.predict(X))
    for one in (model, again):
        one.partial_fit(rest, y[10:])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_smaller_block_size_between_batches():
    """Rows that wait already are learned once, however many they are."""
    X, y = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200.0)
    model = OnlineKernelRegressor(n_components=20, random_state=0).prepare(X, y)
    model.partial_fit(X[:100], y[:100]).set_params(block_size=50).partial_fit(X[100:], y[100:])
    assert model.n_rows_ == 200
    whole = OnlineKernelRegressor(n_components=20, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=1e-6)
