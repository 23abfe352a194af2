"""What is drawn of probabilities, deviations and intervals is what was predicted and
what came of it.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression, Ridge

from bochner import KernelMachineRegressor
from bochner.display import (
    BandDisplay,
    CoverageDisplay,
    ReliabilityDisplay,
    WidthDisplay,
)
from bochner.display.row_access import column_of
from bochner.markup import number

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 3))


class Normal:
    """The true mean of the first column's target, and deviations that are `factor`
    times the true ones.
    """

    def __init__(self, factor=1.0):
        self.factor = factor

    def predict(self, X, return_std=False):
        x = column_of(X, 0)[1]
        mean, std = np.sin(2 * x) + x, self.factor * (0.1 + 0.3 * np.abs(x))
        return (mean, std) if return_std else mean

    def predict_interval(self, X, coverage=0.9, n_jobs=None):
        mean, std = self.predict(X, return_std=True)
        reach = norm.ppf((1 + coverage) / 2) * std
        return np.stack([mean - reach, mean + reach], axis=-1)


class Both(Normal):
    """Two targets: that one, and the same with the sign turned."""

    def predict(self, X, return_std=False):
        mean, std = super().predict(X, return_std=True)
        means = np.stack([mean, -mean], axis=1)
        return (means, np.stack([std, std], axis=1)) if return_std else means

    def predict_interval(self, X, coverage=0.9, n_jobs=None):
        own = Normal(self.factor).predict_interval(X, coverage)
        return np.stack([own, -own[:, ::-1]], axis=1)


MEAN, STD = Normal().predict(X, return_std=True)
Y = MEAN + STD * RNG.standard_normal(len(X))


def classes(load):
    rows, labels = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    rows, labels = rows[order] / 16, labels[order]
    half = len(labels) // 2
    end = half + half // 5 * 5  # bins of exactly equal counts
    return (
        LogisticRegression(C=0.1).fit(rows[:half], labels[:half]),
        rows[half:end],
        labels[half:end],
    )


def test_the_diagram_is_the_curve_of_sklearn(crowded):
    p = RNG.beta(0.4, 0.6, 3000)
    happened = RNG.random(3000) < p
    display = ReliabilityDisplay.from_predictions(happened, p).plot()
    frequency, probability = calibration_curve(
        happened, p, n_bins=15, strategy="quantile"
    )
    np.testing.assert_allclose(display.line_.get_data(), [probability, frequency])
    error = 100 * np.abs(frequency - probability).mean()
    assert f"{error:.2g} %" in display.ax_.get_title(loc="left")
    interval = display.curve.interval
    assert ((interval[:, 0] <= frequency) & (frequency <= interval[:, 1])).all()
    drawn = [bar[:, 1] for bar in display.band_.get_segments()]
    np.testing.assert_allclose(drawn, interval)
    heights, _, base = display.histogram_.get_data()
    counts = np.histogram(p, 50, (0, 1))[0]
    np.testing.assert_allclose(
        (heights - base) / (heights - base).max(), counts / counts.max()
    )
    assert not crowded(display.figure_)


def test_two_classes_by_the_second_and_more_by_the_top_one():
    proba = np.array([[0.9, 0.1], [0.4, 0.6]])
    display = ReliabilityDisplay.from_predictions(["no", "yes"], proba, n_bins=2).plot()
    np.testing.assert_allclose(display.line_.get_data(), [[0.1, 0.6], [0.0, 1.0]])
    assert "class yes" in display.ax_.get_xlabel()
    model, rows, labels = classes(load_iris)
    display = ReliabilityDisplay.from_estimator(model, rows, labels, n_bins=1)
    curve = display.curve
    assert curve.frequency[0] == pytest.approx(model.score(rows, labels))
    assert curve.probability[0] == pytest.approx(
        model.predict_proba(rows).max(axis=1).mean()
    )


def test_a_class_against_the_rest():
    model, rows, labels = classes(load_digits)
    p = model.predict_proba(rows)[:, 3]
    display = ReliabilityDisplay.from_predictions(labels == 3, p, n_bins=5)
    frequency, _ = calibration_curve(labels == 3, p, n_bins=5, strategy="quantile")
    np.testing.assert_allclose(display.curve.frequency, frequency)


@pytest.mark.parametrize(
    "p", [np.full(50, 0.25), np.zeros(50), np.ones(50), np.full(50, 0.001)]
)
def test_one_probability_for_all(p, crowded):
    display = ReliabilityDisplay.from_predictions(np.arange(50) % 4 == 0, p).plot()
    assert len(display.line_.get_xdata()) == 1
    assert not crowded(display.figure_)


def test_coverage_is_counted(crowded):
    display = CoverageDisplay.from_estimator(Normal(), X, Y).plot()
    intervals = Normal().predict_interval(X, 0.5)
    inside = (intervals[:, 0] <= Y) & (intervals[:, 1] >= Y)
    assert display.covered[display.coverages == 0.5] == inside.mean()
    np.testing.assert_allclose(display.covered, display.coverages, atol=0.04)
    np.testing.assert_array_equal(
        display.line_.get_data(), [display.coverages, display.covered]
    )
    assert [group.n_rows for group in display.groups] == [200] * 10
    covered = np.average(
        [group.covered for group in display.groups],
        weights=[g.n_rows for g in display.groups],
    )
    assert covered == pytest.approx(display.covered[display.coverages == 0.9].item())
    assert display.groups[0].name.startswith(number(MEAN.min()))
    assert (
        display.axes_[1].get_ylim()[0] > display.axes_[1].get_ylim()[1]
    )  # the first on top
    assert "90 % intervals, by prediction" in display.axes_[1].get_title(loc="left")
    assert not crowded(display.figure_)


@pytest.mark.slow
def test_groups_of_columns_of_any_kind(crowded):
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    frame["rooms"] = RNG.integers(1, 4, len(X))
    frame["town"] = RNG.choice([f"town {k}" for k in range(14)], len(X))
    frame.loc[:30, "town"] = None
    model = Normal()
    for by, first, count in (
        ("x1", None, 10),
        ("rooms", "1", 3),
        (3, "1", 3),
        ("town", None, 11),
    ):
        display = CoverageDisplay.from_estimator(model, frame, Y, by=by).plot()
        assert len(display.groups) == count
        assert sum(group.n_rows for group in display.groups) == len(X)
        assert first is None or display.groups[0].name == first
        assert not crowded(display.figure_)
    assert [group.name for group in display.groups[-2:]] == ["others", "missing"]
    assert display.groups[-1].n_rows == 31
    counts = [group.n_rows for group in display.groups[:9]]
    assert counts == sorted(counts, reverse=True)
    same = CoverageDisplay.from_estimator(model, pl.from_pandas(frame), Y, by="town")
    assert same.groups == display.groups


def test_groups_that_are_off_stand_out():
    off = CoverageDisplay.from_estimator(Normal(0.5), X, Y).plot()
    right = CoverageDisplay.from_predictions(
        np.zeros(100), {0.9: np.tile([-1.0, 1.0], (100, 1))}
    ).plot()
    assert len({tuple(colour) for colour in off.points_.get_facecolors()}) == 1
    assert len(right.groups) == 1
    assert tuple(off.points_.get_facecolors()[0]) == tuple(
        right.points_.get_facecolors()[0]
    )


def test_bands_of_one_column_are_those_of_the_model(crowded):
    one = X[:, :1]
    display = BandDisplay.from_estimator(Normal(), one, Y).plot()
    rows = display.grid[:, np.newaxis]
    np.testing.assert_allclose(display.mean, Normal().predict(rows))
    assert [band.coverage for band in display.bands] == [0.9, 0.5]
    np.testing.assert_allclose(
        np.transpose(display.bands[0][1:]), Normal().predict_interval(rows, 0.9)
    )
    assert len(display.points_.get_offsets()) == 1000
    assert (
        display.grid[0]
        < np.quantile(X[:, 0], 0.005)
        < np.quantile(X[:, 0], 0.995)
        < display.grid[-1]
    )
    assert "means of" not in display.ax_.get_title(loc="left")
    assert not crowded(display.figure_)
    assert BandDisplay.from_estimator(Normal(), one).plot().points_ is None


def test_bands_among_other_columns_are_means_of_the_rows_own_predictions(crowded):
    """In 20 bins of equal counts by the column."""
    display = BandDisplay.from_estimator(Normal(), X, Y, coverage=0.9).plot()
    parts = np.split(np.argsort(X[:, 0]), 20)
    drawn = {
        "grid": (display.grid, X[:, 0]),
        "mean": (display.mean, Normal().predict(X)),
        "high": (display.bands[0].high, Normal().predict_interval(X)[:, 1]),
    }
    for line, own in drawn.values():
        np.testing.assert_allclose(line, [own[part].mean() for part in parts])
    assert "means of similar rows" in display.ax_.get_title(loc="left")
    assert not crowded(display.figure_)
    same = np.column_stack([np.ones(50), np.arange(50.0)])
    assert np.isfinite(BandDisplay.from_estimator(Normal(), same).mean).all()


def test_a_model_of_tables_takes_rows_of_tables():
    frame = pd.DataFrame(
        {
            "x": X[:300, 0],
            "town": RNG.choice(["Bern", "Jena"], 300),
            "new": RNG.random(300) < 0.5,
        }
    )
    frame["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(
        RNG.integers(0, 100, 300), "D"
    )
    model = KernelMachineRegressor(
        kernel="gaussian", n_components=32, alpha=1.0, random_state=0
    ).fit(frame, Y[:300])
    display = BandDisplay.from_estimator(
        model, frame, pd.Series(Y[:300], name="price"), column="x", coverage=()
    )
    assert display.names == ["x", "price"]
    assert np.isfinite(display.mean).all()
    assert display.plot().bands_ == []


def test_widths_and_errors_by_bins(crowded):
    display = WidthDisplay.from_estimator(Normal(), X, Y, n_bins=8).plot()
    half = norm.ppf(0.95) * STD
    np.testing.assert_allclose(display.half_widths, half)
    np.testing.assert_allclose(display.errors, np.abs(Y - MEAN))
    first = np.argsort(half)[:250]
    middles, quantiles = display.quantiles_.get_data()
    assert middles[0] == pytest.approx(half[first].mean())
    assert np.mean(display.errors[first] <= quantiles[0]) == pytest.approx(0.9)
    assert not crowded(display.figure_)
    even = WidthDisplay.from_predictions(
        Y, np.tile([-1.0, 1.0], (2000, 1)), coverage=0.9
    ).plot()
    assert len(even.quantiles_.get_xdata()) == 1
    assert not crowded(even.figure_)


@pytest.mark.slow
def test_axes_are_taken(crowded):
    figure, axes = plt.subplots(1, 2, figsize=(12, 6), layout="constrained")
    assert (
        ReliabilityDisplay.from_predictions(Y > 0, norm.cdf(MEAN))
        .plot(ax=axes[0])
        .figure_
        is figure
    )
    assert WidthDisplay.from_estimator(Normal(), X, Y).plot(ax=axes[1]).ax_ is axes[1]
    assert not crowded(figure)
    figure, axes = plt.subplots(2, 1, figsize=(10, 9))
    coverage = CoverageDisplay.from_estimator(Normal(), X, Y).plot(ax=axes[0])
    assert list(coverage.plot(ax=coverage.axes_).axes_) == list(coverage.axes_)
    assert BandDisplay.from_estimator(Normal(), X, Y).plot(ax=axes[1]).ax_ is axes[1]
    with pytest.raises(ValueError, match="2 panels"):
        coverage.plot(ax=[*axes, axes[0]])


INTERVALS = {0.9: np.tile([-1.0, 1.0], (2000, 1))}


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda: ReliabilityDisplay.from_estimator(Ridge().fit(X, Y), X, Y),
            "predict_proba",
        ),
        (
            lambda: ReliabilityDisplay.from_predictions(
                [0, 1, 2], np.full((3, 2), 0.5), classes=[0, 1]
            ),
            "none of the",
        ),
        (
            lambda: ReliabilityDisplay.from_predictions([0, 1], np.full((3, 2), 0.5)),
            "does not fit",
        ),
        (
            lambda: CoverageDisplay.from_estimator(Ridge().fit(X, Y), X, Y),
            "uncertainty=True",
        ),
        (lambda: CoverageDisplay.from_estimator(Normal(), X, Y, by=3), "from 0 to 2"),
        (
            lambda: CoverageDisplay.from_estimator(Normal(), X, Y, by="town"),
            "no column 'town'",
        ),
        (
            lambda: CoverageDisplay.from_estimator(Both(), X, np.stack([Y, Y], 1)),
            "of one target",
        ),
        (lambda: BandDisplay.from_estimator(Both(), X), "of one target"),
        (
            lambda: WidthDisplay.from_estimator(Both(), X, np.stack([Y, Y], 1)),
            "of one target",
        ),
        (
            lambda: CoverageDisplay.from_predictions(Y, INTERVALS, coverage=0.5),
            "0.5 among them",
        ),
        (
            lambda: CoverageDisplay.from_predictions(Y[:9], INTERVALS),
            r"y of shape \(9,\) and interval of shape \(2000, 2\)",
        ),
        (
            lambda: CoverageDisplay.from_predictions(Y, INTERVALS, by=[1]),
            "one value for each",
        ),
        (
            lambda: BandDisplay.from_estimator(Ridge().fit(X, Y), X),
            "no prediction intervals",
        ),
        (
            lambda: BandDisplay.from_estimator(Normal(), X, coverage=90),
            "probability between 0 and 1",
        ),
        (
            lambda: BandDisplay.from_estimator(
                Normal(), pd.DataFrame({"a": ["u", "v"]}), column="a"
            ),
            "holds no numbers",
        ),
        (lambda: BandDisplay.from_estimator(Normal(), X, Y[:5]), "2000 rows, and y 5"),
        (
            lambda: WidthDisplay.from_predictions(Y, INTERVALS[0.9], coverage=1.0),
            "probability between 0 and 1",
        ),
        (
            lambda: WidthDisplay.from_predictions(
                Y, np.inf * INTERVALS[0.9], coverage=0.9
            ),
            "infinite",
        ),
        (
            lambda: WidthDisplay.from_predictions(
                Y, INTERVALS[0.9], coverage=0.9, predicted=[0.0]
            ),
            "predicted must be",
        ),
        (
            lambda: WidthDisplay.from_predictions(Y[:9], INTERVALS[0.9], coverage=0.9),
            "interval must be",
        ),
    ],
)
def test_refusals(call, match):
    with pytest.raises(ValueError, match=match):
        call()
