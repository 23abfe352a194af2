"""Folds that calibrate intervals learn as the fit does, however few rows they have."""

import numpy as np
import pytest

from bochner import KernelMachineClassifier, KernelMachineRegressor


@pytest.mark.slow
def test_intervals_of_rows_just_enough_to_learn_from_are_not_too_wide():
    coverage = []
    for seed in range(3):
        rng = np.random.default_rng(seed)

        def draw(n, rng=rng):
            X = rng.normal(size=(n, 3))
            return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)

        model = KernelMachineRegressor(
            "gaussian", n_components=64, uncertainty="intervals", random_state=seed
        ).fit(*draw(280))
        X, y = draw(2000)
        low, high = model.predict_interval(X, 0.8).T
        coverage.append(np.mean((low <= y) & (y <= high)))
    # Three draws of 280 calibration rows: a standard error of .014. It was .95 where
    # folds learned less than the fit.
    assert abs(np.mean(coverage) - 0.8) < 5 * np.sqrt(0.8 * 0.2 / 840)


@pytest.mark.slow
@pytest.mark.parametrize("split", [{}, {"cv": 5}, {"groups": np.repeat(range(40), 10)}])
def test_a_model_does_not_depend_on_whether_its_errors_are_told(split):
    """Folds told the intervals alone, but the bounds went with the rows that had told
    them, and the importance was that of training rows.
    """
    rng = np.random.default_rng(3)
    of_group = rng.normal(size=40)[np.repeat(range(40), 10)]
    X = np.column_stack([rng.normal(size=(400, 3)), of_group])
    y = np.sin(2 * X[:, 0]) + rng.normal(size=40)[np.repeat(range(40), 10)]
    options = {key: split[key] for key in split if key == "cv"}
    named = {key: split[key] for key in split if key == "groups"}
    plain, uncertain = (
        KernelMachineRegressor(uncertainty=uncertainty, random_state=0, **options).fit(
            X, y, **named
        )
        for uncertainty in (False, True)
    )
    np.testing.assert_array_equal(uncertain.predict(X), plain.predict(X))
    np.testing.assert_array_equal(uncertain.bounds_.ends, plain.bounds_.ends)
    assert uncertain.importance_.rows == plain.importance_.rows
    np.testing.assert_array_equal(
        uncertain.importance_.values, plain.importance_.values
    )


@pytest.mark.slow
@pytest.mark.parametrize("n_before", [40, 100])
def test_intervals_of_a_refit_are_those_of_its_model(n_before):
    """Folds chose anew, and their errors were smaller than those of what forty rows had
    chosen.
    """
    rng = np.random.default_rng(10)

    def draw(n):
        X = rng.normal(size=(n, 3))
        return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=n)

    coverage = []
    for seed in range(6):
        model = KernelMachineRegressor(uncertainty="intervals", random_state=seed)
        model.fit(*draw(n_before)).refit(*draw(450))
        X, y = draw(2000)
        low, high = model.predict_interval(X).T
        coverage.append(np.mean((low <= y) & (y <= high)))
    assert 0.87 < np.mean(coverage) < 0.95


@pytest.mark.parametrize("value", [-999_999.0, 1e6, 0.0])
@pytest.mark.parametrize("kind", [KernelMachineRegressor, KernelMachineClassifier])
def test_padded_rows_without_weight_are_as_none(kind, value):
    """Their range set the unit of near copies, so that rows within one of each other
    were copies.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.sin(2 * X[:, 0]) > X[:, 1]
    is_padded = rng.random(300) < 0.3
    padded = np.where(is_padded[:, np.newaxis], value, X)
    y = y if kind is KernelMachineClassifier else y + X[:, 2]
    model = kind("gaussian", n_components=100, random_state=0)
    whole = model.fit(padded, y, np.where(is_padded, 0.0, 1.0)).predict(X)
    np.testing.assert_allclose(
        whole, model.fit(X[~is_padded], y[~is_padded]).predict(X), atol=1e-4
    )
