"""Spectra as drawn are those of the map, and of the laws that SciPy knows."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import ive

from bochner import BinningFeatures, FourierFeatures
from bochner.display import SpectrumDisplay
from bochner.kernels import Gabor, Gaussian, Hat, Laplacian, Matern, Periodic, Subspace

X = np.random.default_rng(0).standard_normal((80, 3))
FOURIER = FourierFeatures(Gaussian(0.8), 60, random_state=0)
BINS = BinningFeatures(Laplacian(2.0), 20, random_state=0)

# Density of a coordinate of frequencies for three columns, by a formula of its own.
LAWS = {
    "normal": (Gaussian(2.0), stats.norm(scale=0.5).pdf),
    "normal of column 0": (Gaussian([0.5, 1.0, 2.0]), stats.norm(scale=2.0).pdf),
    "cauchy": (Laplacian(3.0), stats.cauchy(scale=1 / 3).pdf),
    "student": (Matern(1.0, nu=1.5), stats.t(3).pdf),
    "fejer": (Hat(1.0), lambda w: np.sinc(w / (2 * np.pi)) ** 2 / (2 * np.pi)),
    "sum": (
        3 * Gaussian(1.0) + Laplacian(1.0),
        lambda w: 0.75 * stats.norm.pdf(w) + 0.25 * stats.cauchy.pdf(w),
    ),
    "product": (Gaussian(1.0) * Gaussian(1.0), stats.norm(scale=np.sqrt(2)).pdf),
    "centred elsewhere": (
        Gabor(1.0, 0.5),
        lambda w: (stats.norm.pdf(w - np.pi) + stats.norm.pdf(w + np.pi)) / 2,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_the_density_is_that_of_the_law(law):
    """The smoothing by 1/400 of the axis takes less than 2 % of the peak."""
    kernel, pdf = LAWS[law]
    display = SpectrumDisplay.from_estimator(
        FourierFeatures(kernel, 100, random_state=0), X
    )
    w, f = display.grid, display.density
    np.testing.assert_allclose(f, pdf(w), atol=0.02 * pdf(w).max())
    inside = np.trapezoid(
        pdf(np.linspace(w[0], w[-1], 100_001)), dx=(w[-1] - w[0]) / 100_000
    )
    assert np.trapezoid(f, w) == pytest.approx(inside, abs=0.005)
    assert inside > 0.95


def test_the_frequencies_drawn_are_those_of_the_map(crowded):
    features = FourierFeatures(Gaussian(0.8), 400, random_state=0).fit(X)
    display = SpectrumDisplay.from_estimator(features, coordinate=2).plot()
    np.testing.assert_array_equal(display.drawn, features.frequencies_[2])
    np.testing.assert_array_equal(
        display.density_line_.get_data(), [display.grid, display.density]
    )
    areas = [bar.get_width() * bar.get_height() for bar in display.histogram_]
    low, high = display.ax_.get_xlim()
    assert sum(areas) == pytest.approx(
        np.mean((display.drawn >= low) & (display.drawn <= high))
    )
    assert "x2" in display.ax_.get_xlabel()
    assert not crowded(display.figure_)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [Laplacian(1.0), Matern(1.0, nu=0.5), Hat(2.0)])
def test_heavy_tails_do_not_hide_the_middle(kernel, crowded):
    display = SpectrumDisplay.from_estimator(
        FourierFeatures(kernel, 1000, random_state=0), X
    ).plot()
    assert np.ptp(display.grid) < 40
    assert "beyond" in display.ax_.get_title(loc="left")
    assert not crowded(display.figure_)


def test_harmonics_are_points():
    """exp(-z) I_n(z) at 2 pi n / period; the column that the kernel does not see has
    the frequency 0.
    """
    periodic = FourierFeatures(Periodic(1.0, 2.0), 100, random_state=0)
    display = SpectrumDisplay.from_estimator(periodic, X)
    end = display.grid[-1]
    for n in range(-int(end / np.pi - 0.5), int(end / np.pi - 0.5) + 1):
        near = np.abs(display.grid - n * np.pi) < np.pi / 2
        share = np.trapezoid(display.density[near], display.grid[near])
        assert share == pytest.approx(ive(n, 1.0), abs=0.003)
    unseen = FourierFeatures(Subspace(Gaussian(), [1]), 100, random_state=0)
    display = SpectrumDisplay.from_estimator(unseen, X)
    peak = np.abs(display.grid) < 0.05
    assert np.trapezoid(display.density[peak], display.grid[peak]) > 0.99


def test_weights_of_leverage_count():
    features = FourierFeatures(
        Gaussian(1.0), 200, sampling="leverage", random_state=0
    ).fit(X)
    display = SpectrumDisplay.from_estimator(features)
    np.testing.assert_allclose(
        display.weights, features.amplitudes_**2 / (features.amplitudes_**2).sum()
    )
    cosines = SpectrumDisplay.from_estimator(
        FourierFeatures(n_components=7, random_state=0), X
    )
    np.testing.assert_allclose(cosines.weights, 1 / 4)


@pytest.mark.slow
def test_names():
    frame = pd.DataFrame(X, columns=["length", "width", "height"])
    assert (
        "length"
        in SpectrumDisplay.from_estimator(FourierFeatures(random_state=0), frame).label
    )


@pytest.mark.parametrize("layout", ["constrained", None])
def test_axes_are_taken(layout):
    _, ax = plt.subplots(layout=layout)
    assert SpectrumDisplay.from_estimator(FOURIER, X).plot(ax=ax).ax_ is ax


@pytest.mark.parametrize(
    ("display", "arguments", "options", "match"),
    [
        (SpectrumDisplay, [FourierFeatures()], {}, "fit the map, or give X"),
        (SpectrumDisplay, [FOURIER, X], {"coordinate": 3}, "from 0 to 2"),
        (SpectrumDisplay, [BINS, X], {}, "draws FourierFeatures"),
    ],
)
def test_refusals(display, arguments, options, match):
    with pytest.raises(ValueError, match=match):
        display.from_estimator(*arguments, **options)
