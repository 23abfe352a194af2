"""Kernels, their matrices and their errors as drawn are what NumPy makes of the
formulas.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from bochner import (
    BinningFeatures,
    FourierFeatures,
    KernelMachineRegressor,
    LinearFeatures,
)
from bochner.display import ErrorDisplay, GramDisplay, KernelDisplay
from bochner.kernels import Gaussian, Laplacian

X = np.random.default_rng(0).standard_normal((60, 3))
FOURIER = FourierFeatures(Gaussian(2.0), 500, sampling="iid", random_state=0)
BINS = BinningFeatures(Laplacian(2.0), 400, random_state=0)


def distances(p, Y=X):
    return np.linalg.norm(Y[:, np.newaxis] - Y, ord=p, axis=2)


def test_the_kernel_and_the_estimate_over_distance():
    features = clone(FOURIER).fit(X)
    display = KernelDisplay.from_estimator(
        features, X, direction=1, max_distance=5.0
    ).plot()
    t = display.distances
    np.testing.assert_allclose(display.kernel, np.exp(-(t**2) / 8), atol=1e-12)
    np.testing.assert_allclose(
        display.estimate,
        np.cos(np.outer(t, features.frequencies_[1])).mean(axis=1),
        atol=1e-12,
    )
    np.testing.assert_array_equal(display.kernel_line_.get_data(), [t, display.kernel])
    np.testing.assert_array_equal(
        display.estimate_line_.get_data(), [t, display.estimate]
    )
    assert display.ax_.get_xlabel() == "Distance t along x1"
    assert "20 draws" in display.band_.get_label()
    assert "500 features" in display.estimate_line_.get_label()


def test_the_band_is_that_of_independent_draws():
    """Of m pairs Var z(x)'z(x + t e) = ((1 + k(2t)) / 2 - k(t)^2) / m, and the standard
    error of a standard deviation of n normal numbers is 1 / sqrt(2 (n - 1)) of it: 7 %
    for 100.
    """
    drawn = KernelDisplay.from_estimator(FOURIER, X, n_draws=100, max_distance=8.0)
    t = drawn.distances
    exact = np.sqrt(((1 + np.exp(-(t**2) / 2)) / 2 - np.exp(-(t**2) / 4)) / 250)
    np.testing.assert_allclose(drawn.deviation[20:], exact[20:], rtol=0.35)
    assert np.abs(drawn.centre - drawn.kernel).max() < 5 * exact.max() / np.sqrt(100)


def test_bins_are_learned_on_the_line_in_the_grids_of_the_map():
    features = clone(BINS).fit(X)
    display = KernelDisplay.from_estimator(
        features, X, max_distance=9.0, direction=2, n_draws=3
    )
    line = X[0] + np.outer(display.distances, [0.0, 0.0, 1.0])
    cells = np.floor(
        (line[:, np.newaxis] - features.shifts_[:, 0]) / features.pitches_[:, 0]
    )
    np.testing.assert_allclose(
        display.estimate, (cells == cells[0]).all(axis=2).mean(axis=1), atol=1e-12
    )
    np.testing.assert_allclose(display.kernel, np.exp(-display.distances / 2))
    assert "400 grids" in display.plot().estimate_line_.get_label()


@pytest.mark.parametrize("smaller", [0.5, 0.8])
def test_grids_of_some_of_the_columns_estimate_another_kernel(smaller):
    some = BinningFeatures(
        Laplacian(2.0) + Laplacian(1.0), 3000, column_share=smaller, random_state=0
    )
    display = GramDisplay.from_estimator(some, X[:20], sizes=[3000], order="given")
    gaps = np.abs(X[:20, np.newaxis] - X[:20])
    mixed = [
        np.prod(1 - smaller + smaller * np.exp(-gaps / l), axis=2) for l in (2.0, 1.0)
    ]
    np.testing.assert_allclose(display.exact, sum(mixed))
    assert display.max_errors[0] < 5 * 2 * np.sqrt(0.25 / 3000) * np.sqrt(2)


def test_matrices_and_their_errors(crowded):
    display = GramDisplay.from_estimator(
        FOURIER, X, sizes=(100, 10_000), order="given"
    ).plot()
    exact = np.exp(-(distances(2) ** 2) / 8)
    np.testing.assert_allclose(display.exact, exact, atol=1e-12)
    for image, matrix in zip(
        display.images_, [display.exact, *display.estimates], strict=True
    ):
        np.testing.assert_array_equal(image.get_array(), matrix)
    wrong = [estimate - exact for estimate in display.estimates]
    np.testing.assert_allclose(
        display.max_errors, [np.abs(error).max() for error in wrong]
    )
    np.testing.assert_allclose(
        display.rms_errors, [np.sqrt((error**2).mean()) for error in wrong]
    )
    assert 3 < display.rms_errors[0] / display.rms_errors[1] < 30
    assert [ax.get_title(loc="left").split("\n")[0] for ax in display.axes_] == [
        "Exact kernel",
        "100 features",
        "10,000 features",
    ]
    assert f"max {display.max_errors[0]:.2g}" in display.axes_[1].get_title(loc="left")
    assert len({image.get_clim() for image in display.images_}) == 1
    assert not crowded(display.figure_)


def test_rows_are_ordered_by_their_first_component():
    rng = np.random.default_rng(1)
    t = rng.permutation(40.0 * np.arange(50) / 50)
    rows = np.column_stack([t, 3 * t, np.zeros(50)])
    display = GramDisplay.from_estimator(FOURIER, rows, sizes=[10])
    np.testing.assert_allclose(
        display.exact, np.exp(-(distances(2, rows[np.argsort(t)]) ** 2) / 8), atol=1e-12
    )
    many = GramDisplay.from_estimator(FOURIER, np.vstack([X] * 10), sizes=[10])
    assert many.exact.shape == (500, 500)


@pytest.mark.slow
def test_errors_fall_as_the_root_of_the_number_of_features():
    sizes = (16, 64, 256, 1024)
    for features, p, formula in (
        (FOURIER, 2, lambda r: np.exp(-(r**2) / 8)),
        (BINS, 1, lambda r: np.exp(-r / 2)),
    ):
        display = ErrorDisplay.from_estimator(features, X, sizes, n_draws=8)
        assert display.mean_errors.shape == display.max_errors.shape == (4, 8)
        slopes = [
            np.polyfit(np.log(sizes), np.log(e.mean(axis=1)), 1)[0]
            for e in (display.mean_errors, display.max_errors)
        ]
        np.testing.assert_allclose(slopes, -0.5, atol=0.12)
        one = clone(features).set_params(
            **{"n_grids" if features is BINS else "n_components": 1024}
        )
        Z = one.fit_transform(X)
        pairs = np.triu_indices(60, 1)
        wrong = np.abs((Z @ Z.T - formula(distances(p)))[pairs])
        assert 0.3 < np.mean(wrong) / display.mean_errors[-1].mean() < 3


def test_error_lines(crowded):
    display = ErrorDisplay.from_estimator(
        FOURIER, X, (16, 64, 256), n_draws=3, bound=lambda D: 9 / D
    ).plot()
    np.testing.assert_allclose(
        display.mean_line_.get_ydata(), display.mean_errors.mean(axis=1)
    )
    np.testing.assert_allclose(
        display.max_line_.get_ydata(), display.max_errors.mean(axis=1)
    )
    np.testing.assert_allclose(
        display.bound_line_.get_ydata(), [9 / 16, 9 / 64, 9 / 256]
    )
    for fit, errors in zip(
        display.fits_, [display.mean_errors, display.max_errors], strict=True
    ):
        c = fit.get_ydata() * np.sqrt([16, 64, 256])
        np.testing.assert_allclose(
            c, np.exp(np.log(errors.mean(axis=1) * np.sqrt([16, 64, 256])).mean())
        )
    assert (display.ax_.get_xscale(), display.ax_.get_yscale()) == ("log", "log")
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["bound", "largest of the pairs", "mean of the pairs", "c / √D"]
    assert not crowded(display.figure_)
    one = ErrorDisplay.from_estimator(
        FOURIER, X, [16], n_draws=1, bound=lambda D: 0.5
    ).plot()
    assert one.ax_.get_title(loc="left") == "One draw"
    assert (
        ErrorDisplay.from_estimator(BINS, X, [16], n_draws=1).plot().bound_line_ is None
    )


def test_the_same_seed_draws_the_same():
    unseeded = FourierFeatures(Gaussian(2.0), 50)
    for make in (
        lambda seed: (
            KernelDisplay.from_estimator(
                unseeded, X, max_distance=5.0, n_draws=2, random_state=seed
            ).estimate
        ),
        lambda seed: GramDisplay.from_estimator(
            unseeded, X, [20], random_state=seed
        ).estimates[0],
        lambda seed: (
            ErrorDisplay.from_estimator(
                unseeded, X, [20], n_draws=2, random_state=seed
            ).mean_errors
        ),
    ):
        np.testing.assert_array_equal(make(0), make(0))
        assert not np.array_equal(make(0), make(1))
    assert not hasattr(unseeded, "frequencies_")


@pytest.mark.slow
@pytest.mark.parametrize("features", [FOURIER, BINS])
@pytest.mark.parametrize("fitted", [False, True])
def test_rows_of_any_kind(features, fitted, crowded):
    frame = pd.DataFrame(X, columns=["length", "width", "$height$"])
    features = features.__class__(features.kernel, 100, random_state=0)
    if fitted:
        features.fit(frame)
    one = KernelDisplay.from_estimator(
        features, frame, max_distance=5.0, direction=2, n_draws=2
    )
    assert one.along == "$height$"
    assert not crowded(one.plot().figure_)
    if fitted:
        return
    for rows in (X.tolist(), X.astype(np.float32), X[:1], np.zeros((5, 3)), X[:, :1]):
        KernelDisplay.from_estimator(features, rows, max_distance=5.0, n_draws=2).plot()
        assert not crowded(
            GramDisplay.from_estimator(features, rows, [10, 20, 30]).plot().figure_
        )


def test_a_warning_about_rows_alone_is_not_one_about_the_picture():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GramDisplay.from_estimator(
            BinningFeatures(Laplacian(0.01), 10), np.vstack([X, X + 9]), [10]
        )


@pytest.mark.parametrize("layout", ["constrained", None])
def test_axes_are_taken(layout, crowded):
    one, two = (
        KernelDisplay.from_estimator(FOURIER, X, max_distance=5.0, n_draws=2),
        ErrorDisplay.from_estimator(FOURIER, X, [16, 64]),
    )
    figure, (left, right) = plt.subplots(1, 2, layout=layout, figsize=(14, 4))
    assert one.plot(ax=left).ax_ is left
    assert two.plot(ax=right).figure_ is figure
    gram = GramDisplay.from_estimator(FOURIER, X, [10, 20])
    figure, (_, below) = plt.subplots(2, 1, layout=layout, figsize=(12, 8))
    assert gram.plot(ax=below).figure_ is figure
    assert not below.axison
    assert not crowded(figure)
    figure, axes = plt.subplots(1, 3, layout=layout)
    assert list(gram.plot(ax=axes).axes_) == list(axes)
    with pytest.raises(ValueError, match="3 panels"):
        gram.plot(ax=axes[:2])


@pytest.mark.parametrize(
    ("display", "arguments", "options", "match"),
    [
        (
            KernelDisplay,
            [FOURIER.__class__()],
            {"max_distance": 1},
            "fit the map, or give X",
        ),
        (
            KernelDisplay,
            [FOURIER, X],
            {"max_distance": 1, "direction": 3},
            "from 0 to 2",
        ),
        (KernelDisplay, [FOURIER, X], {"max_distance": 1, "n_draws": 1}, "at least 2"),
        (KernelDisplay, [FOURIER, X], {"max_distance": -1}, "positive"),
        (KernelDisplay, [LinearFeatures(), X], {"max_distance": 1}, "one single map"),
        (GramDisplay, [KernelMachineRegressor(), X], {}, "one single map"),
        (GramDisplay, [FOURIER, X], {"order": "none"}, "order must be"),
        (ErrorDisplay, [FOURIER, X[:1]], {}, "one distinct row"),
        (ErrorDisplay, [FOURIER, np.zeros((5, 3))], {}, "one distinct row"),
        (ErrorDisplay, [FOURIER, X, []], {}, "sizes and draws"),
    ],
)
def test_refusals(display, arguments, options, match):
    with pytest.raises(ValueError, match=match):
        display.from_estimator(*arguments, **options)


def test_other_columns():
    with pytest.raises(ValueError, match="2 columns"):
        GramDisplay.from_estimator(FourierFeatures().fit(X), X[:, :2])
