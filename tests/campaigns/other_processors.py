"""The same fits by the code that Numba and OpenBLAS have for other processors, each in a process of its own.

Run as a script, it fits small models of all ways to solve, and writes their predictions. Predictions of two settings
agree to `TOLERANCE` deviations of the target, where both have selected the same model.
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
NUMBA = ["generic", "x86-64-v3"]
OPENBLAS = {"Prescott": "", "Sandybridge": "avx", "Haswell": "avx2", "Zen": "avx2", "SkylakeX": "avx512f"}


def settings() -> dict[str, dict[str, str]]:
    """Environment variables by the names of settings, of those that this processor can run."""
    known = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
    runs = [name for name, flag in OPENBLAS.items() if not flag or flag in known]
    compiled = {f"NUMBA_CPU_NAME={name}": {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""} for name in NUMBA}
    return {"again": {}} | compiled | {f"OPENBLAS_CORETYPE={name}": {"OPENBLAS_CORETYPE": name} for name in runs}


def fitted_as(variables: dict[str, str], folder: Path) -> dict[str, Any]:
    """What the fits predict in a process with environment variables, by names, and which model each has selected."""
    cache, out = folder / f"cache {variables.get('NUMBA_CPU_NAME', '')}", folder / "predictions.npz"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)} | variables
    subprocess.run([sys.executable, __file__, str(out)], env=environment, check=True, timeout=1800)
    with np.load(out) as found:
        return dict(found)


def judge(own: dict[str, Any], found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with each of the fits beside that of this processor, if anything is."""
    for name in (name for name in own if not name.endswith(" selected")):
        chosen = [str(one[f"{name} selected"]) for one in (own, found)]
        gap = float(np.abs(own[name] - found[name]).max())
        if chosen[0] != chosen[1]:
            yield name, f"selected {chosen[1]} and not {chosen[0]}"
        else:
            yield name, f"predictions are {gap:.1e} apart" if not gap <= TOLERANCE else ""


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
        model = bo.KernelMachineRegressor(kernel=Gaussian(2.0), n_components=300, **seed)
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


def selected(model: Any) -> str:
    """Which model a fit has selected: candidate, map and the number of its features, and ridge penalty to a percent."""
    report = getattr(model, "report_", None)
    features = f"{type(model.features_).__name__} {model.features_.n_features_out}"
    return f"{getattr(report, 'chosen', '')}, {features}, alpha {float(model.alpha_):.1e}"


def main(out: str) -> None:
    """Fit everything, and write it."""
    found: dict[str, Any] = {}
    warnings.simplefilter("ignore")
    for name, make in fits().items():
        model, predictions, deviation = make()
        found |= {name: np.asarray(predictions) / deviation, f"{name} selected": np.array(selected(model))}
    np.savez(out, **found)


if __name__ == "__main__":
    main(sys.argv[1])
