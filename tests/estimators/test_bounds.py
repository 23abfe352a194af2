"""Predictions go beyond the targets of a fit as far as its errors at rows left out
give reason to.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor

from bochner import (
    KernelMachineRegressor,
    LinearFeatures,
    load,
    open_source,
    save,
)
from bochner.estimators.extrapolation import PredictionBounds

LINEAR = KernelMachineRegressor(features=LinearFeatures(), alpha=1e-3, random_state=0)


def houses(n, seed):
    """Prices whose errors grow with them, as those of houses do."""
    rng = np.random.default_rng(seed)
    area = np.exp(rng.normal(7.2, 0.35, n))
    quality = rng.integers(1, 11, n)
    log_price = 11 + 0.6 * np.log(area / 1300) + 0.09 * (quality - 5)
    price = np.exp(log_price + 0.12 * rng.normal(size=n))
    return np.column_stack([area, quality]), price


CORNER = np.array([[9000.0, 10.0], [7000.0, 10.0], [1300.0, 5.0]])


def trend(n, noise, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, X @ [3.0, 1.0] + noise * rng.normal(size=n)


@pytest.fixture(scope="module")
def of_houses():
    X, y = houses(800, 0)
    return clone(LINEAR).set_params(uncertainty="intervals").fit(X, y), y


def test_a_lone_corner_is_no_dearer_than_all_houses(of_houses):
    model, y = of_houses
    free = clone(model).set_params(bounded=False).fit(*houses(800, 0))
    assert free.bounds_ is None
    raw = free.predict(CORNER)
    assert raw[:2].min() > 1.3 * y.max()
    bounded = model.predict(CORNER)
    assert (bounded[:2] <= 1.05 * y.max()).all()
    assert bounded[2] == pytest.approx(raw[2])


@pytest.mark.parametrize("noise", [1e-3, 1e-2])
def test_a_clean_trend_goes_on(noise):
    """By a whole range of the targets."""
    X, y = trend(400, noise)
    beyond = np.array([[2.0, 2.0], [-1.0, -1.0]])
    np.testing.assert_allclose(
        LINEAR.fit(X, y).predict(beyond), [8.0, -4.0], atol=10 * noise
    )


def test_a_trend_in_noise_goes_on_a_little():
    X, y = trend(1000, 0.3)
    low, high = LINEAR.fit(X, y).bounds_.ends[:, 0]
    assert y.max() < high < y.max() + 0.3 * np.ptp(y)
    assert y.min() > low > y.min() - 0.3 * np.ptp(y)
    # What it predicts between the targets is as it was
    free = clone(LINEAR).set_params(bounded=False).fit(X, y)
    np.testing.assert_array_equal(LINEAR.predict(X), free.predict(X))


def test_the_reach_is_that_of_the_errors():
    """As leave-one-out errors of a plain least-squares fit have it."""
    X, y = trend(120, 0.2)
    found = clone(LINEAR).set_params(alpha=1e-9).fit(X, y).bounds_
    A = np.column_stack([X, np.ones(len(X))])
    hat = A @ np.linalg.pinv(A)
    left_out = y - (y - hat @ y) / (1 - np.diag(hat))
    order = np.argsort(left_out)
    expected = []
    for end in (order[:24], order[-24:]):
        error = np.square(y - left_out)[end].mean()
        explained = 5 * (y[end].var() - error)
        assert 0 < explained < y.var()
        expected.append(explained / (100 * error))
    np.testing.assert_allclose(found.reach[:, 0], expected, rtol=1e-3)
    np.testing.assert_array_equal([found.low[0], found.high[0]], [y.min(), y.max()])


def test_a_trend_of_logarithms_of_counts_goes_on():
    """Far beyond the greatest count."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2))
    y = rng.poisson(np.exp(2 * X[:, 0] + 0.5 * X[:, 1] + 3))
    model = KernelMachineRegressor(
        features=LinearFeatures(), loss="poisson", random_state=0
    ).fit(X, y)
    beyond = X[y.argmax()] + [[1.0, 0.0]]
    reference = PoissonRegressor(alpha=1e-6, max_iter=1000).fit(X, y).predict(beyond)
    assert reference[0] > 5 * y.max()
    np.testing.assert_allclose(model.predict(beyond), reference, rtol=0.2)


