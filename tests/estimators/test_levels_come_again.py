"""Tables of a few different rows: equal rows are levels that come again, and not
copies that must be left out.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor

from bochner import KernelMachineClassifier, KernelMachineRegressor

LEVELS, NOISE = 12, 0.3
EFFECTS = np.random.default_rng(3).normal(size=LEVELS)


def draw(n, seed):
    """A column of text alone, and targets by its levels."""
    rng = np.random.default_rng(seed)
    level = rng.integers(LEVELS, size=n)
    return (
        pd.DataFrame({"town": [f"t{k}" for k in level]}),
        EFFECTS[level] + NOISE * rng.normal(size=n),
        level,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"kernel": "gaussian", "n_components": 64}],
    ids=["default", "named kernel"],
)
def test_levels_have_their_means(options):
    X, y, _ = draw(1500, 0)
    model = KernelMachineRegressor(random_state=0, **options).fit(X, y)
    new, _, level = draw(500, 1)
    # The means of 125 rows each have a standard error of .027.
    assert np.sqrt(np.mean(np.square(model.predict(new) - EFFECTS[level]))) < 0.05
    refitted = model.refit(X, y)
    assert np.sqrt(np.mean(np.square(refitted.predict(new) - EFFECTS[level]))) < 0.05


def test_levels_decide_classes():
    X, _, level = draw(600, 0)
    model = KernelMachineClassifier(random_state=0).fit(
        X, np.where(EFFECTS[level] > 0, "up", "down")
    )
    new, _, level = draw(200, 1)
    assert (
        model.predict_proba(new)[np.arange(200), (EFFECTS[level] > 0).astype(int)].min()
        > 0.9
    )


def test_levels_that_are_nearly_numbers():
    rng = np.random.default_rng(0)
    X = np.repeat(np.arange(5.0), 60)[:, np.newaxis] + 1e-9 * rng.normal(size=(300, 1))
    y = np.repeat([0, 1, 0, 1, 1.0], 60) + 0.1 * rng.normal(size=300)
    model = KernelMachineRegressor(random_state=0).fit(X, y)
    np.testing.assert_allclose(
        model.predict(np.arange(5.0)[:, np.newaxis]), [0, 1, 0, 1, 1], atol=0.1
    )


def test_intervals_of_levels():
    X, y, _ = draw(1000, 0)
    model = KernelMachineRegressor(
        "gaussian", n_components=64, uncertainty="intervals", random_state=0
    ).fit(X, y)
    new, target, _ = draw(2000, 1)
    low, high = model.predict_interval(new, 0.9).T
    assert abs(np.mean((low <= target) & (target <= high)) - 0.9) < 5 * np.sqrt(
        0.09 * (1 / 1000 + 1 / 2000)
    )


def test_many_different_rows_of_numbers_that_repeat_do_not_leak():
    """Each row 20 times with its target: to interpolate the noise would look best."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.sin(2 * X[:, 0]) + rng.normal(size=200)
    new = rng.normal(size=(1000, 3))
    truth = np.sin(2 * new[:, 0])
    once = KernelMachineRegressor("gaussian", n_components=64, random_state=0)
    copied = clone(once).fit(X.repeat(20, axis=0), y.repeat(20))
    errors = [
        np.sqrt(np.mean(np.square(model.predict(new) - truth)))
        for model in (once.fit(X, y), copied)
    ]
    assert errors[1] < 1.3 * errors[0]


def test_measured_again_at_places_of_numbers():
    """Quantities do not make copies of rows whose targets differ: 60 places, measured
    40 times each.
    """
    rng = np.random.default_rng(0)
    places = rng.normal(size=(60, 2))
    effects = rng.normal(size=60)
    place = rng.integers(60, size=2400)
    model = KernelMachineRegressor(random_state=0).fit(
        places[place], effects[place] + 0.5 * rng.normal(size=2400)
    )
    # Means of 40 rows have a standard error of .08, and the places' effects one of 1
    error = np.sqrt(np.mean(np.square(model.predict(places) - effects)))
    assert error < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("as_text", [False, True])
def test_cells_of_two_codes_have_their_means(as_text):
    """Of 144 cells each comes seven times with other targets. Left out together they
    told that nothing can be known of a cell: errors were 3 to 9.5 times those of a
    random forest.
    """
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        cells = rng.integers(0, 12, (4000, 2))
        y = 2 * rng.normal(size=(12, 12))[cells[:, 0], cells[:, 1]]
        y = y + 0.7 * rng.normal(size=4000)
        X = pd.DataFrame(cells, columns=["a", "b"])
        forest = RandomForestRegressor(random_state=0).fit(X[:1000], y[:1000])
        table = X.astype(str) if as_text else X
        model = KernelMachineRegressor(random_state=seed).fit(table[:1000], y[:1000])
        errors.append(
            [
                np.mean(np.square(y[1000:] - one.predict(rows[1000:])))
                for one, rows in ((model, table), (forest, X))
            ]
        )
    ours, theirs = np.mean(errors, axis=0)
    assert ours < 1.3 * theirs


def test_replicates_of_quantities_are_copies():
    """Each of 150 places is measured five times: a place left out is a new place."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(150, 3)).repeat(5, axis=0)
    y = np.sin(2 * places[:, 0]) + rng.normal(size=750)
    new = rng.normal(size=(1000, 3))
    model = KernelMachineRegressor("gaussian", n_components=64, random_state=0)
    error = np.mean(
        np.square(model.fit(places, y).predict(new) - np.sin(2 * new[:, 0]))
    )
    assert error < 0.25  # of targets with a variance of .5 and noise of 1
