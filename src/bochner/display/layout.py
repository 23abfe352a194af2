"""Lays out the panels of a metric: bars, warps, map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bochner.display.canvas import NARROW, PAGE, SINGLE, inches_across

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.gridspec import SubplotSpec

ACROSS = (2, 4)  # warps in a row of a narrow place, and of a wide one
BAR_HEIGHT, WARP_HEIGHT, CELL, SIDES, CHARACTER = 0.22, 1.5, 0.3, (1.8, 3.0), 0.06  # inches
SPARE = 1.3


class Layout(NamedTuple):
    """Panels of a metric: bars, the map beside them where there is room, and the warps below.

    Attributes
    ----------
    n_bars, n_warps : int
    map_shape : (int, int)
        Zeros where there is none.
    name_length : int
        Characters of the names below the map.
    """

    n_bars: int
    n_warps: int
    map_shape: tuple[int, int]
    name_length: int = 0

    @property
    def n_panels(self) -> int:
        """Number of Axes."""
        return bool(self.n_bars) + self.n_warps + bool(self.map_shape[0])

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a figure of its own, in inches."""
        width = SINGLE[0] if self.n_panels == 1 else PAGE[0]
        return width, sum(max(height for _, height in row) for row in self.rows(True))

    def rows(self, wide: bool) -> list[list[tuple[str, float]]]:
        """Names and heights in inches of what there is, row by row."""
        above = [("bars", 0.9 + BAR_HEIGHT * self.n_bars)] * bool(self.n_bars)
        side = min(max(CELL * self.map_shape[0], SIDES[0]), SIDES[1])
        above += [("map", 1.1 + side + CHARACTER * self.name_length)] * bool(self.map_shape[0])
        below = [("warps", 0.4 + WARP_HEIGHT * -(-self.n_warps // ACROSS[wide]))] * bool(self.n_warps)
        return [row for row in ([above] if wide else [[one] for one in above]) + [below] if row]

    def build(self, figure: Any, place: SubplotSpec, spaced: bool) -> list[Axes]:
        """Make the Axes, in the order bars, warps, map."""
        room: dict[str, Any] = {"wspace": 0.5, "hspace": 0.9} if spaced else {}
        wide = inches_across(figure, place) >= NARROW
        rows, places = self.rows(wide), {}
        heights = [max(height for _, height in row) for row in rows]
        stack = place.subgridspec(len(rows), 1, height_ratios=heights, **room)
        for i, row in enumerate(rows):
            beside = stack[i].subgridspec(1, len(row), **room)
            for j, (name, height) in enumerate(row):
                places[name] = _top(beside[j], height, heights[i])
        axes = []
        for name in [name for name in ("bars", "warps", "map") if name in places]:
            n = self.n_warps if name == "warps" else 1
            across = ACROSS[wide] if name == "warps" else 1
            grid = places[name].subgridspec(-(-n // across), across, **room)
            axes += [figure.add_subplot(grid[i]) for i in range(n)]
        return axes


def _top(place: SubplotSpec, height: float, whole: float) -> SubplotSpec:
    """The upper part of a place that is taller than it need be, so that few bars do not become thick."""
    return place.subgridspec(2, 1, height_ratios=[height, whole - height])[0] if whole > SPARE * height else place
