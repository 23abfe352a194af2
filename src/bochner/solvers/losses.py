"""What errors cost: convex losses of fitted values, with the derivatives that Newton's
method takes.

Targets Y and fitted values F have shape (K, n), one row for each output. Those of
classes may be means over equal rows: their losses are linear in the target, given the
fitted value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, softmax, xlogy

SMALLEST_SHARE = 1e-6  # of a class without rows
# Of a row, as `log_loss` of scikit-learn counts it
LARGEST_LOG_LOSS = float(-np.log(np.finfo(np.float64).eps))
# Of the errors, within which the first of several pinball losses is rounded off, and
# how many times narrower each next one is
WIDEST, NARROWING = 0.1, 25.0


def softplus(F: NDArray) -> NDArray:
    """log(1 + exp(F)), by functions of which NumPy computes many values at once, as it
    does not of `logaddexp`, which takes three to ten times as long.
    """
    return np.maximum(F, 0) + _excess(F)


def _excess(F: NDArray) -> NDArray:
    """By how much log(1 + exp(F)) exceeds the greater of F and 0."""
    return np.log1p(np.exp(-np.abs(F)))


def logistic(F: NDArray) -> NDArray:
    """1 / (1 + exp(-F)), in a fifth to a third of the time of `scipy.special.expit`."""
    with np.errstate(over="ignore"):  # whose inverse is zero
        return 1 / (1 + np.exp(-F))


class Loss(ABC):
    """A convex loss."""

    # Whether the fitted values of a row depend on one another's curvature
    coupled: ClassVar[bool] = False
    # Of a row that is held out: a row far from all others, to whose class scores of
    # hundreds leave no chance, says no more of a model than that it is wrong there
    most: ClassVar[float] = np.inf
    # What losses of outputs are divided by, (K, 1), and so their ridge penalties too
    scale: float | NDArray = 1.0

    @abstractmethod
    def value(self, Y: NDArray, F: NDArray) -> NDArray:
        """The loss of each row, summed over the outputs, shape (n,)."""

    def value_held_out(self, Y: NDArray, F: NDArray) -> NDArray:
        """The loss of each row that is held out, at most `most`, shape (n,)."""
        return np.minimum(self.value(Y, F), self.most)

    def scores_of(self, y: NDArray) -> NDArray:
        """The fitted values that are best for all rows of mean targets y, shape
        (K,).
        """
        return y

    @abstractmethod
    def derivatives(self, Y: NDArray, F: NDArray) -> tuple[NDArray, NDArray]:
        """First derivatives by F, and what `bend` and `diagonal` take: as a rule the
        second derivatives, not negative. Both have shape (K, n).
        """

    def bend(self, C: NDArray, T: NDArray) -> NDArray:
        """Second derivatives times T, shape (K, n)."""
        return C * T

    def diagonal(self, C: NDArray) -> NDArray:
        """Second derivatives of each output by itself, shape (K, n)."""
        return C


class Logistic(Loss):
    """log(1 + exp(-y f)) of two classes, y from -1 to 1: of a mean target each class
    in its share.
    """

    most = LARGEST_LOG_LOSS

    def value(self, Y: NDArray, F: NDArray) -> NDArray:
        # Of a sure class exactly zero remains beside the excess
        return (np.maximum(F, 0) - (Y + 1) / 2 * F + _excess(F)).sum(axis=0)

    def scores_of(self, y: NDArray) -> NDArray:
        return logit(np.clip((y + 1) / 2, SMALLEST_SHARE, 1 - SMALLEST_SHARE))

    def derivatives(self, Y: NDArray, F: NDArray) -> tuple[NDArray, NDArray]:
        p = logistic(F)
        return p - (Y + 1) / 2, p * (1 - p)

    def one_vs_rest(self, Y: NDArray, F: NDArray) -> NDArray:
        """Of each class against the others, shape (n,)."""
        return self.value(Y, F)


class Multinomial(Loss):
    """-log p of the class, p = softmax(f) (Boehning, 1992); targets are 1 at the
    class and -1 elsewhere.
    """

    coupled = True
    most = LARGEST_LOG_LOSS

    def value(self, Y: NDArray, F: NDArray) -> NDArray:
        greatest = F.max(axis=0)
        total = np.exp(F - greatest).sum(axis=0)
        return greatest + np.log(total) - ((Y + 1) / 2 * F).sum(axis=0)

    def scores_of(self, y: NDArray) -> NDArray:
        return np.log(np.maximum((y + 1) / 2, SMALLEST_SHARE))

    def derivatives(self, Y: NDArray, F: NDArray) -> tuple[NDArray, NDArray]:
        p = softmax(F, axis=0)
        return p - (Y + 1) / 2, p

    def one_vs_rest(self, Y: NDArray, F: NDArray) -> NDArray:
        """Of each class against the others, summed over the classes, shape (n,)."""
        p = softmax(F, axis=0)
        is_class = (Y + 1) / 2 * np.log(np.maximum(p, SMALLEST_SHARE))
        is_other = (1 - Y) / 2 * np.log(np.maximum(1 - p, SMALLEST_SHARE))
        return -(is_class + is_other).sum(axis=0)

    def bend(self, C: NDArray, T: NDArray) -> NDArray:
        return C * (T - (C * T).sum(axis=0))

    def diagonal(self, C: NDArray) -> NDArray:
        return C * (1 - C)


def log_loss_of(n_outputs: int) -> Logistic | Multinomial:
    """The log loss of two classes, for which one output stands, or of more."""
    return Logistic() if n_outputs == 1 else Multinomial()


class SquaredHinge(Loss):
    """max(0, 1 - y f)^2 of each class against the others."""

    def value(self, Y: NDArray, F: NDArray) -> NDArray:
        share = (1 + Y) / 2
        return (
            share * np.square(np.maximum(1 - F, 0))
            + (1 - share) * np.square(np.maximum(1 + F, 0))
        ).sum(axis=0)

    def derivatives(self, Y: NDArray, F: NDArray) -> tuple[NDArray, NDArray]:
        first = (1 - Y) * np.maximum(1 + F, 0) - (1 + Y) * np.maximum(1 - F, 0)
        return first, (1 + Y) * (F < 1) + (1 - Y) * (F > -1)


@dataclass(frozen=True)
class Huber(Loss):
    """Half the square of an error up to `delta`, and linear beyond (Huber, 1964).

    Attributes
    ----------
    delta : float or array of shape (K, 1)
        In units of the targets.
    """

    delta: float | NDArray

    def value(self, Y: NDArray, F: NDArray) -> NDArray:
        size = np.abs(Y - F)
        near = np.minimum(size, self.delta)
        return (near * (size - near / 2)).sum(axis=0)

    def derivatives(self, Y: NDArray, F: NDArray) -> tuple[NDArray, NDArray]:
        error = F - Y
        is_near = np.abs(error) <= self.delta
        return np.clip(error, -self.delta, self.delta), is_near.astype(F.dtype)


@dataclass(frozen=True)
class Quantile(Loss):
    """q (y - f) above the fitted value and (1 - q) (f - y) below it, rounded off within
    about `width`.

    The pinball loss convolved with a logistic density: q u + h log(1 + exp(-u / h)), u
    = y - f.

    Attributes
    ----------
    q : float
        The quantile, within 0 and 1.
    width : float or array of shape (K, 1)
        h, in units of the targets.
    shift : float or array of shape (K,)
        What is added to the fitted values in the end, so that about a share q of the
        rows that were held out lies below them.

    References
    ----------
    Fernandes, Guerre and Horta, "Smoothing Quantile Regressions", Journal of Business
    and Economic Statistics 2021.
    """

    q: float
    width: float | NDArray
    shift: float | NDArray = 0.0

    def wider(self, error: float) -> list[Quantile]:
        """Losses that are minimised first, one after another, where this one can hardly
        be from fitted values with errors of a mean size: rounded off within a tenth of
        that at the most, each 25 times as much as the next.
        """
        ratio = WIDEST * min(error, 1.0) / np.min(self.width)
        n_wider = int(np.log(max(ratio, 1.0)) / np.log(NARROWING))
        return [
            replace(self, width=self.width * NARROWING**k)
            for k in range(n_wider, 0, -1)
        ]

    def value(self, Y: NDArray, F: NDArray) -> NDArray:
        U = Y - F
        return (self.q * U + self.width * softplus(-U / self.width)).sum(axis=0)

    def derivatives(self, Y: NDArray, F: NDArray) -> tuple[NDArray, NDArray]:
        s = logistic((F - Y) / self.width)
        return s - self.q, s * (1 - s) / self.width


@dataclass(frozen=True)
class Poisson(Loss):
    """Half the deviance of counts y whose mean is exp(f): exp(f) - y f - y + y log
    y.

    Attributes
    ----------
    scale : float or array of shape (K, 1)
        What the deviance of an output is divided by: of several the largest counts
        would else choose penalty and steps alone.
    """

    scale: float | NDArray = 1.0

    def value(self, Y: NDArray, F: NDArray) -> NDArray:
        return ((np.exp(F) - Y * F - Y + xlogy(Y, Y)) / self.scale).sum(axis=0)

    def derivatives(self, Y: NDArray, F: NDArray) -> tuple[NDArray, NDArray]:
        means = np.exp(F) / self.scale
        return means - Y / self.scale, means
