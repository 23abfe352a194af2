"""How well models know how sure they are: ``python -m benchmarks uncertainty [--only
NAME ...] [--repeats N]``.

Means over random splits, with their standard errors; the first split is that of the
other scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import norm
from sklearn.metrics import brier_score_loss, log_loss

from accuracy import arrays, boosted, few, prepared
from bochner import KernelMachineClassifier, KernelMachineRegressor
from bochner.kernels import Gaussian, Laplacian
from bochner.scores import (
    equal_count_bins,
    expected_calibration_error,
    interval_coverage,
    interval_score,
    interval_width,
    judged_event,
)
from conformal import adaptive_sets, fitted_and_held_out, least_sets, quantile_intervals
from coverage_levels import coverage
from datasets import Split, categorised, load
from forest import LENGTHSCALES
from groups import grouped
from report import Row
from runner import QUICK, elapsed, repeats, run, size

SPLITS, SPLITS_OF_LARGE, COVERAGE = 20, 3, 0.9
TREES, LARGE_TREES = (
    {"n_estimators": size(500), "num_leaves": leaves} for leaves in (63, 255)
)
# Without which LightGBM's log loss of seven types diverges, to 12
STABLE = {"min_child_weight": 1.0}
# Variance of the noise; lengthscale by number of columns
NOISE, LENGTHS = 0.05, {5: 1.5, 10: 3.0}
# Factor on the rows of the training distribution
PLACES = {"inside": 1.0, "at the edge": 2.0, "far away": 8.0}
DRAWS = 1000


def splits(data: Split, number: int, n_train: int = 0) -> Iterator[Split]:
    """Random splits of all rows, the first as they come, into as many rows as there
    are, or fewer.
    """
    frame = isinstance(data.X, pd.DataFrame)
    X = (
        pd.concat([data.X, data.X_test])
        if frame
        else np.concatenate([data.X, data.X_test])
    )
    y, n = np.concatenate([data.y, data.y_test]), len(data.y)
    take = (lambda rows: X.iloc[rows]) if frame else (lambda rows: X[rows])
    for seed in range(repeats(number)):
        order = (
            np.random.default_rng(seed).permutation(len(y))
            if seed
            else np.arange(len(y))
        )
        train, test = order[: n_train or n], order[n:]
        if QUICK:
            train, test = few(train), few(test)
        yield Split(take(train), y[train], take(test), y[test])


def row(
    what: str,
    values: Sequence[float],
    bar: str = "",
    limit: str = "",
    theirs: Sequence[float] = (),
) -> Row:
    """Mean over splits with its standard error; the peer's, and how many times that
    ours is, but of coverages.
    """
    times = (
        float(np.mean(values) / np.mean(theirs))
        if len(theirs) and "% covered" not in what
        else None
    )
    peer = f"{limit}: {with_error(theirs)}" if len(theirs) else limit
    count = f" ({len(values)} splits)" if len(values) > 1 else ""
    return Row(what, with_error(values) + count, bar, peer, times)


def with_error(values: Sequence[float]) -> str:
    """Mean and standard error."""
    error = (
        f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2g}"
        if len(values) > 1
        else ""
    )
    return f"{np.mean(values):.4g}{error}"


def warm(X: Any, y: Any, **options: Any) -> None:
    """Load compiled code."""
    KernelMachineRegressor(random_state=0, **options).fit(X[:1000], y[:1000])


def cpu_act() -> list[Row]:
    """Normal predictive densities of 2,000 training rows, in deviations of the
    target.
    """
    found = []
    for seed, (X, y, X_test, y_test) in enumerate(
        splits(prepared("cpu_act"), SPLITS, 2000)
    ):
        mean, scale = y.mean(), y.std()
        model = KernelMachineRegressor(uncertainty=True, random_state=seed).fit(
            X, (y - mean) / scale
        )
        truth = (y_test - mean) / scale
        predicted, std = model.predict(X_test, return_std=True)
        z, ends = (truth - predicted) / std, model.predict_interval(X_test, COVERAGE)
        crps = std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
        within = np.abs(z) <= norm.ppf((1 + COVERAGE) / 2)
        density = float(np.mean(np.log(std) + z**2 / 2 + np.log(2 * np.pi) / 2))
        covered, width = interval_coverage(truth, ends), interval_width(ends)
        found.append((density, crps.mean(), 100 * within.mean(), 100 * covered, width))
    density, crps, within, covered, width = np.transpose(found)
    gaussian = "GaussianProcessRegressor"
    return [
        row(
            "cpu_act, 2,000 rows: negative log predictive density",
            density,
            "<= -0.75",
            f"{gaussian}: -0.487",
        ),
        row("cpu_act, 2,000 rows: CRPS / sd", crps, "<= 0.07", f"{gaussian}: 0.0915"),
        row(
            "cpu_act, 2,000 rows: % of rows in 90 % of the normal distribution", within
        ),
        row("cpu_act, 2,000 rows: % of rows in 90 % intervals", covered, "90 +- 1.5"),
        row(
            "cpu_act, 2,000 rows: mean width / sd",
            width,
            "<= 0.41",
            f"{gaussian}: 0.595",
        ),
    ]


def exact_deviations(
    kernel: Gaussian, X: NDArray, rows: NDArray
) -> NDArray[np.float64]:
    """Posterior deviation of the function, by the Cholesky factor of the kernel
    matrix of all rows.
    """
    gram = kernel(X, X)
    gram[np.diag_indices_from(gram)] += NOISE
    cross = kernel(X, rows)
    explained = np.einsum(
        "ij,ij->j", cross, cho_solve(cho_factor(gram, overwrite_a=True), cross)
    )
    return np.sqrt(1 - explained)


def process() -> list[Row]:
    """Deviations of the function over those of the exact process that the rows were
    drawn from.
    """
    rows, n = [], size(4000)
    for d, lengthscale in LENGTHS.items():
        ratios: dict[str, list[tuple[float, float]]] = {place: [] for place in PLACES}
        for seed in range(repeats(SPLITS_OF_LARGE)):
            rng, kernel = np.random.default_rng(seed), Gaussian(lengthscale)
            X = rng.standard_normal((n, d))
            root = np.linalg.cholesky(kernel(X, X) + 1e-8 * np.eye(n))
            y = root @ rng.standard_normal(n) + np.sqrt(NOISE) * rng.standard_normal(n)
            model = KernelMachineRegressor(
                kernel,
                "fourier",
                n_components=2000,
                alpha=NOISE,
                uncertainty=True,
                random_state=seed,
            ).fit(X, y)
            for place, factor in PLACES.items():
                new = factor * rng.standard_normal((200, d))
                exact = exact_deviations(kernel, X, new)
                drawn = model.sample_y(new, DRAWS, random_state=seed).std(
                    axis=1, ddof=1
                )
                told = model.predict(new, return_std=True)[1]
                ratios[place].append(
                    (np.mean(drawn / exact), np.mean(told / np.sqrt(exact**2 + NOISE)))
                )
        for place, found in ratios.items():
            drawn, told = np.transpose(found)
            what = f"std over the exact one's, d = {d}, D = 2,000, {place}"
            rows += [
                row(f"{what}: function", drawn, "0.9 - 1.2", "features alone: 0.79")
            ]
            rows += [row(f"{what}: new target", told, "0.9 - 1.2")]
    return rows


def worst_group(y: NDArray, ends: NDArray) -> float:
    """Coverage of the tenth of the rows, by the middle of the interval, that has the
    least.
    """
    groups = equal_count_bins(ends.mean(axis=1), 10)
    return min(
        interval_coverage(y[groups == k], ends[groups == k])
        for k in range(groups.max() + 1)
    )


def interval_scores(y: NDArray, ends: NDArray) -> tuple[float, ...]:
    """Percent covered, Winkler score and width in deviations, percent covered in the
    worst tenth.
    """
    scale = y.std()
    score, width = (
        interval_score(y, ends, COVERAGE) / scale,
        interval_width(ends) / scale,
    )
    return 100 * interval_coverage(y, ends), score, width, 100 * worst_group(y, ends)


def intervals(name: str) -> list[Row]:
    """Intervals of 90 % against LightGBM's conformalised quantiles."""
    ours, theirs = [], []
    for seed, (X, y, X_test, y_test) in enumerate(splits(prepared(name), SPLITS)):
        model = KernelMachineRegressor(uncertainty="intervals", random_state=seed).fit(
            X, y
        )
        ours.append(interval_scores(y_test, model.predict_interval(X_test, COVERAGE)))
        theirs.append(
            interval_scores(
                y_test, quantile_intervals(X, y, X_test, COVERAGE, seed, **TREES)
            )
        )
    kinds = {
        "% covered": "90 +- 0.5",
        "Winkler score / sd": "<= 1.50",
        "mean width / sd": "<= 1.00",
        "% covered in the worst tenth": ">= 86",
    }
    peer, bars = (
        "LightGBM 500 x 63, CQR",
        kinds if name == "california_housing" else dict.fromkeys(kinds, ""),
    )
    return [
        row(f"{name}, 90 % intervals: {kind}", mine, bars[kind], peer, other)
        for kind, mine, other in zip(
            kinds, np.transpose(ours), np.transpose(theirs), strict=True
        )
    ]


