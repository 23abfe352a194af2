"""Makes the figures, axes, colours and labels of all displays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.gridspec import SubplotSpec

# Of Okabe and Ito, which differ for colour-blind eyes too, and grey for what is not to stand out.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, GREY = "#E69F00", "#56B4E9", "#767676"
LOOKS = ((BLUE, "o"), (VERMILION, "s"), (GREEN, "D"), (PURPLE, "^"), (ORANGE, "v"), (SKY, "P"), (GREY, "X"))
LARGE_NUMBER = 1e4
LETTERS = "kMGT"


def pyplot() -> Any:
    """Import matplotlib.pyplot, or say how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('Plots need matplotlib, which is not installed: pip install "bochner[plot]"') from error
    return plt


def fitted_attribute(model: Any, name: str) -> Any:
    """Return a fitted attribute of a model, or say why it has none."""
    value = getattr(model, name, None)
    if value is not None:
        return value
    if hasattr(model, "fit"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    raise ValueError(
        f"This model has nothing to draw: its {name} is None, as after a fit with a given kernel or feature map, with "
        "metric='isotropic', or on too few rows. Fit it on 250 rows or more, with kernel='auto', features='auto' and "
        "metric='auto'."
    )


def panels(
    ax: Any, n_panels: int, size: tuple[float, float], build: Callable[[Any, SubplotSpec, bool], list[Axes]]
) -> list[Axes]:
    """Return Axes to draw on: those given, or new ones.

    Parameters
    ----------
    ax : None, Axes, or Axes in a sequence or array
        None makes a figure. A single one gives its place to the panels; several are taken as they are.
    n_panels : int
    size : (float, float)
        Of a new figure, in inches.
    build : callable
        Makes the Axes, given a figure, a place in it, and whether to leave room for labels.
    """
    if ax is None:
        figure = pyplot().figure(figsize=size, layout="constrained")
        return build(figure, figure.add_gridspec(1, 1)[0], False)
    given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(given) == n_panels:
        return list(given)
    place = given[0].get_subplotspec() if len(given) == 1 else None
    if place is None:
        raise ValueError(f"There are {n_panels} panels: ax must be None, one subplot, or {n_panels} Axes.")
    given[0].set_axis_off()
    return build(given[0].figure, place, given[0].figure.get_layout_engine() is None)


def one_panel(ax: Any, size: tuple[float, float]) -> Axes:
    """Return one Axes to draw on: that given, or one of a new figure of `size` inches."""
    (own,) = panels(ax, 1, size, lambda figure, place, spaced: [figure.add_subplot(place)])
    return own


def shortened(name: object, width: int) -> str:
    """Name of at most `width` characters, its middle left out where it is longer, and no formula."""
    text = " ".join(str(name).split())
    if len(text) > width:
        tail = (width - 1) // 2
        text = f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"
    return text.replace("$", r"\$")


def short_number(value: float) -> str:
    """Three digits, and a letter for thousands: 35k instead of 3.5e+04."""
    rounded = float(f"{value:.3g}")
    power = min(int(np.log10(abs(rounded)) // 3), len(LETTERS)) if abs(rounded) >= LARGE_NUMBER else 0
    return f"{rounded / 1000**power:g}" + ("", *LETTERS)[power]


def few_ticks(axis: Axis, values: NDArray, n_ticks: int) -> None:
    """Give an axis a few ticks, whose labels are short and whole: 35k instead of 35000, and no factor beside them."""
    from matplotlib.ticker import EngFormatter, MaxNLocator, StrMethodFormatter

    large = np.abs(values).max(initial=0.0) >= LARGE_NUMBER
    axis.set_major_locator(MaxNLocator(n_ticks))
    axis.set_major_formatter(EngFormatter(sep="") if large else StrMethodFormatter("{x:g}"))


def in_first_column(ax: Axes, first: Axes) -> bool:
    """Whether Axes stand below the first ones, or anywhere."""
    place, start = ax.get_subplotspec(), first.get_subplotspec()
    return place is None or start is None or place.colspan.start == start.colspan.start


def remove_frames(axes: Sequence[Axes]) -> None:
    """Take away the frames above and to the right."""
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
