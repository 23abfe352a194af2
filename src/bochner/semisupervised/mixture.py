"""The machine of the rows with a target alone, beside the graph of all rows: its share
in predictions, by rows left out of both.

Where unlabelled rows tell little, as where there is no gap between the classes, the
machine is better. Few rows do not say which of both is: to choose one is a matter of
chance, while an average of both is hardly worse than the better one. The share s of the
machine has the posterior of a mixture by the targets left out, with Jeffreys' prior for
shares, and its mean is taken. Targets of numbers are taken for normal with the variance
that they have. Of classes the prior counts one more label, which the graph alone
predicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bochner.arrays import Floats, Indices
from bochner.data.hashes import observation_hashes, row_hashes
from bochner.data.row_splits import complement
from bochner.estimators.classifier import KernelMachineClassifier
from bochner.estimators.machine import KernelMachine
from bochner.estimators.regressor import KernelMachineRegressor
from bochner.inputs.opened import sampled_rows
from bochner.inputs.splits import group_numbers
from bochner.inputs.training import TrainingRows
from bochner.notices import quiet
from bochner.selection.policy import POLICY
from bochner.selection.report import Candidate, Report
from bochner.selection.split import fold_numbers
from bochner.selection.validation import mean_and_error
from bochner.semisupervised.smoothers import Graph
from bochner.sources.base import Batch
from bochner.sources.rows import PartChecksum, joined, part_rows
from bochner.sources.rowwise import inputs_of

MACHINE, BOTH = "machine of the labelled rows", "graph and machine"
# Of equal weight by Jeffreys' prior: denser where a share is nearly nothing or all
SHARES = np.sin(np.pi / 2 * (np.arange(200) + 0.5) / 200) ** 2


class LeftOut(NamedTuple):
    """What the graph says of each distinct labelled row without its target.

    Attributes
    ----------
    answers : array of shape (k, K), or None
        Probabilities of classes, or standardised numbers; None where they are unknown.
    losses : callable (answers of shape (k, K)) -> array of shape (k,)
    targets : callable
        Turns the labelled rows' targets as they came into those of the machine.
    """

    answers: Floats | None
    losses: Callable[[Floats], Floats]
    targets: Callable[[NDArray], NDArray]


class Mixture(NamedTuple):
    """The machine of the labelled rows, its share in predictions, and the losses."""

    machine: KernelMachine | None
    share: float
    report: Report


def batches(rows: TrainingRows, names: Any) -> Iterator[Batch]:
    """All rows, in their order and as they came, with the columns of these names."""
    if rows.stream is None:
        yield Batch(rows.X, rows.y, rows.weight, rows.groups)
        return
    table = rows.stream.table
    for part in table.parts:
        roles = rows.stream.roles
        for batch in part_rows(part, table.schema, roles, PartChecksum()):
            yield batch._replace(X=inputs_of(batch.X, names))


def answers_of(machine: KernelMachine, X: Any, classes: NDArray | None) -> Floats:
    """Probabilities of classes, NaN for those that the machine does not know, or
    numbers; shape (n, K).
    """
    with quiet():
        if classes is None:
            numbers = np.asarray(machine.predict(X), np.float64)
            return numbers.reshape(len(numbers), -1)
        probabilities = np.asarray(machine.predict_proba(X))
    answers = np.full((len(probabilities), len(classes)), np.nan)
    answers[:, np.searchsorted(classes, machine.classes_)] = probabilities
    return answers


def mean_share(totals: Floats, n_rows: int, of_classes: bool) -> float:
    """Posterior mean of the share of the machine.

    Parameters
    ----------
    totals : array of shape (200,)
        Losses of mixtures by `SHARES`, summed over the rows that are left out.
    n_rows : int
    of_classes : bool
        Whether these are log losses, not squared errors.
    """
    if of_classes:
        logs = np.log1p(-SHARES) - totals
    else:
        logs = -n_rows / 2 * np.log(np.maximum(totals, np.finfo(np.float64).tiny))
    posterior = np.exp(logs - logs.max())
    return float(SHARES @ posterior / posterior.sum())


def mixture_of(
    model: Any, rows: TrainingRows, graph: Graph, left_out: LeftOut, seed: int
) -> Mixture:
    """The machine of the labelled rows, and its share.

    Parameters
    ----------
    model : SemiSupervised
    rows : TrainingRows
    graph : Graph
        Of these rows.
    left_out : LeftOut
    seed : int

    Raises
    ------
    ValueError
        Where there is nothing to compare, in words that say why.
    """
    of_graph = left_out.answers
    if of_graph is None:
        raise ValueError("the graph's values without a group are not computed")
    classes = model.classes_ if is_classifier(model) else None
    if classes is not None and len(classes) == 1:
        raise ValueError("all labels are of one class")
    # Rows of a group, and equal ones, are left out together
    units = np.arange(len(graph.weight))
    if graph.group is not None:
        units = np.unique(graph.group, return_inverse=True)[1]
    n_units = int(units.max()) + 1
    if n_units < 2:
        raise ValueError("one row, or one group, alone has a target")
    n_columns = getattr(rows.stream, "n_columns", 0)
    if rows.stream is not None and len(graph.number) > sampled_rows(n_columns):
        raise ValueError("there are too many labelled rows to hold them in memory")
    labelled, of = _labelled(model, rows, graph)
    labelled = labelled._replace(y=left_out.targets(labelled.y))
    n_folds = min(POLICY.crossed_folds[n_units > POLICY.few_rows], n_units)
    first = np.unique(of, return_index=True)[1]
    leads = first[np.unique(units, return_index=True)[1]]
    hashes = row_hashes(labelled.take(leads).X)
    fold = fold_numbers(hashes, seed, n_folds)[units]

    def fitted(part: Batch) -> KernelMachine:
        kind = KernelMachineRegressor if classes is None else KernelMachineClassifier
        with quiet():
            return kind(random_state=seed).fit(
                part.X, part.y, part.weight, groups=part.group
            )

    def predict_fold(k: int) -> Floats | None:
        part = complement(fold == k)
        fit = labelled.take(np.flatnonzero(part.fitted[of]))
        if classes is not None and len(np.unique(fit.y)) == 1:
            return None
        held_out = labelled.take(first[part.held_out])
        return answers_of(fitted(fit), held_out.X, classes)

    # One fold tells enough of many rows
    asked = range(n_folds if n_units <= POLICY.crossed_rows else 1)
    predicted = np.full(of_graph.shape, np.nan)
    for k in asked:
        if (answers := predict_fold(k)) is not None:
            predicted[fold == k] = answers
    losses = left_out.losses(predicted)
    # A class that no row to fit has is not known to the machine
    is_told = np.isfinite(losses)
    if not is_told.any():
        raise ValueError("no class has labels in two rows")
    # A common factor of the weights is no more evidence
    weight = (graph.weight / graph.weight.mean())[is_told]

    def of_share(share: float) -> Floats:
        both = (1 - share) * of_graph + share * predicted
        return left_out.losses(both)[is_told]

    totals = np.array([weight @ of_share(share) for share in SHARES])
    share = mean_share(totals, len(weight), classes is not None)
    report = _report(
        "squared error" if classes is None else "log loss",
        {f"graph, {model.method_}": 0.0, MACHINE: 1.0, BOTH: share},
        of_share,
        weight,
        None if graph.group is None else graph.group[is_told],
    )
    return Mixture(fitted(labelled), share, report)


def _labelled(model: Any, rows: TrainingRows, graph: Graph) -> tuple[Batch, Indices]:
    """The rows with a target as they came, and the number of each among the graph's
    distinct ones.

    They are ordered by what they hold, and equal ones are one with their weight: where
    few rows choose a machine, rounding errors of sums in another order may choose
    another one.
    """
    pieces = []
    first = 0
    for batch in batches(rows, getattr(model, "feature_names_in_", None)):
        stop = first + batch.X.shape[0]
        is_inside = (graph.number >= first) & (graph.number < stop)
        if is_inside.any():
            pieces.append(batch.take(graph.number[is_inside] - first))
        first = stop
    labelled = joined(pieces)
    _, y = model._targets_given(labelled.y)
    beside = [row_hashes(y.reshape(len(y), -1))]
    if labelled.group is not None:
        beside.append(group_numbers(labelled.group).astype(np.uint64))
    hashes = observation_hashes(row_hashes(labelled.X), np.column_stack(beside))
    _, leads, number = np.unique(hashes, return_index=True, return_inverse=True)
    weight = np.bincount(number, labelled.weight)
    labelled = labelled._replace(y=y).take(leads)._replace(weight=weight)
    return labelled, graph.of[leads]


def _report(
    criterion: str,
    candidates: dict[str, float],
    of_share: Callable[[float], Floats],
    weight: Floats,
    group: Indices | None,
) -> Report:
    """Losses of the graph, of the machine and of both by the shares of the machine."""
    share = candidates[BOTH]
    both = of_share(share)
    compared = []
    for name, one in candidates.items():
        losses = of_share(one)
        loss, error = mean_and_error(losses, weight, group)
        behind, behind_error = mean_and_error(losses - both, weight, group)
        lost = "" if name == BOTH else "an average of both is safer"
        compared.append(
            Candidate(name, len(weight), loss, error, 0.0, lost, behind, behind_error)
        )
    reason = (
        f"of each prediction {share:.0%} are the machine's of the labelled rows, and "
        f"{1 - share:.0%} the graph's of all rows, by the labelled rows left out"
    )
    return Report(criterion, len(weight), compared, BOTH, reason)