def cost() -> list[Row]:
    """Fits that know how sure they are, over those that do not."""
    rows = []
    for name in ("california_housing", "cpu_act"):
        X, y, *_ = next(splits(prepared(name), 1))
        warm(X, y, uncertainty=True)
        kinds = (False, "intervals", "std", True)
        models = [
            [
                KernelMachineRegressor(uncertainty=kind, random_state=seed)
                for kind in kinds
            ]
            for seed in range(repeats(5))
        ]
        took = np.array(
            [[elapsed(partial(model.fit, X, y)) for model in some] for some in models]
        )
        for k, kind in enumerate(kinds[1:], 1):
            times = float(np.median(took[:, k] / took[:, 0]))
            what = f"{name}: fit with uncertainty={kind!r}"
            bar = "<= 1.3 x" if kind == "intervals" else ""
            rows.append(
                Row(what, f"{np.median(took[:, k]):.2f} s", bar, "without", times)
            )
    return rows


def class_scores(model: Any, data: Split) -> tuple[float, float, float]:
    """Log loss, percent of calibration error, Brier score."""
    proba = model.predict_proba(data.X_test)
    labels = np.searchsorted(model.classes_, data.y_test)
    error = 100 * expected_calibration_error(*judged_event(labels, proba))
    two = proba.shape[1] == 2
    brier = brier_score_loss(
        labels, proba[:, 1] if two else proba, labels=range(proba.shape[1])
    )
    return log_loss(labels, proba, labels=range(proba.shape[1])), error, brier


