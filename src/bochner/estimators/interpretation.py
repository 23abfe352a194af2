"""What a fitted model shows of its columns and of itself: importances, effects, and
what it has learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import check_random_state, estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Floats
from bochner.data.array_source import ArraySource
from bochner.data.columns import column_number
from bochner.devices.conversion import any_arrays
from bochner.engines.blas import single_threaded_blas
from bochner.estimators import explained_scores
from bochner.estimators.measured_importance import (
    MeasuredAttribute,
    importance_of_fit,
    input_names,
    n_evaluated,
    permutation_importance,
    scores_at,
)
from bochner.estimators.ridge.out_of_sample import UnseenRows
from bochner.explanations.attribution import Explanation
from bochner.explanations.effects import Asked, Effects, Fitted, measured_effects
from bochner.explanations.importance import Importance
from bochner.explanations.interactions import Interactions
from bochner.features.base import FeatureMap
from bochner.features.device_features import current_device
from bochner.features.metric import Metric, MetricFeatures, with_relevance
from bochner.inputs.checks import require_one_of
from bochner.inputs.estimator import BaseKernelEstimator
from bochner.markup import number, table
from bochner.notices import is_quiet
from bochner.selection.budget import Budget

DENSE_ENTRIES = 30_000_000
MOST_COLUMNS, MOST_EFFECTS = 5, 6


def relevance_in_distance(model: Any) -> Floats | None:
    """Share of each input column in the mean distance of two rows, shape (d,); None for
    kernels without lengthscales.

    It is of the metric, and not of the predictions, whose columns `Importance` ranks.
    """
    if model.metric_ is None:
        return None
    encoder = model.encoder_
    shares = model.metric_.relevance_
    return np.bincount(encoder.sources(), shares, encoder.n_features_in_).astype(float)


def _fitted(model: Any) -> Fitted:
    """A fitted model as functions of encoded rows."""
    of = partial(Fitted, model.encoder_, model.feature_weights_.dtype)
    if is_classifier(model):
        labels = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
        first = len(model.classes_) - len(labels)

        def class_shares(Z: NDArray) -> Floats:
            return model._probabilities(scores_at(model, Z))[:, first:]

        return of(class_shares, None, tuple(map(str, labels)), "probability")
    posterior = vars(model).get("posterior_")

    def predict(Z: NDArray) -> Floats:
        return model._predictions(scores_at(model, Z))

    def variances(Z: NDArray, A: NDArray) -> Floats:
        sums = posterior.variances_of_sums(model.features_, Z, A)
        return sums * np.square(model.target_scale_)

    names = explained_scores.output_names(model)
    return of(predict, posterior and variances, names, "prediction")


def metric_of(features: FeatureMap, X: Any, seed: int) -> Metric | None:
    """The learned metric of a map, of its last part where it has several, if possible
    one of a known relevance; or that of a kernel with lengthscales.

    Parameters
    ----------
    features : FeatureMap
    X : array or sparse matrix of shape (n, d)
        Some encoded rows.
    seed : int
    """
    learned = [
        part.metric for part in features.parts if isinstance(part, MetricFeatures)
    ]
    if learned:
        of_known_relevance = [one for one in learned if one.relevance_.any()]
        return (of_known_relevance or learned)[-1]
    kernel = getattr(features, "kernel", None)
    lengthscale = None
    if getattr(kernel, "has_metric", False):
        lengthscale = getattr(kernel, "lengthscale", None)
    n, d = X.shape
    if lengthscale is None or n * d > DENSE_ENTRIES:
        return None
    scales = np.broadcast_to(1 / np.asarray(lengthscale, np.float64), d)
    rows = X.toarray() if sp.issparse(X) else X
    return with_relevance(Metric(d, np.arange(d), scales), rows, seed)


def most_relevant(model: Any) -> dict[str, float]:
    """Names and shares of the columns that count most in the distance, the first one
    first; none without a metric.
    """
    shares = relevance_in_distance(model)
    if shares is None:
        return {}
    names = input_names(model)
    return {
        names[j]: float(shares[j])
        for j in np.argsort(-shares, kind="stable")[:MOST_COLUMNS]
    }


class Interpretable(BaseKernelEstimator):
    """What fitted models answer about themselves."""

    importance_: Importance = cast(Any, MeasuredAttribute())

    def _measure(
        self: Any,
        unseen: UnseenRows | None,
        source: ArraySource,
        seed: int,
        budget: Budget,
    ) -> None:
        """Measure the importance of the columns, but where a fit to some of the rows
        of another one is nobody's.
        """
        if is_quiet():
            return
        importance = importance_of_fit(self, unseen, source, seed, budget)
        if importance is not None:
            self.importance_ = importance

    def _measure_if_needed(self: Any) -> None:
        """Measure the importance of columns for the rows that are summed so far, on
        the validation rows.
        """
        if self._sums is None or not self._sums.n_rows or "importance_" in vars(self):
            return
        self._solve_if_needed()
        sums = self._sums
        features = self.features_
        evaluated = n_evaluated(self.encoder_.n_features_in_)
        unseen = None
        if evaluated:
            unseen = sums.solve(features, current_device(), evaluated).unseen
        self._measure(unseen, sums.validation.source, sums.seed, Budget())

    @property
    def feature_importances_(self: Any) -> Floats:
        """Permutation importance of each column, `importance_`, as shares that sum to
        1: shape (d,).

        Values below zero count as zero; where no column has a positive one, all are
        zero. Shares of the distance of two rows, which the metric has learned, are
        ``metric_.relevance_``.
        """
        check_is_fitted(self)
        return self.importance_.shares

    @any_arrays
    @single_threaded_blas()
    def importance(
        self: Any,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        n_repeats: int = 5,
        n_rows: int = 5000,
        random_state: Any = None,
    ) -> Importance:
        """Permutation importance: how much the loss grows when rows get the values of a
        column from other rows.

        The loss is the mean squared error (for several targets the mean over targets of
        unit variance), the loss that the regressor was fitted by, or the log loss of
        the probabilities of classes. Columns are permuted as they were given: a column
        of categories or dates as a whole.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
            Rows that the model has not seen; on rows of the fit the importance of
            useless columns is too large.
        y : array of shape (n,) or (n, K), or str
            Targets or labels.
        sample_weight : array of shape (n,) or str, optional
            A weight of w counts as w equal rows, both in the mean loss and among the
            values that are permuted; weights of classes come on top, as in the fit.
        n_repeats : int, default=5
            Permutations of each column.
        n_rows : int, default=5000
            From more rows, this many are drawn, by their weights.
        random_state : int, RandomState or None, default=None
            Seed of the rows and permutations.

        Returns
        -------
        Importance
            Values, standard errors and names. It prints as a table; `plot`, `to_frame`
            and `to_json`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If there are fewer than two rows, columns or targets differ from those of
            the fit, or labels are unknown.

        References
        ----------
        Breiman, "Random Forests", Machine Learning 2001. Fisher, Rudin and Dominici,
        "All Models are Wrong, but Many are Useful", JMLR 2019.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> X = np.random.default_rng(0).normal(size=(600, 3))
        >>> model = KernelMachineRegressor("gaussian", random_state=0).fit(
        ...     X[:300], 2 * X[:300, 0] + X[:300, 1]
        ... )
        >>> found = model.importance(
        ...     X[300:], 2 * X[300:, 0] + X[300:, 1], random_state=0
        ... )
        >>> abs(found.values.round()).tolist()  # 2 a^2 of coefficients a
        [8.0, 2.0, 0.0]
        """
        check_is_fitted(self)
        require_one_of("n_repeats", n_repeats, "a positive integer")
        require_one_of("n_rows", n_rows, "a positive integer")
        rows = self._checked(*self._in_memory(X, y, sample_weight))
        rows = self._with_class_weights(rows)
        self._refuse_other_targets(rows.target)
        source = rows.source(
            self.encoder_, self.feature_weights_.dtype, self._known_targets()
        )
        seed = int(check_random_state(random_state).randint(2**31))
        return permutation_importance(self, source, int(n_rows), int(n_repeats), seed)

    @any_arrays
    def explain(
        self, X: Any, background: Any = None, n_background: int | None = 100
    ) -> Explanation:
        """Explain the predictions for some rows by Shapley values of the columns.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
            Rows to explain.
        background : array, sparse matrix or data frame of shape (B, d), optional
            Rows that the explained ones are compared with: columns that are not in a
            coalition have values of these rows. By default up to 100 training rows that
            the model keeps.
        n_background : int or None, default=100
            From more background rows, this many are drawn at random. None for all.

        Returns
        -------
        Explanation
            For classes of log-odds, ``link_[0]`` times `decision_function`. Where the
            probabilities have a cubic term or a curve (``link_[1]``, ``curve_``), these
            are left out, and the unit is "first-order log-odds".

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            For other columns than those of the fit, and where there are no background
            rows.
        MemoryError
            If the values do not fit in the free memory.

        Notes
        -----
        The values are interventional Shapley values (Lundberg and Lee, "A Unified
        Approach to Interpreting Model Predictions", NIPS 2017). They are exact, without
        sampling, for Fourier features, bins and linear features, with learned metrics
        too: these are products of factors of the columns. Bins with a linear map before
        them, and other maps, are sampled by permutations and have standard errors,
        unless there are 6 columns or fewer. A bar on a terminal tells how long the rest
        of the work takes.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from bochner import KernelMachineRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = KernelMachineRegressor("gaussian", random_state=0).fit(
        ...     X[:350], y[:350]
        ... )
        >>> explanation = model.explain(X[350:])
        >>> explanation.values.shape, explanation.is_exact
        ((92, 10), True)
        """
        return explained_scores.explained(self, X, background, n_background)

    @any_arrays
    def interactions(
        self, X: Any, background: Any = None, n_background: int | None = 100
    ) -> Interactions:
        """Find the columns that interact in the predictions for some rows, by Shapley
        interactions of all pairs.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
            Rows; some hundreds tell which pairs are the strongest.
        background, n_background
            As of `explain`. The time grows with the cube of the number of columns that
            differ between two rows.

        Returns
        -------
        Interactions
            Exact where the values of `explain` are; from landmarks and bins with a
            linear map they are sampled.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, (400, 3))
        >>> model = KernelMachineRegressor("gaussian", random_state=0).fit(
        ...     X, X[:, 0] * X[:, 1] + X[:, 2]
        ... )
        >>> model.interactions(X[:20]).values.shape
        (20, 3, 3)
        """
        return explained_scores.explained(self, X, background, n_background, pairs=True)

    def _without_posterior(self) -> Self:
        """Return a copy without the posterior, so that effects have no intervals and
        take less time.
        """
        check_is_fitted(self)
        bare = copy(self)
        bare.posterior_ = None
        return bare

    def without_background(self) -> Self:
        """Return a copy of the fitted model without `background_`, the training rows
        that `explain` compares with.
        """
        check_is_fitted(self)
        bare = copy(self)
        bare.background_ = None
        return bare

    @any_arrays
    def effects(
        self,
        X: Any,
        columns: Sequence[int | str] | int | str | None = None,
        *,
        kind: str = "partial",
        n_points: int = 20,
        n_curves: int = 50,
        n_rows: int = 500,
        coverage: float = 0.9,
    ) -> Effects:
        """Effects of columns on predictions: partial dependence, or accumulated local
        effects.

        Partial dependence at a value is the mean prediction for rows that all get this
        value in the column, and keep the others (Friedman, 2001). Where columns are
        correlated, such rows may be unlike any data. Accumulated local effects add mean
        differences of predictions between neighbouring values, for the rows that lie
        between these (Apley and Zhu, 2020); their mean is zero. Neither is the effect
        of an intervention.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
            Rows to average over, and whose values are taken.
        columns : sequence of int or str, int or str, optional
            By number or name. By default the six most important ones, by `importance_`.
        kind : {"partial", "accumulated"}, default="partial"
        n_points : int, default=20
            Number of values of each column, at most: all of few, else frequent ones and
            quantiles of the others; of text the most frequent ones. If the fit saw
            missing values, and X has one, that is a value too.
        n_curves : int, default=50
            Number of rows whose own predictions are kept, for partial dependence.
        n_rows : int, default=500
            Number of rows that predictions are averaged over; from more rows, this many
            are drawn at random.
        coverage : float, default=0.9
            Of the intervals, which need a fit with ``uncertainty=True`` or "std". They
            are of the effect for these rows by the posterior of the function.

        Returns
        -------
        Effects
            In the units of the target; for classes of probabilities, and of two classes
            that of the second. An `Effect` for each column, with `plot`, `to_frame` and
            `to_json`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If there is no such column, or a parameter is out of range.

        References
        ----------
        Friedman, "Greedy Function Approximation", Annals of Statistics 2001, section
        8.2. Goldstein, Kapelner, Bleich and Pitkin, "Peeking Inside the Black Box",
        JCGS 2015 (curves of rows). Apley and Zhu, "Visualizing the Effects of Predictor
        Variables in Black Box Supervised Learning Models", JRSS B 2020.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
        >>> model = KernelMachineRegressor(random_state=0).fit(X, X[:, 0] ** 2)
        >>> [one.span.round(1).tolist() for one in model.effects(X, [0, 1])]
        [[1.0], [0.0]]
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        names = input_names(self)
        if isinstance(columns, int | str | np.integer):
            columns = [columns]
        if columns is None:
            # The most important ones, or of an unknown importance those that count
            # most in the distance
            importance = getattr(self, "importance_", None)
            if importance is None:
                values = relevance_in_distance(self)
            else:
                values = importance.values
            if values is None:
                values = np.zeros(len(names))
            numbers = np.argsort(-values, kind="stable")[:MOST_EFFECTS].tolist()
        else:
            numbers = [column_number(column, names) for column in columns]
        asked = Asked(kind, n_points, n_curves, n_rows, coverage)
        with single_threaded_blas():
            return measured_effects(rows, numbers, names, _fitted(self), asked)

    def _html_repr(self: Any) -> str:
        """The diagram of scikit-learn, and below it what was learned, in a few
        lines.
        """
        diagram = estimator_html_repr(self)
        if not hasattr(self, "feature_weights_"):
            return diagram
        report = self.report_
        importance = getattr(self, "importance_", None)
        facts = {
            "model": report and f"{report.chosen}: {report.reason}",
            "features": f"{self.features_.n_features_out:,}",
            "ridge penalty": number(self.alpha_),
            "solver": f"{self.solver_}: {self.solver_reason_}",
            "most important columns": importance and importance.headline(MOST_COLUMNS),
        }
        rows = [(name, value) for name, value in facts.items() if value]
        return diagram + table("Learned", ("quantity", "value"), rows, words=(0, 1))

    @any_arrays
    def report_html(
        self,
        X: Any,
        y: Any,
        out: str | Path | None = None,
        *,
        X_train: Any = None,
        y_train: Any = None,
    ) -> str | Path:
        """Write an HTML page about the fitted model: its scores, selection, learned
        metric and errors.

        The page is one file without scripts or external resources. It shows the scores
        on the given rows and those of a baseline, the columns of the rows, their
        importance, effects, interactions and Shapley values of single rows, curves of
        classes or residuals, the worst rows, the candidates, the error against the
        number of rows and of features, the learned metric, the error of the kernel
        approximation, costs and versions. The page of a model that ``bochner fit`` has
        saved, by ``bochner report``, also has scores of other models.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
            Rows that the model has not seen; otherwise the scores are too good, and the
            page says so where it finds the training rows that the model keeps. From
            more rows 20,000 are drawn.
        y : array of shape (n,)
            Targets (one column), or labels.
        out : path-like, optional
            File to write.
        X_train, y_train : rows of shape (n, d) and targets of shape (n,), optional
            Rows of the fit, from which the neighbours of the worst rows are taken, in
            the place of the given rows. From more rows 20,000 are drawn.

        Returns
        -------
        str or Path
            The page, or the path of the file.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If there are several targets, labels that the model does not know, or fewer
            than 20 rows, and for training rows without targets.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from bochner import KernelMachineRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelMachineRegressor(random_state=0).fit(X[:350], y[:350])
        >>> page = model.report_html(X[350:], y[350:])
        >>> page.startswith("<!DOCTYPE html>"), "<script" in page
        (True, False)
        """
        from bochner.report import write_report

        check_is_fitted(self)
        if (X_train is None) != (y_train is None):
            raise ValueError("X_train and y_train are given together, or neither.")
        X, y, _ = self._in_memory(X, y)
        training = None if X_train is None else self._in_memory(X_train, y_train)
        return write_report(self, X, y, out, training=training)
