"""Default estimators and other learners on the same rows of many tables: ``python -m
benchmarks accuracy [--only TEXT]``.

Each fit runs in a process of its own. ``pip install ".[peers]"`` gets the libraries.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import studentized_range, wilcoxon
from sklearn.metrics import log_loss, roc_auc_score

import synthetic
from bochner import KernelMachineClassifier, KernelMachineRegressor
from bochner.scores import expected_calibration_error, judged_event
from cells import Cell, Result, run
from datasets import Split, categorised, encoder, load, taken
from report import (
    PAGE,
    processor,
    pyplot,
    save_figure,
    table,
    versions,
    write_page,
)
from runner import QUICK

# Of each table and learner: values of each measure, one for each split
Measured = dict[str, dict[str, dict[str, list[Any]]]]

REGRESSION = (
    "cpu_act",
    "california_housing",
    "house_16H",
    "201_pol",
    "225_puma8nh",
    *synthetic.NUMBERS,
    *synthetic.THRESHOLDS,
    *synthetic.SURFACES,
)
SMALL = ("phoneme", "satimage", "splice", "churn", "waveform_40")  # of classes
TYPES = "covtype, seven types"
# Of a later time, or by other writers: never mixed with the training rows
OTHER_TEST_ROWS = ("kddcup99", "mnist")
FRAMES = ("adult", "kddcup99", "splice", "census_income_nominal", *synthetic.NOMINAL)
FEW = 2000
# Splits of each table: those of the large ones are few, as their test rows are many
SPLITS = (
    dict.fromkeys((*REGRESSION[:5], *SMALL, "digits", "letter"), 5)
    | dict.fromkeys(("adult", "adult_a9a", "elec2", "fars", "connect4", "sleep"), 3)
    | dict.fromkeys(("celeba", "census_income_nominal", "kddcup99", TYPES, "mnist"), 1)
)
LIMIT = 150  # seconds of a fit with its predictions
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
NETWORK = "RealMLP"  # on the first split of tables of five
TUNING_SECONDS = 15.0
PACKAGES = ("lightgbm", "catboost", "xgboost", "pytabkit")
TITLE = "Accuracy with default settings"
STORE = PAGE.with_suffix("") / "accuracy.json"
LEAST_ERROR = 0.01  # as which none counts in ratios
CRITICAL = 0.05  # level of the test of ranks
BLUE, GREY = "#0072B2", "#666666"
# Of labels beside crowded points: right, up, alignment
PLACES = {
    "LightGBM": (-7, 4, "right"),
    "XGBoost": (2, -16, "left"),
    "HistGradientBoosting": (7, -14, "left"),
}
NOTE = f"""\
Defaults, with `random_state` given; "bochner, 1 s" has `time_limit=1`. The first split is the official one where there
is any, and the others are random, with as many training rows; the test rows of {" and ".join(OTHER_TEST_ROWS)} are of a
later time and by other writers, and stay. Figures are medians over the splits. Bold: the lowest of a row, and those that
are not more than two standard errors of the paired differences above it. Ratios are geometric means over the tables, of
seconds the median; p is that of Wilcoxon's signed-rank test over the tables.