def classes(
    name: str, data: Split, number: int, bars: Sequence[str], **trees: Any
) -> list[Row]:
    """Probabilities against LightGBM's."""
    ours, theirs = [], []
    for seed, one in enumerate(splits(data, number)):
        ours.append(
            class_scores(
                KernelMachineClassifier(random_state=seed).fit(one.X, one.y), one
            )
        )
        own = categorised(one)
        theirs.append(class_scores(boosted(name, **trees).fit(own.X, own.y), own))
    peer = "LightGBM" + (" 500 x 255" if trees else "")
    kinds = ("log loss", "calibration error, %", "Brier score")
    return [
        row(f"{name}: {kind}", mine, bar, peer, other)
        for kind, bar, mine, other in zip(
            kinds, bars, np.transpose(ours), np.transpose(theirs), strict=True
        )
    ]


def sets(name: str, data: Split, **trees: Any) -> list[Row]:
    """Prediction sets of 90 % against those of LightGBM's probabilities."""
    found = []
    for seed, (X, y, X_test, y_test) in enumerate(splits(data, SPLITS_OF_LARGE)):
        model = KernelMachineClassifier(random_state=seed).fit(X, y)
        labels = np.searchsorted(model.classes_, y_test)
        fit, held_out = fitted_and_held_out(len(y), seed)
        trained = boosted(name, **trees).fit(X[fit], y[fit])
        known, proba = (
            np.searchsorted(trained.classes_, y[held_out]),
            trained.predict_proba(X[held_out]),
        )
        test = trained.predict_proba(X_test)
        given = {
            "ours": model.predict_set(X_test, COVERAGE),
            "least": least_sets(proba, known, test, COVERAGE),
            "adaptive": adaptive_sets(proba, known, test, COVERAGE, seed),
        }
        found.append({key: set_scores(own, labels) for key, own in given.items()})
    size_of, covered, empty = (
        {key: [one[key][i] for one in found] for key in found[0]} for i in range(3)
    )
    what = f"{name}, 90 % sets"
    return [
        row(
            f"{what}: mean size",
            size_of["ours"],
            "< 1 x",
            "LightGBM, adaptive sets",
            size_of["adaptive"],
        ),
        row(
            f"{what}: the same",
            size_of["ours"],
            "< 1 x",
            "LightGBM, least sets",
            size_of["least"],
        ),
        row(
            f"{what}: % covered",
            covered["ours"],
            ">= 90",
            "LightGBM, adaptive sets",
            covered["adaptive"],
        ),
        row(
            f"{what}: % empty",
            empty["ours"],
            "",
            f"LightGBM, least sets: {with_error(empty['least'])}",
        ),
    ]


