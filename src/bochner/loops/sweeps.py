"""Block coordinate descent over the grids of random binning features, inner loops.

Every row is in at most one bin of a grid, so that the columns of a grid are orthogonal:
given the other grids, all coefficients of a grid have their best values at once, by one
pass that sums over the rows of each bin, and one that adds the changes to the rows.
"""

from bochner.loops.compile import compiled


@compiled
def descend(
    ids, values, columns, penalties, rate, gradient, curvature, coef, change, sums
):
    """Move the coefficients of some grids, one grid after the other, towards the
    minimum of the second-order model of a loss.

    ids : int32 array of shape (G, n), -1 for no bin; values, penalties : arrays of
    shape (G,), the entries and the ridge penalties of each grid; columns : int64 array
    of shape (G, 2), the first column of each grid and the one after its last.
    rate : share of the way to the best values that is gone.
    gradient, curvature : arrays of shape (n,), weighted derivatives of the loss by the
    fitted value of each row, where `change` was zero.
    coef : array of shape (D,); change : array of shape (n,), of the fitted values;
    both are added to.
    sums : array of shape (2, 2, B), for at most B bins of a grid; overwritten.
    """
    last = ids.shape[0] - 1
    sums[1, 0] = 0
    for p in range(last + 1):
        grid_coefficients = coef[columns[p, 0] : columns[p, 1]]
        # The steps of the grid before stay in one half while the other one is filled.
        slopes, bends, steps = sums[p % 2, 0], sums[p % 2, 1], sums[1 - p % 2, 0]
        for k in range(grid_coefficients.shape[0]):
            slopes[k] = bends[k] = 0
        before, bins = ids[max(p - 1, 0)], ids[p]
        for i in range(bins.shape[0]):
            j, k = before[i], bins[i]
            if j >= 0:
                change[i] += steps[j]
            if k >= 0:
                slopes[k] += gradient[i] + curvature[i] * change[i]
                bends[k] += curvature[i]
        value, penalty = values[p], penalties[p]
        for k in range(grid_coefficients.shape[0]):
            slope = value * slopes[k] + penalty * grid_coefficients[k]
            step = -rate * slope / (value * value * bends[k] + penalty)
            grid_coefficients[k] += step
            slopes[k] = value * step
    bins, steps = ids[last], sums[last % 2, 0]
    for i in range(bins.shape[0]):
        if bins[i] >= 0:
            change[i] += steps[bins[i]]
