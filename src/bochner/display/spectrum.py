"""Draws the law of a kernel's frequencies, and those of a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from bochner.display.base import Array, Axes, Display
from bochner.display.canvas import BLUE, NAME_WIDTH, ORANGE, VERMILION, add_legend, shortened
from bochner.display.maps import view
from bochner.features.fourier import FourierFeatures
from bochner.features.sampling import draw_frequencies
from bochner.kernels import Kernel
from bochner.kernels.measures import Drawn

NUMBERS, CHUNK = 2e7, 1 << 14  # coordinates drawn for a density, and frequencies at a time, a power of two
MOST_SOBOL = 2000  # dimensions, up to which they fill the space more evenly than by chance
CELLS, SMOOTHING, SPARE = 800, 3.0, 20  # cells of the axis; of the filter's deviation; beyond either end
TAIL, REACH = 0.001, 8.0  # share left out at either end; else so many interquartile ranges from the median
ATOM = 2e-4  # share of equal frequencies from which they are no matter of chance
MOST_BARS, MOST_RUGS = 60, 2000


@dataclass(eq=False, repr=False)
class SpectrumDisplay(Display):
    """The spectral density of a kernel in one coordinate, or of the frequencies' length, and the frequencies drawn.

    By Bochner's theorem the kernel is the characteristic function of this law. The density is the smoothed histogram of
    a large sample of it. Of laws with heavy tails the axis shows the middle; how much is beyond stands below. Laws of
    numbers that come again, as of periodic kernels, have bars of their own, of probability over the width of a cell of
    the histogram. `from_estimator` computes, and `plot` draws.

    Keywords of `plot` are those of the histogram of the drawn frequencies, as `Axes.bar` takes them.

    Parameters
    ----------
    grid, density : arrays of shape (G,)
    drawn : array of shape (m,)
    weights : array of shape (m,), optional
        Of the drawn ones.
    atoms, atom_shares : arrays of shape (A,), optional
        Frequencies of positive probability, and that.
    label : str
        Of the axis.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    density_line_ : Line2D
    atom_lines_ : LineCollection or None
    histogram_ : BarContainer
    rug_ : Line2D

    See Also
    --------
    CircleDisplay : What a frequency does to rows.
    KernelDisplay : The kernel, and what the frequencies make of it.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.display import SpectrumDisplay
    >>> from bochner.kernels import Gaussian
    >>> features = FourierFeatures(Gaussian(2.0), 500, random_state=0).fit(np.zeros((1, 3)))
    >>> display = SpectrumDisplay.from_estimator(features).plot()
    >>> len(display.rug_.get_xdata())
    250
    >>> display.figure_.savefig("spectrum.png")
    """

    grid: Array
    density: Array
    drawn: Array
    weights: Array = None
    atoms: Array = ()
    atom_shares: Array = ()
    label: str = "Frequency"

    def __post_init__(self) -> None:
        self._to_arrays("grid", "density", "drawn", "weights", "atoms", "atom_shares")
        if self.weights is None:
            self.weights = np.full(len(self.drawn), 1 / len(self.drawn))

    @classmethod
    def from_estimator(
        cls, features: Any, X: Any = None, *, coordinate: int | str = 0, size: int = 300_000, random_state: int = 0
    ) -> Self:
        """Draw a sample of the law, and collect the frequencies of the map.

        Parameters
        ----------
        features : FourierFeatures, or a fitted KernelMachineRegressor or KernelMachineClassifier
            Drawn where it is not fitted. Of maps side by side the first that has frequencies is taken.
        X : rows of shape (n, d), optional
            Needed where the map is not fitted.
        coordinate : int or "length", default=0
            Column, or "length" for that of the whole frequencies, of kernels of the Euclidean distance.
        size : int, default=300_000
            Of the sample; fewer where there are more than 60 columns.
        random_state : int, default=0

        Returns
        -------
        SpectrumDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            Where the map has no frequencies, or its columns are not known, and for a coordinate that is none.
        """
        seen = view(features, FourierFeatures)
        if X is None and not seen.fitted:
            raise ValueError("How many columns there are is not known: fit the map, or give X.")
        own = seen.fitted_map(seen.rows(X) if X is not None else np.empty((0, 0)), random_state)
        d = own.n_features_in_
        if coordinate != "length" and not (isinstance(coordinate, int | np.integer) and 0 <= coordinate < d):
            raise ValueError(f"coordinate must be a column from 0 to {d - 1} or 'length', got {coordinate!r}.")
        law = _sample(own.kernel, d, coordinate, size, np.random.default_rng(random_state))
        drawn = _part(own.frequencies_, coordinate)
        weights = own.amplitudes_**2 / np.where(np.arange(len(drawn)) < len(drawn) - len(own.offsets_), 1, 2)
        atoms, shares = _atoms(law)
        grid, density = _density(law[~np.isin(law, atoms)], len(law), _span(law, drawn, coordinate == "length"))
        name = "" if coordinate == "length" else shortened(seen.names(X, d)[int(coordinate)], NAME_WIDTH)
        label = f"Frequency in {name}  [rad per unit]" if name else "Length of the frequency  [rad per unit]"
        return cls(grid, density, drawn, weights / weights.sum(), atoms, shares, label)

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        (ax,) = axes
        cell = self.grid[1] - self.grid[0]
        low, high = self.grid[0] - cell / 2, self.grid[-1] + cell / 2
        bars = int(np.clip(2 * np.sqrt(len(self.drawn)), 5, MOST_BARS))
        edges = np.linspace(low, high, bars + 1)
        width = edges[1] - edges[0]
        heights = np.histogram(self.drawn, edges, weights=self.weights)[0] / width
        look: dict[str, Any] = {"align": "edge", "color": BLUE, "alpha": 0.35, "edgecolor": "white", "linewidth": 0.5}
        self.histogram_ = ax.bar(
            edges[:-1], heights, width, **(look | {"label": f"{len(self.drawn):,} drawn"} | kwargs)
        )
        place, rugs = ax.get_xaxis_transform(), self.drawn[:MOST_RUGS]
        tick: dict[str, Any] = {"color": BLUE, "markersize": 6, "alpha": 0.5, "markeredgewidth": 0.6}
        (self.rug_,) = ax.plot(rugs, np.full(len(rugs), 0.015), "|", transform=place, **tick)
        (self.density_line_,) = ax.plot(self.grid, self.density, color=VERMILION, linewidth=1.8, label="density")
        self.atom_lines_ = None
        if len(self.atoms):
            shares, label = self.atom_shares / width, "probability / width of a bar"
            self.atom_lines_ = ax.vlines(self.atoms, 0, shares, color=ORANGE, linewidth=2, label=label)
        self._label(ax, low, high)

    def _label(self, ax: Axes, low: float, high: float) -> None:
        ax.set_xlim(low, high)
        ax.set_ylim(bottom=0)
        outside = float(self.weights[(self.drawn < low) | (self.drawn > high)].sum())
        beyond = f"; {100 * outside:.2g}% of those drawn are beyond" if outside else ""
        ax.set_xlabel(self.label + beyond)
        ax.set_ylabel("Density")
        add_legend(ax)


def _part(frequencies: NDArray, coordinate: int | str) -> NDArray:
    return np.linalg.norm(frequencies, axis=0) if coordinate == "length" else frequencies[int(coordinate)]


def _sample(kernel: Kernel, d: int, coordinate: int | str, size: int, rng: np.random.Generator) -> NDArray:
    """Frequencies of the kernel's law, as even as they can be drawn."""
    size, terms = int(min(size, max(NUMBERS / d, 1000))), kernel.terms()
    measures = [leaf.spectral_measure() for _, factors in terms for leaf in factors]
    by_chance = d * len(measures) > MOST_SOBOL or any(isinstance(measure, Drawn) for measure in measures)
    sampling = "iid" if by_chance else "qmc"
    counts = [max(min(CHUNK, size - a), len(terms)) for a in range(0, size, CHUNK)]
    draws = (draw_frequencies(kernel, count, d, sampling, rng) for count in counts)
    return np.concatenate([_part(draw.frequencies, coordinate) for draw in draws])


