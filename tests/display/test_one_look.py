"""What all displays have in common: sizes, labels, legends beside the data, and
keywords for what they draw.
"""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from bochner import TableEncoder
from bochner import display as displays
from bochner.display import (
    BandDisplay,
    BeeswarmDisplay,
    ClusterDisplay,
    CorrelationDisplay,
    CoverageDisplay,
    EffectDisplay,
    EmbeddingDisplay,
    ErrorDisplay,
    GramDisplay,
    ImportanceDisplay,
    InteractionDisplay,
    KernelDisplay,
    LabelDisplay,
    LearningDisplay,
    MetricDisplay,
    NoveltyDisplay,
    ReliabilityDisplay,
    ScreeDisplay,
    SizeDisplay,
    SpectrumDisplay,
    Warp,
    WaterfallDisplay,
    WidthDisplay,
)
from bochner.display.canvas import LOOKS, look
from bochner.display.uncertainty_displays import Band
from bochner.explanations import Effect
from bochner.selection import Candidate

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, (80, 2))
GRID = np.linspace(0, 1, 20)
NAMES = [
    "bins, learned scales",
    "Fourier features, learned scales",
    "one lengthscale",
]


def intervals(levels=(0.5, 0.9)):
    scale = 1 + X[:, 0]
    half = {level: level * scale for level in levels}
    return scale * rng.standard_normal(80), {
        level: np.column_stack([-own, own]) for level, own in half.items()
    }


def effects():
    """Of numbers with a missing value and a region without rows, of many levels, and
    of dates.
    """
    mean, half, curves = (
        np.column_stack([GRID, 1 - GRID]),
        np.full((20, 2), 0.05),
        rng.uniform(size=(4, 20, 2)),
    )
    missing = np.append(1e5 * GRID[:-1], np.nan)
    levels, flat = [f"a long level {g}" for g in range(20)], np.full(20, 0.05)
    shown = mean, mean - half, mean + half, curves
    return [
        Effect(
            "Income",
            [*missing[:-1].tolist(), None],
            missing,
            "",
            False,
            flat,
            *shown,
            missing[:-1],
        ),
        Effect(
            "Town",
            levels,
            np.arange(20.0),
            "",
            True,
            flat,
            *shown,
            np.empty(0),
        ),
        Effect(
            "Built",
            levels,
            999 * GRID,
            "days",
            False,
            flat,
            *shown,
            999 * GRID,
        ),
    ]


