"""What fits without arguments, or with a time limit, cost: ``python -m benchmarks
learning [--only NAME ...]``.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

import numpy as np

import synthetic
from accuracy import boosted, error, estimator, few, tried
from datasets import Split, categorised
from report import Row
from runner import elapsed, repeats, run, seconds, size

FITS = {  # bar in seconds, number of runs
    "cpu_act": (2.5, 5),
    "california_housing": (2.5, 5),
    "house_16H": (2.5, 5),
    "adult": (2.5, 5),
    "adult_a9a": (2.5, 5),
    "digits": (0.6, 5),
    "mnist": (12, 3),
    "covtype": (4.5, 3),
    "covtype, seven types": (8, 3),
}
LARGE_TREES = {"n_estimators": 500, "num_leaves": 255}
BATCH = 10_000
SECOND = (
    "cpu_act",
    "california_housing",
    "house_16H",
    "adult",
    "adult_a9a",
    "kddcup99",
    "covtype",
    "mnist",
)
LIMITS = (0.2, 0.5, 1.0, 5.0)


def waves(n_rows: int, n_columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A smooth target of three columns, and a step in a fourth, under some noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
    y = (
        np.sin(2 * X[:, 0])
        + X[:, 1] * X[:, 2]
        + (X[:, 3] > 0.5)
        + 0.3 * rng.standard_normal(n_rows)
    )
    return X, y


def fits(name: str) -> list[Row]:
    """Fit without arguments, and predict, against LightGBM; of 500 trees of 255
    leaves for Forest's two classes.
    """
    bar, runs = FITS[name]
    data, tree_options = tried(name), LARGE_TREES if name == "covtype" else {}
    theirs, tables = boosted(name, **tree_options), categorised(data)
    estimator(name, random_state=0).fit(few(data.X), few(data.y))  # loads compiled code
    pairs, errors = [], []
    for seed in range(repeats(runs)):
        ours = estimator(name, random_state=seed)
        if seed == 0 or bar <= 2.5:
            boosting = elapsed(partial(theirs.fit, tables.X, tables.y))
        pairs.append((elapsed(partial(ours.fit, data.X, data.y)), boosting))
        errors.append(error(name, ours.predict(data.X_test), data.y_test))
    took, peer = (
        [a for a, _ in pairs],
        "LightGBM, 500 trees of 255 leaves" if tree_options else "LightGBM",
    )
    times = median(a / b for a, b in pairs)
    return [
        Row(
            f"{name}: fit",
            f"{median(took):.2f} s ({min(took):.2f} - {max(took):.2f})",
            f"<= {bar:g} s",
            peer,
            times,
        ),
        Row(
            f"{name}: its test error",
            f"{median(errors):.4g}",
            "<= 1.8 %" if name == "covtype" else "",
        ),
        *predictions(name, ours, theirs, data),
    ]


def predictions(name: str, ours: Any, theirs: Any, data: Split) -> list[Row]:
    """Predict many rows, and one."""
    many = np.arange(max(BATCH, len(data.y_test))) % len(data.y_test)

    def times(model: Any, X: Any) -> tuple[float, float]:
        rows = getattr(X, "iloc", X)
        return seconds(partial(model.predict, rows[many])), seconds(
            partial(model.predict, rows[:1]), 101
        )

    (batch, single), (their_batch, their_single) = (
        times(ours, data.X_test),
        times(theirs, categorised(data).X_test),
    )
    row, peer = f"{1e6 * batch / len(many):.2f} us", "LightGBM's"
    return [
        Row(
            f"{name}: predict, a row of many", row, "<= 2 us", peer, batch / their_batch
        ),
        Row(
            f"{name}: predict, a single row",
            f"{1e3 * single:.2f} ms",
            "<= 0.3 ms",
            peer,
            single / their_single,
        ),
    ]


def small() -> list[Row]:
    """Fits of few rows, compiled code warm."""
    rows = []
    for n_rows, n_columns, bar in ((150, 8, 0.05), (1000, 20, 0.25)):
        X, y = waves(n_rows, n_columns)
        ours = seconds(
            lambda X=X, y=y: estimator("cpu_act", random_state=0).fit(X, y), repeats(5)
        )
        theirs = seconds(lambda X=X, y=y: boosted("cpu_act").fit(X, y), repeats(5))
        rows.append(
            Row(
                f"{n_rows:,} x {n_columns}: fit",
                f"{ours:.3f} s",
                f"<= {bar:g} s",
                "LightGBM",
                ours / theirs,
            )
        )
    return rows


def cost() -> list[Row]:
    """Seconds of the choice, within those of the fit, as rows grow."""
    rows = []
    estimator("cpu_act", random_state=0).fit(*waves(3000, 20))
    for n_rows in (10_000, 100_000, 1_000_000):
        model = estimator("cpu_act", random_state=0)
        whole = elapsed(partial(model.fit, *waves(size(n_rows), 20)))
        chosen = sum(model.report_.seconds.values())
        what, bar = f"choice of the model, {n_rows:,} x 20", "<= 5 s, or 0.67 x"
        rows.append(Row(what, f"{chosen:.1f} s", bar, "the whole fit", chosen / whole))
    return rows


def second() -> list[Row]:
    """Fits with a time limit of one second against LightGBM's defaults."""
    rows, better = [], []
    estimator("cpu_act", random_state=0).fit(*waves(3000, 20))
    for name in SECOND:
        data = tried(name)
        tables = categorised(data)
        theirs = error(
            name,
            boosted(name).fit(tables.X, tables.y).predict(tables.X_test),
            data.y_test,
        )
        errors, took = [], []
        for seed in range(repeats(3)):
            model = estimator(name, time_limit=1.0, random_state=seed)
            took.append(elapsed(partial(model.fit, data.X, data.y)))
            errors.append(error(name, model.predict(data.X_test), data.y_test))
        ours = median(errors)
        better.append(ours <= theirs)
        text = f"{ours:.4g} in {median(took):.2f} s"
        rows.append(
            Row(
                f"{name}: test error with time_limit=1",
                text,
                "",
                "LightGBM's",
                ours / theirs,
            )
        )
    count = Row(
        "data sets where that is LightGBM's or better",
        f"{sum(better)} of {len(SECOND)}",
        ">= 6 of 8",
    )
    return [*rows, count]


