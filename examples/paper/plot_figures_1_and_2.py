"""
Figures 1 and 2: a line around a circle, and random grids
=========================================================

The first map of the paper draws a frequency w from the Fourier transform of the kernel, projects a row x onto it, and
winds the line w'x around the unit circle. The place on the circle, (cos w'x, sin w'x), is a pair of features. Rows
that lie near each other land near each other; whole wavelengths do not count.

The second map lays a grid of random pitch and random shift over the rows. Two rows collide where they are in the same
cell. If the pitch is drawn from p(d) = d k''(d), the probability of a collision is the kernel k(x, y), for the
Laplacian kernel with a pitch of the Gamma distribution. A row becomes the indicator of its cell: one non-zero entry
for each grid.

See also :doc:`/guide/fourier`, :doc:`/guide/bins`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import BinningFeatures, FourierFeatures
from bochner.display import GramDisplay, KernelDisplay
from bochner.kernels import Gaussian, Laplacian

X = np.random.default_rng(0).uniform(0, 10, size=(300, 2))
waves = FourierFeatures(
    Gaussian(2.0), n_components=200, sampling="iid", random_state=0
).fit(X)

# %%
# On the left 300 rows, the crests of one wave as dashed lines, and an arrow one wavelength long. On the right the same
# rows on the circle, with the same colours.
lengths = np.linalg.norm(waves.frequencies_, axis=0)
# One whose waves are short enough to wind around more than once
w = waves.frequencies_[:, np.argmin(np.abs(lengths - 1.2))]
angles = X @ w

fig, (plane, circle) = plt.subplots(1, 2, figsize=(7.2, 3.4), layout="constrained")
look = {"c": angles / (2 * np.pi), "s": 14, "linewidths": 0, "zorder": 2}
points = plane.scatter(*X.T, **look)
crest = w / (w @ w) * 2 * np.pi  # from one crest to the next
for n in range(-10, 11):
    plane.axline(n * crest, n * crest + [-w[1], w[0]], color="0.5", ls="--", lw=0.8)
arrow = {"arrowstyle": "-|>", "color": "#D55E00", "linewidth": 2}
plane.annotate("", (5, 5) + crest / 2, (5, 5) - crest / 2, arrowprops=arrow)
plane.set(
    xlim=(0, 10), ylim=(0, 10), aspect="equal", title="Rows, and crests of cos(w'x)"
)
circle.scatter(np.cos(angles), np.sin(angles), **look)
circle.set(
    xlabel="cos(w'x)", ylabel="sin(w'x)", aspect="equal", title="The two features"
)
fig.colorbar(points, ax=circle, label="w'x / 2π [wavelengths]")
plt.show()

# %%
# By Bochner's theorem the mean of cos(w'(x - y)) over all frequencies is the kernel k(x, y). One frequency is a crude
# estimate, and D / 2 of them are a good one: its error falls as one over the root of D. Here are all 100 frequencies
# together, z(x)'z(x + t e) against the kernel, over the distance t. The band has two standard deviations of 20 other
# draws of the features.
KernelDisplay.from_estimator(waves, X, max_distance=8.0).plot()
plt.show()

# %%
# Three grids over two columns, and below them the indicators of some of the rows, one black field for each row.
rng = np.random.default_rng(0)
X = np.concatenate(
    [rng.normal(centre, 1.0, size=(60, 2)) for centre in ((1, 1), (4, 5), (8, 3))]
)
bins = BinningFeatures(Laplacian(4.0), n_grids=400, random_state=0).fit(X)
pitches, shifts = bins.pitches_[:, 0], bins.shifts_[:, 0]
cells = np.floor((X - shifts[:, np.newaxis]) / pitches[:, np.newaxis])

fig, axes = plt.subplots(2, 3, figsize=(7.2, 4.4), layout="constrained")
for p, (grid, indicators) in enumerate(axes.T):
    _, bin_number = np.unique(cells[p], axis=0, return_inverse=True)
    bin_number = bin_number.ravel()
    grid.scatter(*X.T, c=bin_number % 10, cmap="tab10", s=10, linewidths=0)
    lines = [
        shift + pitch * np.arange(-20, 21)
        for shift, pitch in zip(shifts[p], pitches[p], strict=True)
    ]
    for at in lines[0]:
        grid.axvline(at, color="0.5", lw=0.8)
    for at in lines[1]:
        grid.axhline(at, color="0.5", lw=0.8)
    grid.set(xlim=(-2, 11), ylim=(-2, 8), title=f"Grid {p + 1}")
    indicators.imshow(
        np.eye(bin_number.max() + 1)[bin_number[::9]], cmap="Greys", aspect="auto"
    )
    indicators.set(xlabel="Bin", yticks=[])
axes[1, 0].set_ylabel("Some rows")
plt.show()

# %%
# Rows of Z hold 1 / sqrt(P) in each of P cells, so that Z Z' counts the grids in which two rows collide, divided by P.
meet = (cells[:, :, np.newaxis] == cells[:, np.newaxis]).all(axis=3).astype(float)
Z = bins.transform(X)
assert np.allclose(meet.mean(axis=0), (Z @ Z.T).toarray())

# %%
# Rows are sorted by their group. The matrix of one grid has ones and zeros only; that of 400 grids is close to the
# kernel.
counts = (1, 1, 10, 400)
averages = [meet[0], meet[1], meet[:10].mean(axis=0), meet.mean(axis=0)]
GramDisplay(Laplacian(4.0)(X), averages, counts, unit="grids").plot()
plt.show()