# A display of each class, a keyword, and what of the drawn artists shows it.
MADE = {
    BandDisplay: lambda: BandDisplay(
        GRID, GRID**2, [Band(0.9, GRID - 1, GRID + 1)], X / 10, unit="days"
    ),
    BeeswarmDisplay: lambda: BeeswarmDisplay(["age", "sex"], X - 5, X / 10, "log-odds"),
    ClusterDisplay: lambda: ClusterDisplay(
        X, (X[:, 0] > 5).astype(int), np.array([40, 40])
    ),
    CorrelationDisplay: lambda: CorrelationDisplay([0.9, 0.5, 0.2], [0.8, 0.4, -0.1]),
    CoverageDisplay: lambda: CoverageDisplay.from_predictions(
        *intervals(), by=X[:, 1], by_name="depth [m]"
    ),
    EffectDisplay: lambda: EffectDisplay(effects(), ["high", "low"], "probability"),
    EmbeddingDisplay: lambda: EmbeddingDisplay(
        X, [f"kind {i % 12}" for i in range(80)], label="Kind"
    ),
    ErrorDisplay: lambda: ErrorDisplay(
        [16, 64], [[0.2, 0.3], [0.1, 0.12]], [[0.5, 0.6], [0.2, 0.3]], [2.0, 1.0]
    ),
    GramDisplay: lambda: GramDisplay(
        np.eye(9), [np.eye(9) + 0.1, np.eye(9)], [1, 10_000], "grids"
    ),
    ImportanceDisplay: lambda: ImportanceDisplay(
        ["age", "sex"], [0.3, 0.1], [0.05, 0.02], "log loss", 9
    ),
    InteractionDisplay: lambda: InteractionDisplay(
        ["age", "sex", "town"], np.ones((3, 3)), "log-odds"
    ),
    KernelDisplay: lambda: KernelDisplay(
        GRID, 1 - GRID, 1 - GRID, 1 - GRID, 0.1 + 0 * GRID, size="100 features"
    ),
    LabelDisplay: lambda: LabelDisplay(
        X, [f"kind {i % 12}" for i in range(80)], X[:, 0] / 10, np.arange(80) < 24
    ),
    LearningDisplay: lambda: LearningDisplay(
        [100, 1000], [[0.3], [0.2]], [10, 20], [[0.3], [0.2]], [[1.0], [2.0]]
    ),
    MetricDisplay: lambda: MetricDisplay(
        [0.8, 0.2],
        ["income [k$]", "built"],
        [Warp("income [k$]", GRID, GRID), Warp("built", 999 * GRID, GRID, "days")],
    ),
    NoveltyDisplay: lambda: NoveltyDisplay(
        X, X[:, 0], 2.0, (GRID, GRID), np.add.outer(9 * GRID, GRID)
    ),
    ReliabilityDisplay: lambda: ReliabilityDisplay.from_predictions(
        np.arange(80) % 3, np.full((80, 3), 1 / 3), n_bins=3
    ),
    ScreeDisplay: lambda: ScreeDisplay([0.5, 0.2, 0.1]),
    SizeDisplay: lambda: SizeDisplay(
        [(name, size, 1 + size**2) for name in NAMES for size in (-1.0, 0.0, 1.0)],
        [
            Candidate(name, 256, 0.3 + 0.1 * i, 0.05, 1.0)
            for i, name in enumerate(NAMES)
        ],
        NAMES[0],
        "squared error",
        200,
    ),
    SpectrumDisplay: lambda: SpectrumDisplay(GRID, GRID, X[:, 0] / 10),
    WaterfallDisplay: lambda: WaterfallDisplay(
        ["age = 6", "sex = m", "3 others"], [0.3, -0.1, 0.05], 2.0, "log-odds"
    ),
    WidthDisplay: lambda: WidthDisplay.from_predictions(
        intervals()[0], intervals()[1][0.9], coverage=0.9
    ),
}
COLOURED = {
    BandDisplay: lambda one: [one.line_],
    BeeswarmDisplay: lambda one: one.points_,
    WaterfallDisplay: lambda one: one.bars_.patches,
    ClusterDisplay: lambda one: one.points_,
    CorrelationDisplay: lambda one: one.bars_.patches,
    CoverageDisplay: lambda one: [one.line_],
    EffectDisplay: lambda one: one.lines_,
    EmbeddingDisplay: lambda one: one.points_,
    ErrorDisplay: lambda one: [one.mean_line_, one.max_line_],
    ImportanceDisplay: lambda one: one.bars_.patches,
    KernelDisplay: lambda one: [one.estimate_line_],
    LabelDisplay: lambda one: [*one.points_.values(), *one.known_.values()],
    LearningDisplay: lambda one: one.lines_,
    MetricDisplay: lambda one: one.lines_,
    NoveltyDisplay: lambda one: [one.normal_, one.novel_],
    ReliabilityDisplay: lambda one: [one.line_],
    ScreeDisplay: lambda one: one.bars_.patches,
    SizeDisplay: lambda one: one.lines_,
    SpectrumDisplay: lambda one: one.histogram_.patches,
    WidthDisplay: lambda one: [one.quantiles_],
}
EVERY = pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.__name__)


def test_every_display_is_here():
    public = {
        getattr(displays, name) for name in displays.__all__ if name.endswith("Display")
    }
    assert public == set(MADE)


def panels_of(display):
    return list(
        np.ravel(
            getattr(display, "axes_", None)
            if hasattr(display, "axes_")
            else [display.ax_]
        )
    )


def colours(artist):
    found = (
        artist.get_facecolor()
        if hasattr(artist, "get_facecolor")
        else artist.get_color()
    )
    return {
        tuple(to_rgb(colour)) for colour in (found if np.ndim(found) == 2 else [found])
    }


@EVERY
def test_pictures_fit_a_page_and_say_what_is_drawn(kind):
    display = MADE[kind]().plot()
    width, height = display.figure_.get_size_inches()
    assert 5.0 <= width <= 7.8
    assert 2.4 <= height <= 8.0
    for ax in panels_of(display):
        named = [
            ax.get_xlabel(),
            ax.get_ylabel(),
            ax.get_title(loc="left"),
            *map(str, ax.get_yticklabels()),
        ]
        assert any(named)
        if kind not in (GramDisplay, MetricDisplay, InteractionDisplay):
            assert ax.get_xlabel() or ax.get_shared_x_axes().get_siblings(ax) != [ax]
        for label in (ax.get_xlabel(), ax.get_ylabel(), ax.get_title(loc="left")):
            assert (
                not label
                or label[0] == label[0].upper()
                or not label[0].isascii()
                or label in kept(display)
            ), label
            assert max(map(len, label.split("\n"))) < 75


def kept(display):
    """Labels that are names of columns, as they are."""
    warps = [warp.name.replace("$", r"\$") for warp in getattr(display, "warps", ())]
    return {*getattr(display, "names", ()), *warps}


