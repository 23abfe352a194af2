"""Kernel classification of rows that arrive one after another."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED

from bochner.data.weights import checked_weight
from bochner.devices.conversion import any_arrays
from bochner.engines.blas import single_threaded_blas
from bochner.estimators.calibration import fit_link, per_class, probabilities
from bochner.inputs.checks import caution_unlabelled, checked_labels
from bochner.inputs.targets import Signs
from bochner.inputs.training import Stream, given
from bochner.online.base import Labelled, OnlineKernelMachine
from bochner.sources.rowwise import class_columns, rowwise, rowwise_score
from bochner.sources.scan import scan

RECENT_ROWS, FEWEST_ROWS = 2048, 50  # predicted before they were learned, by which probabilities are calibrated
COMMON_LINK = (2.0, 2 / 3)  # of few


class OnlineKernelClassifier(ClassifierMixin, OnlineKernelMachine):
    """Kernel classification of rows that arrive one after another, with optional forgetting of old rows.

    Least squares on targets of -1 and 1, one for each class, by the recursion of `OnlineKernelRegressor`.

    Parameters
    ----------
    kernel : "auto", name of a kernel, or Kernel, default="auto"
        The lengthscale of a given kernel is in the units of the columns. Otherwise it is chosen by the leave-one-out
        error of the first batch; "auto" also chooses between a Gaussian and a Laplacian kernel. With forgetting, only
        as many rows of the batch are used as are remembered.
    features : {"fourier"} or map to dense features, default="fourier"
        A map is copied. With a map or a `Kernel` object, columns are centred and not scaled.
    n_components : int, default=500
        Number D of Fourier features.
    alpha : float, default=0.1
        Ridge penalty, for a sum over rows of features of length one.
    forgetting : float, default=1.0
        Factor on the weights of earlier rows with each new one; 1 forgets nothing.
    half_life : float, optional
        Rows after which a weight is halved, instead of `forgetting`.
    block_size : int, default=256
        Rows after which the equations are solved again, for the scores over time.
    random_state : int, RandomState or None, default=None
        Seed of the features.

    Attributes
    ----------
    classes_ : array of shape (K,)
    encoder_ : TableEncoder
    features_ : FeatureMap
    kernel_ : Kernel or None
    feature_weights_ : array of shape (D, K), (D, 1) for two classes
    intercept_ : array of shape (K,) or (1,)
    link_ : array of shape (2,)
        a and b of p = softmax(a f + b f^3), with f the scores of the classes, fitted to the last 2,048 rows that were
        predicted before they were learned; a default with fewer than 50 such rows.
    n_rows_ : int
    score_history_ : array of shape (m, 2)
        Rows so far, and the accuracy of the latest ones before they were learned; at most 512 entries.
    prequential_score_ : float
        The same for all rows that were predicted before they were learned.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError, TypeError
        As `OnlineKernelRegressor`; for labels that are not among the classes.
    NotFittedError
        At predict and the attributes of the solution, before there are rows.

    See Also
    --------
    OnlineKernelRegressor : Notes on what the first batch fixes, and on time, hold here too.
    KernelMachineClassifier : For rows that are all available.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import OnlineKernelClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(3000, 2))
    >>> y = np.where(np.hypot(*X.T) > 0.7, "out", "in")
    >>> model = OnlineKernelClassifier(random_state=0)
    >>> for first in range(0, 3000, 500):
    ...     rows = slice(first, first + 500)
    ...     model = model.partial_fit(X[rows], y[rows], classes=["in", "out"])
    >>> bool(model.score(X, y) > 0.95), model.predict_proba(X[:4]).shape
    (True, (4, 2))
    """

    # what goes with a call is no metadata of the rows
    __metadata_request__predict: ClassVar = {"n_jobs": UNUSED, "out": UNUSED}
    __metadata_request__predict_proba: ClassVar = {"n_jobs": UNUSED, "out": UNUSED}
    __metadata_request__decision_function: ClassVar = {"n_jobs": UNUSED}
    score = rowwise_score

    classes_: NDArray
    _recent: tuple[NDArray, NDArray, NDArray] | None = None
    _link: NDArray | None = None

    @property
    def link_(self) -> NDArray[np.float64]:
        """Factors a and b of the probabilities, for all rows so far."""
        self._solved()
        if self._link is None:
            self._link = self._fitted_link()
        return self._link

    @any_arrays
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnlineKernelClassifier:
        """Forget everything, and learn from rows in their order: `partial_fit` from the beginning.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or what `bochner.open_source` opens
            All rows in memory are one batch; a larger source is read batch by batch, in its order, after a first pass
            that finds the classes.
        y : array of shape (n,) or str
            Labels, or the column of X that holds them.
        sample_weight : array of shape (n,) or str, optional
            Non-negative. Without forgetting a weight of w counts as w equal rows.

        Returns
        -------
        self
        """
        self._fit(X, y, sample_weight)
        self.link_  # noqa: B018 - predictions then change nothing of a fitted model
        return self

    @any_arrays
    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Any:
        """Learn from the next rows, the last of which is the newest.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; columns as in the first batch.
        classes : array of shape (K,), optional
            All labels that may occur; needed at the first call only.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If classes are not named at the first call, and for labels that are not among them.
        """
        if self._sums is None:
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit: name all labels.")
            self._begin()
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes are not those of the first call, {self.classes_.tolist()}.")
        self._learn_all(given(X, y, sample_weight), classes)
        return self

    @any_arrays
    def prepare(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: Any = None
    ) -> OnlineKernelClassifier:
        """Fix the scales, the kernel and the features by a sample of the rows, from which nothing else is learned.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; a source must fit into memory.
        classes : array of shape (K,), optional
            All labels that may occur; by default those of y.

        Returns
        -------
        self
        """
        return self._prepare(X, y, sample_weight, classes)

    @any_arrays
    def decision_function(self, X: Any, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Scores of the classes.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        n_jobs : int or None, default=None
            Maximum number of threads. The result does not depend on it.

        Returns
        -------
        array of shape (n,) or (n, K)
            For two classes the score of ``classes_[1]``, positive where that is predicted.
        """
        scores = self._scores(X, n_jobs)
        return scores[:, 0] if len(self.classes_) <= 2 else scores

    @rowwise("predicted")
    def predict(self, X: Any, n_jobs: int | None = None, *, out: Any = None) -> Any:
        """Predict labels by all rows so far.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or what `bochner.open_source` opens
        n_jobs : int or None, default=None
            Maximum number of threads. The result does not depend on it.
        out : path-like, optional
            A Parquet or CSV file, by its name, that predictions are written to block by block.

        Returns
        -------
        array of shape (n,), or Path
        """
        scores = self._scores(X, n_jobs)
        return self.classes_[_winners(scores, len(self.classes_))]

    @rowwise(class_columns)
    def predict_proba(self, X: Any, n_jobs: int | None = None, *, out: Any = None) -> Any:
        """Estimate class probabilities, calibrated on scores of rows that were not learned yet.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or what `bochner.open_source` opens
        n_jobs : int or None, default=None
            Maximum number of threads. The result does not depend on it.
        out : path-like, optional
            A Parquet or CSV file, by its name, that predictions are written to block by block.

        Returns
        -------
        array of shape (n, K), or Path
            In the order of `classes_`.
        """
        scores = self._scores(X, n_jobs)
        return probabilities(per_class(scores) if len(self.classes_) == 2 else scores, self.link_)

    def _classes_of(self, stream: Stream) -> NDArray:
        """All labels of a stream, by a pass over it."""
        labels = list(scan(stream.table, stream.roles, True, 0, 1, engine=stream.engine).classes or {})
        text = any(isinstance(label, str) for label in labels)
        return np.sort(np.array(labels, dtype=object if text else None))

    def _labelled(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> Labelled:
        y, is_new = checked_labels(self, X, y), not hasattr(self, "classes_")
        known = np.unique(y if classes is None else classes) if is_new else self.classes_
        if is_new:
            caution_unlabelled(known)
        if len(new := np.setdiff1d(y, known)):
            raise ValueError(
                f"y holds {new[:5].tolist()}, which are not among the classes {known[:20].tolist()}: name all "
                "classes in the first call, with classes=."
            )
        weight, self.classes_ = checked_weight(sample_weight, X), known
        return Labelled(X, y, weight)

    def _fix_targets(self, y: NDArray, weight: NDArray | None) -> None:
        self._recent, self._link = None, None

    def _targets(self) -> Signs:
        return Signs(self.classes_)

    def _losses(self, scores: NDArray, targets: NDArray, weight: NDArray) -> NDArray:
        """One where a label is wrong, else 0; the scores are kept for the probabilities."""
        new = scores, targets, weight
        kept = new if self._recent is None else [np.concatenate(pair) for pair in zip(self._recent, new, strict=True)]
        scores_kept, targets_kept, weight_kept = (values[-RECENT_ROWS:] for values in kept)
        self._recent, self._link = (scores_kept, targets_kept, weight_kept), None
        K = len(self.classes_)
        return (_winners(scores, K) != _winners(targets, K)).astype(np.float64)

    @single_threaded_blas()
    def _fitted_link(self) -> NDArray[np.float64]:
        recent = self._recent
        if recent is None or np.count_nonzero(recent[2]) < FEWEST_ROWS or len(self.classes_) < 2:
            return np.array(COMMON_LINK)
        scores, targets, weight = recent
        both = np.hstack([-targets, targets]) if targets.shape[1] == 1 else targets
        return fit_link(per_class(scores), both, weight)


def _winners(scores: NDArray, n_classes: int) -> NDArray[np.int64]:
    """Numbers of the classes with the highest scores."""
    return (scores[:, 0] > 0).astype(np.int64) if n_classes == 2 else scores.argmax(axis=1)
