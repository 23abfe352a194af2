"""From scores of least-squares classifiers to probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from bochner.tuning.held_out import HeldOutPredictions

LARGEST_SCORE = 2.0


def fit_link(scores: NDArray, targets: NDArray, weight: NDArray) -> NDArray[np.float64]:
    """Fit p = softmax(a f + b f^3), f one score per class, to held-out scores by maximum likelihood.

    Squared loss on targets of -1 and 1 makes f an estimate of 2 p - 1, whose logit is 2 artanh f =
    2 f + 2 f^3 / 3 + ...; a > 0 and b >= 0 keep the order of the classes, so that the most probable is the one that is
    predicted. One row's worth of doubt is shared by all classes, as in Platt's method.

    Parameters
    ----------
    scores : array of shape (n, K)
        Leave-one-out scores; K >= 2.
    targets : array of shape (n, K)
        From -1 to 1 at the row's class; between where equal rows are of several classes.
    weight : array of shape (n,)

    Returns
    -------
    array of shape (2,)
        a and b.
    """
    rows = max(weight.sum(), np.count_nonzero(weight))
    share = (weight / weight.sum())[:, np.newaxis]
    target = np.full(scores.shape, 1 / (rows + 2) / scores.shape[1])
    target += (1 - 1 / (rows + 2)) * (targets + 1) / (targets + 1).sum(axis=1, keepdims=True)
    f = np.clip(scores, -LARGEST_SCORE, LARGEST_SCORE)
    basis = np.stack([f, f**3])

    def loss(link: NDArray) -> tuple[float, NDArray]:
        log_p = log_softmax(np.tensordot(link, basis, 1), axis=1)
        gradient = np.tensordot(basis, (np.exp(log_p) - target) * share, 2)
        return float(-(target * log_p * share).sum()), gradient

    return minimize(loss, [2.0, 2 / 3], jac=True, method="L-BFGS-B", bounds=[(1e-2, 50.0), (0.0, 50.0)]).x


def probabilities(scores: NDArray, link: NDArray) -> NDArray[np.float64]:
    """Class probabilities, shape (n, K), of scores of shape (n, K)."""
    f = np.clip(scores, -LARGEST_SCORE, LARGEST_SCORE)
    return softmax(link[0] * f + link[1] * f**3, axis=1)


def link_of(predictions: HeldOutPredictions | None, n_classes: int) -> NDArray[np.float64]:
    """The link of scores and probabilities that suits predictions for rows left out; a common one without such."""
    if n_classes < 2 or predictions is None:
        return np.array([2.0, 2 / 3])
    predicted, targets, weights, _ = predictions
    return fit_link(per_class(predicted), np.hstack([-targets, targets]) if n_classes == 2 else targets, weights)


def per_class(scores: NDArray) -> NDArray:
    """One score per class; of two classes, of which only the second is fitted, half the score each way."""
    return np.hstack([-scores, scores]) / 2 if scores.shape[1] == 1 else scores
