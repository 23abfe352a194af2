"""Warps of columns, and the kernel of a block of rows: what metrics are learned with.

Blocks have a column of their rows in each row of an array, and the n_fit rows to fit
first. These meet each other in the upper triangle alone, as kernels are symmetric: row
i < n_fit has entries for the rows to fit from i on. In Fortran's order this is a lower
triangle, which LAPACK factorises in two thirds of the time of an upper one. Loops from
i on count in unsigned numbers: signed ones may be negative, and are not vectorised.
"""

from math import factorial
from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from bochner.loops.compile import compiled, compiled_sums

TILE_ROWS = 256  # of which a column and its knots stay in the cache
_F = np.float32
_STEEP = _F(2.0**60)  # a slope, by which the difference of two numbers becomes its sign
# Of the series of 2^r: up to a half its error is 1e-7, and 4e-18
_TERMS = {32: 7, 64: 14}


def _exp_of_minus(context: Any, d: Any) -> Any:
    """Return exp(-d), or 1 where d is negative; 2^-64 at least, nothing beside 1 and
    far from denormal numbers.

    With t = -d log2(e) and k the whole number next to it, 2^(t - k) is a series, and k
    goes to its exponent. As in `trig`, a large number rounds, and instructions are
    written as such.
    """

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = signature.return_type.bitwidth
        whole, mantissa, kind = (
            ir.IntType(bits),
            23 if bits == 32 else 52,
            arguments[0].type,
        )

        def number(x: float) -> Any:
            return ir.Constant(kind, float(np.float32(x)) if bits == 32 else float(x))

        t = builder.fmul(arguments[0], number(-np.log2(np.e)))
        for order, bound in (("<", number(0)), (">", number(-64))):
            t = builder.select(builder.fcmp_ordered(order, t, bound), t, bound)
        wholes = number(1.5 * 2.0**mantissa)
        rounded = builder.fadd(t, wholes)
        r = builder.fsub(t, builder.fsub(rounded, wholes))
        *lower, total = (
            number(np.log(2) ** k / factorial(k)) for k in range(_TERMS[bits])
        )
        for constant in reversed(lower):
            total = builder.fadd(constant, builder.fmul(r, total))
        exponent = builder.shl(
            builder.bitcast(rounded, whole), ir.Constant(whole, mantissa)
        )
        return builder.bitcast(
            builder.add(builder.bitcast(total, whole), exponent), kind
        )

    return d(d), write


exp_of_minus: Any = intrinsic(_exp_of_minus)


_ZERO, _ONE = np.uint64(0), np.uint64(1)


@compiled
def warp(V, knots, levels, slopes, low, last):
    """Overwrite row w of V by its piecewise linear function through (knots_w,
    levels_w); slope_w beyond it.

    V : float64 array of shape (w, n), a row for each column; knots, levels : arrays of
    shape (w, k); slopes (w,).
    low : uint64 array of shape (TILE_ROWS,), overwritten; last : k - 1, of that type
    too. To make the array here and to convert numbers would take a third of the
    compilation.

    All entries of a tile go through the halvings of the knots together, in vector
    registers: branches that depend on the values would cost eight times as much. `low`
    becomes the last knot below each.
    """
    for w in range(V.shape[0]):
        knot, level, slope = knots[w], levels[w], slopes[w]
        for a in range(0, V.shape[1], TILE_ROWS):
            x, size = V[w, a : a + TILE_ROWS], last + _ONE
            for r in range(x.shape[0]):
                low[r] = 0
            while size > _ONE:
                half = size >> _ONE
                for r in range(x.shape[0]):
                    low[r] += half if x[r] >= knot[low[r] + half] else _ZERO
                size -= half
            for r in range(x.shape[0]):
                v, i = x[r], low[r]
                j = i + _ONE if i < last else last
                inside = level[i] + (v - knot[i]) / (knot[j] - knot[i]) * (
                    level[j] - level[i]
                )
                above = level[last] + slope * (v - knot[last])
                below = level[0] + slope * (v - knot[0])
                x[r] = below if v < knot[0] else (above if v >= knot[last] else inside)


