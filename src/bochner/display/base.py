"""The base of all displays: it makes the panels, has them drawn on, and gives them
the one look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self, TypeAlias, dataclass_transform

import numpy as np

from bochner.display.canvas import STYLE, finish

# Field of a display: array-like as it is given, an array of floats from then on
Array: TypeAlias = Any
# Field of a display: array-like as it is given, an array of any type from then on
Values: TypeAlias = Any
Look: TypeAlias = dict[str, Any]  # keywords of artists, as matplotlib takes them
PAGE, SINGLE = 7.0, 5.0  # inches: widths of a printed page, and of one panel alone
HEIGHT, LEAST = 3.4, 2.4  # inches: of a panel, and its least width beside another


class Block(NamedTuple):
    """Panels of one kind, in as many rows as they need.

    Attributes
    ----------
    height : float
        Of a row, in inches.
    n : int
        Number of panels.
    least : float
        Inches that a panel takes at least beside another.
    """

    height: float = HEIGHT
    n: int = 1
    least: float = LEAST

    def shape(self, width: float) -> tuple[int, int]:
        """Rows and columns in a place of a width in inches."""
        across = int(np.clip(round(width / self.least), 1, self.n))
        return -(-self.n // across), across


def build(blocks: Sequence[Block], place: Any) -> list[Any]:
    """Make the Axes of blocks, one below the other, in a figure or a part of one."""
    shapes = [block.shape(place.bbox.width / place.dpi) for block in blocks]
    heights = [
        block.height * rows for block, (rows, _) in zip(blocks, shapes, strict=True)
    ]
    parts = place.subfigures(len(blocks), height_ratios=heights, squeeze=False)
    axes = []
    for block, shape, part in zip(blocks, shapes, parts.ravel(), strict=True):
        made = part.subplots(*shape, squeeze=False).ravel().tolist()
        for beyond in made[block.n :]:
            beyond.remove()
        axes += made[: block.n]
    return axes


@dataclass_transform(eq_default=False)
class Display:
    """A picture: a class method collects its numbers, `plot` draws them.

    A subclass becomes a dataclass, whose fields of the types `Array`, `Values` and
    `Sequence` become arrays and lists. It draws in `_draw`; one of several panels says
    in `_blocks` which.
    """

    def __init_subclass__(cls) -> None:
        dataclass(cls, eq=False, repr=False)

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # the subclasses are dataclasses
            value = getattr(self, field.name)
            kind = str(field.type)
            if value is None:
                continue
            if kind in ("Array", "Values"):
                value = np.asarray(value, np.float64 if kind == "Array" else None)
            elif kind.startswith("Sequence"):
                value = list(value)
            setattr(self, field.name, value)

    def height(self, width: float) -> float:
        """Height that suits a figure of a width, both in inches."""
        return sum(block.height * block.shape(width)[0] for block in self._blocks())

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
        from matplotlib import rc_context

        with rc_context(STYLE):
            axes = self._axes(ax)
            self.ax_: Any = axes[0]
            self.figure_ = self.ax_.figure.figure  # also of a part of one
            self.axes_ = np.array(axes, dtype=object)
            self._draw(kwargs)
            finish(axes)
        return self

    def _axes(self, ax: Any) -> list[Any]:
        """Axes: new ones for None, those in the place of a single one, or several as
        they are given.
        """
        blocks = self._blocks()
        n = sum(block.n for block in blocks)
        if ax is None:
            import matplotlib.pyplot as plt

            width = PAGE if any(block.n > 1 for block in blocks) else SINGLE
            size = (width, self.height(width))
            return build(blocks, plt.figure(figsize=size, layout="constrained"))
        given = list(np.atleast_1d(np.asarray(ax, dtype=object)).ravel())
        if len(given) == n:
            return given
        place = given[0].get_subplotspec() if len(given) == 1 else None
        if place is None:
            raise ValueError(
                f"There are {n} panels: ax must be None, one subplot, or {n} Axes."
            )
        given[0].set_axis_off()
        return build(blocks, given[0].figure.add_subfigure(place))

    def _blocks(self) -> list[Block]:
        """Panels, from above."""
        return [Block()]

    def _draw(self, kwargs: Look) -> None:
        raise NotImplementedError


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
        "given kernel or feature map, with metric='isotropic', or on too few rows. Fit "
        "it on 250 rows or more, with kernel='auto', features='auto' and metric='auto'."
    )