def test_a_lone_corner_has_no_larger_counts():
    """Errors as large as the counts themselves are no trend."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = rng.poisson(rng.gamma(0.5, 2 * np.exp(X[:, 0])))
    model = KernelMachineRegressor(
        features=LinearFeatures(), loss="poisson", random_state=0
    ).fit(X, y)
    assert model.predict([[20.0, 0.0]])[0] < 2 * y.max()


def test_rates_that_no_number_holds_bound_nothing_with_a_warning():
    """Of outliers a linear model expects e to the power of some thousands."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = rng.poisson(np.exp(X[:, 0]))
    X[5::9, 0] = -1e4 * abs(X[5::9, 1])
    y[5::9] = 0
    model = KernelMachineRegressor(
        features=LinearFeatures(), loss="poisson", random_state=0
    ).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert (model.bounds_.reach >= 0).all()


def test_small_errors_where_nothing_varies_are_no_trend():
    """Half of the targets are 100, and are predicted well; the others fall far below
    them, as well as their inputs tell.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = np.minimum(100 + 20 * X[:, 0], 100) + 0.1 * rng.normal(size=2000)
    model = KernelMachineRegressor(features="fourier", alpha=1e-2, random_state=0)
    low, high = model.fit(X, y).bounds_.ends[:, 0]
    assert y.max() <= high < y.max() + 0.05 * np.ptp(y)
    assert low < y.min() - 0.1 * np.ptp(y)


def test_targets_of_two_values_are_bounded_by_these():
    X = np.linspace(-1, 1, 400)[:, np.newaxis]
    y = np.where(X[:, 0] > 0, 7.0, 5.0)
    np.testing.assert_array_equal(LINEAR.fit(X, y).bounds_.ends[:, 0], [5, 7])


def test_a_refit_in_other_units_has_the_bounds_in_these():
    X, y = trend(200, 0.3)
    model = clone(LINEAR).fit(X, y)
    before = model.bounds_.ends
    np.testing.assert_allclose(model.refit(X, 1000 * y).bounds_.ends, 1000 * before)


def test_units_change_nothing():
    X, y = houses(800, 0)
    plain = clone(LINEAR).fit(X, y).bounds_.ends
    scaled = clone(LINEAR).fit(X, 1e120 * y).bounds_.ends
    np.testing.assert_allclose(scaled / 1e120, plain, rtol=1e-6)


def test_rows_without_weight_bound_nothing():
    X, y = houses(400, 0)
    far = np.append(y, 100 * y.max())
    weight = np.append(np.ones(400), 0.0)
    model = LINEAR.fit(np.vstack([X, X[:1]]), far, weight)
    assert model.bounds_.high[0] == y.max()


def test_intervals_contain_the_prediction(of_houses):
    model, _ = of_houses
    low, high = model.predict_interval(CORNER, 0.9).T
    predicted = model.predict(CORNER)
    assert ((low <= predicted) & (predicted <= high)).all()


def test_each_target_has_its_own_bounds():
    X, y = houses(800, 0)
    both = np.column_stack([y, X @ [1.0, 2.0]])
    model = LINEAR.fit(X, both)
    far = model.predict(CORNER[:1])[0]
    assert far[0] <= 1.05 * y.max()
    assert far[1] == pytest.approx(9020.0, rel=1e-3)


def test_explanations_are_of_the_function_without_bounds(of_houses):
    model, _ = of_houses
    free = clone(model).set_params(bounded=False).fit(*houses(800, 0))
    explained = model.explain(CORNER, n_background=10).predictions
    np.testing.assert_allclose(explained, free.predict(CORNER), rtol=1e-6)


@pytest.mark.parametrize("loss", ["huber", "quantile", "poisson"])
def test_other_losses_are_bounded_too(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = rng.poisson(20 * expit(2 * X[:, 0]))
    model = clone(LINEAR).set_params(loss=loss).fit(X, y)
    far = np.array([[30.0, 0.0]])
    free = clone(model).set_params(bounded=False).fit(X, y)
    assert free.predict(far)[0] > 2 * y.max()
    assert y.max() <= model.predict(far)[0] < 1.2 * y.max()


def test_tiny_fits_have_no_bounds():
    X, y = trend(30, 0.3)
    model = LINEAR.fit(X, y)
    assert model.bounds_ is None
    assert model.predict([[5.0, 5.0]])[0] > 2 * y.max()


def test_other_rows_have_their_own_range():
    X, y = houses(800, 0)
    model = clone(LINEAR).fit(X, y)
    model.refit(X, 2 * y)
    assert model.bounds_.high[0] == 2 * y.max()
    assert model.predict(CORNER[:1])[0] == model.bounds_.ends[1, 0]


def test_rows_in_parts_have_no_bounds():
    X, y = trend(600, 0.3)
    model = KernelMachineRegressor(features="fourier", random_state=0)
    model.prepare(X, y).partial_fit(X, y)
    assert model.bounds_ is None
    assert np.isfinite(model.predict([[5.0, 5.0]])).all()


def test_a_sample_of_first_rows_bounds_no_others():
    """Nobody has seen the range of all targets."""
    X, y = trend(900, 0.3)
    order = np.argsort(y)
    rows = pd.DataFrame(X[order], columns=["a", "b"]).assign(y=y[order])
    model = clone(LINEAR).fit(open_source(rows, sample=300), "y")
    assert model.bounds_ is None
    assert model.score(rows, "y") > 0.8
    # A random sample goes with a look at all rows
    looked = clone(LINEAR).fit(open_source(rows), "y")
    assert looked.bounds_.high[0] == y.max()


def test_files_have_the_bounds_and_are_predicted_within_them(of_houses, tmp_path):
    model, _ = of_houses
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.bounds_.ends, model.bounds_.ends)
    np.testing.assert_array_equal(again.predict(CORNER), model.predict(CORNER))
    X, y = houses(800, 0)
    named = clone(model).fit(pd.DataFrame(X, columns=["area", "quality"]), y)
    corner = pd.DataFrame(CORNER, columns=["area", "quality"])
    corner.to_csv(tmp_path / "rows.csv", index=False)
    expected = named.predict(corner)
    assert expected.max() == named.bounds_.ends[1, 0]
    np.testing.assert_allclose(named.predict(tmp_path / "rows.csv"), expected)


def test_the_report_tells_the_bounds():
    X, y = houses(800, 0)
    model = KernelMachineRegressor(features="fourier", random_state=0).fit(X, y)
    low, high = model.bounds_.ends[:, 0]
    told = f"Predictions are bounded: {low:.6g} to {high:.6g}; bounded=False"
    assert told in " ".join(str(model.report_).split())
    assert told in model.report_._repr_html_()
    free = clone(model).set_params(bounded=False).fit(X, y)
    assert "bounded" not in str(free.report_)


def test_what_is_no_flag_is_refused():
    with pytest.raises(ValueError, match="bounded must be True or False, got 'yes'"):
        KernelMachineRegressor(bounded="yes").fit(*trend(30, 0.1))


def test_constant_targets_are_predicted_exactly():
    bounds = PredictionBounds.of(np.ones((60, 1)), None)
    assert np.isinf(bounds.ends).all()
    X, _ = trend(100, 0.1)
    assert (LINEAR.fit(X, np.full(100, 3.0)).predict(5 * X) == 3.0).all()


@pytest.mark.parametrize("n", [120, 400])
def test_conjugate_gradients_have_the_bounds_of_a_factorisation(n):
    """Of a linear trend with noise, learned lengthscales too."""
    X, y = trend(n, 1.0)
    direct = KernelMachineRegressor(random_state=0, solver="direct").fit(X, y)
    model = KernelMachineRegressor(random_state=0, solver="cg").fit(X, y)
    far = np.array([[9.0, 9.0], [-9.0, -9.0]])
    scale = np.ptp(y)
    np.testing.assert_allclose(model.bounds_.ends, direct.bounds_.ends, atol=scale / 4)
    assert (np.abs(model.predict(far) - y.mean()) < scale).all()
    truth = X @ [3.0, 1.0]
    assert np.std(model.predict(X) - truth) < 0.4 * truth.std()
