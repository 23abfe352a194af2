"""Coverage and R2 on rows of new groups, and on later rows, by fits that know what
belongs together and by fits that do not.

Rows of a group are near-equal in half of their columns, and their targets share an
effect. Of the noise-free function and of time the deviation is about 1.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.metrics import r2_score
from sklearn.model_selection import TimeSeriesSplit

from bochner import KernelMachineClassifier, KernelMachineRegressor
from coverage_levels import told
from report import Row
from runner import QUICK, repeats

LEVELS = (0.8, 0.9, 0.95)
NEW_GROUPS, LATER_ROWS, FITS = 100, 300, 6
# Groups and rows of each, for each size of the groups' effects in deviations
SHAPES = {
    0.0: ((60, 10), (200, 10)),
    0.5: ((40, 10), (60, 10), (200, 10)),
    2.0: ((20, 10), (60, 2), (60, 20), (60, 50), (200, 10)),
}


class Table(NamedTuple):
    """Rows to learn from, what they belong to, and rows to come."""

    X: NDArray
    y: NDArray
    given: dict[str, Any]
    options: dict[str, Any]
    X_new: NDArray
    y_new: NDArray


def groups(n_groups: int, size: int, effect: float, seed: int) -> Table:
    """Groups of near-equal rows, and rows of new groups."""
    rng = np.random.default_rng([seed, n_groups, size])
    number = np.repeat(np.arange(n_groups + NEW_GROUPS), size)
    X = rng.standard_normal((len(number), 4))
    X[:, :2] = rng.standard_normal((number[-1] + 1, 2))[number] + 0.05 * X[:, :2]
    y = X[:, 0] + np.sin(2 * X[:, 2]) + 0.3 * rng.standard_normal(len(number))
    y += effect * rng.standard_normal(number[-1] + 1)[number]
    known = number < n_groups
    given = {"groups": number[known]}
    return Table(X[known], y[known], given, {}, X[~known], y[~known])


def later(kind: str, seed: int) -> Table:
    """A thousand rows in the order of time, the number of which is a column, and the
    next ones.
    """
    rng = np.random.default_rng(seed)
    n = 1000 + LATER_ROWS
    X = rng.standard_normal((n, 3))
    time = np.arange(n)
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.standard_normal(n)
    if kind == "a random walk":
        y += np.cumsum(rng.standard_normal(n)) / 10
    elif kind == "a season":
        y += np.sin(2 * np.pi * time / 100)
    X = np.column_stack([X, time])
    options = {"cv": TimeSeriesSplit()}
    return Table(X[:1000], y[:1000], {}, options, X[1000:], y[1000:])


def validated(table: Table, knows: bool, seed: int) -> list[float]:
    """R2 on the rows to come, that which validation told, and shares within intervals
    of each level; NaN where a level is refused.
    """
    given = table.given if knows else {}
    options = table.options if knows else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KernelMachineRegressor(
            uncertainty="intervals", random_state=seed, **options
        ).fit(table.X, table.y, **given)
    shares = []
    for level in LEVELS:
        try:
            low, high = model.predict_interval(table.X_new, level).T
        except ValueError:
            shares.append(np.nan)
        else:
            shares.append(np.mean((low <= table.y_new) & (table.y_new <= high)))
    score = r2_score(table.y_new, model.predict(table.X_new))
    report = model.report_
    loss = np.nan
    if report is not None:
        chosen = [one for one in report.candidates if one.name == report.chosen]
        loss = chosen[0].loss
    return [score, 1 - loss, *shares]


def without_structure(seed: int) -> float:
    """Error on new rows of a fit that is told of groups that are none, over that of
    one that is not.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4000, 4))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.standard_normal(4000)
    labels = np.arange(2000) % 100
    errors = []
    for given in ({"groups": labels}, {}):
        model = KernelMachineRegressor(random_state=seed).fit(
            X[:2000], y[:2000], **given
        )
        errors.append(np.mean((y[2000:] - model.predict(X[2000:])) ** 2))
    return float(np.sqrt(errors[0] / errors[1]))


def in_sets(knows: bool, seed: int) -> list[float]:
    """Shares of new labels in prediction sets, of groups that share a class mostly."""
    table = groups(80, 10, 2.0, seed)
    cuts = np.quantile(table.y, [1 / 3, 2 / 3])
    labels, new = np.digitize(table.y, cuts), np.digitize(table.y_new, cuts)
    given = table.given if knows else {}
    model = KernelMachineClassifier(random_state=seed).fit(table.X, labels, **given)
    found = [np.nan, np.nan]
    for level in LEVELS:
        try:
            sets = model.predict_set(table.X_new, level)
        except ValueError:
            found.append(np.nan)
        else:
            found.append(sets[np.arange(len(new)), new].mean())
    return found


def grouped() -> list[Row]:
    """A row for each shape of groups and kind of time, with and without their being
    told.
    """
    seeds = range(repeats(FITS))
    kinds = {
        f"effects of {effect:g} deviations, {n} groups of {size} rows": (
            lambda seed, n=n, size=size, effect=effect: groups(n, size, effect, seed)
        )
        for effect, shapes in SHAPES.items()
        for n, size in shapes
    }
    for kind in ("no time", "a season", "a random walk"):
        kinds[f"later rows, {kind}"] = lambda seed, kind=kind: later(kind, seed)
    if QUICK:
        kinds = dict([*kinds.items()][-1:])
    rows = []
    for what, make in kinds.items():
        for knows in (True, False):
            told_of = "cv=TimeSeriesSplit()" if "later" in what else "groups="
            known = f"{'with' if knows else 'without'} {told_of}"
            jobs = [delayed(validated)(make(seed), knows, seed) for seed in seeds]
            bar = "88 - 93 at 90 %" if knows and "later" not in what else ""
            rows.append(_row(f"{what}, {known}", np.array(_all(jobs)), bar))
    if QUICK:
        return rows
    for knows in (True, False):
        found = np.array(_all([delayed(in_sets)(knows, seed) for seed in seeds]))
        known = f"{'with' if knows else 'without'} groups="
        what = (
            f"% in sets of 80 / 90 / 95 %: three classes, 80 groups of 10 rows, {known}"
        )
        rows.append(Row(what, " / ".join(told(shares) for shares in found[:, 2:].T)))
    ratios = _all([delayed(without_structure)(seed) for seed in range(repeats(20))])
    mean, error = np.mean(ratios), np.std(ratios, ddof=1) / np.sqrt(len(ratios))
    what = "error with groups= over that without, where the groups are chance"
    return [*rows, Row(what, f"{mean:.4f} ± {error:.2g}", "<= 1.005")]


def _all(jobs: list[Any]) -> list[Any]:
    return Parallel(n_jobs=-1)(jobs)


def _row(what: str, found: NDArray, bar: str) -> Row:
    """R2, and shares that are covered, over the fits."""
    score, validation = (
        f"{np.nanmean(values):.2f}" if np.isfinite(values).any() else "none"
        for values in found[:, :2].T
    )
    shares = " / ".join(told(own) for own in found[:, 2:].T)
    text = f"{shares}; R2 {score}, told {validation}"
    return Row(f"% covered of 80 / 90 / 95 %: {what}", text, bar)