def set_scores(given: NDArray[np.bool_], labels: NDArray) -> tuple[float, float, float]:
    """Mean size, percent covered, percent empty."""
    right = given[np.arange(len(labels)), labels]
    return (
        given.sum(axis=1).mean(),
        100 * right.mean(),
        100 * (~given.any(axis=1)).mean(),
    )


def forest() -> Split:
    """Forest Cover with its seven types."""
    return arrays(load("covtype"))


def logistic() -> list[Row]:
    """Logistic fits over ridge fits, of 50 grids with given lengthscales."""
    X, y, X_test, y_test = next(splits(forest(), 1))
    pairs, losses = [], []
    for seed in range(repeats(3)):
        ridge, logistic = (
            KernelMachineClassifier(
                Laplacian(LENGTHSCALES), "binning", 50, loss=loss, random_state=seed
            )
            for loss in ("squared", "logistic")
        )
        if not seed:
            for model in (ridge, logistic):
                model.fit(X[:5000], y[:5000] == 2)
        pairs.append(
            [elapsed(partial(model.fit, X, y == 2)) for model in (logistic, ridge)]
        )
        losses.append(
            [
                log_loss(y_test == 2, model.predict_proba(X_test))
                for model in (logistic, ridge)
            ]
        )
    (took, plain), (loss, of_ridge) = np.transpose(pairs), np.transpose(losses)
    times = float(np.median(took / plain))
    return [
        Row(
            f"{len(y):,} x 54, bins: logistic fit",
            f"{np.median(took):.1f} s",
            "<= 3 x",
            "the ridge fit",
            times,
        ),
        row("the same: log loss", loss, "", "ridge, calibrated", of_ridge),
    ]


PARTS: dict[str, Callable[[], list[Row]]] = {
    "coverage": coverage,
    "cpu_act": cpu_act,
    "process": process,
    "california_housing": partial(intervals, "california_housing"),
    "house_16H": partial(intervals, "house_16H"),
    "cost": cost,
    "adult": lambda: classes("adult", load("adult"), SPLITS, ("<= 1 x", "<= 1", "")),
    "covtype": lambda: classes(
        "covtype, seven types",
        forest(),
        SPLITS_OF_LARGE,
        ("<= 0.5 x", "<= 0.5", ""),
        **LARGE_TREES,
        **STABLE,
    ),
    "sets covtype": lambda: sets("covtype, seven types", forest(), **LARGE_TREES),
    "sets mnist": lambda: sets("mnist", prepared("mnist")),
    "logistic": logistic,
    "groups": grouped,
}


if __name__ == "__main__":
    run("Intervals and probabilities", __file__, __doc__, PARTS, packages=("lightgbm",))
