"""The curve and the map of a density: what they draw is what the estimate says, in the table's units."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn import neighbors

from bochner import KernelDensity
from bochner.display import DensityDisplay


def frame(n, d):
    X = np.random.default_rng(0).standard_normal((n, d)) * [40.0, 2.0, 1.0][:d] + [500.0, -3.0, 0.0][:d]
    return pd.DataFrame(X, columns=["rent, CHF", "latitude", "age"][:d])


def test_a_column_is_a_curve_in_its_unit(crowded):
    X = frame(2000, 1)
    display = DensityDisplay.from_estimator(KernelDensity(8.0).fit(X)).plot()
    axis, drawn = display.curve_.get_data()
    exact = np.exp(neighbors.KernelDensity(bandwidth=8.0).fit(X.to_numpy()).score_samples(axis[:, None]))
    np.testing.assert_allclose(drawn, exact, atol=2e-3 * exact.max())
    assert display.ax_.get_xlabel() == "rent, CHF"
    assert axis[0] < X["rent, CHF"].min()
    assert axis[-1] > X["rent, CHF"].max()
    assert not crowded(display.figure_)


def test_two_columns_are_a_map_in_their_units(crowded):
    X = frame(2000, 2)
    density = KernelDensity([12.0, 0.6]).fit(X)
    display = DensityDisplay.from_estimator(density, n_points=40).plot()
    (x, y), names = display.axes, X.columns
    at = pd.DataFrame([[x[31], y[7]]], columns=names)
    assert display.density[7, 31] == pytest.approx(np.exp(density.score_samples(at)[0]))
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == tuple(names)
    assert display.contours_.levels[-1] >= 0.9 * display.density.max()
    assert np.trapezoid(np.trapezoid(display.density, x), y) == pytest.approx(1.0, abs=0.02)
    assert not crowded(display.figure_)


def test_draws_where_and_how_it_is_told():
    _, ax = plt.subplots()
    display = DensityDisplay.from_estimator(KernelDensity(8.0).fit(frame(50, 1))).plot(ax, color="black")
    assert display.ax_ is ax
    assert display.curve_.get_color() == "black"


def test_says_what_it_cannot_draw():
    with pytest.raises(ValueError, match=r"one or two columns.*rent, CHF, latitude, age"):
        DensityDisplay.from_estimator(KernelDensity().fit(frame(100, 3)))
    with pytest.raises(ValueError, match="not fitted"):
        DensityDisplay.from_estimator(KernelDensity())
