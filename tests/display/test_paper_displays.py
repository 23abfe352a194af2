"""Spectra, grids and circles as drawn are those of the map, and of the laws that SciPy knows."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import ive
from sklearn.base import clone

from bochner import BinningFeatures, ConcatenatedFeatures, FourierFeatures, KernelMachineRegressor, LinearFeatures
from bochner.display import CircleDisplay, GridDisplay, SpectrumDisplay
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
    "sum": (3 * Gaussian(1.0) + Laplacian(1.0), lambda w: 0.75 * stats.norm.pdf(w) + 0.25 * stats.cauchy.pdf(w)),
    "product": (Gaussian(1.0) * Gaussian(1.0), stats.norm(scale=np.sqrt(2)).pdf),
    "centred elsewhere": (Gabor(1.0, 0.5), lambda w: (stats.norm.pdf(w - np.pi) + stats.norm.pdf(w + np.pi)) / 2),
}


@pytest.mark.parametrize("law", LAWS)
def test_the_density_is_that_of_the_law(law):
    """About 400 of 300,000 quasi-random frequencies a cell, and seven cells under the filter: below 2 % of the peak."""
    kernel, pdf = LAWS[law]
    display = SpectrumDisplay.from_estimator(FourierFeatures(kernel, 100, random_state=0), X)
    w, f = display.grid, display.density
    np.testing.assert_allclose(f, pdf(w), atol=0.02 * pdf(w).max())
    inside = np.trapezoid(pdf(np.linspace(w[0], w[-1], 100_001)), dx=(w[-1] - w[0]) / 100_000)
    assert np.trapezoid(f, w) == pytest.approx(inside, abs=0.005)
    assert inside > 0.95


def test_lengths_follow_the_chi_law():
    """The filter is 0.067 wide: 4.5 deviations of a density of 0.47 are 4.5 sqrt(0.47 / (300,000 x 0.067))."""
    features = clone(FOURIER).fit(X)
    display = SpectrumDisplay.from_estimator(features, coordinate="length")
    np.testing.assert_allclose(display.density, stats.chi(3, scale=1 / 0.8).pdf(display.grid), atol=0.022)
    np.testing.assert_allclose(display.drawn, np.linalg.norm(features.frequencies_, axis=0))
    one = SpectrumDisplay.from_estimator(FourierFeatures(Gaussian(), 10), X[:, :1], coordinate="length")
    np.testing.assert_allclose(one.density, 2 * stats.norm.pdf(one.grid), atol=0.015)


def test_the_frequencies_drawn_are_those_of_the_map(crowded):
    features = FourierFeatures(Gaussian(0.8), 400, random_state=0).fit(X)
    display = SpectrumDisplay.from_estimator(features, coordinate=2).plot()
    np.testing.assert_array_equal(display.drawn, features.frequencies_[2])
    np.testing.assert_array_equal(display.rug_.get_xdata(), features.frequencies_[2])
    np.testing.assert_array_equal(display.density_line_.get_data(), [display.grid, display.density])
    areas = [bar.get_width() * bar.get_height() for bar in display.histogram_]
    low, high = display.ax_.get_xlim()
    assert sum(areas) == pytest.approx(np.mean((display.drawn >= low) & (display.drawn <= high)))
    assert "x2" in display.ax_.get_xlabel()
    assert not crowded(display.figure_)


@pytest.mark.parametrize("kernel", [Laplacian(1.0), Matern(1.0, nu=0.5), Hat(2.0)])
def test_heavy_tails_do_not_hide_the_middle(kernel, crowded):
    display = SpectrumDisplay.from_estimator(FourierFeatures(kernel, 1000, random_state=0), X).plot()
    assert np.ptp(display.grid) < 40
    assert "beyond" in display.ax_.get_xlabel()
    assert not crowded(display.figure_)


def test_harmonics_are_points():
    """exp(-z) I_n(z) at 2 pi n / period; the column that the kernel does not see has the frequency 0."""
    periodic = FourierFeatures(Periodic(1.0, 2.0), 100, random_state=0)
    display = SpectrumDisplay.from_estimator(periodic, X).plot()
    n = np.rint(display.atoms / np.pi)
    np.testing.assert_allclose(display.atoms, n * np.pi)
    np.testing.assert_allclose(display.atom_shares, ive(n, 1.0), atol=0.003)
    assert len(display.atom_lines_.get_segments()) == len(n)
    assert np.trapezoid(display.density, display.grid) < 0.001
    held_out_predictions = FourierFeatures(Subspace(Gaussian(), [1]), 100, random_state=0)
    assert SpectrumDisplay.from_estimator(held_out_predictions, X).plot().atoms.tolist() == [0.0]


def test_weights_of_leverage_count():
    features = FourierFeatures(Gaussian(1.0), 200, sampling="leverage", random_state=0).fit(X)
    display = SpectrumDisplay.from_estimator(features)
    np.testing.assert_allclose(display.weights, features.amplitudes_**2 / (features.amplitudes_**2).sum())
    cosines = SpectrumDisplay.from_estimator(FourierFeatures(n_components=7, random_state=0), X)
    np.testing.assert_allclose(cosines.weights, 1 / 4)


def test_cells_are_those_of_the_grids(crowded):
    features = clone(BINS).fit(X)
    display = GridDisplay.from_estimator(features, X, columns=(2, 0)).plot()
    for p in range(3):
        pitch, shift = features.pitches_[p, 0, [2, 0]], features.shifts_[p, 0, [2, 0]]
        cells = np.floor((X[:, [2, 0]] - shift) / pitch)
        np.testing.assert_array_equal(display.cells[p, :, 0], cells)
        together = (cells[:, np.newaxis] == cells).all(axis=2)
        np.testing.assert_array_equal(display.bins[p][:, np.newaxis] == display.bins[p], together)
        np.testing.assert_array_equal(display.points_[p].get_offsets(), X[:, [2, 0]])
        for wall in display.lines_[p].get_segments():
            axis = int(np.ptp(wall[:, 1]) == 0)
            turns = (wall[0, axis] - shift[axis]) / pitch[axis]
            assert turns == pytest.approx(np.rint(turns), abs=1e-9)
        one_hot = display.features_[p].get_array()
        np.testing.assert_array_equal((~np.ma.getmaskarray(one_hot)).sum(axis=1), 1)
        assert one_hot.shape[1] == len(np.unique(cells, axis=0))
    assert display.axes_[0, 0].get_xlabel() == "x2"
    assert not crowded(display.figure_)


def test_walls_stand_where_neighbours_differ():
    """Two points of one colour and neighbouring cells would look like one cell."""
    x, y = np.meshgrid(np.arange(6) + 0.5, np.arange(6) + 0.5)
    points = np.column_stack([x.ravel(), y.ravel()])
    display = GridDisplay(points, np.ones((1, 1, 2)), np.zeros((1, 1, 2))).plot()
    assert len(np.unique(display.bins[0])) == 36
    assert len(display.lines_[0].get_segments()) == 2 * 5
    colours = display.points_[0].get_facecolor().reshape(6, 6, 4)
    for a, b in ((colours[1:], colours[:-1]), (colours[:, 1:], colours[:, :-1]), (colours[1:, 1:], colours[:-1, :-1])):
        assert np.any(a != b, axis=-1).all()


def test_infinite_pitches_and_lattices_and_cells_too_fine():
    pitches = np.array([[[np.inf, 1.0]], [[np.inf, np.inf]], [[1e-6, 1.0]]])
    display = GridDisplay(X[:, :2], pitches, np.zeros((3, 1, 2))).plot()
    assert [len(lines.get_segments()) > 0 for lines in display.lines_] == [True, False, True]
    np.testing.assert_array_equal(display.cells[1], 0)
    assert "too fine" in display.axes_[0, 2].get_title(loc="left")
    product = GridDisplay.from_estimator(BinningFeatures(Laplacian() * Laplacian(2.0), 5, random_state=0), X)
    assert product.plot().cells.shape == (3, 80, 2, 2)


def test_points_lie_on_the_circle_at_their_angles(crowded):
    features = clone(FOURIER).fit(X)
    display = CircleDisplay.from_estimator(features, X, frequency=5, columns=(1, 2)).plot()
    angles = X @ features.frequencies_[:, 5]
    circle = np.asarray(display.circle_points_.get_offsets())
    np.testing.assert_allclose(circle, np.column_stack([np.cos(angles), np.sin(angles)]), atol=1e-12)
    Z = features.transform(X) * np.sqrt(30)
    np.testing.assert_allclose(circle, Z[:, [5, 35]], atol=1e-12)
    np.testing.assert_array_equal(display.points_.get_offsets(), X[:, 1:])
    np.testing.assert_array_equal(display.points_.get_array(), display.circle_points_.get_array())
    w, rest = features.frequencies_[1:, 5], X[:, 0].mean() * features.frequencies_[0, 5]
    for crest in display.crests_.get_segments():
        np.testing.assert_allclose(np.cos(crest @ w + rest), 1.0)
    assert len(display.crests_.get_segments())
    assert not crowded(display.figure_)


def test_an_offset_is_part_of_the_angle():
    features = FourierFeatures(Gaussian(), 10, paired=False, random_state=0).fit(X)
    display = CircleDisplay.from_estimator(features, X, frequency=4)
    np.testing.assert_allclose(np.cos(display.angles) * np.sqrt(2 / 10), features.transform(X)[:, 4])


def test_scales_that_differ_and_short_waves(crowded):
    wide = CircleDisplay.from_estimator(FOURIER, X * [1, 1000, 1]).plot()
    assert "short" in wide.axes_[0].get_title(loc="left")
    assert len(wide.crests_.get_segments()) == 0
    assert not crowded(wide.figure_)
    flat = CircleDisplay(X[:, :2], np.zeros(80), np.zeros(2)).plot()
    assert len(flat.crests_.get_segments()) == 0


@pytest.mark.parametrize("fitted", [False, True])
def test_rows_of_any_kind(fitted, crowded):
    frame = pd.DataFrame(X, columns=["length", "width", "height $h$"])
    fourier, bins = FourierFeatures(random_state=0), BinningFeatures(Laplacian(3.0), random_state=0)
    if fitted:
        fourier.fit(frame)
        bins.fit(frame)
    two = {"columns": ["height $h$", "length"]}
    for display in (
        GridDisplay.from_estimator(bins, frame, **two),
        CircleDisplay.from_estimator(fourier, frame, **two),
    ):
        np.testing.assert_array_equal(display.points, X[:, [2, 0]])
        assert not crowded(display.plot().figure_)
    assert "length" in SpectrumDisplay.from_estimator(fourier, frame).label
    if fitted:
        return
    for rows in (X.tolist(), X[:1].astype(np.float32), np.zeros((5, 3)), np.vstack([X] * 5)):
        grid, circle = GridDisplay.from_estimator(bins, rows), CircleDisplay.from_estimator(fourier, rows)
        for display in (grid.plot(), circle.plot()):
            assert not crowded(display.figure_)
        assert len(grid.points) == len(circle.points) == min(len(rows), 300)


def test_models_and_maps_side_by_side():
    y = X[:, 0]
    both = ConcatenatedFeatures([LinearFeatures(), FOURIER, BINS])
    model = KernelMachineRegressor(features=both, alpha=1.0, random_state=0).fit(X, y)
    Z = model.encoder_.encode(X, np.float64)
    fourier, bins = model.features_.maps_[1:]
    circle, grid = CircleDisplay.from_estimator(model, X), GridDisplay.from_estimator(model, X)
    np.testing.assert_allclose(circle.angles, Z @ fourier.frequencies_[:, 0])
    np.testing.assert_array_equal(grid.pitches, bins.pitches_[:3, :, :2])
    np.testing.assert_array_equal(SpectrumDisplay.from_estimator(model).drawn, fourier.frequencies_[0])


@pytest.mark.parametrize("layout", ["constrained", None])
def test_axes_are_taken(layout, crowded):
    grid, circle = GridDisplay.from_estimator(BINS, X, n_grids=2), CircleDisplay.from_estimator(FOURIER, X)
    for display, n in ((grid, 4), (circle, 2)):
        figure, (left, right) = plt.subplots(1, 2, layout=layout, figsize=(14, 5))
        assert display.plot(ax=right).figure_ is figure
        assert not right.axison
        assert not crowded(figure)
        again = display.plot(ax=display.axes_)
        assert again.figure_ is figure
        with pytest.raises(ValueError, match=f"{n} panels"):
            display.plot(ax=[left] * (n + 1))
    figure, ax = plt.subplots(layout=layout)
    assert SpectrumDisplay.from_estimator(FOURIER, X).plot(ax=ax).ax_ is ax


@pytest.mark.parametrize(
    ("display", "arguments", "options", "match"),
    [
        (SpectrumDisplay, [FourierFeatures()], {}, "fit the map, or give X"),
        (SpectrumDisplay, [FOURIER, X], {"coordinate": 3}, "from 0 to 2"),
        (SpectrumDisplay, [BINS, X], {}, "draws FourierFeatures"),
        (CircleDisplay, [BINS, X], {}, "draws FourierFeatures"),
        (CircleDisplay, [FOURIER, X], {"frequency": 30}, "from 0 to 29"),
        (CircleDisplay, [FourierFeatures(), X[:, :1]], {}, "add a column"),
        (CircleDisplay, [FOURIER, X], {"columns": (0, -3)}, "two different"),
        (GridDisplay, [FOURIER, X], {}, "draws BinningFeatures"),
        (GridDisplay, [BinningFeatures(), X[:, :1]], {}, "use KernelDisplay"),
        (GridDisplay, [BINS, X], {"columns": (0, 3)}, "two different"),
        (GridDisplay, [BINS, X], {"columns": ("a", "b")}, "by number or name"),
        (GridDisplay, [BINS, X], {"n_grids": 0}, "positive"),
    ],
)
def test_refusals(display, arguments, options, match):
    with pytest.raises(ValueError, match=match):
        display.from_estimator(*arguments, **options)
