"""Draws what random features make of a kernel: estimates over distance, matrices,
errors and spectra.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.preprocessing import scale
from sklearn.utils.validation import check_array

from bochner.arrays import Floats
from bochner.data.columns import column_names, column_number
from bochner.data.outliers import drawn
from bochner.data.table_input import checked_sparse
from bochner.display import canvas
from bochner.display.base import Array, Block, Display, Look, Values
from bochner.display.canvas import BLUE, GREY, PURPLE, VERMILION
from bochner.display.row_access import principal_axes
from bochner.features.binning import BinningFeatures
from bochner.features.fourier import FourierFeatures
from bochner.features.leaves import estimated_kernel, size_name
from bochner.theory.pair_kernels import dense


class View:
    """A map of random features, fitted or not: its rows, its draws and its kernel.

    Parameters
    ----------
    features : FourierFeatures or BinningFeatures
        ValueError for anything else.
    kinds : tuple of type, optional
        What it may be.

    Attributes
    ----------
    size_name : str
        Parameter that is the size of the map.
    unit : str
        What the size counts.
    """

    def __init__(
        self,
        features: Any,
        kinds: tuple[type, ...] = (FourierFeatures, BinningFeatures),
    ) -> None:
        if not isinstance(features, kinds):
            raise ValueError(
                f"This display draws {' or '.join(kind.__name__ for kind in kinds)}, "
                f"and got a {type(features).__name__}: of a model or of several maps "
                "give one single map."
            )
        self.features: Any = features
        self.size_name = str(size_name(features))
        self.unit = "grids" if self.size_name == "n_grids" else "features"

    def rows(self, X: Any) -> Floats:
        """Rows as a dense array; ValueError for other columns than those of the map."""
        X = check_array(checked_sparse(X), accept_sparse="csr", dtype=np.float64)
        n_columns = getattr(self.features, "n_features_in_", X.shape[1])
        if X.shape[1] != n_columns:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the map is one of {n_columns}."
            )
        return dense(X)

    def rows_or_zeros(self, X: Any) -> Floats:
        """Rows, or where none are given a row of zeros; ValueError where nothing tells
        how many columns there are.
        """
        if X is not None:
            return self.rows(X)
        if not hasattr(self.features, "n_features_in_"):
            raise ValueError(
                "How many columns there are is not known: fit the map, or give X."
            )
        return np.zeros((1, self.features.n_features_in_))

    def names(self, X: Any, n_columns: int) -> list[str]:
        """Names of the columns, of the rows or of the fit."""
        of_fit = getattr(self.features, "feature_names_in_", None)
        return column_names(getattr(X, "columns", of_fit), n_columns)

    def fitted_map(self, X: NDArray, random_state: int) -> Any:
        """The map itself where it is fitted and has no bins, which are learned on X;
        else a clone with its seed, or `random_state` where it has none, fitted on X.
        """
        if hasattr(self.features, "n_features_in_") and self.unit == "features":
            return self.features
        seed = self.features.random_state
        return self.new_draw(X, random_state if seed is None else seed)

    def new_draw(self, X: NDArray, seed: Any, **params: Any) -> Any:
        """A clone with another seed, fitted on X."""
        features = clone(self.features).set_params(random_state=seed, **params)
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message=".*alone in their bins", category=UserWarning
            )
            return features.fit(X)

    def exact(self, X: NDArray, Y: NDArray | None = None) -> Floats:
        """Kernel matrix that the features estimate."""
        return estimated_kernel(self.features)(X, X if Y is None else Y)


def estimated_gram(features: Any, X: NDArray, n: int | None = None) -> Floats:
    """z(x)'z(y) of all rows x and all y, or the first n; bins were learned on them."""
    Z = features.map_rows(X)
    return dense(Z @ Z[:n].T)


