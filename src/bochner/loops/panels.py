"""The Gram matrix of hashed bins, a panel for each pair of grids: how often two bins have a row in common.

A panel of B times B bins stays in a core's cache while all rows go through it. They go through two panels at a time,
so that the additions to one do not wait for those to the other where most rows share a bin.
"""

from bochner.loops.compile import compiled

TILE = 16  # of a panel that is written to both sides of the diagonal


@compiled
def count_pairs(ids, p, q, r, panels):
    """Count the rows in each bin of grid p and each of grid q, and in each of grid p and each of grid r.

    ids : unsigned integer array of shape (P, n), below B; panels : int32 array of shape (2, B, B), which is added to.
    """
    B, first, second, third = panels.shape[1], ids[p], ids[q], ids[r]
    one, other = panels[0].reshape(B * B), panels[1].reshape(B * B)
    for i in range(first.shape[0]):
        row = int(first[i]) * B
        one[row + int(second[i])] += 1
        other[row + int(third[i])] += 1


@compiled
def sum_pairs(ids, p, q, r, factor, values, panels):
    """Add products of values in double precision, row by row, where `count_pairs` counts.

    factor : array of shape (n,), of grid p; values : array of shape (P, n), of grids q and r.
    """
    B, first, second, third = panels.shape[1], ids[p], ids[q], ids[r]
    one, other = panels[0].reshape(B * B), panels[1].reshape(B * B)
    of_second, of_third = values[q], values[r]
    for i in range(first.shape[0]):
        row = int(first[i]) * B
        one[row + int(second[i])] += factor[i] * of_second[i]
        other[row + int(third[i])] += factor[i] * of_third[i]


@compiled
def add_panel(panel, scale, below, above):
    """Add a panel times a number to a block below the diagonal, and copy the block to its place above.

    panel, below, above : arrays of shape (B, B); the last two are the same one on the diagonal.
    """
    B = panel.shape[0]
    for a in range(0, B, TILE):
        for b in range(0, B, TILE):
            for i in range(a, min(a + TILE, B)):
                for j in range(b, min(b + TILE, B)):
                    total = below[i, j] + scale * panel[i, j]
                    below[i, j] = total
                    above[j, i] = total
