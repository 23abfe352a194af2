"""What fitted models tell of their columns and of single rows."""

from bochner.explanations.attribution import Explanation

__all__ = ["Explanation"]
