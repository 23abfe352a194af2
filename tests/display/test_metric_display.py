"""What is drawn of a metric is what the metric is."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError

from bochner import KernelMachineRegressor, TableEncoder
from bochner.display import MetricDisplay
from bochner.estimators.interpretation import relevance_in_distance
from bochner.features import Metric
from bochner.selection import learn_metric

X, Y = load_diabetes(return_X_y=True)
NAMES = load_diabetes().feature_names


@pytest.fixture(scope="module", params=["ard", "full"])
def learned(request):
    return learn_metric(X, Y, metric=request.param, random_state=0)


@pytest.fixture(
    scope="module",
    params=[("laplacian", "ard", 1), ("laplacian", "full", 1), ("gaussian", "ard", 2)],
)
def metrics(request):
    """A learned metric, and the order of the norm of its distance."""
    kernel, metric, order = request.param
    return learn_metric(X, Y, kernel, metric, random_state=0), order


def warped(relevance, spans):
    """A metric of columns with one warp each, which goes as far as it says."""
    d = len(relevance)
    levels = np.outer(spans, [0.0, 0.5, 1.0])
    knots = np.tile([-1.0, 0.0, 2.0], (d, 1))
    warps = {
        "warped": np.arange(d),
        "knots": knots,
        "levels": levels,
        "slopes": np.zeros(d),
    }
    return Metric(d, np.arange(d), np.ones(d), **warps, relevance=relevance)


def names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.slow
def test_bars_are_relevances(learned):
    display = learned.plot(NAMES)
    lengths = [bar.get_width() for bar in display.bars_]
    assert lengths == sorted(learned.relevance_, reverse=True)
    assert names(display.axes_[0]) == [
        NAMES[j] for j in np.argsort(-learned.relevance_)
    ]
    assert "Share" in display.axes_[0].get_xlabel()


def test_lines_are_distances_along_a_column(metrics):
    """By the coordinates of a fine grid of values of a column, which the lines know
    at their knots alone.
    """
    metric, order = metrics
    display = MetricDisplay.from_metric(metric, n_warps=20).plot()
    assert len(display.lines_) == len(np.unique(metric.source_[metric.warped_])) == 9
    for line, ax in zip(display.lines_, display.axes_[1:10], strict=True):
        x, w = line.get_data()
        assert np.all(np.diff(x) > 0)
        grid = np.union1d(x, np.linspace(x[0], x[-1], 500))
        rows = np.tile(X[:1], (len(grid), 1))
        rows[:, int(ax.get_xlabel().removeprefix("x"))] = grid
        steps = np.linalg.norm(np.diff(metric.transform(rows), axis=0), order, axis=1)
        np.testing.assert_allclose(
            np.interp(grid, x, w), [0.0, *np.cumsum(steps)], atol=1e-9 * w[-1]
        )


def test_a_column_of_value_and_rank_rises_where_either_does():
    """Beyond the last rank the distance goes on by the value: 3 and 4 in two
    coordinates are 5.
    """
    warps = {
        "warped": [1],
        "knots": [[0.0, 1.0, 2.0]],
        "levels": [[0.0, 4.0, 4.0]],
        "slopes": [0.0],
    }
    metric = Metric(1, [0, 0], [3.0, 1.0], **warps, relevance=[1.0])
    (line,) = metric.plot().lines_
    assert [part.tolist() for part in line.get_data()] == [
        [0.0, 1.0, 2.0],
        [0.0, 5.0, 8.0],
    ]


@pytest.mark.slow
def test_texts_do_not_overlap(learned, crowded):
    long = [f"the {name} of a patient at the beginning of the study" for name in NAMES]
    for labels in (NAMES, long):
        assert not crowded(learned.plot(labels).figure_)


@pytest.mark.parametrize("d", [1, 20, 784])
def test_any_number_of_columns(d, crowded):
    relevance = np.arange(d)[::-1] / max(d * (d - 1) / 2, 1) if d > 1 else np.ones(1)
    display = Metric(d, np.arange(d), np.ones(d), relevance=relevance).plot()
    assert len(display.axes_) == 1
    assert len(display.bars_) == min(d, 20)
    assert names(display.axes_[0])[0] == "x0"
    assert (f"20 largest of {d}" in display.axes_[0].get_title(loc="left")) == (d > 20)
    assert not crowded(display.figure_)


def test_there_are_at_most_20_bars():
    few = Metric(3, [0], [1.0], relevance=[1.0, 0.0, 0.0]).plot()
    many = Metric(30, [0], [1.0], relevance=np.eye(30)[0]).plot()
    assert [len(few.bars_), len(many.bars_)] == [3, 20]


@pytest.mark.parametrize("d", [2, 40])
def test_a_metric_of_which_nothing_is_known(d):
    display = Metric(d, [0], [1.0]).plot()
    assert [bar.get_width() for bar in display.bars_] == [0.0] * min(d, 20)
    assert "not known" in display.axes_[0].get_title(loc="left")


def test_the_most_relevant_warps_come_first_and_flat_ones_not_at_all():
    metric = warped([0.1, 0.6, 0.3, 0.0], [1.0, 2.0, 3.0, 0.0])
    display = metric.plot()
    assert [ax.get_xlabel() for ax in display.axes_[1:]] == ["x1", "x2", "x0"]
    assert [ax.get_xlabel() for ax in metric.plot(n_warps=2).axes_[1:]] == ["x1", "x2"]
    assert "2 of 3" in metric.plot(n_warps=2).axes_[1].get_title(loc="left")
    assert len(metric.plot(n_warps=0).axes_) == 1


def test_warps_have_one_scale_or_their_own():
    metric = warped([0.5, 0.5], [1.0, 3.0])
    one, own = metric.plot(), metric.plot(sharey=False)
    assert one.axes_[1].get_ylim() == one.axes_[2].get_ylim()
    assert own.axes_[1].get_ylim() != own.axes_[2].get_ylim()


def test_numbers_and_dates_are_in_the_units_of_the_table():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, 300), "D")
    frame = pd.DataFrame(
        {
            "town": rng.choice(["Bern", "Jena"], 300),
            "price": rng.uniform(1000, 9000, 300),
        }
    )
    frame["built"] = days
    encoder = TableEncoder().fit(frame)
    Z = encoder.transform(frame)
    metric = learn_metric(Z, Z[:, 2] ** 2 + np.sign(Z[:, 3]), random_state=0)
    display = MetricDisplay.from_estimator(
        SimpleNamespace(metric_=metric, encoder_=encoder)
    ).plot()
    shown = {
        ax.get_xlabel(): line.get_xdata()
        for ax, line in zip(display.axes_[1:], display.lines_, strict=True)
    }
    assert {"price", "built_days"} <= set(shown)
    assert set(names(display.axes_[0])) == {"town", "price", "built"}
    price, since_1970 = frame["price"], (days - pd.Timestamp(0)).days
    np.testing.assert_allclose(np.ptp(shown["price"]), np.ptp(price), rtol=0.02)
    np.testing.assert_allclose(shown["price"].min(), price.min(), rtol=0.02)
    np.testing.assert_allclose(
        shown["built_days"][[0, -1]], [since_1970.min(), since_1970.max()], atol=20
    )


def test_names_are_no_formulas():
    display = Metric(2, [0, 1], [1.0, 1.0], relevance=[0.6, 0.4]).plot(
        ["$a_1$ and $b", "x" * 100]
    )
    first, second = display.axes_[0].get_yticklabels()
    display.figure_.canvas.draw()
    assert first.get_text() == r"\$a_1\$ and \$b"
    assert len(second.get_text().replace("\n", "")) == 40


def test_axes_are_taken(crowded):
    metric = warped([0.7, 0.3], [1.0, 2.0])
    first = metric.plot()
    again = metric.plot(ax=first.axes_)
    assert again.figure_ is first.figure_
    assert list(again.axes_) == list(first.axes_)
    for layout in ("constrained", None):
        figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4), layout=layout)
        display = metric.plot(ax=right)
        assert display.figure_ is figure
        assert not right.axison
        assert left.axison
        assert not crowded(figure)
        end = left.get_window_extent().x1
        assert all(ax.get_window_extent().x0 >= end for ax in display.axes_)
    alone = plt.figure().add_axes([0.1, 0.1, 0.8, 0.8])
    with pytest.raises(ValueError, match="3 panels"):
        metric.plot(ax=alone)
    with pytest.raises(ValueError, match="3 panels"):
        metric.plot(ax=[left, right])
    assert metric.plot(ax=alone, n_warps=0).axes_[0] is alone


def test_refusals():
    metric = warped([0.7, 0.3], [1.0, 2.0])
    with pytest.raises(ValueError, match="2 columns, but there are 3 feature names"):
        metric.plot(["a", "b", "c"])
    with pytest.raises(ValueError, match="n_warps"):
        metric.plot(n_warps=-1)
    with pytest.raises(NotFittedError):
        MetricDisplay.from_estimator(KernelMachineRegressor())
    with pytest.raises(ValueError, match="too few rows"):
        MetricDisplay.from_estimator(SimpleNamespace(metric_=None))


@pytest.mark.slow
def test_a_column_of_text_has_one_bar():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.standard_normal(400),
            "sex": np.array(["female", "male"])[rng.integers(0, 2, 400)],
        }
    )
    y = frame["size"] + 2.0 * (frame["sex"] == "male")
    model = KernelMachineRegressor(metric="ard", n_components=100, random_state=0).fit(
        frame, y
    )
    display = MetricDisplay.from_estimator(model)
    assert display.feature_names == ["size", "sex"]
    np.testing.assert_allclose(
        display.relevance, relevance_in_distance(model), atol=1e-12
    )
    assert len(display.plot().bars_) == 2
