"""Finds the distances between which a function of the distance falls from 1 to 0."""

import numpy as np
from numpy.typing import NDArray

OCTAVES = np.arange(-200, 201)  # of the distances searched; their fifth powers are finite
NEGLIGIBLE = 1e-7  # of the kernel at either end, as small as what the spacing of the nodes of a mixture does to it


def decay_range(values: NDArray, fault: str) -> tuple[int, int]:
    """Places in `OCTAVES` of the last distance where a function is still 1, and of the first from which on it is 0.

    Parameters
    ----------
    values : array of shape (len(OCTAVES),)
        Of the function, at the distances 2 ** OCTAVES.
    fault : str
        How the message begins where there are no such places.

    Raises
    ------
    ValueError
        If the function does not fall to 0, or jumps at 0.
    """
    nearest, farthest = 2.0 ** OCTAVES[[0, -1]]
    if abs(values[-1]) > NEGLIGIBLE:
        raise ValueError(f"{fault}: function must fall to 0, and is {values[-1]:.3g} at distance {farthest:.1g}.")
    if abs(1 - values[0]) > NEGLIGIBLE:
        raise ValueError(f"{fault}: function must be continuous at 0, and is {values[0]:.7g} at {nearest:.1g}.")
    first = np.argmax(np.abs(1 - values) > NEGLIGIBLE) - 1
    last = np.flatnonzero(np.abs(values) > NEGLIGIBLE)[-1] + 1
    return int(first), int(last)
