"""Lays out the panels of a metric: bars, warps, map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.gridspec import SubplotSpec

BESIDE, BELOW = (1, 4), (4, 6)  # least and most warps in a row, beside the bars or below them
BARS_WIDTH, BAR_HEIGHT, WARP_SIZE, CELL, SIDES, CHARACTER = 4.6, 0.24, (1.9, 1.65), 0.3, (1.8, 3.3), 0.07  # inches
SPARE = 1.3


class Layout(NamedTuple):
    """Panels side by side; where there are all three kinds, the warps below the others.

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
        return len(self.blocks) + max(self.n_warps - 1, 0)

    @property
    def below(self) -> bool:
        """Whether the warps have a row of their own."""
        return bool(self.n_bars and self.n_warps and self.map_shape[0])

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of warps."""
        least, most = BELOW if self.below else BESIDE
        rows = -(-self.n_warps // most)
        return rows, max(least, -(-self.n_warps // max(rows, 1)))

    @property
    def blocks(self) -> dict[str, tuple[float, float]]:
        """Width and height in inches of what there is."""
        rows, columns = self.grid
        sizes = {
            "bars": (BARS_WIDTH, 0.9 + BAR_HEIGHT * self.n_bars),
            "warps": (0.4 + WARP_SIZE[0] * columns, 0.3 + WARP_SIZE[1] * rows),
            "map": (2.1 + _side(self.map_shape[1]), 1.1 + _side(self.map_shape[0]) + CHARACTER * self.name_length),
        }
        there = {"bars": self.n_bars, "warps": self.n_warps, "map": self.map_shape[0]}
        return {name: size for name, size in sizes.items() if there[name]}

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a figure of its own, in inches."""
        blocks = self.blocks
        under = blocks.pop("warps") if self.below else (0.0, 0.0)
        width = sum(width for width, _ in blocks.values())
        return max(width, under[0]), max(height for _, height in blocks.values()) + under[1]

    def build(self, figure: Any, place: SubplotSpec, spaced: bool) -> list[Axes]:
        """Make the Axes, in the order bars, warps, map."""
        room: dict[str, Any] = {"wspace": 0.5, "hspace": 0.9} if spaced else {}
        blocks, places = self.blocks, {}
        if self.below:
            under = blocks.pop("warps")[1]
            above = max(height for _, height in blocks.values())
            halves = place.subgridspec(2, 1, height_ratios=[above, under], **room)
            place, places["warps"] = halves[0], halves[1]
        widths, highest = [width for width, _ in blocks.values()], max(height for _, height in blocks.values())
        row = place.subgridspec(1, len(blocks), width_ratios=widths, **room)
        for i, (name, (_, height)) in enumerate(blocks.items()):
            places[name] = _top(row[i], height, highest)
        axes = []
        for name in self.blocks:
            n, shape = (self.n_warps, self.grid) if name == "warps" else (1, (1, 1))
            grid = places[name].subgridspec(*shape, **room)
            axes += [figure.add_subplot(grid[i]) for i in range(n)]
        return axes


def _side(n: int) -> float:
    return min(max(CELL * n, SIDES[0]), SIDES[1])


def _top(place: SubplotSpec, height: float, whole: float) -> SubplotSpec:
    """The upper part of a place that is taller than it need be, so that few bars do not become thick."""
    return place.subgridspec(2, 1, height_ratios=[height, whole - height])[0] if whole > SPARE * height else place