class KernelDisplay(Display):
    """The exact kernel over distance, a map's estimate z(x)'z(x + t e) of it, and the
    band of its deviations.

    By Bochner's theorem the estimate is unbiased (Rahimi and Recht, 2007, section 3);
    the band shows how far single draws stray: it is their mean ± 2 standard deviations.
    `from_estimator` computes, and `plot` draws.

    Keywords of `plot` are those of the line of the estimate, as `Axes.plot` takes them.

    Parameters
    ----------
    distances, kernel, estimate : arrays of shape (T,)
    centre, deviation : arrays of shape (T,)
        The band is centre ± 2 deviation.
    n_draws : int
        Independent draws that the band is of.
    size : str
        That of the map, in words.
    along : str
        Name of the direction.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    kernel_line_, estimate_line_ : Line2D
    band_ : PolyCollection

    See Also
    --------
    GramDisplay : The kernel and its estimates for all pairs of some rows.
    ErrorDisplay : How the error falls with the number of features.

    Examples
    --------
    >>> from bochner import FourierFeatures
    >>> from bochner.display import KernelDisplay
    >>> from bochner.kernels import Gaussian
    >>> features = FourierFeatures(Gaussian(2.0), 200, random_state=0)
    >>> display = KernelDisplay.from_estimator(
    ...     features, [[0.0, 0.0]], max_distance=6.0
    ... ).plot()
    >>> display.kernel_line_.get_ydata()[[0, -1]].round(3).tolist()
    [1.0, 0.011]
    >>> display.figure_.savefig("kernel.png")
    """

    distances: Array
    kernel: Array
    estimate: Array
    centre: Array
    deviation: Array
    n_draws: int = 20
    size: str = ""
    along: str = ""

    @classmethod
    def from_estimator(
        cls,
        features: Any,
        X: Any = None,
        *,
        max_distance: float,
        direction: int = 0,
        n_draws: int = 20,
        random_state: int = 0,
    ) -> Self:
        """Compute the kernel, the estimate and the band.

        Parameters
        ----------
        features : FourierFeatures or BinningFeatures
            Drawn where it is not fitted. Bins are learned on the points of the line, in
            the grids of the map; without a `random_state` of its own those are drawn
            again.
        X : rows of shape (n, d), optional
            The line starts at the first one; at 0 without. Needed where the map is not
            fitted.
        max_distance : float
            Where the line ends.
        direction : int, default=0
            Column along which the rows differ.
        n_draws : int, default=20
            Independent draws for the band, at least 2.
        random_state : int, default=0

        Returns
        -------
        KernelDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For a map whose number of columns is not known, a direction that is none,
            and fewer than 2 draws.
        """
        if not 0 < max_distance < np.inf:
            raise ValueError(
                f"max_distance must be positive and finite, got {max_distance}."
            )
        if n_draws < 2:
            raise ValueError(f"n_draws must be at least 2, got {n_draws}.")
        seen = View(features)
        start = seen.rows_or_zeros(X)
        names = seen.names(X, start.shape[1])
        direction = column_number(direction, names)
        e = np.eye(len(names))[direction]
        t = np.linspace(0, max_distance, 200)
        line = start[:1] + t[:, np.newaxis] * e
        # Bins are learned on the points of the line
        rows = line if seen.unit == "grids" else start
        one = seen.fitted_map(rows, random_state)
        estimate = estimated_gram(one, line, 1)[:, 0]
        seeds = np.random.default_rng(random_state).integers(2**31, size=n_draws)
        maps = (seen.new_draw(rows, seed) for seed in seeds.tolist())
        draws = [estimated_gram(one, line, 1)[:, 0] for one in maps]
        return cls(
            t,
            seen.exact(line[:1], line)[0],
            estimate,
            np.mean(draws, axis=0),
            np.std(draws, axis=0, ddof=1),
            n_draws,
            f"{getattr(seen.features, seen.size_name):,} {seen.unit}",
            names[direction],
        )

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        ends = self.centre - 2 * self.deviation, self.centre + 2 * self.deviation
        band = f"mean ± 2 sd of {self.n_draws} draws"
        self.band_ = canvas.draw_band(ax, self.distances, ends, GREY, label=band)
        (self.kernel_line_,) = ax.plot(
            self.distances, self.kernel, color=BLUE, linewidth=2, label="k, exact"
        )
        label = "z(x)'z(x + t e)" + (f", {self.size}" if self.size else "")
        look = {"color": VERMILION, "linewidth": 1.2, "label": label, **kwargs}
        (self.estimate_line_,) = ax.plot(self.distances, self.estimate, **look)
        along = f" along {canvas.shortened(self.along)}" if self.along else ""
        ax.set(xlabel=f"Distance t{along}", ylabel="Kernel", xmargin=0)
        canvas.add_legend(ax, [self.kernel_line_, self.estimate_line_, self.band_])


