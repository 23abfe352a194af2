"""How much memory the command took at its peak."""

from __future__ import annotations

import sys


def peak_bytes() -> int | None:
    """Largest resident memory of this process so far; None where the system does not tell."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        return None
    peak = getrusage(RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