def _atoms(law: NDArray) -> tuple[NDArray, NDArray]:
    """Values that come again and again, and their shares."""
    values, counts = np.unique(law, return_counts=True)
    often = counts > ATOM * len(law)
    return values[often], counts[often] / len(law)


def _span(law: NDArray, drawn: NDArray, positive: bool) -> tuple[float, float]:
    """Ends of the axis, near the middle of the law where its tails are heavy."""
    low, a, middle, b, high = np.quantile(law, [TAIL, 0.25, 0.5, 0.75, 1 - TAIL])
    reach = REACH * ((b - a) or (high - low) or abs(middle) or 1.0)
    return 0.0 if positive else float(max(low, middle - reach)), float(min(high, middle + reach)) + (high == low)


def _density(law: NDArray, whole: int, span: tuple[float, float]) -> tuple[NDArray, NDArray]:
    """Density at the middles of cells, as a share of `whole`: the filtered histogram, mirrored at an end at 0."""
    low, high = span
    width = (high - low) / CELLS
    before = 0 if low == 0 else SPARE
    edges = low + width * np.arange(-before, CELLS + SPARE + 1)
    counts = np.histogram(law, edges)[0] / (whole * width)
    smooth = gaussian_filter1d(counts, SMOOTHING, mode="reflect")[before : before + CELLS]
    return low + width * (np.arange(CELLS) + 0.5), smooth
