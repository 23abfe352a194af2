"""The same fits by the code that Numba and OpenBLAS have for other processors, each in
a process of its own.

Run as a script, it fits small models of all ways to solve, and writes their
predictions. Where nothing is learned by steps, the predictions of two settings agree to
`TOLERANCE` deviations of the target. The steps of metric learning carry a difference of
rounding on until metrics, and what is selected, are others: then the losses of the rows
held out agree to `ERRORS` standard errors.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = 1e-5  # deviations of the target
ERRORS = 3.0  # standard errors of the loss of the selected model
NUMBA = ["generic", "x86-64-v3"]
OPENBLAS = {
    "Prescott": "",
    "Sandybridge": "avx",
    "Haswell": "avx2",
    "Zen": "avx2",
    "SkylakeX": "avx512f",
}


def settings() -> dict[str, dict[str, str]]:
    """Environment variables by the names of settings, of those that this processor
    can run.
    """
    known = (
        Path("/proc/cpuinfo").read_text().split()
        if Path("/proc/cpuinfo").exists()
        else []
    )
    runs = [name for name, flag in OPENBLAS.items() if not flag or flag in known]
    compiled = {
        f"NUMBA_CPU_NAME={name}": {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
        for name in NUMBA
    }
    return (
        {"again": {}}
        | compiled
        | {f"OPENBLAS_CORETYPE={name}": {"OPENBLAS_CORETYPE": name} for name in runs}
    )


def fitted_as(variables: dict[str, str], folder: Path) -> dict[str, Any]:
    """What the fits predict in a process with environment variables, by names, and
    which model each has selected.
    """
    cache, out = (
        folder / f"cache {variables.get('NUMBA_CPU_NAME', '')}",
        folder / "predictions.npz",
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)} | variables
    subprocess.run(
        [sys.executable, __file__, str(out)], env=environment, check=True, timeout=1800
    )
    with np.load(out) as found:
        return dict(found)


def judge(own: dict[str, Any], found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with each of the fits beside that of this processor, if anything
    is.
    """
    for name in (name for name in own if not name.endswith(" loss")):
        (loss, noise), (other, _) = own[f"{name} loss"], found[f"{name} loss"]
        gap = float(np.abs(own[name] - found[name]).max())
        if gap <= TOLERANCE:
            yield name, ""
        elif np.isnan(loss):
            yield name, f"predictions are {gap:.1e} apart"
        else:
            near = abs(loss - other) <= ERRORS * noise
            yield (
                name,
                ""
                if near
                else f"losses of {other:.4g} and {loss:.4g}, with a standard error "
                f"of {noise:.1g}",
            )


def fits() -> dict[str, Callable[[], tuple[Any, Any, float]]]:
    """Makers of models, with their predictions and the deviation of the target."""
    import bochner as bo
    from bochner.kernels import Gaussian, Laplacian

    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0) + 0.2 * rng.normal(size=len(X))
    labels = np.digitize(y, [-0.5, 0.7])
    new = rng.normal(size=(200, 4))
    seed: dict[str, Any] = {"random_state": 0}
    bins = bo.BinningFeatures(Laplacian(3.0), 50, **seed)

    def numbers(**given: Any) -> Callable[[], tuple[Any, Any, float]]:
        def make() -> tuple[Any, Any, float]:
            model = bo.KernelMachineRegressor(**seed, **given).fit(X, y)
            return model, model.predict(new), float(y.std())

        return make

    def classes(**given: Any) -> Callable[[], tuple[Any, Any, float]]:
        def make() -> tuple[Any, Any, float]:
            model = bo.KernelMachineClassifier(**seed, **given).fit(X, labels)
            return model, model.predict_proba(new), 1.0

        return make

    def streamed() -> tuple[Any, Any, float]:
        model = bo.KernelMachineRegressor(
            kernel=Gaussian(2.0), n_components=300, **seed
        )
        for start in range(0, len(X), 100):
            model.partial_fit(X[start : start + 100], y[start : start + 100])
        return model, model.predict(new), float(y.std())

    return {
        "default": numbers(),
        "fourier": numbers(features="fourier"),
        "structured": numbers(kernel=Gaussian(2.0), n_components=512),
        "bins": numbers(features=bins),
        "learned bins": numbers(features="binning"),
        "hybrid": numbers(features="hybrid"),
        "exact": numbers(kernel=Gaussian(2.0), solver="exact"),
        "uncertain": numbers(features="fourier", uncertainty=True),
        "classes": classes(),
        "classes of bins": classes(features="binning"),
        "logistic": classes(features="fourier", loss="logistic"),
        "streamed": streamed,
    }


def loss_of(model: Any) -> tuple[float, float]:
    """Loss of the selected model on rows held out, and its standard error; not a
    number where nothing was learned.
    """
    report = getattr(model, "report_", None)
    chosen = (
        [one for one in report.candidates if one.name == report.chosen]
        if report is not None
        else []
    )
    return (chosen[0].loss, chosen[0].standard_error) if chosen else (np.nan, np.nan)


def main(out: str) -> None:
    """Fit everything, and write it."""
    found: dict[str, Any] = {}
    warnings.simplefilter("ignore")
    for name, make in fits().items():
        model, predictions, deviation = make()
        found |= {
            name: np.asarray(predictions) / deviation,
            f"{name} loss": np.array(loss_of(model)),
        }
    np.savez(out, **found)


if __name__ == "__main__":
    main(sys.argv[1])
