"""Classification whose rows come in parts, or are read in passes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from bochner.engines.blas import single_threaded_blas
from bochner.estimators.other_losses import ClassFit, as_squared
from bochner.estimators.ridge import Fitted
from bochner.estimators.streamed import StreamedMachine
from bochner.features.boundary import any_arrays
from bochner.inputs.targets import Signs
from bochner.inputs.training import ClassWeighted, Stream, encoded_source, given, given_batch
from bochner.selection.choose import Choice
from bochner.sources.base import Batch
from bochner.sources.scan import TableSummary


class ClassesInParts(StreamedMachine):
    """What a classifier does with rows that come in parts."""

    classes_: NDArray
    class_weight: Any

    @abstractmethod
    def _checked_target(self, X: Any, y: Any, sample_weight: Any) -> tuple[NDArray, NDArray[np.float64] | None]:
        """Labels and weights."""

    @abstractmethod
    def _take_classes(self, classes: NDArray, n_rows: int) -> None:
        """Keep the classes; ValueError where each row has its own."""

    @abstractmethod
    def _keep_classes(self, found: ClassFit) -> None:
        """Keep what the loss decides."""

    @any_arrays
    def prepare(self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: Any = None) -> Self:
        """Select everything but the coefficients on a sample of the rows, before `partial_fit` adds all rows.

        The encoder, the classes, the kernel or learned metric and the draws of the map are then fixed. The features are
        Fourier features, or hashed bins. At most 4,096 rows of the sample are kept to select alpha and to calibrate
        probabilities; they are not part of the sums.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; from a source that is larger than memory a sample is drawn.
        classes : array of shape (K,), optional
            All labels that may occur; by default those of y.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the parameters need all rows at once: another loss than the squared one, class_weight="balanced",
            solver="exact", alpha="loo", or a map whose columns are sparse and too many.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineClassifier
        >>> X = np.random.default_rng(0).uniform(size=(3000, 2))
        >>> y = np.where(np.square(X).sum(axis=1) > 0.6, "out", "in")
        >>> model = KernelMachineClassifier(random_state=0).prepare(X[:1000], y[:1000])
        >>> for first in range(0, 3000, 500):
        ...     model = model.partial_fit(X[first : first + 500], y[first : first + 500])
        >>> bool(model.score(X, y) > 0.97)
        True
        """
        self._begin()
        self._refuse("rows that come in batches")
        if isinstance(self.class_weight, str):
            raise ValueError("class_weight='balanced' needs all rows at once: give a dict of label to weight.")
        X, y, sample_weight, stream = given(X, y, sample_weight)
        if stream is not None:
            overview = self._look(stream)
            if classes is not None:
                named = dict.fromkeys(np.unique(classes).tolist(), 0.0) | (overview.classes or {})
                overview = replace(overview, classes=named)
            rows, _ = self._seen(stream, overview, "summed")
        else:
            X = self._rows(X, reset=True)
            y, weight = self._checked_target(X, y, sample_weight)
            self._take_classes(np.unique(y if classes is None else classes), len(y))
            self._refuse_new(y)
            rows = self._prepare(X, y, weight, Signs(self.classes_))._replace(way="summed")
        self._prepare_sums(rows)
        return self

    @available_if(StreamedMachine._can_sum)
    @any_arrays
    @single_threaded_blas()
    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the fit, with the same result as if all had come at once.

        On the first call everything else is selected on these rows, unless `prepare` has been called; where they are
        fewer than 256, again whenever the number of rows has doubled, until there are 256. A model that is saved before
        then holds these rows. The coefficients are computed at first use.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : array of shape (n,) or str
        classes : array of shape (K,), optional
            All labels that may occur; needed only on the first call, if `prepare` was not called.
        sample_weight : array of shape (n,) or str, optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As in `prepare`; if columns differ, or labels are not among the classes.

        Warns
        -----
        UserWarning
            After `fit`, which keeps no sums: the fit starts again with these rows.
        """
        self._started()
        X, y, sample_weight = given_batch(X, y, sample_weight)
        if self._sums is None:
            classes = getattr(self, "classes_", None) if classes is None else classes
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit: name all labels.")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes are not those of the first call, {self.classes_.tolist()}.")
        named = self.classes_ if classes is None else classes
        X, y, sample_weight = self._with_first(X, y, sample_weight, classes=named)
        X = self._rows(X, reset=False)
        y, weight = self._checked_target(X, y, sample_weight)
        self._refuse_new(y)
        if self._first is None:
            self._caution_ignored(X, weight, "prepare")
        return self._add(encoded_source(self.encoder_, X, y, weight, np.float64, Signs(self.classes_)))

    def _refuse_new(self, y: NDArray) -> None:
        """Raise ValueError where there are labels that are none of the classes."""
        if len(new := np.setdiff1d(y, self.classes_)):
            raise ValueError(
                f"y holds {new[:5].tolist()}, which are not among the classes {self.classes_[:20].tolist()}: name all "
                "classes in the first call, with classes=."
            )

    def _targets_of(self, overview: TableSummary) -> Signs:
        labels = list(overview.classes or {})
        text = any(isinstance(label, str) for label in labels)
        classes = np.array(labels, dtype=object if text else None)
        check_classification_targets(np.repeat(classes, 2))  # which warns of a single row for each class
        self._take_classes(np.sort(classes), overview.n_rows or 0)
        return Signs(self.classes_)

    def _weighed(self, stream: Stream, overview: TableSummary) -> tuple[Stream, Batch, float]:
        """The rows with the weights of their classes."""
        if self.class_weight is None or not overview.classes:
            return super()._weighed(stream, overview)
        labels, totals = np.array(list(overview.classes)), np.array(list(overview.classes.values()))
        if isinstance(self.class_weight, str):
            factors = totals.sum() / (len(totals) * totals)
        else:
            factors = np.array([self.class_weight.get(label, 1.0) for label in overview.classes])
        order = np.argsort(labels)
        weighted = ClassWeighted.of(stream.roles, labels[order], factors[order])
        return replace(stream, roles=weighted), weighted.weighed(overview.sample), float(totals @ factors)

    def _keep_solution(self, fitted: Fitted, choice: Choice | None) -> None:
        self._take(fitted, choice)
        found = as_squared(fitted)._replace(reason="other losses need all rows in memory")
        self._keep_classes(found)
        self.coef_ = found.coef
