"""Cosines and sines of projections, and fast Walsh-Hadamard transforms: the inner loops
of Fourier features.

Angles are given in turns (radians over 2 pi), so that the reduction to half a turn is
exact: with h = rint(2 t), r = t - h / 2 lies in [-1/4, 1/4] and cos(2 pi t) = (-1)^h
cos(2 pi r), likewise for sin. On that interval sin(2 pi r) / r and cos(2 pi r) are
polynomials in r^2 (interpolated at Chebyshev nodes), with an error of 7e-9 and 2e-10 in
single and 3e-19 and 4e-18 in double precision.

Numbers of which the last bit is worth a half, 1.5 2^22 in single precision, make the
rounding an addition: the sum of such a number and t is the number plus h / 2, and its
last bit is that of h, which goes to the sign of the amplitude. So there are additions,
multiplications and shifts alone, which every processor has for whole vectors. It takes
angles below FAR turns, so that farther ones must lose their whole turns before.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bochner.loops.compile import compiled, use_wide_vectors

# Turns; the rounding holds up to twice their number in single precision, and beyond it
# in double
FAR = 2.0**20
_HALVES = {32: 1.5 * 2**22, 64: 1.5 * 2.0**51}
_COS = {
    32: (0.999999999779154, -19.739208547715783, 64.93934647621015, -85.45356476099522, 60.143889560342147,
         -24.981434467891656),
    64: (1.0, -19.739208802178707069, 64.939394022663951992, -85.456817205980613975, 60.244641313160410601,
         -26.426254066690256148, 7.9034624920850970551, -1.7132184107005932616, 0.27194584949998128413),
}  # fmt: skip
_SIN = {
    32: (6.2831852801544065, -41.341680613346515, 81.60247636892518, -76.58117264427872, 39.7598270853191),
    64: (6.2831853071795864756, -41.341702240399756862, 81.605249276073615183, -76.705859752824919209,
         42.05869392542868225, -15.094641676117900093, 3.8199280942271642021, -0.71773379214134533133,
         0.10089695501646811163),
}  # fmt: skip


def _cos_sin_of_turns(context: Any, t: Any, amplitude: Any) -> Any:
    """Return the products of an amplitude and cos(2 pi t) and sin(2 pi t), t below FAR,
    of one precision.

    The instructions are written as such: what LLVM gets is the same, and is made in a
    quarter of the time.
    """

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        t, amplitude = arguments
        bits = signature.return_type.dtype.bitwidth
        whole, halves = ir.IntType(bits), ir.Constant(t.type, _HALVES[bits])

        def polynomial(coefficients: tuple[float, ...], u: Any) -> Any:
            *lower, total = (
                ir.Constant(u.type, float(np.float32(c)) if bits == 32 else c)
                for c in coefficients
            )
            for constant in reversed(lower):
                total = builder.fadd(constant, builder.fmul(u, total))
            return total

        rounded = builder.fadd(t, halves)
        r = builder.fsub(t, builder.fsub(rounded, halves))
        sign = builder.shl(
            builder.bitcast(rounded, whole), ir.Constant(whole, bits - 1)
        )
        a = builder.bitcast(
            builder.xor(builder.bitcast(amplitude, whole), sign), t.type
        )
        u = builder.fmul(r, r)
        cosine = builder.fmul(a, polynomial(_COS[bits], u))
        sine = builder.fmul(a, builder.fmul(r, polynomial(_SIN[bits], u)))
        return context.make_tuple(builder, signature.return_type, (cosine, sine))

    return types.UniTuple(t, 2)(t, t), write


cos_sin_of_turns: Any = intrinsic(_cos_sin_of_turns)


@compiled
def cos_sin(T, amplitude, Z):
    """Write the cosines of angles in turns into the first m columns of Z, and their
    sines into the next m.

    T : array of shape (n, m), angles below FAR; amplitude : array of shape (m,); Z :
    array of shape (n, D), D >= 2 m.
    """
    use_wide_vectors()
    m = amplitude.shape[0]
    for i in range(T.shape[0]):
        t, cosines, sines = T[i], Z[i, :m], Z[i, m : 2 * m]
        for j in range(m):
            cosines[j], sines[j] = cos_sin_of_turns(t[j], amplitude[j])


@compiled
def cos_offset(T, offset, amplitude, Z, first):
    """Write amplitude * cos(angle + offset), both below FAR and in turns, into the
    columns of Z from `first` on.
    """
    use_wide_vectors()
    for i in range(T.shape[0]):
        t, cosines = T[i], Z[i, first:]
        for j in range(amplitude.shape[0]):
            cosines[j], _ = cos_sin_of_turns(t[j] + offset[j], amplitude[j])


LANES = 16  # rows that are transformed side by side, in vector registers


@compiled
def _transform(buffer):
    """Overwrite the columns of `buffer`, shape (n, LANES) with n a power of two, by H
    times them, entries of H ±1.

    Two levels of butterflies at a time, so that the buffer is read and written half as
    often.
    """
    n = buffer.shape[0]
    h = 1
    while 4 * h <= n:
        for block in range(0, n, 4 * h):
            for j in range(block, block + h):
                for i in range(LANES):
                    a, b = buffer[j, i], buffer[j + h, i]
                    c, d = buffer[j + 2 * h, i], buffer[j + 3 * h, i]
                    s, t, u, v = a + b, a - b, c + d, c - d
                    buffer[j, i], buffer[j + h, i] = s + u, t + v
                    buffer[j + 2 * h, i], buffer[j + 3 * h, i] = s - u, t - v
        h *= 4
    if h < n:
        for j in range(h):
            for i in range(LANES):
                a, b = buffer[j, i], buffer[j + h, i]
                buffer[j, i], buffer[j + h, i] = a + b, a - b


@compiled
def project(Y, signs, lengths, out):
    """Write lengths * (H D_r ... H D_1 y) for each row y and each block of signs into
    the first columns of `out`.

    Y : array of shape (b, n), n a power of two. signs : array of shape (B, rounds, n),
    entries ±1. lengths : array of shape (m,), m <= B n. out : array of shape (b, >= m).
    """
    rows, n, m = Y.shape[0], Y.shape[1], lengths.shape[0]
    columns = np.empty((n, LANES), Y.dtype)
    buffer = np.empty((n, LANES), Y.dtype)
    for first in range(0, rows, LANES):
        there = min(LANES, rows - first)
        columns[:] = 0
        for i in range(there):
            for j in range(n):
                columns[j, i] = Y[first + i, j]
        for block in range(signs.shape[0]):
            for j in range(n):
                sign = signs[block, 0, j]
                for i in range(LANES):
                    buffer[j, i] = sign * columns[j, i]
            _transform(buffer)
            for r in range(1, signs.shape[1]):
                for j in range(n):
                    sign = signs[block, r, j]
                    for i in range(LANES):
                        buffer[j, i] *= sign
                _transform(buffer)
            start = block * n
            stop = min(n, m - start)
            for i in range(there):
                target = out[first + i, start : start + stop]
                for j in range(stop):
                    target[j] = lengths[start + j] * buffer[j, i]
