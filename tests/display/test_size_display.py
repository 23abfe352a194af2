"""What is drawn of a report is what the report says."""

import subprocess
import sys
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from bochner import KernelMachineRegressor
from bochner.display import MetricDisplay, SizeDisplay
from bochner.kernels import Gaussian
from bochner.selection import Candidate, Report

SIZES = [
    ("bins", 0.0, 0.5),
    ("map", 1.0, 0.4),
    ("bins", 1.0, 0.35),
    ("bins", 0.5, 0.45),
    ("map", 1.5, 0.42),
]
CANDIDATES = [
    Candidate("bins", 800, 0.34, 0.02, 1.25),
    Candidate("Fourier features", 2048, 0.6, 0.03, 0.001),
    Candidate("bins and Fourier features", 1800, 0.33, 0.015, 12.0),
]
WHY = "within the noise of the lowest validation loss (random binning), and preferred"
REPORT = Report("squared error", 1234, CANDIDATES, "bins", WHY, SIZES)


def test_lines_are_the_losses_of_the_sizes(crowded):
    display = SizeDisplay.from_report(REPORT).plot()
    bins, mapped = display.lines_
    np.testing.assert_array_equal(bins.get_data(), [[0.0, 0.5, 1.0], [0.5, 0.45, 0.35]])
    np.testing.assert_array_equal(mapped.get_data(), [[1.0, 1.5], [0.4, 0.42]])
    assert [star.get_xydata().tolist() for star in display.minima_] == [
        [[1.0, 0.35]],
        [[1.0, 0.4]],
    ]
    assert [text.get_text() for text in display.axes_[0].get_legend().get_texts()] == [
        "bins",
        "map",
    ]
    assert "log2" in display.axes_[0].get_xlabel()
    assert "squared error" in display.axes_[0].get_ylabel()
    assert not crowded(display.figure_)


def test_candidates_are_sorted_and_the_chosen_one_stands_out():
    display = SizeDisplay.from_report(REPORT).plot()
    points = [bar.lines[0] for bar in display.errorbars_]
    assert [point.get_xdata().item() for point in points] == [0.33, 0.34, 0.6]
    for bar, error in zip(display.errorbars_, [0.015, 0.02, 0.03], strict=True):
        (segment,) = bar.lines[2][0].get_segments()
        assert np.ptp(segment[:, 0]) == pytest.approx(2 * error)
    labels = display.axes_[1].get_yticklabels()
    assert [label.get_text() for label in labels] == [
        "bins and Fourier features\nsize 1,800, 12.0 s",
        "bins\nsize 800, 1.2 s",
        "Fourier features\nsize 2,048, < 0.1 s",
    ]
    assert len({point.get_color() for point in points}) == 2
    assert (
        display.axes_[1].get_ylim()[0] > display.axes_[1].get_ylim()[1]
    )  # the best on top
    assert "1,234 validation rows" in display.axes_[1].get_title(loc="left")


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize(
    ("sizes", "candidates"),
    [(SIZES, []), ([], CANDIDATES)],
    ids=["sizes", "candidates"],
)
def test_panels_that_do_not_apply_are_left_out(sizes, candidates, n, crowded):
    display = SizeDisplay(sizes[:n], candidates[:n], criterion="log loss").plot()
    assert len(display.axes_) == 1
    assert (bool(display.lines_), bool(display.errorbars_)) == (
        bool(sizes),
        bool(candidates),
    )
    assert not crowded(display.figure_)


def test_a_loss_that_is_not_finite_is_no_minimum():
    assert SizeDisplay([("bins", 0.0, np.inf), ("bins", 1.0, 0.5)]).plot().minima_[
        0
    ].get_xdata() == [1.0]


def test_axes_are_taken(crowded):
    display = SizeDisplay.from_report(REPORT)
    figure, axes = plt.subplots(1, 2)
    assert list(display.plot(ax=axes).axes_) == list(axes)
    figure, axes = plt.subplots(2, 1, layout="constrained", figsize=(10, 7))
    assert display.plot(ax=axes[1]) is display
    assert display.figure_ is figure
    assert not crowded(figure)
    with pytest.raises(ValueError, match="2 panels"):
        display.plot(ax=[*axes, axes[0]])


@pytest.mark.slow
def test_a_model_tells_how_it_was_chosen():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = KernelMachineRegressor(features="binning", random_state=0).fit(X, y)
    display = SizeDisplay.from_estimator(model).plot()
    assert len(display.errorbars_) == len(model.report_.candidates)
    assert sum(len(line.get_xdata()) for line in display.lines_) == len(
        model.report_.sizes
    )
    shown = MetricDisplay.from_estimator(model).plot().axes_[0].get_yticklabels()
    assert {label.get_text() for label in shown} == set(X.columns)


def test_a_model_that_learned_nothing_says_why():
    X, y = load_diabetes(return_X_y=True)
    model = KernelMachineRegressor(Gaussian(1.0), n_components=64, random_state=0).fit(
        X[:100], y[:100]
    )
    with pytest.raises(ValueError, match="metric='isotropic', or on too few rows"):
        SizeDisplay.from_estimator(model)


def test_refusals():
    with pytest.raises(ValueError, match="nothing to draw"):
        SizeDisplay.from_report(Report()).plot()
    with pytest.raises(ValueError, match="kernel"):
        SizeDisplay.from_estimator(SimpleNamespace(report_=None))


def test_matplotlib_is_loaded_for_drawing_only():
    code = (
        "import sys, bochner.display, bochner.features; sys.exit('matplotlib' in "
        "sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