@EVERY
@pytest.mark.parametrize("width", [3.5, 7.0])
def test_neither_texts_nor_legends_hide_anything(kind, width, crowded):
    figure = plt.figure(
        figsize=(width, 6.5 if kind in (SizeDisplay, MetricDisplay) else 5.0),
        layout="constrained",
    )
    display = MADE[kind]().plot(figure.add_subplot())
    assert display.figure_ is figure
    assert not crowded(figure)
    whole = figure.bbox
    for ax in panels_of(display):
        legend = ax.get_legend()
        if legend is not None:
            box = legend.get_window_extent()
            assert not box.overlaps(ax.get_window_extent().padded(-1))
            assert whole.x0 <= box.x0
            assert box.x1 <= whole.x1 + 1
        for axis in (ax.xaxis, ax.yaxis):
            assert axis.label.get_fontsize() == pytest.approx(10 / 1.2, abs=0.01)


@EVERY
def test_keywords_reach_what_is_drawn(kind):
    assert "kwargs" in kind.plot.__doc__
    if kind in COLOURED:
        display = MADE[kind]().plot(color="#123456")
        for artist in COLOURED[kind](display):
            assert colours(artist) == {to_rgb("#123456")}
    elif kind is GramDisplay:
        assert {
            image.get_cmap().name for image in MADE[kind]().plot(cmap="magma").images_
        } == {"magma"}
    else:
        assert MADE[kind]().plot(cmap="magma").image_.get_cmap().name == "magma"


def test_categories_differ_without_colours():
    """Of 49 no two share colour and mark; of 7 neighbours none has the colour of
    another.
    """
    assert len({look(k) for k in range(49)}) == 49
    assert all(len({look(k + i)[0] for i in range(7)}) == 7 for k in range(42))


def luminance(colour):
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in to_rgb(colour)
    ]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


# Machado, Oliveira and Fernandes (2009): what is seen without long, medium and short
# cones, of linear RGB.
BLIND = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


@pytest.mark.parametrize("eyes", BLIND)
def test_colours_differ_for_all_eyes(eyes):
    """By more than the just noticeable difference of about 0.02 in linear RGB; the
    first two by ten times that.
    """
    seen = [
        np.array(BLIND[eyes]) @ np.array(to_rgb(colour)) ** 2.2 for colour, _ in LOOKS
    ]
    assert np.abs(seen[0] - seen[1]).max() > 0.2
    pairs = [
        np.abs(one - other).max() for i, one in enumerate(seen) for other in seen[:i]
    ]
    assert len(pairs) == 45
    assert min(pairs) > 0.02
    assert all(luminance(colour) < 0.6 for colour, _ in LOOKS)  # visible on white


def test_dates_have_a_calendar_and_durations_a_unit():
    days = 365.25 * np.linspace(45, 55, 20)
    ax = BandDisplay(days, GRID, names=("sold", "price"), unit="days").plot().ax_
    ax.figure.canvas.draw()
    shown = {label.get_text() for label in ax.get_xticklabels()}
    assert {"2016", "2018"} <= shown
    ax = BandDisplay(days, GRID, names=("lasted", "price"), unit="seconds").plot().ax_
    assert ax.get_xlabel() == "lasted [seconds]"


@pytest.mark.parametrize("kind", ["date", "datetime", "zoned", "duration", "time"])
def test_bands_along_times(kind):
    """A model that saw times is asked about times."""
    moments = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(50) * 40_000, "s")
    values = {
        "datetime": moments,
        "zoned": moments.tz_localize("America/New_York"),
        "date": moments.date,
        "duration": pd.to_timedelta(np.arange(50), "h"),
        "time": moments.time,
    }[kind]
    frame = pd.DataFrame({"other": np.arange(50) / 2, "when": values})
    encoder = TableEncoder().fit(frame)
    asked = []

    def predict(rows):
        asked.append(encoder.transform(rows))
        return asked[-1][:, 0]

    display = BandDisplay.from_estimator(
        SimpleNamespace(predict=predict), frame, column="when", coverage=()
    )
    assert display.unit == {"duration": "seconds", "time": "day"}.get(kind, "days")
    (found,) = asked
    np.testing.assert_array_equal(found, encoder.transform(frame))
    assert display.grid[-1] > display.grid[0]
    encoder, alone = TableEncoder().fit(frame[["when"]]), frame[["when"]]
    display = BandDisplay.from_estimator(
        SimpleNamespace(predict=predict), alone, coverage=()
    )
    np.testing.assert_array_equal(asked[-1], encoder.transform(alone))
