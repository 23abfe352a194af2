"""The base of all displays: it makes the panels, has them drawn on, and gives them
the one look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np

from bochner.display.canvas import finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.gridspec import SubplotSpec
else:
    Axes = SubplotSpec = Any  # matplotlib is imported where something is drawn

# Field of a display: array-like as it is given, an array of floats from then on
Array: TypeAlias = Any
Values: TypeAlias = Any  # the same, but an array of what there is
PAGE = (7.0, 3.2)  # inches: the width of a printed page
SINGLE = (5.0, 3.4)  # of a picture of one panel
PANEL = 2.4  # inches: least width of a panel beside another


class Panels(NamedTuple):
    """The Axes that a display needs.

    Attributes
    ----------
    n_panels : int
    size : (float, float)
        Of a figure of their own, in inches.
    build : callable
        Makes the Axes, given a figure, a place in it, and whether to leave room for
        labels.
    """

    n_panels: int
    size: tuple[float, float]
    build: Callable[[Any, SubplotSpec, bool], list[Axes]]

    def on(self, ax: Any) -> list[Axes]:
        """Return Axes: new ones for None, those in the place of a single one, or
        several as they are given.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            figure: Any = plt.figure(figsize=self.size, layout="constrained")
            figure.get_layout_engine().set(
                h_pad=0.1
            )  # inches; titles of panels of fixed aspect reach into it
            return self.build(figure, figure.add_gridspec(1, 1)[0], False)
        given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if len(given) == self.n_panels:
            return list(given)
        place = given[0].get_subplotspec() if len(given) == 1 else None
        if place is None:
            raise ValueError(
                f"There are {self.n_panels} panels: ax must be None, one subplot, or "
                f"{self.n_panels} Axes."
            )
        given[0].set_axis_off()
        return self.build(
            given[0].figure, place, given[0].figure.get_layout_engine() is None
        )


def side_by_side(
    widths: Sequence[float], size: tuple[float, float] = PAGE, least: float = PANEL
) -> Panels:
    """Panels in a row, or in several where the place is too narrow for `least`
    inches each.
    """

    def build(figure: Any, place: SubplotSpec, spaced: bool) -> list[Axes]:
        across = max(1, min(len(widths), round(inches_across(figure, place) / least)))
        rows = -(-len(widths) // across)
        room: dict[str, Any] = {"wspace": 0.5, "hspace": 0.7} if spaced else {}
        grid = place.subgridspec(
            rows, across, width_ratios=widths if rows == 1 else None, **room
        )
        return [figure.add_subplot(grid[i]) for i in range(len(widths))]

    return Panels(len(widths), size, build)


class Display:
    """A picture: a class method collects its numbers, `plot` draws them.

    A subclass is a dataclass, whose fields of the types `Array`, `Values` and
    `Sequence` become arrays and lists. It draws in `_draw`; one of several panels says
    in `_panels` which.
    """

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # the subclasses are dataclasses
            given = getattr(self, field.name)
            if given is not None:
                setattr(self, field.name, _as_field(given, str(field.type)))

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, or sequence or array of them, optional
            A subplot whose place the panels take, or one Axes for each panel, as
            `axes_` of another display. None makes a figure.
        **kwargs
            Of the artists that the text of the class names, as matplotlib takes them.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Where there is nothing to draw, and for a number of Axes that does not fit.
        """
        panels = self._panels()
        axes = (panels or side_by_side([1], SINGLE)).on(ax)
        self.figure_: Any = axes[0].figure
        if panels is None:
            self.ax_: Any = axes[0]
        else:
            self.axes_: Any = np.array(axes, dtype=object)
        self._draw(axes, kwargs)
        finish(axes)
        return self

    def _panels(self) -> Panels | None:
        """Panels whose Axes become `axes_`; None for a single one, whose Axes become
        `ax_`.
        """
        return None

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        raise NotImplementedError


def _as_field(given: Any, kind: str) -> Any:
    """What is given for a field, as the annotation of the field says."""
    if kind == "Sequence[Array]":
        return [np.asarray(one, np.float64) for one in given]
    if kind in ("Array", "Values"):
        return np.asarray(given, np.float64 if kind == "Array" else None)
    return list(given) if kind.startswith("Sequence") else given


def inches_across(figure: Any, place: SubplotSpec) -> float:
    """Width of a place in a figure."""
    return float(place.get_position(figure).width * figure.bbox.width / figure.dpi)


def fitted_attribute(model: Any, name: str) -> Any:
    """Return a fitted attribute of a model, or say why it has none."""
    value = getattr(model, name, None)
    if value is not None:
        return value
    if hasattr(model, "fit"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    if not hasattr(model, name):
        raise ValueError(
            f"This display draws models that have {name}, and {type(model).__name__} "
            "has none."
        )
    raise ValueError(
        f"This model has nothing to draw: its {name} is None, as after a fit with a "
        "given kernel or feature map, with "
        "metric='isotropic', or on too few rows. Fit it on 250 rows or more, with "
        "kernel='auto', features='auto' and "
        "metric='auto'."
    )
