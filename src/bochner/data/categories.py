"""The heaviest of more categories than can be counted."""

import numpy as np


def heaviest(counts: dict[str, float], most: int) -> tuple[dict[str, float], float]:
    """The categories that are heavier than the one of rank `most + 1`, less its weight, and that weight.

    What is taken off is taken off at least `most + 1` times, so that all that is lost of one count, in any number of
    such steps and sums, is at most the total weight over ``most + 1`` (Misra & Gries, 1982; that sums of such counts
    keep the bound: Agarwal et al., "Mergeable summaries", 2012, theorem 1).
    """
    weights = np.fromiter(counts.values(), np.float64, len(counts))
    lost = float(np.partition(weights, len(weights) - most - 1)[len(weights) - most - 1])
    return {category: weight - lost for category, weight in counts.items() if weight > lost}, lost
