"""Scores of predictions for rows of any kind: arrays and frames, files and other
sources, collections of Dask.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier

from bochner.data.columns import unmasked, values_of
from bochner.devices.conversion import any_arrays
from bochner.inputs.checks import one_label_a_row
from bochner.inputs.opened import are_names, open_data
from bochner.sources.base import SourceError
from bochner.sources.dask_parts import is_collection
from bochner.sources.opening import is_streamed
from bochner.sources.rows import PartChecksum, errors_from, joined, part_rows
from bochner.sources.rowwise import inputs_of


@any_arrays
def score_of_rows(self: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Score predictions: the share of right labels, or R2 of numbers.

    Semi-supervised models are scored on the rows that have a target.

    Parameters
    ----------
    X : rows of shape (n, d)
        Arrays, sparse matrices and data frames of any library, collections of Dask, and
        what `fit` reads rows from: files and other sources, in passes. Of these no rows
        are gathered: predictions and targets are.
    y : array of shape (n,) or (n, K), or the name of a column of X, or several
    sample_weight : array of shape (n,), or the name of a column of X, optional

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    ValueError
        If X has no such column, or a target is missing; of semi-supervised models all.
    """
    from sklearn.metrics import accuracy_score, r2_score

    targets_given = getattr(self, "_targets_given", None)
    if is_collection(X):
        import dask

        columns = set(getattr(X, "columns", ()))

        def of_name(values: Any) -> Any:
            if isinstance(values, str):
                return X[values]
            named = are_names(values) and columns.issuperset(values)
            return X[list(values)] if named else values

        y, sample_weight = of_name(y), of_name(sample_weight)
        answers = dask.compute(self.predict(X), y, sample_weight)
    elif is_streamed(X) and not isinstance(y, str | list | tuple):
        # Targets that came apart from the rows
        answers = self.predict(X), y, sample_weight
    else:
        names = getattr(self, "feature_names_in_", None) if is_streamed(X) else None
        X, y, sample_weight, _, stream = open_data(
            X, y, sample_weight, "keep" if targets_given else "refuse"
        )
        if stream is None:
            answers = self.predict(inputs_of(X, names)), y, sample_weight
        else:
            # Of no rows more than predictions, targets and weights is gathered
            read = []
            for part in stream.table.parts:
                tally = PartChecksum()
                for rows in part_rows(part, stream.table.schema, stream.roles, tally):
                    with errors_from(part, tally.n_rows - rows.X.shape[0]):
                        predicted = self.predict(inputs_of(rows.X, names))
                    read.append(rows._replace(X=predicted))
            if not read:
                raise SourceError(f"{stream.table.what}: there are no rows to score")
            answers = joined(read)[:3]
    predictions, y, sample_weight = answers
    y = values_of(y)
    sample_weight = unmasked(sample_weight)
    if targets_given is not None:
        rows, y = targets_given(y)
        if not len(rows):
            raise ValueError("No row has a target to score by: give some.")
        predictions = predictions[rows]
        sample_weight = None if sample_weight is None else sample_weight[rows]
    score = r2_score
    if is_classifier(self):
        y = one_label_a_row(y)
        score = accuracy_score
    return float(score(y, predictions, sample_weight=sample_weight))
