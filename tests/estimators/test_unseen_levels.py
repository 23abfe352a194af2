"""Intervals and deviations of rows with levels that the fit did not see are wider by
the spread between levels.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone

from bochner import KernelMachineRegressor, load, save
from bochner.data.level_means import level_variances
from bochner.data.table import TableEncoder

N, TOWNS, NOISE = 1500, 30, 0.3
EFFECTS = np.random.default_rng(7).normal(size=2 * TOWNS)


def draw(n, seed, towns):
    rng = np.random.default_rng(seed)
    town = rng.choice(towns, n)
    X = pd.DataFrame({"a": rng.normal(size=n), "town": [f"t{k}" for k in town]})
    return X, X["a"].to_numpy() + EFFECTS[town] + NOISE * rng.normal(size=n)


@pytest.fixture(scope="module")
def model():
    return KernelMachineRegressor(
        "gaussian", n_components=128, uncertainty=True, random_state=0
    ).fit(*draw(N, 0, TOWNS))


def coverage(model, X, y):
    low, high = model.predict_interval(X, 0.9).T
    return np.mean((low <= y) & (y <= high))


def test_variance_between_levels_is_that_of_their_effects():
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 200, 20_000)
    effects = 2 * rng.normal(size=201)
    y = np.column_stack(
        [effects[codes] + 3 * rng.normal(size=20_000), rng.normal(size=20_000)]
    )
    found = level_variances(codes, y, np.ones(20_000))
    further = (1 + 1 / 200) * 199 / 197  # that of a further level
    assert found[0] == pytest.approx(further * effects[:200].var(), rel=0.05)
    assert found[1] < 0.01
    weight = rng.integers(0, 3, 20_000)
    np.testing.assert_allclose(
        level_variances(codes, y, weight.astype(float)),
        level_variances(
            np.repeat(codes, weight),
            np.repeat(y, weight, axis=0),
            np.ones(weight.sum()),
        ),
    )


def test_neither_copies_of_rows_nor_the_unit_of_weights_change_variances():
    """Copies tell nothing more of the noise between rows."""
    X, y = draw(300, 0, TOWNS)
    encoder = TableEncoder().fit(X)
    y, weight = y.reshape(-1, 1), np.random.default_rng(0).uniform(0.5, 2, 300)
    once = encoder.level_variances(X, y, weight)["1"]
    assert once > 0.1
    for times, unit in ((5, 1.0), (1, 7.0), (3, 0.01)):
        found = encoder.level_variances(
            pd.concat([X] * times),
            np.tile(y, (times, 1)),
            np.tile(unit * weight, times),
        )
        np.testing.assert_allclose(found["1"], once)


@pytest.mark.slow
def test_known_levels_are_covered_as_before(model):
    X, y = draw(1500, 1, TOWNS)
    assert abs(coverage(model, X, y) - 0.9) < 0.04
    _, std = model.predict(X, return_std=True)
    assert abs(np.median(std) / NOISE - 1) < 0.25


def test_unseen_levels_are_covered_too(model):
    X, y = draw(1500, 1, np.arange(TOWNS, 2 * TOWNS))
    with pytest.warns(UserWarning, match="levels that the fit did not see"):
        covered = coverage(model, X, y)
    # 30 effects of levels: a standard error of .055. It was .3 with the width of known
    # levels.
    assert abs(covered - 0.9) < 0.12
    with pytest.warns(UserWarning, match="levels that the fit did not see"):
        mean, std = model.predict(X, return_std=True)
    assert 0.6 < np.sqrt(np.mean(np.square((y - mean) / std))) < 1.4


@pytest.mark.slow
def test_other_rows_have_their_own_spread():
    """By `refit` and in parts."""
    X, y = draw(N, 0, TOWNS)
    plain = KernelMachineRegressor(
        "gaussian", n_components=64, uncertainty="intervals", random_state=0
    )
    flat = clone(plain).fit(X, X["a"] + NOISE * np.random.default_rng(1).normal(size=N))
    assert flat.level_variances_.get("1", np.zeros(1))[0] < 0.05
    found = [flat.refit(X, y), clone(plain).prepare(X, y).partial_fit(X, y)]
    expected = clone(plain).fit(X, y).level_variances_["1"]
    for model in found:
        np.testing.assert_allclose(model.level_variances_["1"], expected, rtol=0.1)


def test_the_width_is_that_of_independent_errors(model, tmp_path):
    X, _ = draw(4, 2, TOWNS)
    new = X.assign(town=["t0", "nowhere", "t1", "elsewhere"])
    known = X.assign(town=["t0", "t0", "t1", "t1"])
    between = np.sqrt(model.level_variances_["1"][0]) * model.target_scale_[0]
    q = np.array([0.05, 0.5, 0.95])
    with pytest.warns(UserWarning, match="did not see"):
        wide = model.predict_quantile(new[1::2], q)
    assert (np.diff(wide) > 0).all()
    assert wide[0, 2] - wide[0, 0] > 2 * norm.ppf(0.95) * between > 0
    assert np.ptp(model.predict_quantile(known, q), axis=1).max() < 2 * between
    save(model, tmp_path / "model")
    with pytest.warns(UserWarning, match="did not see"):
        np.testing.assert_array_equal(
            load(tmp_path / "model").predict_quantile(new[1::2], q), wide
        )


@pytest.mark.slow
def test_intervals_of_new_levels_where_most_rows_have_levels_of_no_column():
    """Of more levels than have columns, and fewer rows than tell means, nothing says
    which ones the fit saw. Intervals of 90 % held .75 of such rows.
    """
    shares = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        effects = 0.5 * rng.standard_normal(2000)
        tables = []
        for n, first, last in ((1000, 0, 125), (1000, 1000, 2000)):
            level = rng.integers(first, last, n)
            x = rng.standard_normal(n)
            y = x + effects[level] + 0.3 * rng.standard_normal(n)
            names = [f"level {k}" for k in level]
            tables.append((pd.DataFrame({"x": x, "name": names}), y))
        model = KernelMachineRegressor(
            uncertainty="intervals", features="fourier", random_state=seed
        )
        shares.append(coverage(model.fit(*tables[0]), *tables[1]))
    assert 0.86 < np.mean(shares) < 0.96
