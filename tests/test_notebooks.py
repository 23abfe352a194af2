"""What objects show in notebooks: small tables, the diagram of scikit-learn with
what was learned, bars of progress.
"""

import builtins
import sys
from html.parser import HTMLParser
from types import ModuleType

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import FourierFeatures, KernelMachineClassifier, KernelMachineRegressor
from bochner.engines.progress import is_watched, progress
from bochner.features import Metric
from bochner.selection import Candidate, Report
from bochner.theory import kernel_error

HOSTILE = "<script>alert(1)</script>"


class Tables(HTMLParser):
    """Captions, cells and tags of a fragment; every tag must be closed."""

    def __init__(self, source):
        super().__init__()
        self.names, self.open, self.captions, self.cells = [], [], [], []
        self.feed(source)
        self.close()
        assert not self.open
        assert self.names.count("table") == len(self.captions)

    def handle_starttag(self, name, attributes):
        self.names.append(name)
        if name != "br":
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if "caption" in self.open:
            self.captions.append(data)
        elif {"td", "th"} & set(self.open):
            self.cells.append(data)


def test_report():
    worse = "2.1 standard errors worse"
    candidates = [
        Candidate("bins", 800, 0.25, 0.01, 1.5),
        Candidate(HOSTILE, 2000, 0.3, 0.012, 0.44, worse, 0.05, 0.02),
    ]
    shown = Tables(
        Report(
            "log loss", 500, candidates, "bins", "lowest validation loss"
        )._repr_html_()
    )
    assert shown.captions == ["Candidates on 500 validation rows"]
    assert shown.cells[8:] == [
        "bins",
        "0.25",
        "0.01",
        "chosen",
        "800",
        "1.5",
        HOSTILE,
        "0.3",
        "0.012",
        "0.05",
        "0.02",
        worse,
        "2,000",
        "0.4",
    ]
    assert "script" not in shown.names
    assert Tables(Report()._repr_html_()).captions


def test_metric():
    warp = {
        "warped": [1],
        "knots": [[0.0, 1.0]],
        "levels": [[0.0, 4.0]],
        "slopes": [0.5],
    }
    metric = Metric(
        3, source=[0, 2], scale=[10.0, 1.0], relevance=[0.3, 0.0, 0.7], **warp
    )
    shown = Tables(metric._repr_html_())
    assert shown.captions == ["Metric: 2 coordinates of 3 columns"]
    assert shown.cells[4:] == [
        "x2",
        "70 %",
        "1",
        "1",
        "x0",
        "30 %",
        "1",
        "0",
        "x1",
        "0.0 %",
        "0",
        "0",
    ]
    assert (
        "the 20 most relevant columns"
        in Metric(30, range(30), np.ones(30))._repr_html_()
    )


def test_plan():
    plan = KernelMachineRegressor(features="fourier", n_components=500).plan(
        np.zeros((10_000, 20))
    )
    shown = Tables(plan._repr_html_())
    assert shown.cells[2:] == [part for fact in plan.facts() for part in fact if part]


def test_kernel_error():
    X = np.random.default_rng(0).standard_normal((200, 2))
    error = kernel_error(
        FourierFeatures(random_state=0).fit(X), X, n_pairs=50, random_state=0
    )
    shown = Tables(error._repr_html_())
    assert shown.captions == [
        "Error of FourierFeatures on 50 pairs of rows",
        "By the kernel value",
    ]
    assert f"{error.mean_absolute:.4g}" in shown.cells
    assert len(error.groups) == sum(cell == "5" for cell in shown.cells)


@pytest.mark.parametrize("estimator", [KernelMachineRegressor, KernelMachineClassifier])
def test_diagram_shows_what_was_learned(estimator):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(
        np.random.default_rng(0).uniform(size=(300, 2)), columns=["plain", HOSTILE]
    )
    model = estimator(random_state=0, time_limit=1.0)
    before = model._repr_html_()
    model.fit(X, X["plain"] > 0.5)
    after = model._repr_mimebundle_()["text/html"]
    assert "<caption>Learned</caption>" not in before
    assert "<caption>Learned</caption>" in after
    assert f"{model.report_.chosen}: {model.report_.reason}" in after
    assert "plain" in after
    assert HOSTILE not in after.partition("<caption>Learned</caption>")[2]
    assert "<caption>Learned</caption>" in model._repr_html_()
    assert make_pipeline(StandardScaler(), model)._repr_html_()
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")


def test_a_fitted_model_prints_on_one_line():
    X = np.random.default_rng(0).uniform(size=(300, 2))
    model = KernelMachineRegressor(random_state=0, time_limit=1.0).fit(X, X[:, 0])
    assert str(model) == "KernelMachineRegressor(random_state=0, time_limit=1.0)"


class Output:
    """Stands for the widget that holds a bar in a notebook."""

    made = 0

    def __init__(self):
        type(self).made += 1

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        return False

    def close(self):
        """Use the widget away."""

    def clear_output(self, wait=False):
        """Forget what was shown."""


@pytest.mark.parametrize("widgets", [True, False])
def test_progress_is_shown_in_notebooks(monkeypatch, widgets):
    """Where ipywidgets can be had, which rich needs for it."""
    shell = type("ZMQInteractiveShell", (), {})
    shown, display, package, given = (
        [],
        ModuleType("IPython.display"),
        ModuleType("IPython"),
        ModuleType("ipywidgets"),
    )
    display.display, given.Output = shown.append, Output
    Output.made = 0
    monkeypatch.setattr(builtins, "get_ipython", shell, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setitem(sys.modules, "ipywidgets", given if widgets else None)
    assert is_watched() == widgets
    with progress("Fitting", 10, True) as advance:
        advance(10)
    assert bool(shown) == bool(Output.made) == widgets