@compiled
def kernel_rows(X, K, F, noise):
    """Overwrite distances K, of shape (rows, n_fit), by exp(-K - sum_m |x_mi - x_mj|),
    and F by kernel + 1 + noise I.

    X : array of shape (p, rows), p even; F : array of shape (n_fit, n_fit). Below the
    diagonal both stay what they are.
    """
    n_fit = np.uint64(K.shape[1])
    for i in range(K.shape[0]):
        row, start = K[i], np.uint64(i) if i < K.shape[1] else _ZERO
        for m in range(0, X.shape[0], 2):
            b, c = X[m], X[m + 1]
            x, y = b[i], c[i]
            for j in range(start, n_fit):
                row[j] += np.abs(x - b[j]) + np.abs(y - c[j])
        for j in range(start, n_fit):
            row[j] = exp_of_minus(row[j])
        if i < K.shape[1]:
            f = F[i]
            for j in range(start, n_fit):
                f[j] = row[j] + _F(1)
            f[i] += noise


@compiled_sums
def weigh_rows(K, P, A, X, sums, factor):
    """Overwrite K_ij by W_ij = sum_k (P_ki A_kj + A_ki P_kj) K_ij, j > i for rows to
    fit, and add sum_ij W_ij |x_mi - x_mj| to sums_m.

    K : array of shape (rows, n_fit), zero for the other j afterwards; P, A : (outputs,
    rows); X : (p, rows), p even.
    factor : array of shape (n_fit,), overwritten.
    """
    n_fit = np.uint64(K.shape[1])
    for i in range(K.shape[0]):
        w, start = K[i], np.uint64(i + 1) if i < K.shape[1] else _ZERO
        for j in range(start, n_fit):
            factor[j] = 0
        for k in range(P.shape[0]):
            p, a = P[k], A[k]
            p_i, a_i = p[i], a[i]
            for j in range(start, n_fit):
                factor[j] += p_i * a[j] + a_i * p[j]
        for j in range(start, n_fit):
            w[j] *= factor[j]
        for j in range(start):
            w[j] = 0
        for m in range(0, X.shape[0], 2):
            b, c = X[m], X[m + 1]
            x, y = b[i], c[i]
            first = second = (
                _F(0) * x
            )  # of the arrays' own precision, in which the sums then stay
            for j in range(start, n_fit):
                first += w[j] * np.abs(x - b[j])
                second += w[j] * np.abs(y - c[j])
            sums[m] += first
            sums[m + 1] += second


@compiled_sums
def sign_sums(Z, W, S):
    """Add sum_ij W_ij sign(z_mi - z_mj) to S_mi, and subtract it from S_mj, j > i for
    rows to fit.

    Z, S : arrays of shape (q, rows); W : array of shape (rows, n_fit), as of
    `weigh_rows`.
    """
    n_fit = np.uint64(W.shape[1])
    for i in range(W.shape[0]):
        w, start = W[i], np.uint64(i + 1) if i < W.shape[1] else _ZERO
        for m in range(Z.shape[0]):
            z, s = Z[m], S[m]
            steep, zero = z[i] * _STEEP, _F(0) * z[i]
            one, total = zero + _F(1), zero
            for j in range(start, n_fit):
                sign = steep - z[j] * _STEEP
                sign = sign if sign < one else one
                sign = sign if sign > -one else -one
                total += w[j] * sign
                s[j] -= w[j] * sign
            s[i] += total


@compiled_sums
def nearness(rows, anchor, scales, out):
    """Write sum_m scales_m |x_m - anchor_m| of each row, of shape (n, p), into out."""
    for i in range(rows.shape[0]):
        x = rows[i]
        total = np.float32(0) * x[0]
        for m in range(x.shape[0]):
            total += scales[m] * np.abs(x[m] - anchor[m])
        out[i] = total
