"""What is left open is chosen from the data."""

from bochner.tuning.metric.learn import learn_metric
from bochner.tuning.report import Candidate, Report

__all__ = ["Candidate", "Report", "learn_metric"]