LightGBM is tuned by random settings for {TUNING_SECONDS:.0f} s, compared on a fifth of the training rows with early
stopping, and fitted again to all rows; this is in its time. Boosting gets strings as categories. "linear" is ridge or
logistic regression on standardised columns and one-hot categories. A fit of more than {LIMIT} s is listed as such.
{NETWORK} is that of pytabkit, on the first split of the tables that have five. Each fit has one
thread; seconds are those of the processor, and those of compiling are not among them. In ratios, no
error counts as {LEAST_ERROR} %."""


def prepared(name: str) -> Split:
    """Rows as an array where all columns are numbers; Forest and KDD as problems of
    two classes.
    """
    if name in synthetic.TABLES:
        return synthetic.draw(name, 0)
    X, y, X_test, y_test = load(name.partition(",")[0])
    if name == "covtype":
        y, y_test = y == 2, y_test == 2
    if name == "kddcup99":
        y, y_test = y == "normal", y_test == "normal"
    rows = Split(X, y, X_test, y_test)
    return rows if name in FRAMES else arrays(rows)


def arrays(rows: Split) -> Split:
    """Rows as arrays in single precision."""
    return Split(
        rows.X.to_numpy(np.float32),
        rows.y,
        rows.X_test.to_numpy(np.float32),
        rows.y_test,
    )


def error(name: str, predicted: np.ndarray, truth: np.ndarray) -> float:
    """RMSE over the deviation of the targets, or percent wrong."""
    if name in REGRESSION:
        return float(np.sqrt(np.mean((predicted - truth) ** 2)) / truth.std())
    return 100 * float(np.mean(predicted != truth))


def few(rows: Any) -> Any:
    """Some 2,000 of the rows or targets."""
    return rows[:: max(1, len(rows) // FEW)]


def tried(name: str) -> Split:
    """Rows that are prepared, few of them where the script is tried only."""
    data = prepared(name)
    return Split(*map(few, data)) if QUICK else data


def resplit(name: str, data: Split, seed: int) -> Split:
    """Training and test rows mixed, but for the first split and where the test rows
    are others by design.
    """
    if not seed or name in OTHER_TEST_ROWS:
        return data
    if name in synthetic.TABLES:
        return synthetic.draw(name, seed)
    order = np.random.default_rng(seed).permutation(len(data.y) + len(data.y_test))
    train, test = np.split(order, [len(data.y)])
    y = np.concatenate([data.y, data.y_test])
    both = [data.X, data.X_test]
    is_frame = isinstance(data.X, pd.DataFrame)
    X = pd.concat(both) if is_frame else np.concatenate(both)
    return Split(taken(X, train), y[train], taken(X, test), y[test])


def estimator(name: str, **options: Any) -> Any:
    """The estimator of that problem."""
    return (KernelMachineRegressor if name in REGRESSION else KernelMachineClassifier)(
        **options
    )


def boosted(name: str, **options: Any) -> Any:
    """LightGBM, of that problem."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    return (LGBMRegressor if name in REGRESSION else LGBMClassifier)(
        verbose=-1, **options
    )


class TunedLightGBM:
    """LightGBM's defaults, and random settings for some seconds, compared on a fifth
    of the training rows; the best are fitted to all rows.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.seed = seed

    def fit(self, X: Any, y: np.ndarray) -> TunedLightGBM:
        """Search for `TUNING_SECONDS`, and fit."""
        from lightgbm import early_stopping

        start = time.perf_counter()
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(len(y))
        out = order[: len(y) // 5]
        within = order[len(y) // 5 :]
        options: dict[str, Any] = {}
        best, least = options, np.inf
        while time.perf_counter() - start < TUNING_SECONDS:
            trial = boosted(self.name, random_state=self.seed, **options)
            trial.fit(
                taken(X, within),
                y[within],
                eval_X=(taken(X, out),),
                eval_y=(y[out],),
                callbacks=[early_stopping(50, verbose=False)],
            )
            loss = min(trial.best_score_["valid_0"].values())
            if loss < least:
                best = options | {"n_estimators": trial.best_iteration_}
                least = loss
            options = {
                "n_estimators": 2000,
                "learning_rate": float(np.exp(rng.uniform(*np.log([0.02, 0.2])))),
                "num_leaves": int(np.exp(rng.uniform(*np.log([8, 256])))),
                "min_child_samples": int(np.exp(rng.uniform(*np.log([3, 100])))),
                "colsample_bytree": rng.uniform(0.4, 1),
                "subsample": rng.uniform(0.5, 1),
                "subsample_freq": 1,
                "reg_lambda": float(np.exp(rng.uniform(*np.log([1e-3, 10])))),
            }
        self.model = boosted(self.name, random_state=self.seed, **best).fit(X, y)
        self.classes_ = getattr(self.model, "classes_", None)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Of the best settings."""
        return self.model.predict(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Of the best settings."""
        return self.model.predict_proba(X)


def catboost(name: str, seed: int, rows: Split) -> Any:
    """CatBoost, of that problem."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    machine = CatBoostRegressor if name in REGRESSION else CatBoostClassifier
    return machine(
        random_seed=seed,
        verbose=False,
        allow_writing_files=False,
        cat_features=texts_of(rows.X),
    )


def xgboost(name: str, seed: int, rows: Split) -> Any:
    """XGBoost, of that problem."""
    from xgboost import XGBClassifier, XGBRegressor

    machine = XGBRegressor if name in REGRESSION else XGBClassifier
    return machine(random_state=seed, enable_categorical=True)


def histogram_boosting(name: str, seed: int, rows: Split) -> Any:
    """That of scikit-learn."""
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )

    machine = (
        HistGradientBoostingRegressor
        if name in REGRESSION
        else HistGradientBoostingClassifier
    )
    return machine(random_state=seed, categorical_features="from_dtype")


