"""Tells which claim holds for a fitted map, and the error that it guarantees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from bochner.features.binning import BinningFeatures
from bochner.features.fourier import FourierFeatures
from bochner.features.leaves import LeafMap
from bochner.theory.claims import LogBound, binning_claim, fourier_claim, least_error
from bochner.theory.region import Region


def guarantee(leaf: LeafMap, X: Callable[[], Any], confidence: float, new_bins: bool) -> tuple[float | None, str]:
    """Error that no pair exceeds with a probability of `confidence`, and which claim says so, or why none does.

    Parameters
    ----------
    leaf : LeafMap
    X : callable () -> rows of the whole map
        Called where there is a claim.
    confidence : float
    new_bins : bool
        Whether some of the rows are in bins that no training row occupied.
    """
    reason = _no_claim(leaf.features, new_bins)
    if reason:
        return None, reason
    try:
        claim, size, name = _claim(leaf.features, _region(leaf.rows(X())))
    except ValueError as error:
        return None, str(error)
    return leaf.weight * leaf.features.kernel.variance * least_error(claim, size, 1 - confidence), name


def _no_claim(features: Any, new_bins: bool) -> str:
    """Why there is no claim about a map; empty where there may be one."""
    if isinstance(features, FourierFeatures):
        if features.sampling == "leverage":
            return "Claim 1 is about frequencies of the kernel's own law, not drawn by leverage"
        mixed = 0 < len(features.offsets_) < features.frequencies_.shape[1]
        return "Claim 1 is about an even number of components" if mixed else ""
    if isinstance(features, BinningFeatures):
        if features.n_buckets is not None:
            return "Claim 2 is about separate bins, not about hashed bins that share buckets"
        occupied = "Claim 2 is about rows in bins that training rows occupy, and some rows are in new ones"
        return occupied if new_bins else ""
    return f"no claim about {type(features).__name__}"


def _claim(features: FourierFeatures | BinningFeatures, region: Region) -> tuple[LogBound, int, str]:
    """Claim, size and name; ValueError where the claim says nothing of the kernel."""
    if isinstance(features, BinningFeatures):
        return binning_claim(features.kernel, region, "brackets"), len(features.values_), "Claim 2, by brackets"
    paired = not len(features.offsets_)
    name = "Claim 1" if paired else "Claim 1 with offsets"
    name += "" if features.sampling == "iid" else ", which is about independent frequencies"
    return fourier_claim(features.kernel, region, paired), features.n_features_out, name


def _region(X: Any) -> Region:
    if sp.issparse(X):
        raise ValueError("the rows are sparse; their extent needs a dense array")
    X = np.asarray(X)
    return Region(X.shape[1], X if X.dtype == np.float32 else X.astype(np.float64))
