"""What is left open is chosen from the data."""

from bochner.selection.metric_learning import learn_metric
from bochner.selection.report import Candidate, Report, RowsCurve

__all__ = ["Candidate", "Report", "RowsCurve", "learn_metric"]