def linear(name: str, seed: int, rows: Split) -> Any:
    """Ridge or logistic regression on standardised numbers and one-hot categories."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline

    solver = (
        RidgeCV(np.logspace(-3, 3, 7))
        if name in REGRESSION
        else LogisticRegression(max_iter=300)
    )
    return make_pipeline(encoder(rows.X, sparse=True), solver)


def network(name: str, seed: int, rows: Split) -> Any:
    """RealMLP with its tuned defaults (Holzmueller, Grinsztajn and Steinwart, 2024)."""
    from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor

    machine = RealMLP_TD_Regressor if name in REGRESSION else RealMLP_TD_Classifier
    return machine(device="cpu", random_state=seed, n_threads=1, verbosity=0)


def texts_of(X: Any) -> list[str]:
    """Columns of categories."""
    if not isinstance(X, pd.DataFrame):
        return []
    return [column for column in X if X[column].dtype == "category"]


def ours(name: str, seed: int, rows: Split, **options: Any) -> Any:
    """Without arguments, but for some; a fit to few rows loads the compiled code."""
    estimator(name, random_state=0).fit(few(rows.X), few(rows.y))
    return estimator(name, random_state=seed, **options)


# Each makes a model of a problem, a seed and the rows that it will be fitted to
LEARNERS: dict[str, Callable[[str, int, Split], Any]] = {
    "bochner": ours,
    "bochner, 1 s": partial(ours, time_limit=1.0),
    "CatBoost": catboost,
    "LightGBM": lambda name, seed, rows: boosted(name, random_state=seed),
    "LightGBM, tuned": lambda name, seed, rows: TunedLightGBM(name, seed),
    "XGBoost": xgboost,
    "HistGradientBoosting": histogram_boosting,
    "linear": linear,
    NETWORK: network,
}


def as_texts(rows: Split) -> Split:
    """Categories without missing values."""
    if not isinstance(rows.X, pd.DataFrame):
        return rows
    both = pd.concat([rows.X, rows.X_test])
    for column in both.columns[both.dtypes == "category"]:
        both[column] = both[column].astype(str).fillna("missing").astype("category")
    return Split(
        both.iloc[: len(rows.y)], rows.y, both.iloc[len(rows.y) :], rows.y_test
    )


def measures(name: str, model: Any, rows: Split) -> dict[str, float]:
    """Of the test rows."""
    X, y = rows.X_test, rows.y_test
    if name in REGRESSION:
        return {"RMSE / sd": error(name, np.ravel(model.predict(X)), y)}
    proba, classes = (
        np.asarray(model.predict_proba(X), np.float64),
        np.asarray(model.classes_),
    )
    known = np.isin(y, classes)
    proba, y = proba[known], np.searchsorted(classes, y[known])
    present = np.unique(y)
    areas = [
        roc_auc_score(y == k, proba[:, k])
        for k in present[: 1 if len(classes) == 2 else None]
    ]
    return {
        "% wrong": 100 * float(np.mean(proba.argmax(axis=1) != y)),
        "log loss": float(
            log_loss(y, np.clip(proba, 1e-15, 1), labels=np.arange(len(classes)))
        ),
        "AUC": float(np.mean(areas)),
        "calibration error, %": 100
        * expected_calibration_error(*judged_event(y, proba)),
    }


def work(cell: Cell) -> Result:
    """Measures, and seconds of the fit, of one learner on one split."""
    name = cell["data"]
    learner = cell["learner"]
    rows = resplit(name, prepared(name), cell["seed"])
    if QUICK:
        rows = Split(*map(few, rows))
    if name not in REGRESSION:
        coded = np.unique(
            np.concatenate([rows.y, rows.y_test]).astype(str), return_inverse=True
        )[1]
        rows = rows._replace(y=coded[: len(rows.y)], y_test=coded[len(rows.y) :])
    if learner not in ("bochner", "bochner, 1 s"):
        rows = as_texts(categorised(rows))
    model = LEARNERS[learner](name, cell["seed"], rows)
    start = time.perf_counter()
    start_of_processor = time.process_time()
    model.fit(rows.X, rows.y)
    seconds = {
        "fit": time.perf_counter() - start,
        "processor": time.process_time() - start_of_processor,
    }
    return measures(name, model, rows) | seconds


def cells() -> list[Cell]:
    """Tables of many splits first."""
    return [
        {"data": name, "learner": learner, "seed": seed, "limit": LIMIT}
        for number in (5, 3, 1)
        for seed in range(number)
        for name in names_of(number)
        for learner in LEARNERS
        if learner != NETWORK or (number == 5 and seed == 0)
    ]


def names_of(number: int) -> list[str]:
    """Tables of that number of splits."""
    return [name for name, n in SPLITS.items() if n == number]


def page(results: list[tuple[Cell, Result]]) -> None:
    """Keep the figures of all learners, and write the pages that show them."""
    measured: Measured = {}
    for cell, result in results:
        figures = measured.setdefault(cell["data"], {}).setdefault(cell["learner"], {})
        for name, value in result.items():
            figures.setdefault(name, []).append(value)
    kept = {
        "date": str(date.today()),
        "machine": processor(),
        "versions": versions(PACKAGES),
        "measured": measured,
    }
    STORE.write_text(json.dumps(kept, indent=1) + "\n")
    draw_errors(measured)
    draw_ranks(on_all_tables(measured), "ranks.png")
    write_page(TITLE, text(kept))
    importlib.import_module("overview").main()


def text(kept: dict[str, Any]) -> str:
    """The page of what is kept."""
    measured: Measured = kept["measured"]
    tables_of_measures = [
        f"## {heading}\n\n{figures(measured, measure, digits)}"
        for heading, measure, digits in (
            ("Errors", errors_of(measured), 4),
            ("Log loss", dict.fromkeys(measured, "log loss"), 4),
            ("Processor seconds of a fit", dict.fromkeys(measured, "processor"), 3),
        )
    ]
    return "\n\n".join(
        [
            f"`python -m benchmarks accuracy`, {kept['date']}. {kept['machine']}; "
            f"{kept['versions']}.",
            against(measured),
            NOTE,
            "![Errors and processor seconds of the learners]"
            "(figures/error_against_time.png)",
            "![Mean ranks of the learners, with the critical difference]"
            "(figures/ranks.png)",
            *tables_of_measures,
        ]
    )


def errors_of(measured: Measured) -> dict[str, str]:
    """The measure of error of each table."""
    return {name: "RMSE / sd" if name in REGRESSION else "% wrong" for name in measured}


def middle(measured: Measured, measure: dict[str, str]) -> pd.DataFrame:
    """Medians over splits of a measure of each table, a column for each learner; NaN
    where there is none.
    """
    return pd.DataFrame(
        {
            learner: {
                name: float(np.median(found[learner].get(measure[name], [np.nan])))
                for name, found in measured.items()
                if learner in found
            }
            for learner in LEARNERS
            if any(learner in found for found in measured.values())
        }
    ).dropna(how="all")


def figures(measured: Measured, measure: dict[str, str], digits: int) -> str:
    """Table of the medians."""
    learners = list(middle(measured, measure))
    lines = [
        [f"{name}, {measure[name]}", n_splits(measured[name]), *cells]
        for name, *cells in bold_medians(measured, measure, digits)
    ]
    return table(["data, measure", "splits", *learners], lines)


def n_splits(found: dict[str, dict[str, list[Any]]]) -> int:
    """Number of splits that ours is measured on."""
    return len(found["bochner"]["fit"])


def bold_medians(
    measured: Measured, measure: dict[str, str], digits: int
) -> list[list[str]]:
    """Names and medians of the tables. Bold are the lowest one and those that are not
    two standard errors of the paired differences above it.
    """
    medians = middle(measured, measure)
    lines = []
    for name, row in medians.iterrows():
        best = row.idxmin()
        lowest = measured[name][best][measure[name]]
        cells = []
        for learner, median in row.items():
            found = measured[name].get(learner, {})
            values = found.get(measure[name])
            if values is None:
                cells.append(found.get("error", [""])[0])
                continue
            differences = np.subtract(*paired(values, lowest))
            is_as_low = learner == best or (
                len(differences) > 2
                and differences.mean()
                < 2 * differences.std(ddof=1) / np.sqrt(len(differences))
            )
            cell = f"{median:.{digits}g}"
            cells.append(f"**{cell}**" if is_as_low else cell)
        lines.append([str(name), *cells])
    return lines


def paired(one: list[float], other: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Values of the splits that both have."""
    n = min(len(one), len(other))
    return np.array(one[:n]), np.array(other[:n])


