"""Linear models: of standardised columns, or of many sparse ones as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import n_distinct
from bochner.data.table_input import as_dense
from bochner.features import LinearFeatures, SparseColumns
from bochner.features.metric import Metric, MetricFeatures, with_relevance
from bochner.selection.comparison import CandidateResult, Maps, Race, concatenate
from bochner.selection.lengthscale import common_unit_lengths, deviations
from bochner.selection.policy import POLICY
from bochner.selection.validation import Validator
from bochner.solvers.losses import softplus

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
    few = race.problem.n_columns <= POLICY.most_linear
    if few and race.validator.classes and race.problem.space.logistic:
        losses = _logistic_losses(features, rows.subsample(POLICY.compared_rows))
        trial = trial._replace(losses=losses)

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


def _logistic_losses(features: LinearFeatures, rows: Validator) -> NDArray:
    """Log losses of the validation rows by logistic regression of each output on the
    standardised columns, summed over the outputs, shape (n,).

    A row of a mean target counts for both classes, in its shares.
    """
    from sklearn.linear_model import LogisticRegression

    Z = features.rows(rows.X)
    Z_out = features.rows(rows.X_out)
    losses = np.zeros(len(Z_out))
    for target, truth in zip((rows.y + rows.mean).T, rows.targets.T, strict=True):
        is_class = np.repeat([True, False], len(Z))
        share = np.concatenate([(1 + target) / 2, (1 - target) / 2]) * np.tile(
            rows.weight, 2
        )
        counted = share > SMALLEST_SHARE * np.tile(rows.weight, 2)
        scores = np.zeros(len(Z_out))
        if n_distinct(is_class[counted]) > 1:
            model = LogisticRegression()
            model.fit(np.tile(Z, (2, 1))[counted], is_class[counted], share[counted])
            scores += model.decision_function(Z_out)
        else:  # of one class alone, the other one has half a row
            sign = 1.0 if is_class[counted].all() else -1.0
            scores += sign * np.log(2 * len(Z) + 1)
        losses += softplus(-truth * scores)
    return losses


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
        features, problem.penalties(POLICY.sparse_alphas), POLICY.longest_trace
    )
    return CandidateResult(kind.name, kind.rank, problem.n_columns, trial, of_size)