ORDERS = ("component", "given")


class GramDisplay(Display):
    """The exact kernel matrix of some rows, and the products of random features of
    several sizes in its place.

    With more features the noise decreases. Its size is printed above each picture.
    `from_estimator` computes, and `plot` draws.

    Keywords of `plot` are those of all pictures, as `Axes.imshow` takes them.

    Parameters
    ----------
    exact : array of shape (n, n)
    estimates : sequence of arrays of shape (n, n)
    sizes : sequence of int
        Of the maps, in the same order.
    unit : str
        What the sizes count.

    Attributes
    ----------
    max_errors, rms_errors : arrays of shape (len(sizes),)
        Largest size of the errors, and root of the mean of their squares.
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes
        The exact matrix, then the estimates.
    images_ : list of AxesImage
    colorbar_ : Colorbar

    See Also
    --------
    ErrorDisplay : The error against the number of features.
    KernelDisplay : The kernel against distance.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.display import GramDisplay
    >>> from bochner.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> display = GramDisplay.from_estimator(
    ...     FourierFeatures(Gaussian(2.0)), X, sizes=(100, 2000)
    ... ).plot()
    >>> bool(display.rms_errors[1] < display.rms_errors[0] / 3)
    True
    >>> display.figure_.savefig("gram.png")
    """

    exact: Array
    estimates: Array
    sizes: Sequence[int]
    unit: str = "features"

    def __post_init__(self) -> None:
        super().__post_init__()
        errors = np.abs(self.estimates - self.exact)
        self.max_errors = errors.max(axis=(1, 2))
        self.rms_errors = np.sqrt((errors**2).mean(axis=(1, 2)))

    @classmethod
    def from_estimator(
        cls,
        features: Any,
        X: Any,
        sizes: Sequence[int] = (100, 10_000),
        *,
        order: str = "component",
        max_rows: int = 500,
        random_state: int = 0,
    ) -> Self:
        """Compute the matrices.

        Parameters
        ----------
        features : FourierFeatures or BinningFeatures
            Clones of it are drawn.
        X : rows of shape (n, d)
        sizes : sequence of int, default=(100, 10_000)
            Features of the clones; of binning features their grids, the nonzero
            features of a row.
        order : {"component", "given"}, default="component"
            Rows are sorted by their first principal component, so that similar ones
            stand together, or left as given.
        max_rows : int, default=500
            Of more rows, this many are drawn at random.
        random_state : int, default=0

        Returns
        -------
        GramDisplay
            Nothing is drawn yet.
        """
        if order not in ORDERS:
            raise ValueError(f"order must be one of {ORDERS}, got {order!r}.")
        seen = View(features)
        rows = seen.rows(X)
        rows = rows[drawn(np.arange(len(rows)), max_rows, random_state)]
        if order == "component":
            standard = scale(rows)
            first = standard @ principal_axes(standard, 1)[0]
            rows = rows[np.argsort(first, kind="stable")]
        maps = (
            seen.new_draw(rows, random_state, **{seen.size_name: int(size)})
            for size in sizes
        )
        estimates = [estimated_gram(one, rows) for one in maps]
        return cls(seen.exact(rows), estimates, sizes, seen.unit)

    def _blocks(self) -> list[Block]:
        return [Block(2.4, 1 + len(self.estimates), 1.75)]

    def _draw(self, kwargs: Look) -> None:
        titles = ["Exact kernel"]
        errors = zip(self.sizes, self.max_errors, self.rms_errors, strict=True)
        for size, most, rms in errors:
            unit = self.unit.removesuffix("s") if size == 1 else self.unit
            titles.append(f"{size:,} {unit}\nerror: max {most:.2g}\nRMS {rms:.2g}")
        matrices = [self.exact, *self.estimates]
        look: Look = {"cmap": "viridis", "interpolation": "nearest"}
        look["vmin"] = min(0.0, np.min(matrices))
        look["vmax"] = np.max(matrices)
        self.images_ = []
        for ax, matrix, title in zip(self.axes_, matrices, titles, strict=True):
            self.images_.append(ax.imshow(matrix, **look | kwargs))
            ax.set(title=title, xticks=[], yticks=[])
        n = len(self.exact)
        self.ax_.set_ylabel(f"{n:,} row{'s' * (n > 1)}")
        self.colorbar_ = canvas.add_colour_bar(self.images_[0], self.axes_, "k(x, y)")


SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class ErrorDisplay(Display):
    """Error |z(x)'z(y) - k(x, y)| of the pairs of some rows against the number D of
    features, with 1 / sqrt(D).

    The mean and the largest over the pairs, averaged over independent draws, with the
    range over the draws; dashed, the lines c / sqrt(D) that fit them, and the bound
    where one is given (Claim 1 of Rahimi and Recht, 2007, and its successors hold for
    the largest error). `from_estimator` computes, and `plot` draws.

    Keywords of `plot` are those of the lines of the mean and the largest errors, as
    `Axes.plot` takes them.

    Parameters
    ----------
    sizes : sequence of int, length S
    mean_errors, max_errors : arrays of shape (S, R)
        Over the pairs, for each size and each of R draws.
    bound : array of shape (S,), optional
    unit : str
        What the sizes count.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    mean_line_, max_line_ : Line2D
    bands_ : list of PolyCollection
        Ranges over the draws, of the mean and the largest error.
    fits_ : list of Line2D
        c / sqrt(D), of the mean and the largest error.
    bound_line_ : Line2D or None

    See Also
    --------
    GramDisplay : Two of the matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.display import ErrorDisplay
    >>> from bochner.kernels import Gaussian
    >>> from bochner.theory import guaranteed_error
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> features = FourierFeatures(Gaussian(2.0), sampling="iid")
    >>> bound = lambda D: guaranteed_error(Gaussian(2.0), X, n_components=D)
    >>> display = ErrorDisplay.from_estimator(
    ...     features, X, sizes=(16, 64, 256), n_draws=5, bound=bound
    ... )
    >>> display.plot().mean_line_.get_xdata().tolist()
    [16, 64, 256]
    >>> display.figure_.savefig("error.png")
    """

    sizes: Values
    mean_errors: Values
    max_errors: Values
    bound: Array = None
    unit: str = "features D"

    @classmethod
    def from_estimator(
        cls,
        features: Any,
        X: Any,
        sizes: Sequence[int] = SIZES,
        *,
        n_draws: int = 10,
        bound: Callable[[int], float] | None = None,
        max_rows: int = 200,
        random_state: int = 0,
    ) -> Self:
        """Measure the errors.

        Parameters
        ----------
        features : FourierFeatures or BinningFeatures
            Clones of it are drawn.
        X : rows of shape (n, d)
        sizes : sequence of int, default=(16, 32, ..., 4096)
            Features of the clones; of binning features their grids.
        n_draws : int, default=10
        bound : callable D -> float, optional
            Of the error, to be drawn too; `bochner.theory.guaranteed_error` gives those
            of the claims.
        max_rows : int, default=200
            Of more rows, this many are drawn at random.
        random_state : int, default=0

        Returns
        -------
        ErrorDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For fewer than two different rows, and no sizes or draws.
        """
        if n_draws < 1 or not len(sizes):
            raise ValueError(
                f"There must be sizes and draws, got sizes={sizes!r} and "
                f"n_draws={n_draws}."
            )
        seen = View(features)
        rows = np.unique(seen.rows(X), axis=0)
        rows = rows[drawn(np.arange(len(rows)), max_rows, random_state)]
        if len(rows) < 2:
            raise ValueError(
                "X has one distinct row only, and errors are those of pairs: give "
                "two or more."
            )
        pairs = np.triu_indices(len(rows), 1)
        exact = seen.exact(rows)[pairs]
        rng = np.random.default_rng(random_state)
        errors = np.empty((2, len(sizes), n_draws))
        for i, size in enumerate(sizes):
            for r, seed in enumerate(rng.integers(2**31, size=n_draws).tolist()):
                one = seen.new_draw(rows, seed, **{seen.size_name: int(size)})
                wrong = np.abs(estimated_gram(one, rows)[pairs] - exact)
                errors[:, i, r] = wrong.mean(), wrong.max()
        unit = "grids P" if seen.unit == "grids" else "features D"
        bounds = None if bound is None else [bound(size) for size in sizes]
        return cls(sizes, errors[0], errors[1], bounds, unit)

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        ax.set(xscale="log", yscale="log")
        self.bands_ = []
        self.fits_ = []
        lines = []
        root = np.sqrt(self.sizes)
        for errors, colour, marker, label in (
            (self.mean_errors, BLUE, "o", "mean of the pairs"),
            (self.max_errors, VERMILION, "s", "largest of the pairs"),
        ):
            mean = errors.mean(axis=1)
            ends = (errors.min(axis=1), errors.max(axis=1))
            # The line c / sqrt(D) that fits the logarithms
            c = np.exp(np.mean(np.log(np.maximum(mean, np.finfo(float).tiny) * root)))
            self.fits_ += ax.plot(self.sizes, c / root, "--", color=GREY)
            self.bands_.append(canvas.draw_band(ax, self.sizes, ends, colour))
            look = {"color": colour, "marker": marker, "label": label, **kwargs}
            lines += ax.plot(self.sizes, mean, **look)
        self.mean_line_, self.max_line_ = lines
        self.fits_[0].set_label(f"c / √{self.unit[-1]}")
        keys = [self.max_line_, self.mean_line_, self.fits_[0]]
        self.bound_line_ = None
        if self.bound is not None:
            (self.bound_line_,) = ax.plot(
                self.sizes, self.bound, ":", color=PURPLE, linewidth=2, label="bound"
            )
            keys.insert(0, self.bound_line_)
        across = f"Number of {self.unit}"
        title = canvas.of_draws(self.mean_errors)
        ax.set(xlabel=across, ylabel="Error of z(x)'z(y)", title=title)
        canvas.add_legend(ax, keys)


