"""The walks of CONTRIBUTING.md, from public methods to the loops, are those that are
taken, and short.
"""

import re
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bochner import (
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelPCA,
    SemiSupervisedClassifier,
)
from bochner.engines import local
from bochner.features import anchors
from bochner.inputs import opened
from bochner.kernels import Gaussian
from bochner.loops import bins, coordinates, trig

rng = np.random.default_rng(0)
X = rng.standard_normal((300, 3))
Y = X[:, 0] * X[:, 1]
LABELS = Y > 0
DENSE = {
    "kernel": Gaussian(2.0),
    "features": "fourier",
    "n_components": 20,
    "solver": "direct",
    "alpha": 1.0,
}
BINS = {"features": "binning", "n_components": 5}


def classifier(**options):
    return KernelMachineClassifier(**options, random_state=0)


def regressor(**options):
    return KernelMachineRegressor(**DENSE, **options, random_state=0)


def few_in_memory(monkeypatch):
    monkeypatch.setattr(
        opened, "POLICY", replace(opened.POLICY, gathered_rows=50, sampled_rows=50)
    )
    monkeypatch.setattr(opened, "FEWEST_SAMPLED", 50)


def files(tmp_path, monkeypatch):
    few_in_memory(monkeypatch)
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=Y)
    for k in range(3):
        frame.iloc[100 * k : 100 * k + 100].to_parquet(tmp_path / f"{k}.parquet")
    return lambda: regressor().fit(tmp_path, "y")


def collections(tmp_path, monkeypatch):
    few_in_memory(monkeypatch)
    array = pytest.importorskip("dask.array").from_array
    config = pytest.importorskip("dask").config

    def fit():
        with config.set(scheduler="synchronous"):
            regressor().fit(array(X, chunks=(100, 3)), array(Y, chunks=100))

    return fit


def semi_supervised():
    return SemiSupervisedClassifier(random_state=0).fit(
        X, np.where(np.arange(300) < 30, LABELS, -1)
    )


def walk(most, module, loop, call=None, prepare=None, whole=True):
    """A walk of at most so many calls to a loop; `whole` where no other walk to this
    is longer, as of a selection.
    """
    return SimpleNamespace(
        most=most, module=module, loop=loop, call=call, prepare=prepare, whole=whole
    )


WALKS = {  # as they stand in CONTRIBUTING.md
    "conjugate gradients": walk(
        12,
        bins,
        "gather",
        lambda: classifier(metric="isotropic", **BINS).fit(X, LABELS),
        whole=False,
    ),
    "moments": walk(12, trig, "cos_sin", lambda: classifier(**DENSE).fit(X, LABELS)),
    "metric learning": walk(
        12, coordinates, "kernel_rows", lambda: classifier(**BINS).fit(X, LABELS)
    ),
    "files": walk(14, trig, "cos_sin", prepare=files),
    "Dask": walk(16, trig, "cos_sin", prepare=collections),
    "uncertainty": walk(
        12, trig, "cos_sin", lambda: regressor(uncertainty=True).fit(X, Y), whole=False
    ),
    "partial_fit": walk(
        8,
        trig,
        "cos_sin",
        prepare=lambda *_: partial(regressor().prepare(X, Y).partial_fit, X, Y),
    ),
    "predict": walk(
        6, trig, "cos_sin", prepare=lambda *_: partial(regressor().fit(X, Y).predict, X)
    ),
    "KernelPCA": walk(
        6,
        trig,
        "cos_sin",
        lambda: KernelPCA(
            features=FourierFeatures(Gaussian(2.0), 20), random_state=0
        ).fit(X),
    ),
    "SemiSupervisedClassifier": walk(12, anchors, "_nearest", semi_supervised),
}


def calls():
    """Functions that are being called, from the outermost on; engines only run what
    they are given.
    """
    names, frame = [], sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if "/bochner/" in code.co_filename and "/engines/" not in code.co_filename:
            names.append(code.co_qualname)
        frame = frame.f_back
    return [
        name for name in names[::-1] if "<" not in name
    ]  # what a function defines inside is part of it


def walks_to(module, name, call, monkeypatch):
    """All ways on which a call comes to a loop."""
    loop, found = getattr(module, name), []

    def note(*arguments):
        found.append(" > ".join([*calls(), name]))
        return loop(*arguments)

    monkeypatch.setattr(module, name, note)
    monkeypatch.setattr(local, "n_threads", lambda: 1)
    call()
    return found


@pytest.fixture
def written(checkout):
    lines = re.findall(
        r"^    (\w+\.\w+ > .*)$",
        (checkout / "CONTRIBUTING.md").read_text(),
        re.MULTILINE,
    )
    return dict(zip(WALKS, lines, strict=True))


@pytest.mark.parametrize("name", WALKS)
def test_walk(written, name, tmp_path, monkeypatch):
    case = WALKS[name]
    call = case.call if case.prepare is None else case.prepare(tmp_path, monkeypatch)
    found = walks_to(case.module, case.loop, call, monkeypatch)
    assert written[name] in found, sorted(set(found), key=len)[:5]
    longest = (
        max(found, key=lambda way: way.count(" > ")) if case.whole else written[name]
    )
    assert longest.count(" > ") <= case.most, longest
