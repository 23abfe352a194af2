"""Classification and regression with few targets and many rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from bochner.arrays import Floats, Indices
from bochner.devices.conversion import any_arrays
from bochner.engines.algebra import binary_unit
from bochner.engines.blas import single_threaded_blas
from bochner.estimators.class_probabilities import fit_temperature, probabilities
from bochner.features.base import FeatureMap
from bochner.inputs.checks import refuse_infinite_target, refuse_mixed
from bochner.inputs.scoring import score_of_rows
from bochner.notices import warn
from bochner.semisupervised.base import (
    TEXT_OF_MARKS,
    Memberships,
    SemiSupervised,
    checked_marks,
    labelled,
    measured,
    of_all_rows,
    with_inferred_dtype,
)
from bochner.semisupervised.smoothers import Smooth, Smoother
from bochner.sources.rowwise import class_columns, rowwise
from bochner.sources.table_summary import TableSummary

FEW_LABELS = 5  # of a class on average, below which values left out tell little
LARGEST_SCORE = 5.0  # in deviations over all rows
SLOPE = 2.0  # of logarithms of probabilities, where no values left out tell it
# Of what ones have spread to, below which a row is in no part of the graph with a
# target
LEAST_SHARE = 1e-12


class SemiSupervisedClassifier(ClassifierMixin, SemiSupervised):
    """Classification of rows of which few have a label, by a graph of all of them.

    Each row is a mixture of its s nearest landmarks, z(x), which k-means finds
    (`AnchorFeatures`); rows that share landmarks are neighbours in the graph S = Z L^-1
    Z', L = diag(Z'1), whose rows have the sum one. A function on it is found that is
    smooth where rows are dense and follows the labels Y, by equations of the size of
    the landmarks:

    - "spreading": F = (I - alpha S)^-1 Y (Zhou et al., 2004), for new rows alpha
      z(x)'L^-1/2 (I - alpha A'A)^-1 A'Y with A = Z L^-1/2;
    - "poisson": (I - alpha S) u = Y - the mean of the labels (Calder et al., 2020), for
      one or few labels of a class;
    - "ridge": least squares on the smoothest eigenvectors of S, with a larger penalty
      on the rougher ones.

    Where there is no gap between the classes the graph tells little. So probabilities
    are averaged with those of a `KernelMachineClassifier` of the labelled rows alone.
    Folds of the labelled rows, left out of both, tell its share, the posterior mean of
    a mixture; ``print(model.report_)`` shows the losses.

    The rows and columns of S sum to one, so each class keeps the mass of its labels.
    Class mass normalisation has no effect here; pass `class_prior` to impose other
    proportions. No n x n matrix is formed, and s numbers are kept for each row; rows
    may be read from files.

    Parameters
    ----------
    features : AnchorFeatures or "auto", default="auto"
        Landmarks of the graph. "auto" takes half as many as rows, between 100 and
        8,000, and connects each row to its three to eight nearest ones, as many as make
        the graph connected.
    method : {"auto", "spreading", "poisson", "ridge"}, default="auto"
        "auto" is the method with the lowest leave-one-out log loss, which is computed
        exactly and without further fits; "poisson" is among them if a class has fewer
        than 5 different rows with a label. If it is fewer than 5 for a class on
        average, "auto" is "poisson", or "spreading" where `class_prior` is given, which
        Poisson learning cannot follow. The machine has a share with "auto" alone.
    alpha : float or "auto", default="auto"
        How far labels spread, below 1. "auto" is 0.99, and 0.999 for "poisson".
    class_prior : array of shape (K,) or None, default=None
        Shares of the classes among all rows, which the graph alone follows. None takes
        the shares among the labels.
    standardize : bool or "auto", default="auto"
        Whether to scale columns of numbers to unit variance. "auto" does so unless all
        columns share a unit, as pixels do.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    classes_ : array of shape (K,)
    transduction_ : array of shape (n,) or None
        Label of each training row; None if the features of all rows take more than 1
        GB, or the number of rows was not known before they were read.
    label_distributions_ : array of shape (n, K) or None
        Probabilities of the classes of each training row.
    method_ : {"spreading", "poisson", "ridge"}
    method_scores_ : dict of str to float
        Leave-one-out log loss of each method that was tried.
    machine_ : KernelMachineClassifier or None
        The machine of the labelled rows; None with a given `method` or `class_prior`,
        and where no label can be left out, as `report_` says.
    share_ : float
        Of the machine in each probability.
    report_ : Report
        Losses of the graph, of the machine and of both by labelled rows left out.
    features_ : AnchorFeatures
    feature_weights_ : array of shape (m, K)
        Coefficients of the features, a column for the scores of each class.
    slope_ : float
        Probabilities of the graph are softmax(slope f), with scores f between -5 and 5.
        The slope is fitted to left-out labels if there are enough of them.
    n_labelled_ : int
    encoder_ : TableEncoder
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError, TypeError
        At fit: no labels, parameters out of range, infinite values; `class_prior` with
        method="poisson".

    Warns
    -----
    UserWarning
        At fit, if there is one class besides -1, which may be meant as a class too; and
        for text such as "-1", "nan" or "", which is taken for a class.

    References
    ----------
    Zhou, Bousquet, Lal, Weston and Schoelkopf, "Learning with Local and Global
    Consistency", NIPS 2003, section 2. Liu, He and Chang, "Large Graph Construction for
    Scalable Semi-Supervised Learning", ICML 2010. Calder, Cook, Thorpe and Slepcev,
    "Poisson Learning: Graph Based Semi-Supervised Learning at Very Low Label Rates",
    ICML 2020, equation 2.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from bochner import SemiSupervisedClassifier
    >>> X, digits = load_digits(return_X_y=True)
    >>> y = np.where(np.arange(len(digits)) < 50, digits, -1)
    >>> model = SemiSupervisedClassifier(random_state=0).fit(X, y)
    >>> bool((model.transduction_ == digits).mean() > 0.9)
    True
    """

    # what goes with a call is no metadata of the rows
    __metadata_request__predict: ClassVar = {"out": UNUSED}
    __metadata_request__predict_proba: ClassVar = {"out": UNUSED}
    score = score_of_rows

    _allowed: ClassVar = SemiSupervised._allowed | {
        "method": ("auto", "spreading", "poisson", "ridge")
    }

    def __init__(
        self,
        features: FeatureMap | str = "auto",
        method: str = "auto",
        alpha: Any = "auto",
        class_prior: Any = None,
        standardize: bool | str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(features, method, alpha, standardize, random_state, verbose)
        self.class_prior = class_prior

    @any_arrays
    @single_threaded_blas()
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> SemiSupervisedClassifier:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
        y : array of shape (n,) or str
            Labels, or the column of X that holds them; -1, None and NaN mark rows
            without one, as in scikit-learn.
        sample_weight : array of shape (n,) or str, optional
            Not negative. A weight of w counts as w equal rows do.
        groups : array of shape (n,) or str, optional
            To which group each row belongs, or the column of X that tells it, for rows
            in memory: the targets of a group are left out together where a method is
            chosen, so that it suits rows of new groups.

        Returns
        -------
        self
        """
        graph, rows, seed = self._fit_graph(X, y, sample_weight, groups)
        members = graph.targets.copy()
        masses = graph.weight @ members
        if not masses.all():
            lost = self.classes_.tolist()[int(masses.argmin())]
            raise ValueError(
                f"All rows of class {lost!r} have the weight zero; give one of them "
                "a positive one."
            )
        if self.class_prior is not None:
            if self.method == "poisson":
                raise ValueError(
                    "method='poisson' gives each class its share of the labels, "
                    "whatever class_prior is: use method='spreading' or 'ridge' with "
                    "it."
                )
            wrong = (
                f"class_prior must be {len(masses)} positive numbers, one for each "
                f"class, got {self.class_prior!r}."
            )
            try:
                prior = np.asarray(self.class_prior, np.float64)
            except (TypeError, ValueError):
                raise ValueError(wrong) from None
            are_positive = np.isfinite(prior) & (prior > 0)
            if prior.shape != masses.shape or not are_positive.all():
                raise ValueError(wrong)
            # By these factors on its labels each class gets its share of all rows
            factors = prior / prior.sum() * masses.sum() / masses
            for targets in (graph.targets, graph.given):
                targets *= factors
        counts = np.count_nonzero(members, axis=0)
        # One rare class takes nothing from what the labels of the others tell
        told = bool(counts.mean() >= FEW_LABELS)

        def losses(answers: Floats) -> Floats:
            """Log losses of probabilities."""
            logs = np.log(np.maximum(answers, np.finfo(np.float64).eps))
            return -np.where(members > 0, members * logs, 0.0).sum(axis=1)

        def loss_of(way: Smoother) -> tuple[float, tuple[Smooth, float, Any]]:
            """Log loss of labels left out; scores in deviations, the slope of their
            probabilities, and those of the labels left out.
            """
            smooth = way.fit(graph)
            size = graph.deviation(smooth.v) or 1.0
            slope = SLOPE
            loss = np.inf
            out = smooth.left_out
            if out is not None:
                out = np.clip(out / size, -LARGEST_SCORE, LARGEST_SCORE)
            if out is not None and told and len(self.classes_) > 1:
                # A common factor of the weights is no more evidence
                weight = graph.weight / graph.weight.mean()
                slope = float(fit_temperature(out, 2 * members - 1, weight)[0])
                logs = (members * log_softmax(slope * out, axis=1)).sum(axis=1)
                loss = float(-np.average(logs, weights=graph.weight))
            smooth = smooth._replace(v=smooth.v / size, own=smooth.own / size)
            return loss, (
                smooth,
                slope,
                None if out is None else softmax(slope * out, 1),
            )

        # Poisson learning gives every class its share of the labels
        flows = bool(counts.min() < FEW_LABELS) and self.class_prior is None
        smooth, self.slope_, out = self._chosen(flows, loss_of, told)
        alone = ""
        if self.class_prior is not None:
            alone = "class_prior is followed by the graph alone"
        self._mix(rows, graph, out, losses, seed, alone=alone)
        # What becomes of the rows of the fit, and coefficients for others
        self.transduction_ = self.label_distributions_ = None
        self.feature_weights_, scores = of_all_rows(graph, smooth)
        if scores is not None:
            answers = self._all_mixed(self._probabilities(scores), rows)
            self.label_distributions_ = answers
            best = scores if self.machine_ is None else answers
            self.transduction_ = self.classes_[best.argmax(axis=1)]
        return self

    def _targets_given(self, y: Any) -> tuple[NDArray, NDArray]:
        """Numbers of the rows that have a label, and the labels."""
        labels = checked_marks(y, self, "-1")
        rows = np.flatnonzero(labelled(labels))
        return rows, with_inferred_dtype(labels[rows])

    def _checked_targets(self, X: Any, y: Any) -> NDArray:
        y = column_or_1d(checked_marks(y, self, "-1"), warn=True)
        check_consistent_length(X, y)
        refuse_infinite_target(y)
        labels = y[labelled(y)]
        refuse_mixed(labels)
        if len(labels):
            check_classification_targets(with_inferred_dtype(labels))
        return y

    def _targets_of(self, seen: Any) -> Memberships:
        """Take the classes of all labels: of an array, or an overview of a table."""
        values = seen
        if isinstance(seen, TableSummary):
            values = np.empty(len(seen.classes or ()), object)
            values[:] = list(seen.classes or ())
        is_labelled = labelled(values)
        has_marks = not is_labelled.all()
        classes = np.unique(with_inferred_dtype(values[is_labelled]))
        kind = classes.dtype.kind
        if has_marks and kind == "f" and not (classes % 1).any():
            classes = classes.astype(np.int64)  # which NaN among them has made floats
        if not len(classes):
            raise ValueError(
                "No row has a label, all are -1 or missing: give some, at least one "
                "of each class."
            )
        if kind == "U" and (texts := np.intersect1d(classes, TEXT_OF_MARKS)).size:
            warn(
                f"The text {str(texts[0])!r} is taken for a class. Where it marks "
                "rows without a label, give a list or "
                "an array of objects with -1 or None in it: beside text NumPy makes "
                "text of both."
            )
        if len(classes) == 1 and kind in "if" and has_marks:
            warn(
                f"All labels are {classes[0]}, for -1 marks rows without one. "
                "Where it is a class, name the "
                "classes otherwise."
            )
        self.classes_ = classes
        return Memberships(classes)

    def _probabilities(self, scores: NDArray) -> Floats:
        """Probabilities of scores, up to the largest: next to a label they grow
        without bound.
        """
        slope = np.array([self.slope_, 0.0])
        return probabilities(scores, slope, largest=LARGEST_SCORE)

    def _scores(self, X: Any) -> Floats:
        """Scores of the classes, shape (n, K)."""
        scores = self._values(X)
        if self.machine_ is None:
            return scores
        return np.log(self._mixed(self._probabilities(scores), X))

    @rowwise()
    def decision_function(self, X: Any) -> Floats:
        """Scores of the classes.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)

        Returns
        -------
        array of shape (n,) or (n, K)
            For two classes the score of ``classes_[1]`` less the other, positive where
            that is predicted. Scores are logarithms of probabilities where the machine
            has a share.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    @rowwise("predicted")
    def predict(self, X: Any, *, out: Any = None) -> Any:
        """Predict labels, of new rows too.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
        out : path-like, optional
            A Parquet or CSV file, by its name, that predictions are written to block by
            block.

        Returns
        -------
        array of shape (n,), or Path
        """
        return self.classes_[self._scores(X).argmax(axis=1)]

    @rowwise(class_columns)
    def predict_proba(self, X: Any, *, out: Any = None) -> Any:
        """Estimate class probabilities.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
        out : path-like, optional
            A Parquet or CSV file, by its name, that predictions are written to block by
            block.

        Returns
        -------
        array of shape (n, K), or Path
            In the order of `classes_`.
        """
        return self._mixed(self._probabilities(self._values(X)), X)


class SemiSupervisedRegressor(RegressorMixin, SemiSupervised):
    """Regression on rows of which few have a target, by a graph of all of them.

    The graph is that of `SemiSupervisedClassifier`. "spreading" spreads the targets,
    and the number one for each row with a target: (I - alpha S)^-1 [Y, 1]. The ratio of
    both is a mean of the targets that are near in the graph. "ridge" is least squares
    on the smoothest eigenvectors of the graph.

    Where targets do not follow the gaps between rows the graph tells little. So
    predictions are averaged with those of a `KernelMachineRegressor` of the labelled
    rows alone. Folds of the labelled rows, left out of both, tell its share, the
    posterior mean of a mixture; ``print(model.report_)`` shows the losses.

    Parameters
    ----------
    features : AnchorFeatures or "auto", default="auto"
        Landmarks of the graph. "auto" takes half as many as rows, between 100 and
        8,000, and connects each row to its three to eight nearest ones, as many as make
        the graph connected.
    method : {"auto", "spreading", "ridge"}, default="auto"
        "auto" is the method with the lowest leave-one-out squared error, which is
        computed exactly and without further fits. The machine has a share with "auto"
        alone.
    alpha : float or "auto", default="auto"
        How far targets spread, below 1. "auto" is 0.99.
    standardize : bool or "auto", default="auto"
        Whether to scale columns of numbers to unit variance. "auto" does so unless all
        columns share a unit, as pixels do.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    transduction_ : array of shape (n,) or (n, K), or None
        The target of each training row; None if the features of all rows take more than
        1 GB, or the number of rows was not known before they were read.
    method_ : {"spreading", "ridge"}
    method_scores_ : dict of str to float
        Leave-one-out squared error of each method that was tried, over the variance of
        the targets.
    machine_ : KernelMachineRegressor or None
        The machine of the labelled rows, for targets less `mean_` over `scale_`; None
        with a given `method`, and where no target can be left out, as `report_` says.
    share_ : float
        Of the machine in each prediction.
    report_ : Report
        Squared errors of the graph, of the machine and of both by labelled rows left
        out.
    features_ : AnchorFeatures
    feature_weights_ : array of shape (m, K), or (m, K + 1) by "spreading"
        Coefficients of the features.
    mean_, scale_ : arrays of shape (K,)
        Mean and standard deviation of the targets.
    n_labelled_ : int
    encoder_ : TableEncoder
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError, TypeError
        At fit: no targets, parameters out of range, infinite values.

    References
    ----------
    Zhou, Bousquet, Lal, Weston and Schoelkopf, "Learning with Local and Global
    Consistency", NIPS 2003, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import SemiSupervisedRegressor
    >>> t = np.random.default_rng(0).uniform(0, 10, 3000)
    >>> X = np.column_stack([t * np.cos(t), t * np.sin(t)])
    >>> y = np.where(np.arange(3000) < 60, t, np.nan)
    >>> model = SemiSupervisedRegressor(random_state=0).fit(X, y)
    >>> bool(np.sqrt(np.mean((model.transduction_ - t) ** 2)) < 0.5)
    True
    """

    # what goes with a call is no metadata of the rows
    __metadata_request__predict: ClassVar = {"out": UNUSED}
    score = score_of_rows

    @any_arrays
    @single_threaded_blas()
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> SemiSupervisedRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
        y : array of shape (n,) or (n, K), or name of a column, or names
            Targets; NaN and None mark rows without one. A row that lacks one of several
            targets counts as without.
        sample_weight : array of shape (n,) or str, optional
            Not negative. A weight of w counts as w equal rows do.
        groups : array of shape (n,) or str, optional
            To which group each row belongs, or the column of X that tells it, for rows
            in memory: the targets of a group are left out together where a method is
            chosen, so that it suits rows of new groups.

        Returns
        -------
        self
        """
        graph, rows, seed = self._fit_graph(X, y, sample_weight, groups)
        Y = graph.targets[:, :-1]
        weight = graph.weight
        self.mean_ = np.average(Y, axis=0, weights=weight)
        # Squares of tiny numbers would vanish
        unit = binary_unit(np.abs(Y).max(axis=0))
        squares = ((Y - self.mean_) / unit) ** 2
        deviation = np.sqrt(np.average(squares, axis=0, weights=weight)) * unit
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        for targets in (graph.targets, graph.given):
            targets[:, :-1] = (targets[:, :-1] - self.mean_) / self.scale_

        def losses(answers: Floats) -> Floats:
            """Squared errors of standardised numbers."""
            errors: Floats = (answers - graph.targets[:, :-1]) ** 2
            return errors.mean(axis=1)

        def loss_of(way: Smoother) -> tuple[float, tuple[Smooth, Any]]:
            """Squared error of targets left out, the function, and what it is there."""
            smooth = way.fit(graph)
            out = smooth.left_out
            loss = np.inf
            if out is not None:
                out = _ratio(out, way.name)
            if out is not None and len(graph.number) > 1:
                loss = float(np.average(losses(out), weights=weight))
            return loss, (smooth, out)

        smooth, out = self._chosen(False, loss_of)
        self._mix(rows, graph, out, losses, seed, self._standardised)
        self.feature_weights_, values = of_all_rows(graph, smooth)
        self.transduction_ = None
        if values is not None:
            numbers = self._all_mixed(_ratio(values, self.method_), rows)
            self.transduction_ = self._numbers(numbers)
        return self

    def _targets_given(self, y: Any) -> tuple[Indices, Floats]:
        """Numbers of the rows that have all of their targets, and these."""
        values = measured(checked_marks(y, self, "NaN"))
        rows = np.flatnonzero(values[:, -1])
        return rows, values[rows, :-1]

    def _checked_targets(self, X: Any, y: Any) -> NDArray:
        y = checked_marks(y, self, "NaN")
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                "The target holds text; for classes use SemiSupervisedClassifier."
            ) from None
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim > 2:
            raise ValueError(f"y must have the shape (n,) or (n, K), got {y.shape}.")
        refuse_infinite_target(y)
        check_consistent_length(X, y)
        return y

    def _targets_of(self, seen: Any) -> Callable[[NDArray], NDArray]:
        """Take the number of targets of an array, or of an overview of a table."""
        y = seen.sample.y if isinstance(seen, TableSummary) else seen
        self._one_target = y.ndim == 1
        if not isinstance(seen, TableSummary) and not measured(y).any():
            several = y.ndim == 2 and bool(np.isfinite(y).any())
            raise ValueError(
                "No row has all of its targets: where they are known in other rows, "
                "fit a model for each of them."
                if several
                else "No row has a target, all are NaN: give some."
            )
        return measured

    def _standardised(self, numbers: Floats) -> Floats:
        """Targets as the graph and the machine have them."""
        return (numbers - self.mean_) / self.scale_

    def _numbers(self, standardised: Floats) -> Floats:
        """Targets in their units."""
        values = standardised * self.scale_ + self.mean_
        return values[:, 0] if self._one_target else values

    @rowwise("predicted")
    def predict(self, X: Any, *, out: Any = None) -> Any:
        """Predict targets, of new rows too.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
        out : path-like, optional
            A Parquet or CSV file, by its name, that predictions are written to block by
            block.

        Returns
        -------
        array of shape (n,) or (n, K), or Path
        """
        standardised = _ratio(self._values(X), self.method_)
        return self._numbers(self._mixed(standardised, X))


def _ratio(function_values: NDArray, method: str) -> Floats:
    """Targets, of mean zero: what has spread over what ones have; or as they are."""
    values, share = function_values[:, :-1], function_values[:, -1:]
    if method != "spreading":
        return values
    zeros = np.zeros_like(values)
    return np.divide(values, share, out=zeros, where=share > LEAST_SHARE)
