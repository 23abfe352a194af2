"""The walks of CONTRIBUTING.md, from `fit` to the compiled loops, are those that a fit takes."""

import re
import sys

import numpy as np
import pytest

from bochner import KernelMachineClassifier
from bochner.engines import local
from bochner.kernels import Gaussian
from bochner.loops import bins, metric, trig

MOST_CALLS = 9
rng = np.random.default_rng(0)
X = rng.standard_normal((300, 3))
LABELS = X[:, 0] * X[:, 1] > 0


def calls():
    """Functions that are being called, from the outermost on; engines only run what they are given."""
    names, frame = [], sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if "/bochner/" in code.co_filename and "/engines/" not in code.co_filename:
            names.append(code.co_qualname)
        frame = frame.f_back
    return [name for name in names[::-1] if "<" not in name]  # what a function defines inside is part of it


def walks_to(module, name, fit, monkeypatch):
    """All ways on which a fit comes to a loop."""
    loop, found = getattr(module, name), []

    def note(*arguments):
        found.append(" > ".join([*calls(), name]))
        return loop(*arguments)

    monkeypatch.setattr(module, name, note)
    monkeypatch.setattr(local, "n_threads", lambda: 1)
    fit()
    return found


@pytest.mark.parametrize(
    ("module", "loop", "options"),
    [
        (bins, "gather", {"features": "binning", "metric": "isotropic", "n_components": 5}),
        (trig, "cos_sin", {"kernel": Gaussian(2.0), "n_components": 20, "solver": "direct", "alpha": 1.0}),
        (metric, "add_distances", {"features": "binning", "n_components": 5}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_walk(checkout, module, loop, options, monkeypatch):
    (written,) = re.findall(rf"^    (\S.* > {loop})$", (checkout / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    model = KernelMachineClassifier(**options, random_state=0)
    assert written in walks_to(module, loop, lambda: model.fit(X, LABELS), monkeypatch)
    assert written.count(" > ") <= MOST_CALLS
