"""Symmetric positive definite tridiagonal matrices.

T = L diag(pivots) L' with 1 on the diagonal of L and `ratios` below it.
"""

from bochner.loops.compile import compiled


@compiled
def factorise(diagonal, beside, shift, pivots, ratios):
    """Factorise T + shift I; returns whether it is positive definite."""
    last = diagonal.shape[0] - 1
    pivot = diagonal[0] + shift
    for j in range(last):
        if not pivot > 0:
            return False
        pivots[j], ratios[j] = pivot, beside[j] / pivot
        pivot = diagonal[j + 1] + shift - ratios[j] * beside[j]
    pivots[last] = pivot
    return pivot > 0


@compiled
def solve(pivots, ratios, X):
    """Overwrite the columns of X, of shape (D, m), by the solutions of (T + shift I) x = column."""
    D, m = X.shape
    for j in range(1, D):
        ratio, before, x = ratios[j - 1], X[j - 1], X[j]
        for i in range(m):
            x[i] -= ratio * before[i]
    for i in range(m):
        X[D - 1, i] /= pivots[D - 1]
    for j in range(D - 2, -1, -1):
        ratio, after, x, inverse = ratios[j], X[j + 1], X[j], 1 / pivots[j]
        for i in range(m):
            x[i] = x[i] * inverse - ratio * after[i]


@compiled
def forms(pivots, ratios, U, x, out):
    """Write u'(T + shift I)^-1 u of each column u of U, of shape (D, m), into `out`; x : array of shape (m,)."""
    D, m = U.shape
    for i in range(m):
        x[i] = U[0, i]
        out[i] = x[i] * x[i] / pivots[0]
    for j in range(1, D):
        ratio, inverse, u = ratios[j - 1], 1 / pivots[j], U[j]
        for i in range(m):
            x[i] = u[i] - ratio * x[i]
            out[i] += x[i] * x[i] * inverse