CELLS = 400  # of the axis of a density, which is smoothed by one of them
# Median sizes of the frequencies from 0 to an end of the axis at most; their largest
# size to an end of it
REACH, SPARE = 18.0, 1.2
SAMPLING, TAPER = 4.0, 6.0  # steps of the transform in those of the axis; its end


class SpectrumDisplay(Display):
    """The spectral density of a kernel in one coordinate, and the frequencies drawn.

    By Bochner's theorem the density is the Fourier transform of the kernel over the
    distance in this coordinate. It is smoothed by 1/400 of the axis, so that
    frequencies with a positive probability, as of periodic kernels, are narrow peaks.
    For distributions with heavy tails the axis shows the middle, and the title the
    share beyond it. `from_estimator` computes, and `plot` draws.

    Keywords of `plot` are those of the histogram of the drawn frequencies, as
    `Axes.bar` takes them.

    Parameters
    ----------
    grid, density : arrays of shape (G,)
    drawn : array of shape (m,)
    weights : array of shape (m,), optional
        Of the drawn ones.
    label : str
        Of the axis.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    density_line_ : Line2D
    histogram_ : BarContainer

    See Also
    --------
    KernelDisplay : The kernel, and what the frequencies make of it.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.display import SpectrumDisplay
    >>> from bochner.kernels import Gaussian
    >>> features = FourierFeatures(Gaussian(2.0), 500, random_state=0).fit(
    ...     np.zeros((1, 3))
    ... )
    >>> display = SpectrumDisplay.from_estimator(features).plot()
    >>> len(display.drawn)
    250
    >>> display.figure_.savefig("spectrum.png")
    """

    grid: Array
    density: Array
    drawn: Array
    weights: Array = None
    label: str = "Frequency"

    @classmethod
    def from_estimator(
        cls, features: Any, X: Any = None, *, coordinate: int = 0, random_state: int = 0
    ) -> Self:
        """Transform the kernel, and collect the frequencies of the map.

        Parameters
        ----------
        features : FourierFeatures
            Drawn where it is not fitted.
        X : rows of shape (n, d), optional
            Needed where the map is not fitted.
        coordinate : int, default=0
            Number of the column.
        random_state : int, default=0

        Returns
        -------
        SpectrumDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            Where the map has no frequencies, or its columns are not known, and for a
            coordinate that is none.
        """
        seen = View(features, (FourierFeatures,))
        fitted_map = seen.fitted_map(seen.rows_or_zeros(X), random_state)
        d = fitted_map.n_features_in_
        names = seen.names(X, d)
        coordinate = column_number(coordinate, names)
        name = canvas.shortened(names[coordinate])
        frequencies = fitted_map.frequencies_[coordinate]
        # Waves come in pairs of cosine and sine, but for those with an offset
        paired = len(frequencies) - len(fitted_map.offsets_)
        weights = fitted_map.amplitudes_**2
        weights[paired:] /= 2
        # The axis
        largest = SPARE * np.abs(frequencies).max()
        usual = REACH * np.median(np.abs(frequencies)) or largest
        end = min(largest, usual) or 1.0
        grid, cell = np.linspace(-end, end, CELLS, retstep=True)
        # The density is the transform of the kernel, which a taper smooths by a cell
        step = np.pi / (SAMPLING * end)
        t = np.arange(0.0, TAPER / cell, step)
        line = t[:, np.newaxis] * np.eye(d)[coordinate]
        kernel = seen.exact(line[:1], line)[0]
        kernel *= np.exp(-0.5 * (cell * t) ** 2) / kernel[0]
        kernel[0] /= 2  # it is even, and the others stand for both sides
        density = step / np.pi * np.cos(np.outer(grid, t)) @ kernel
        label = f"Frequency in {name}  [rad per unit]"
        return cls(grid, density, frequencies, weights / weights.sum(), label)

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        ends = low, high = self.grid[0], self.grid[-1]
        n = len(self.drawn)
        weights = np.full(n, 1 / n) if self.weights is None else self.weights
        bars = int(np.clip(2 * np.sqrt(n), 5, 60))
        edges = np.linspace(low, high, bars + 1)
        look: Look = {"color": BLUE, "alpha": 0.35, "edgecolor": "white"}
        look |= {"label": f"{n:,} drawn", **kwargs}
        heights = weights / (edges[1] - edges[0])
        _, _, self.histogram_ = ax.hist(self.drawn, edges, weights=heights, **look)
        look = {"color": VERMILION, "linewidth": 1.8, "label": "density"}
        (self.density_line_,) = ax.plot(self.grid, self.density, **look)
        outside = weights[(self.drawn < low) | (self.drawn > high)].sum()
        title = f"{100 * outside:.2g} % of those drawn are beyond" if outside else ""
        ax.set(
            xlabel=self.label, ylabel="Density", title=title, xlim=ends, ylim=(0, None)
        )
        canvas.add_legend(ax)
