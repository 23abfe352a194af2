"""A column of nearly unique names does no harm where new rows bring new names."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from bochner import KernelMachineRegressor

N, N_ITEMS, NOISE = 2000, 6000, 0.05
NUMBERS = [f"x{j}" for j in range(6)]
# As they are: the names are no groups here, of which new rows bring new ones alone
pytestmark = pytest.mark.filterwarnings("ignore:Rows that share a value of 'name'")


def sales(seed):
    """Items, each sold one to three times at nearly one price, three quarters of whose
    variance their numbers explain; of the later sales most are of new items.
    """
    rng = np.random.default_rng(seed)
    times = rng.choice([1, 2, 3], size=N_ITEMS, p=[0.34, 0.33, 0.33])
    own = rng.normal(size=N_ITEMS)
    W = rng.normal(size=(N_ITEMS, 6))
    price = W[:, 0] + np.sin(2 * W[:, 1]) + W[:, 2] * W[:, 3] / 2 + np.abs(W[:, 4]) / 2
    price = np.sqrt(0.75) * (price - price.mean()) / price.std()
    price += np.sqrt(0.25 - NOISE**2) * own
    old = N_ITEMS // 2
    sold = rng.permutation(np.repeat(np.arange(old), times[:old])[:N])
    is_new = rng.uniform(size=N) < 0.7
    later = np.where(is_new, rng.integers(old, N_ITEMS, N), rng.choice(sold, N))

    def rows(items):
        X = pd.DataFrame(W[items] + 0.05 * rng.normal(size=(N, 6)), columns=NUMBERS)
        X["name"] = [f"item {i}" for i in items]
        return X, price[items] + NOISE * rng.normal(size=N)

    return *rows(sold), *rows(later), ~np.isin(later, sold)


@pytest.mark.slow
def test_names_do_no_harm_to_new_ones_and_tell_known_ones():
    """Against the same table without the names: mean of three tables."""
    scores = []
    for seed in range(3):
        X, y, X_later, y_later, is_new = sales(seed)
        for columns in ([*NUMBERS, "name"], NUMBERS):
            model = KernelMachineRegressor(random_state=0).fit(X[columns], y)
            predicted = model.predict(X_later[columns])
            scores += [
                r2_score(y_later[rows], predicted[rows]) for rows in (is_new, ~is_new)
            ]
    new, known, new_without, known_without = np.mean(np.reshape(scores, (3, 4)), axis=0)
    assert new > new_without - 0.02
    assert known > known_without
    assert known > 0.97


@pytest.mark.slow
def test_intervals_cover_new_names_and_stay_near_the_spread_of_prices():
    X, y, X_later, y_later, is_new = sales(0)
    model = KernelMachineRegressor(uncertainty="intervals", random_state=0).fit(X, y)
    low, high = model.predict_interval(X_later, 0.9).T
    covered = (low <= y_later) & (y_later <= high)
    assert covered[is_new].mean() > 0.86
    assert covered[~is_new].mean() > 0.86
    # The interval of a normal distribution with the spread of the prices
    assert (high - low)[is_new].mean() < 1.25 * 2 * 1.645 * y.std()
    assert (high - low)[~is_new].mean() < 0.5 * y.std()


@pytest.mark.slow
def test_new_names_are_at_the_mean_of_the_names():
    X, y, X_later, _, is_new = sales(0)
    model = KernelMachineRegressor(n_components=64, metric="ard", random_state=0)
    encoder = model.fit(X, y).encoder_
    at = encoder.get_feature_names_out().tolist().index("name_mean0")
    means = encoder.transform(X)[:, at]
    of_new = encoder.transform(X_later[is_new])[:, at]
    assert means.std() > 0.5
    np.testing.assert_allclose(of_new, means.mean(), atol=1e-5)
