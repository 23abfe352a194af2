"""
Figure 2: random grids, and the matrices that average to the kernel
===================================================================

The second map of the paper lays a grid of random pitch and random shift over the rows. Two rows collide where they are
in the same cell. If the pitch is drawn from p(d) = d k''(d), the probability of a collision is the kernel k(x, y), for
the Laplacian kernel with a pitch of the Gamma distribution. A row becomes the indicator of its cell: one non-zero entry
for each grid.

The left half of the figure shows three grids over two columns, and below them the indicators of some of the rows. The
right half shows the matrices of single grids, ones where two rows collide, and how their average approaches the
kernel.

See also :doc:`/guide/bins`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import BinningFeatures
from bochner.display import GramDisplay, GridDisplay
from bochner.kernels import Laplacian

rng = np.random.default_rng(0)
X = np.concatenate(
    [rng.normal(centre, 1.0, size=(60, 2)) for centre in ((1, 1), (4, 5), (8, 3))]
)
features = BinningFeatures(Laplacian(4.0), n_grids=400, random_state=0).fit(X)

GridDisplay.from_estimator(features, X).plot()
plt.show()

# %%
# Rows of Z hold 1 / sqrt(P) in each of P cells, so that Z Z' counts the grids in which two rows collide, divided by P.
# The bins of a single grid follow from its pitches and shifts.
pitches, shifts = features.pitches_[:, 0], features.shifts_[:, 0]
cells = np.floor((X - shifts[:, np.newaxis]) / pitches[:, np.newaxis])
meet = (cells[:, :, np.newaxis] == cells[:, np.newaxis]).all(axis=3).astype(float)
Z = features.transform(X)
assert np.allclose(meet.mean(axis=0), (Z @ Z.T).toarray())

# %%
# Rows are sorted by their group. The matrix of one grid has ones and zeros only; that of 400 grids is close to the
# kernel.
counts = (1, 1, 10, 400)
averages = [meet[0], meet[1], meet[:10].mean(axis=0), meet.mean(axis=0)]
GramDisplay(Laplacian(4.0)(X), averages, counts, unit="grids").plot()
plt.show()
