"""Scores of probabilities and of prediction intervals that scikit-learn does not have.

For the others see `sklearn.metrics`: `log_loss`, `brier_score_loss`,
`mean_pinball_loss`.
"""

from bochner.scores.measures import (
    Reliability,
    equal_count_bins,
    expected_calibration_error,
    interval_coverage,
    interval_losses,
    interval_score,
    interval_width,
    judged_event,
    reliability,
    wilson_interval,
)

__all__ = [
    "Reliability",
    "equal_count_bins",
    "expected_calibration_error",
    "interval_coverage",
    "interval_losses",
    "interval_score",
    "interval_width",
    "judged_event",
    "reliability",
    "wilson_interval",
]