def thresholds() -> list[Row]:
    """Errors on tables of rules by thresholds, with jumps in the warps of columns and
    without, against LightGBM's defaults: medians over three seeds.
    """
    rows = []
    for name in synthetic.THRESHOLDS:
        errors = []
        for seed in range(repeats(3)):
            data = synthetic.draw(name, seed)
            models = (
                estimator(name, random_state=seed),
                estimator(name, random_state=seed, metric="ard"),
                boosted(name),
            )
            predicted = [
                model.fit(data.X, data.y).predict(data.X_test) for model in models
            ]
            errors.append([error(name, one, data.y_test) for one in predicted])
        *ours, theirs = np.median(errors, axis=0)
        rows += [
            Row(
                f"{name}: test error{how}", f"{one:.4g}", "", "LightGBM's", one / theirs
            )
            for how, one in zip(("", ", no jumps"), ours, strict=True)
        ]
    return rows


def surfaces() -> list[Row]:
    """Errors and seconds on 400 rows of smooth surfaces, against scikit-learn's
    Gaussian process with a lengthscale for each column, and LightGBM's defaults:
    medians over three seeds.
    """
    rows = []
    estimator("cpu_act", random_state=0).fit(*waves(400, 10))
    for name in synthetic.SURFACES:
        errors, took = [], []
        for seed in range(repeats(3)):
            data = synthetic.draw(name, seed)
            models = (
                estimator(name, random_state=seed),
                gaussian_process(data.X.shape[1]),
                boosted(name),
            )
            took.append([elapsed(partial(one.fit, data.X, data.y)) for one in models])
            errors.append(
                [error(name, one.predict(data.X_test), data.y_test) for one in models]
            )
        ours, process, trees = np.median(errors, axis=0)
        time, process_time, _ = np.median(took, axis=0)
        text = f"{ours:.4g}"
        rows += [
            Row(f"{name}: test error", text, "", "a Gaussian process'", ours / process),
            Row(
                f"{name}: LightGBM's test error",
                f"{trees:.4g}",
                "",
                "a Gaussian process'",
                trees / process,
            ),
            Row(
                f"{name}: fit",
                f"{time:.2f} s",
                "",
                "a Gaussian process",
                time / process_time,
            ),
        ]
    return rows


