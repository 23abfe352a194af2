"""L1 distances of the rows of small blocks, and the gradients of sums over them.

Blocks are transposed, (p, rows), so that a coordinate of all rows is contiguous.
"""

import numpy as np

from bochner.loops.compile import compiled_sums


@compiled_sums
def add_distances(A, B, D):
    """Add sum_m |a_m - b_m| for all pairs of rows to D, of shape (rows of A, rows of B)."""
    for i in range(A.shape[1]):
        row = D[i]
        for m in range(A.shape[0]):
            a, b = A[m, i], B[m]
            for j in range(row.shape[0]):
                row[j] += np.abs(a - b[j])


@compiled_sums
def distance_sums(A, B, W, sums):
    """Add sum_ij W_ij |a_im - b_jm| to sums_m."""
    for i in range(A.shape[1]):
        w = W[i]
        for m in range(A.shape[0]):
            a, b = A[m, i], B[m]
            total = np.float32(0) * a
            for j in range(w.shape[0]):
                total += w[j] * np.abs(a - b[j])
            sums[m] += total


@compiled_sums
def sign_sums(A, B, W, V, U):
    """Add sum_j W_ij sign(a_im - b_jm) to V_mi, and sum_i W_ij sign(a_im - b_jm) to U_mj."""
    for i in range(A.shape[1]):
        w = W[i]
        for m in range(A.shape[0]):
            a, b, u = A[m, i], B[m], U[m]
            zero = np.float32(0) * a  # of the arrays' own precision, in which the sums then stay
            total = zero
            for j in range(w.shape[0]):
                signed = w[j] if a > b[j] else (-w[j] if a < b[j] else zero)
                total += signed
                u[j] += signed
            V[m, i] += total


@compiled_sums
def nearness(rows, anchor, scales, out):
    """Write sum_m scales_m |x_m - anchor_m| of each row, of shape (n, p), into out."""
    for i in range(rows.shape[0]):
        x = rows[i]
        total = np.float32(0) * x[0]
        for m in range(x.shape[0]):
            total += scales[m] * np.abs(x[m] - anchor[m])
        out[i] = total
