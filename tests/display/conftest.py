"""Pictures without a screen, and a look at what stands in them."""

import matplotlib
import pytest


@pytest.fixture(autouse=True)
def agg():
    """Draw into memory, and forget it after the test."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def texts(ax):
    """Texts of Axes that are drawn: without the labels of ticks beyond the ends."""
    from matplotlib.text import Text

    ticks = []
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks += [
            tick for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high
        ]
    hidden = [text for tick in ticks for text in (tick.label1, tick.label2)]
    return [
        text
        for text in ax.findobj(Text)
        if text.get_visible() and text.get_text() and text not in hidden
    ]


@pytest.fixture
def crowded():
    """Pairs of texts of a figure that overlap, as a function."""

    def pairs(figure):
        figure.draw_without_rendering()
        drawn = [text for ax in figure.axes if ax.axison for text in texts(ax)]
        boxes = [
            (text.get_text(), text.get_window_extent().padded(-1)) for text in drawn
        ]
        return [
            (a, b)
            for i, (a, box) in enumerate(boxes)
            for b, other in boxes[:i]
            if box.overlaps(other)
        ]

    return pairs