def gaussian_process(n_columns: int) -> Any:
    """Scikit-learn's, with a lengthscale for each column and noise."""
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    lengthscales = kernels.RBF(np.ones(n_columns), (1e-2, 1e4))
    kernel = kernels.ConstantKernel(1.0, (1e-3, 1e6)) * lengthscales
    noise = kernels.WhiteKernel(1e-2, (1e-10, 10.0))
    process = GaussianProcessRegressor(kernel + noise, normalize_y=True)
    return make_pipeline(StandardScaler(), process)


def limits() -> list[Row]:
    """Seconds that fits with a time limit take."""
    adult = tried("adult")
    data = {
        f"{n_rows:,} x {n_columns}": (
            "cpu_act",
            Split(*waves(size(n_rows), n_columns), *waves(5000, n_columns, 1)),
        )
        for n_rows, n_columns in ((16_512, 8), (100_000, 20))
    } | {"adult": ("adult", adult)}
    rows = []
    for what, (task, (X, y, X_test, y_test)) in data.items():
        estimator(task, random_state=0).fit(few(X), few(y))
        for limit in LIMITS:
            model = estimator(task, time_limit=limit, random_state=0)
            took = median(elapsed(partial(model.fit, X, y)) for _ in range(repeats(3)))
            score = f"{took:.2f} s (score {model.score(X_test, y_test):.3f})"
            rows.append(
                Row(
                    f"{what}: fit with time_limit={limit:g}",
                    score,
                    "<= 1.2 x",
                    "the limit",
                    took / limit,
                )
            )
    return rows


SHAPES: dict[
    str, tuple[int, int, int, dict[str, Any]]
] = {  # rows, columns, classes (0: numbers), options
    "few rows": (200, 8, 0, {}),
    "many columns": (20_000, 784, 0, {}),
    "many rows": (1_000_000, 20, 0, {}),
    "100 classes": (20_000, 20, 100, {}),
    "2,584 classes": (20_000, 8, 2_584, {}),
    "quantile": (200_000, 8, 0, {"loss": "quantile"}),
    "logistic": (30_000, 8, 3, {"loss": "logistic"}),
    "uncertainty": (30_000, 8, 0, {"uncertainty": True}),
    "uncertainty of few rows": (200, 8, 0, {"uncertainty": True}),
}


def shapes() -> list[Row]:
    """Seconds of fits with a time limit of tables of all shapes, losses and kinds of
    uncertainty: the worst first.
    """
    from bochner import KernelMachineClassifier, KernelMachineRegressor

    found = []
    for what, (n_rows, n_columns, n_classes, options) in SHAPES.items():
        X, y = waves(size(n_rows), n_columns)
        if n_classes:
            y = np.array(
                [
                    f"class {k}"
                    for k in np.argsort(np.argsort(y))
                    * min(n_classes, len(y) // 4)
                    // len(y)
                ]
            )
        machine = KernelMachineClassifier if n_classes else KernelMachineRegressor
        for limit in (0.3, 1.0, 5.0):
            model = machine(random_state=0, time_limit=limit, **options)
            model.fit(X, y)  # loads compiled code
            took = median(elapsed(partial(model.fit, X, y)) for _ in range(repeats(3)))
            row = (
                f"{what}: fit with time_limit={limit:g}",
                f"{took:.2f} s",
                "<= 1.2 x",
                "the limit",
                took / limit,
            )
            found.append((took / limit, Row(*row)))
    return [row for _, row in sorted(found, key=lambda one: -one[0])]


BENCHMARKS = {name: partial(fits, name) for name in FITS} | {
    "small": small,
    "cost": cost,
    "second": second,
    "thresholds": thresholds,
    "surfaces": surfaces,
    "limits": limits,
    "shapes": shapes,
}


if __name__ == "__main__":
    run(
        "Metric learning and model selection",
        __file__,
        __doc__,
        BENCHMARKS,
        packages=("lightgbm",),
    )
