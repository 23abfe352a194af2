"""The Gram matrix of hashed bins, a panel for each pair of grids: how often two bins have a row in common.

A panel of B times B bins stays in a core's cache while all rows go through it. They go through two panels at a time,
so that the additions to one do not wait for those to the other where most rows share a bin.
"""

from bochner.loops.compile import compiled

TILE = 16  # of a panel that is written to both sides of the diagonal


@compiled
def count_pairs(first, second, third, panels):
    """Count the rows in each bin of the first grid and each of the second, and in each of the first and of the third.

    first, second, third : unsigned integer arrays of shape (n,), below B; panels : int32 array of shape (2, B, B),
    which is added to.
    """
    B = panels.shape[1]
    one, other = panels[0].reshape(B * B), panels[1].reshape(B * B)
    for i in range(first.shape[0]):
        row = int(first[i]) * B
        one[row + int(second[i])] += 1
        other[row + int(third[i])] += 1


@compiled
def sum_pairs(first, second, third, of_second, of_third, panels):
    """Add values of shape (n,) for the second and the third grid, row by row, where `count_pairs` counts."""
    B = panels.shape[1]
    one, other = panels[0].reshape(B * B), panels[1].reshape(B * B)
    for i in range(first.shape[0]):
        row = int(first[i]) * B
        one[row + int(second[i])] += of_second[i]
        other[row + int(third[i])] += of_third[i]


@compiled
def sum_rows(first, T, sums):
    """Add T, of shape (K, n), to sums, of shape (K, B), in the bin of each row."""
    for k in range(T.shape[0]):
        t, total = T[k], sums[k]
        for i in range(first.shape[0]):
            total[int(first[i])] += t[i]


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
