"""What work costs, in seconds, by which sizes are chosen.

These are the costs of two cores with AVX-512, on all threads and in single precision.
They are the same on every machine, so that maps, sizes and precisions are too.
"""

from __future__ import annotations

# A multiplication and addition of Z'Z, of which n rows of D features take n D^2
GRAM = 5e-12
PRODUCT = 1e-11  # a multiplication and addition of a product of two matrices
DOUBLE = 2.0  # times as much that products take in double precision
# An operation of the reduction to a tridiagonal matrix: 4/3 D^3 of them, bound by
# memory
REDUCTION = 4e-11
FEATURE = 5e-10  # a Fourier feature of a row of 16 columns, rounded to 8 bits
BINNED_COLUMNS = 16  # columns whose bins take as long as other work on a bin


def path_seconds(
    n_rows: int, n_columns: int, n_features: float, n_outputs: int
) -> float:
    """Seconds of a direct solution in double precision: features, sums, the path of
    solutions and its errors.
    """
    D = n_features
    seen = min(n_rows, 1 << 12)
    features = n_rows * D * (FEATURE + max(n_columns - 16, 0) / 2 * PRODUCT)
    sums = n_rows * D * (D * GRAM + n_outputs * PRODUCT)
    path = 4 / 3 * D**3 * REDUCTION + D * (D + seen) * (n_outputs + 2 * D) * PRODUCT
    return DOUBLE * (features + sums + path)


def gram_work(seconds: float) -> float:
    """The n D^2 of a Gram matrix that takes `seconds` seconds."""
    return seconds / GRAM
