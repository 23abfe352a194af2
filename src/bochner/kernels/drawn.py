"""A kernel that is known by draws of its frequencies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.kernels.measures import Drawn, SpectralMeasure
from bochner.kernels.stationary import Stationary

DRAWS, CHUNK = 1 << 15, 1 << 12  # frequencies of an estimate, and of them at a time
Sampler = Callable[[int, int, np.random.Generator], NDArray]


class FromSpectrum(Stationary):
    """A kernel from samples of its spectral measure, k(x, y) = E cos(w'(x - y) / l), with your own sampler of w.

    By Bochner's theorem frequencies of any law define a kernel: mixtures, empirical spectra, laws known only by
    simulation. `FourierFeatures` of it use independent draws (sampling "auto" or "iid"). Unless `exact` is given,
    kernel matrices are estimated from 32,768 draws, always the same ones: this is slow, and the standard deviation of
    the errors is below 0.006 (give `exact` for `solver="exact"`). Kernels compare their functions by identity. To
    pickle the kernel, its functions must be picklable, hence not lambdas.

    Parameters
    ----------
    sampler : callable (size, d, rng) -> array of shape (size, d)
        Independent frequencies in radians per lengthscale, drawn with the given NumPy `Generator`. Their law need not
        be symmetric: w and -w give the same wave.
    exact : callable (X, Y) -> array of shape (n, m), optional
        The kernel matrix of rows over the lengthscale, 1 where they are equal, such as a function of
        `sklearn.metrics.pairwise`.
    lengthscale : float or array of shape (d,), default=1.0

    Raises
    ------
    TypeError, ValueError
        If `sampler` or `exact` is not callable; when called, if they return something else.

    Examples
    --------
    Frequencies on a sphere, whose kernel of three features is sin(r) / r:

    >>> import numpy as np
    >>> from bochner.kernels import FromSpectrum
    >>> def on_a_sphere(size, d, rng):
    ...     w = rng.standard_normal((size, d))
    ...     return w / np.linalg.norm(w, axis=1, keepdims=True)
    >>> value = FromSpectrum(on_a_sphere)([[0.0, 0.0, 0.0]], [[2.0, 0.0, 0.0]])[0, 0]
    >>> bool(abs(value - np.sin(2) / 2) < 0.01)
    True
    """

    formula = "E cos(w'delta), w by a sampler"
    spectrum = "that of the sampler"
    pitches = "none: its pitches are not known"

    def __init__(
        self,
        sampler: Sampler,
        exact: Callable[[NDArray, NDArray], NDArray] | None = None,
        lengthscale: float | ArrayLike = 1.0,
    ) -> None:
        self.sampler = sampler
        self.exact = exact
        super().__init__(lengthscale)

    def _validate(self) -> None:
        super()._validate()
        if not callable(self.sampler):
            raise TypeError(f"sampler must be a function of (size, d, rng), got {self.sampler!r}.")
        if self.exact is not None and not callable(self.exact):
            raise TypeError(f"exact must be a function of (X, Y), or None, got {self.exact!r}.")

    def _draw(self, size: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return _checked(self.sampler(size, d, rng), (size, d), "sampler")

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        if self.exact is not None:
            return _checked(self.exact(U, V), (len(U), len(V)), "exact")
        gram, rng = np.zeros((len(U), len(V))), np.random.default_rng(0)
        frequencies = self._draw(DRAWS, U.shape[1], rng).T
        for a in range(0, DRAWS, CHUNK):
            u, v = (W @ frequencies[:, a : a + CHUNK] for W in (U, V))
            gram += np.cos(u) @ np.cos(v).T + np.sin(u) @ np.sin(v).T
        return gram / DRAWS

    def spectral_measure(self) -> SpectralMeasure:
        """That of the sampler."""
        return Drawn(self._draw)

    def _not_hats(self) -> str:
        return "its frequencies alone are known"

    def __repr__(self) -> str:
        text = super().__repr__()
        for function in (self.sampler, self.exact):
            if function is not None:
                text = text.replace(repr(function), getattr(function, "__name__", None) or repr(function), 1)
        return text


def _checked(values: Any, shape: tuple[int, int], name: str) -> NDArray[np.float64]:
    values = np.asarray(values)
    if values.shape != shape or values.dtype.kind not in "fiu":
        raise TypeError(f"{name} must return numbers of shape {shape}, and made {values.dtype} of {values.shape}.")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must return finite numbers, and made NaN or infinity.")
    return values.astype(np.float64, copy=False)
