"""What is compiled ahead is all that default fits, predictions, explanations and
pages use: by the lists of loops.
"""

import subprocess
import sys

from bochner.cli import installation

WORK = """
import numpy as np, pandas as pd, warnings
import bochner
from bochner import KernelMachineClassifier, KernelMachineRegressor
from bochner.loops.compile import LOOPS

def loaded():
    return {(loop.py_func.__name__, str(types)) for loop in LOOPS for types in loop.signatures}

bochner.warmup()
before = loaded()
rng, n = np.random.default_rng(0), 700
X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "k": rng.choice(list("uvw"), n)})
X["d"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 99, n), "D")
X.loc[::7, "b"] = None
y = np.sin(2 * X["a"]) + (X["k"] == "u") + 0.1 * rng.normal(size=n)
classes = np.where(y > 1, "high", np.where(y > 0, "middle", "low"))
numbers = rng.normal(size=(2600, 3)).astype(np.float32)
signs = np.where(numbers[:, 0] + numbers[:, 1] > 0.5, "plus", "minus")
bins = {"features": "binning", "n_components": 16, "random_state": 0}
warnings.simplefilter("ignore")
for model, rows, target in (
    (KernelMachineRegressor(time_limit=0.5, random_state=0), X, y),
    (KernelMachineRegressor(features="fourier", uncertainty=True, n_components=64, random_state=0), X[:150], y[:150]),
    (KernelMachineClassifier(**bins), X, classes),
    (KernelMachineClassifier(metric="full", **bins), numbers, signs),  # whose linear map is not explained by products
):
    model.fit(rows, target)
    model.predict(rows[:1])
    model.explain(rows[:5])
    model.report_html(rows[:60], target[:60])
print(sorted(loaded() - before))
"""


def test_nothing_is_compiled_after_warmup():
    done = subprocess.run(
        [sys.executable, "-c", WORK], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_the_demonstration_compiles_all_loops_first(monkeypatch):
    calls = []
    monkeypatch.setattr(
        installation.loop_cache, "warmup", lambda: calls.append("warmup")
    )
    monkeypatch.setattr(
        installation,
        "_fit_and_score",
        lambda name, *rest, **options: calls.append(name) or {"rows": 1},
    )
    installation.demo()
    assert calls[0] == "warmup"
    assert len(calls) == 4


def test_a_demonstration_goes_on_where_no_loop_can_be_kept(monkeypatch):
    def refuse():
        raise OSError("no folder is writable")

    monkeypatch.setattr(installation, "warmup", refuse)
    monkeypatch.setattr(
        installation, "_fit_and_score", lambda *rest, **options: {"rows": 1}
    )
    assert len(installation.demo()["results"]) == 3
