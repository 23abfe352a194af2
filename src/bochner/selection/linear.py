"""Linear models: of standardised columns, or of many sparse ones as they are."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bochner.data.table_input import as_dense
from bochner.features import LinearFeatures, SparseColumns
from bochner.features.metric import Metric, MetricFeatures, with_relevance
from bochner.selection.comparison import CandidateResult, Maps, Race, concatenate
from bochner.selection.lengthscale import common_unit_lengths, deviations
from bochner.selection.policy import POLICY
from bochner.selection.validation import Validator
from bochner.solvers.losses import log_loss_of

SMALLEST_SHARE = 1e-6  # of a row that is of a class, by rounding

if TYPE_CHECKING:
    from bochner.selection.candidates import CandidateKind, LearnedMetrics


def fit_linear(
    kind: CandidateKind, race: Race, learned_metrics: LearnedMetrics
) -> CandidateResult:
    """Fit the standardised columns themselves."""
    if race.problem.has_sparse_linear:
        return _fit_sparse_columns(kind, race)
    rows = race.screened
    features = LinearFeatures().draw(race.problem.n_columns)
    features.fit_sample(rows.X, rows.weight)
    trial = rows.solve(
        features, np.array([POLICY.smallest_share, *POLICY.shares]), race.problem.alphas
    )
    # Of many columns the logistic loss would take longer than all other candidates
    few = race.problem.n_columns <= POLICY.wide
    if few and race.validator.classes and race.problem.space.logistic:
        compared = rows.subsample(POLICY.compared_rows)
        scores, losses = _by_logistic_regression(features, compared)
        trial = trial._replace(losses=losses, predicted=scores - rows.mean)

    def of_size(size: int) -> Maps:
        # In the metric in which columns count by their coefficients
        assert trial.coef is not None
        d = len(trial.coef)
        factors = np.linalg.norm(trial.coef, axis=1) / features.scale_
        X = as_dense(rows.subsample(POLICY.compared_rows).X)
        metric = with_relevance(Metric(d, np.arange(d), factors), X, race.problem.seed)
        return [(1.0, MetricFeatures(metric, LinearFeatures()))]

    return CandidateResult(
        kind.name, kind.rank, features.n_features_out, trial, of_size
    )


def _by_logistic_regression(
    features: LinearFeatures, rows: Validator
) -> tuple[NDArray, NDArray]:
    """Scores of the validation rows by logistic regression of all classes on the
    standardised columns, (m, K), and log losses of each class against the others,
    summed, (m,).

    Of two classes there is one output. A row of a mean target counts for several
    classes, in its shares; to a class without rows goes half a row.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    Z = features.rows(rows.X)
    Z_out = features.rows(rows.X_out)
    shares = (1 + rows.y + rows.mean) / 2
    is_single = shares.shape[1] == 1
    if is_single:
        shares = np.hstack([1 - shares, shares])
    row, label = np.nonzero(shares > SMALLEST_SHARE)
    weight = (rows.weight[:, np.newaxis] * shares)[row, label]
    counted = weight > 0
    row, label, weight = row[counted], label[counted], weight[counted]
    P = np.full((len(Z_out), shares.shape[1]), 1 / (2 * len(Z) + 1))
    seen = np.unique(label)
    if len(seen) > 1:
        model = LogisticRegression()
        with warnings.catch_warnings():
            # Iterations that are too few for some rows tell enough of it all the same
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(Z[row], label, weight)
        P[:, seen] = model.predict_proba(Z_out)
    else:
        P[:, seen] = 1 - P[:, :1]
    scores = np.log(np.maximum(P, SMALLEST_SHARE))
    if is_single:
        scores = scores[:, 1:] - scores[:, :1]
    loss = log_loss_of(rows.targets.shape[1])
    return scores, loss.one_vs_rest(rows.targets.T, scores.T)


def _fit_sparse_columns(kind: CandidateKind, race: Race) -> CandidateResult:
    """Fit the columns of sparse rows as they are: in their common unit, where they have
    one, and of rows whose mean square is one, as penalties are.
    """
    problem = race.problem
    validator = race.validator
    units = race.problem.column_units
    factors = np.ones(problem.n_columns)
    if units is not None:
        spread = deviations(validator.X, validator.weight)
        factors = 1 / common_unit_lengths(units, spread)
    squares = validator.X.power(2) @ np.square(factors)
    factors = factors / np.sqrt(np.average(squares, weights=validator.weight) or 1.0)

    def of_size(size: int) -> Maps:
        return [(1.0, SparseColumns(factors))]

    features = concatenate(of_size(1)).draw(problem.n_columns)
    features.fit_sample(validator.X, validator.weight)
    trial = validator.iterate(
        features, problem.penalties(POLICY.sparse_alphas), POLICY.traced_iterations
    )
    return CandidateResult(kind.name, kind.rank, problem.n_columns, trial, of_size)
