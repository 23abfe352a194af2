"""Structured frequencies: products of Hadamard and diagonal matrices, computed
without a matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from bochner.arrays import Floats
from bochner.data.table_input import as_dense

# Columns, padded, up to which the rotation that all blocks share is a Haar orthogonal
# matrix
HAAR = 256
# Nanoseconds with AVX-512 in single precision, so that both are even where they were
# measured; only the ratio matters.
PRODUCT = 0.011  # for each entry of X W and each column of X
BUTTERFLY = 0.1  # for each entry and each level of the transform


@dataclass(frozen=True)
class SignedHadamard:
    """Frequencies w = lengths * (rows of H D_b' H D_b R) in blocks b = 1, ..., B of n,
    a power of two.

    H is the Walsh-Hadamard matrix over sqrt(n), D_b and D_b' are diagonals of random
    signs, of which blocks of n <= 64 have one more, and R, the same in all blocks, is a
    random rotation of the d columns into n dimensions: of the Haar distribution for n
    <= 256, two more factors H D beyond. The rows of a block are orthogonal. With Haar's
    R every row is uniform on the sphere; with the other one (Choromanski et al., 2017,
    take three factors) its moments of fourth order are those of the sphere up to O(1 /
    n^2). A block of n frequencies takes 2 n log2(n) additions for a row in the place of
    n d multiplications.

    Attributes
    ----------
    rotation : array of shape (d, n), or (2, n) of signs
    scale : array of shape (d,)
        Factors on the columns where R is of signs; else R has them.
    signs : array of shape (B, rounds, n)
    lengths : array of shape (m,)
        Of m <= B n frequencies, before the columns are scaled.
    """

    rotation: Floats
    scale: Floats
    signs: Floats
    lengths: Floats

    fewest: ClassVar[int] = (
        # Columns: with fewer there are too few patterns of signs, and nothing to gain
        9
    )

    @classmethod
    def draw(
        cls, n_features: int, size: int, rng: np.random.Generator
    ) -> SignedHadamard:
        """Draw standard normal vectors: lengths of the distribution of n normal
        coordinates.
        """
        n = padded(n_features)
        if n <= HAAR:
            rotation = orthonormal(rng.standard_normal((n, n_features))).T
        else:
            rotation = rng.choice([-1.0, 1.0], (2, n))
        signs = rng.choice([-1.0, 1.0], (-(-size // n), n_rounds(n), n))
        return cls(
            rotation, np.ones(n_features), signs, np.sqrt(rng.chisquare(n, size))
        )

    def scaled(
        self, factors: NDArray | float, scale: NDArray | float
    ) -> SignedHadamard:
        """The frequencies times a number each, and their coordinates times a number
        each.
        """
        if self.signs.shape[2] <= HAAR:
            return replace(
                self,
                lengths=self.lengths * factors,
                rotation=self.rotation * np.reshape(scale, (-1, 1)),
            )
        return replace(self, lengths=self.lengths * factors, scale=self.scale * scale)

    def first(self, size: int) -> SignedHadamard:
        """The first frequencies."""
        n = self.signs.shape[2]
        return replace(
            self, signs=self.signs[: -(-size // n)], lengths=self.lengths[:size]
        )

    def fits(self, n_features: int, size: int) -> bool:
        """Whether the arrays fit one another, `n_features` columns and `size`
        frequencies.
        """
        n = padded(n_features)
        shapes = [
            (n_features, n) if n <= HAAR else (2, n),
            (n_features,),
            (-(-size // n), n_rounds(n), n),
            (size,),
        ]
        return of_shapes([self.rotation, self.scale, self.signs, self.lengths], shapes)

    def astype(self, dtype: DTypeLike) -> SignedHadamard:
        """The arrays in another precision."""
        arrays = (self.rotation, self.scale, self.signs, self.lengths)
        return SignedHadamard(*(array.astype(dtype) for array in arrays))

    def frequencies(self) -> Floats:
        """The frequencies, shape (d, m)."""
        out = np.empty((len(self.scale), len(self.lengths)))
        self.project(np.eye(len(self.scale)), out)
        return out

    def project(self, X: NDArray | sp.csr_array, out: NDArray) -> None:
        """Write the products of the rows and the frequencies into the first m columns
        of `out`, (b, >= m).

        Rows and arrays are of one precision.
        """
        from bochner.loops.trig import project

        n = self.signs.shape[2]
        if n <= HAAR:
            Y = X @ self.rotation
        else:
            rows = np.zeros((X.shape[0], n), out.dtype)
            rows[:, : X.shape[1]] = as_dense(X) * self.scale
            Y = np.empty_like(rows)
            project(rows, self.rotation[np.newaxis], np.full(n, 1 / n, out.dtype), Y)
        project(
            Y,
            self.signs,
            self.lengths / out.dtype.type(n ** (self.signs.shape[1] / 2)),
            out,
        )


def of_shapes(
    arrays: Sequence[Any],
    shapes: Sequence[tuple[int, ...]],
    dtype: DTypeLike = np.float64,
) -> bool:
    """Whether the arrays are NumPy arrays of the shapes and the type given."""
    return all(
        isinstance(array, np.ndarray) and array.shape == shape and array.dtype == dtype
        for array, shape in zip(arrays, shapes, strict=True)
    )


def padded(n_features: int) -> int:
    """The least power of two that is not below the number of columns."""
    return 1 << (n_features - 1).bit_length()


def n_rounds(n: int) -> int:
    """Diagonals of a block: more where few signs would leave the blocks alike."""
    return 3 if n <= 64 else 2


def cheaper(n_features: int, size: int, times: float = 1.0) -> bool:
    """Whether structured frequencies are at least `times` times as fast as a matrix
    product.
    """
    if n_features < SignedHadamard.fewest:
        return False
    n = padded(n_features)
    transforms = -(-size // n) * n_rounds(n) + (0 if n <= HAAR else 2)
    rotation = PRODUCT * n * n_features if n <= HAAR else 0.0
    structured = BUTTERFLY * transforms * n * max(np.log2(n), 1.0) + rotation
    return bool(PRODUCT * n_features * size >= times * structured)


def orthonormal(normal: NDArray) -> NDArray:
    """Haar-distributed orthonormal columns from normal ones: QR with positive diagonal
    of R (Mezzadri, 2007).

    Of an array of shape (groups, d, d) the columns of each group.
    """
    Q, R = np.linalg.qr(normal)
    signs = np.where(np.diagonal(R, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return Q * signs[..., np.newaxis, :]
