"""Former name of `bochner.selection`, by which its public names can still be imported."""

from bochner.selection import Candidate, Report, learn_metric

__all__ = ["Candidate", "Report", "learn_metric"]
