"""Works for engines: what a fit gives to one, and functions that look, fail or die
where they are done.
"""

import os
import signal
from functools import partial

import numpy as np

from bochner.data.array_source import ArraySource
from bochner.design.moments import Moments
from bochner.design.reductions import SumOverRows
from bochner.engines.local import _allowed
from bochner.features import FourierFeatures
from bochner.inputs.targets import Standardised
from bochner.settings import current


def rows():
    """The spans of a source, the work of their moments, and what it takes beside:
    what a fit gives to an engine.
    """
    X = np.random.default_rng(0).standard_normal((1100, 3))
    features = FourierFeatures(n_components=20, random_state=0).fit(X)
    source = ArraySource(X, X[:, :2], targets=Standardised(np.zeros(2), np.ones(2)))
    dtype = np.dtype(float)
    work = SumOverRows(partial(Moments, 20, 2, dtype), 256, 1 << 20, dtype)
    return (
        [source.span(k, k + 1) for k in range(source.n_parts)],
        work,
        (None, features),
    )


def found(part, shared):
    """What work finds where it is done."""
    return {
        "process": os.getpid(),
        "threads": _allowed(),
        "device": current().device,
        "limit": current().memory_limit,
    }


def refused(part, shared):
    """Work that fails."""
    raise KeyError(f"part {part}")


def die(part, shared):
    """Work that ends its process."""
    os.kill(os.getpid(), signal.SIGKILL)