class Compared(NamedTuple):
    """Our medians beside those of another learner: the number of tables where ours
    are lower, of all that both finished, the geometric mean of the ratios, and
    Wilcoxon's p.
    """

    lower: int
    n: int
    ratio: float
    p: float


def compared(medians: pd.DataFrame, learner: str) -> Compared:
    """Our medians beside those of a learner."""
    floored = medians.clip(lower=LEAST_ERROR)
    ratios = (floored["bochner"] / floored[learner]).dropna()
    logs = np.log(ratios)
    return Compared(
        int(np.sum(ratios < 1)),
        len(ratios),
        float(np.exp(logs.mean())),
        float(wilcoxon(logs).pvalue),
    )


def against(measured: Measured) -> str:
    """Table of our medians beside those of each other learner, over all tables."""
    errors = middle(measured, errors_of(measured))
    losses = middle(measured, dict.fromkeys(measured, "log loss"))
    seconds = middle(measured, dict.fromkeys(measured, "processor"))
    lines = []
    for learner in errors.columns.drop("bochner"):
        cells: list[object] = [learner]
        for medians in (errors, losses):
            ours = compared(medians, learner)
            cells += [f"{ours.lower} of {ours.n}", f"{ours.ratio:.3f}", f"{ours.p:.2g}"]
        ratios = (seconds["bochner"] / seconds[learner]).dropna()
        lines.append([*cells, f"{np.median(ratios):.3g}"])
    header = [
        "bochner against",
        "lower error",
        "ratio of errors",
        "p",
        "lower log loss",
        "ratio of losses",
        "p",
        "processor seconds, ratio",
    ]
    return table(header, lines)


def on_all_tables(measured: Measured) -> pd.DataFrame:
    """Errors of the learners that are measured on all tables."""
    errors = middle(measured, errors_of(measured))
    return errors.drop(columns=NETWORK, errors="ignore")


def draw_errors(measured: Measured) -> None:
    """Error over that of the best learner against processor seconds over LightGBM's:
    a point for each learner, with quartiles over the tables.
    """
    errors = on_all_tables(measured)
    seconds = middle(measured, dict.fromkeys(measured, "processor"))
    excess = errors.div(errors.min(axis=1), axis=0)
    times = seconds.div(seconds["LightGBM"], axis=0)
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
    for learner in errors:
        colour = BLUE if learner.startswith("bochner") else GREY
        middle_time = times[learner].median()
        low, middle_excess, high = excess[learner].quantile([0.25, 0.5, 0.75])
        ax.plot([middle_time] * 2, [low, high], color=colour, linewidth=1, alpha=0.6)
        ax.plot(middle_time, middle_excess, "o", color=colour)
        right, up, side = PLACES.get(learner, (7, 4, "left"))
        ax.annotate(
            learner,
            (middle_time, middle_excess),
            (right, up),
            textcoords="offset points",
            ha=side,
            color=colour,
        )
    ax.set(
        xscale="log",
        xlabel="Processor seconds of a fit, over LightGBM's",
        ylabel="Test error, over the lowest of the table",
    )
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_ylim(0.98, min(2.0, ax.get_ylim()[1]))
    ax.spines[["top", "right"]].set_visible(False)
    save_figure(figure, "error_against_time.png", 130)
    plt.close(figure)


def draw_ranks(errors: pd.DataFrame, name: str) -> pd.Series:
    """Mean ranks of learners that finished on most tables, and the critical
    difference of Nemenyi's test (Demsar, 2006); what did not finish is the last.
    """
    ranks = mean_ranks(errors)
    k, n = len(ranks), len(errors)
    critical = (
        studentized_range.ppf(1 - CRITICAL, k, np.inf)
        / np.sqrt(2)
        * np.sqrt(k * (k + 1) / (6 * n))
    )
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(8, 0.35 * k + 1.2), layout="constrained")
    for i, (learner, rank) in enumerate(ranks.items()):
        ax.plot(rank, i, "o", color=BLUE if learner.startswith("bochner") else GREY)
        ax.plot([rank, rank + critical], [i, i], color="0.75", zorder=0)
    ax.set_yticks(range(k), ranks.index)
    ax.invert_yaxis()
    ax.set_xlabel(
        f"Mean rank over {n} data sets; lines: critical difference {critical:.2f} "
        "(Nemenyi, 5 %)"
    )
    ax.spines[["top", "right"]].set_visible(False)
    save_figure(figure, name, 90)
    plt.close(figure)
    return ranks


def mean_ranks(errors: pd.DataFrame) -> pd.Series:
    """Mean ranks of learners that finished on more than half of the tables, the best
    first.
    """
    finished = errors.loc[:, errors.notna().mean() > 0.5]
    return finished.fillna(np.inf).rank(axis=1).mean().sort_values()


if __name__ == "__main__":
    os.environ |= dict.fromkeys(THREADS, "1")
    run("accuracy", cells(), work, page)
