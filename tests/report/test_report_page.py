"""The report page: its content, its form, and that no name or value becomes markup."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score

from bochner import (
    BinningFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
)
from bochner.kernels import Additive, Gaussian, Laplacian
from bochner.persistence import load, save
from bochner.report.findings import Origin, curve_by_size, find
from bochner.report.given_rows import Rows

VOID = {"meta", "br", "hr"}
HOSTILE = [
    "<script>alert(1)</script>",
    '" onload="alert(1)',
    "javascript:alert(1)",
    "</style><b>'x",
    "]]>&lt;\u202e",
]


class Page(HTMLParser):
    """A page as a strict reader sees it."""

    def __init__(self, source):
        super().__init__()
        self.open, self.elements, self.texts, self.ids = [], [], [], []
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, name, attributes):
        attributes = dict(attributes)
        self.elements.append((name, attributes))
        if "id" in attributes:
            assert attributes["id"] not in self.ids
            self.ids.append(attributes["id"])
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    def all(self, name):
        return [attributes for tag, attributes in self.elements if tag == name]

    @property
    def text(self):
        return " ".join(self.texts)


def make_frame(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "height": rng.uniform(size=n),
            "width": rng.normal(size=n),
            "kind": rng.choice(["round", "square"], n),
            "day": pd.Timestamp("2025-01-01")
            + pd.to_timedelta(rng.integers(0, 100, n), "D"),
        }
    )
    frame.loc[::9, "width"] = None
    return frame, np.sin(6 * frame["height"]) + (
        frame["kind"] == "round"
    ) + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def regression():
    X, y = make_frame()
    model = KernelMachineRegressor(
        random_state=0, uncertainty="intervals", time_limit=2.0
    ).fit(X[:300], y[:300])
    return model, X[300:], y[300:]


@pytest.fixture(scope="module")
def classification():
    X, y = make_frame(seed=1)
    labels = np.where(y > 1, "high", np.where(y > 0, "middle", "low"))
    model = KernelMachineClassifier(
        kernel="gaussian",
        features="fourier",
        n_components=64,
        metric="isotropic",
        random_state=0,
    ).fit(X[:300], labels[:300])
    return model, X[300:], labels[300:]


@pytest.fixture(scope="module")
def pages(regression, classification):
    return [model.report_html(X, y) for model, X, y in (regression, classification)]


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_page_is_well_formed_and_loads_nothing(pages, which):
    source, page = pages[which], Page(pages[which])
    assert source.startswith("<!DOCTYPE html>")
    assert len(source.encode()) < 2_000_000
    names = {name for name, _ in page.elements}
    assert not names & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
    }
    assert not re.search(r"url\((?!#)", source)
    assert all(
        given["href"][1:] in page.ids and given["href"].startswith("#")
        for given in page.all("use")
    )
    assert "@import" not in source
    assert not re.search(r"(https?:)?//\w", source)
    policy = next(
        given
        for given in page.all("meta")
        if given.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy["content"].startswith("default-src 'none'")
    assert all(not key.startswith("on") for _, given in page.elements for key in given)
    assert all(
        given["href"].startswith("#") and given["href"][1:] in page.ids
        for given in page.all("a")
    )


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_page_is_accessible(pages, which):
    page = Page(pages[which])
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))
    assert all(
        len(page.all(name)) == 1
        for name in ("header", "nav", "main", "footer", "title")
    )
    assert page.all("html") == [{"lang": "en"}]
    assert page.all("nav")[0]["aria-label"]
    assert all(
        given["role"] == "img" and given["aria-label"] for given in page.all("svg")
    )
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(given["scope"] in ("row", "col") for given in page.all("th"))
    assert all(given["aria-labelledby"] in page.ids for given in page.all("section"))
    first = next(given for name, given in page.elements if name == "a")
    assert first["class"] == "skip"


def test_regression_says_what_was_found(regression, pages):
    model, X, y = regression
    page, predicted = Page(pages[0]), model.predict(X)
    assert f"R² {r2_score(y, predicted):.3f}" in page.text
    assert f"{mean_squared_error(y, predicted) ** 0.5:.4g}" in page.text
    for candidate in model.report_.candidates:
        assert f"{candidate.loss:.4g}" in page.text
        assert candidate.name in page.text
    for part in (
        model.report_.reason,
        "Learned warps",
        "Residuals",
        "in intervals of 90 %",
        "numpy",
    ):
        assert part in page.text
    assert all(name in page.text for name in X)
    assert f"model = {model!r}.fit(X_train, y_train)" in page.text
    worst = int(np.argmax((y - predicted) ** 2))
    assert f"{worst:,}" in page.text
    assert "This model has no random features" in page.text


def test_classification_says_what_was_found(classification, pages):
    model, X, labels = classification
    page = Page(pages[1])
    assert f"Accuracy {accuracy_score(labels, model.predict(X)):.3f}" in page.text
    assert f"{log_loss(labels, model.predict_proba(X)):.3f}" in page.text
    for part in (
        "Calibration",
        "Reliability of the probabilities",
        "Nothing was chosen",
        "Error of FourierFeatures",
    ):
        assert part in page.text
    assert {"low", "middle", "high"} <= set(
        " ".join(page.texts).replace(";", " ").split()
    )


@pytest.mark.slow
def test_names_and_values_stay_text():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(200, 5)), columns=HOSTILE)
    X[HOSTILE[0]] = rng.choice(HOSTILE, 200)
    labels = np.where(X[HOSTILE[1]] > 0, *HOSTILE[:2])
    model = KernelMachineClassifier(
        kernel="gaussian", n_components=32, random_state=0
    ).fit(X, labels)
    origin = Origin(target=HOSTILE[3], lines=tuple(HOSTILE))
    from bochner.report import write_report

    source = write_report(model, X, labels, origin=origin)
    page = Page(source)
    assert not page.all("script")
    assert not page.all("b")
    assert all(not key.startswith("on") for _, given in page.elements for key in given)
    assert all(given["href"].startswith("#") for given in page.all("a"))
    assert "\u202e" not in source
    assert all(name in page.text for name in HOSTILE[:4])
    assert source.count("</style>") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "convert", [pl.from_pandas, lambda X: pa.Table.from_pandas(X, preserve_index=False)]
)
def test_frames_of_other_libraries_give_the_same_scores(classification, convert):
    model, X, y = classification
    other = find(model, convert(X), np.asarray(y), Origin())
    own = find(model, X, y, Origin())
    assert other.scores == own.scores
    np.testing.assert_array_equal(other.by_size.losses, own.by_size.losses)
    for one, two in zip(other.explained.effects, own.explained.effects, strict=True):
        np.testing.assert_allclose(one.mean, two.mean)


@pytest.mark.slow
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix, sp.csc_array])
@pytest.mark.parametrize("solver", ["direct", "exact"])
def test_arrays_are_taken(convert, solver):
    X = np.random.default_rng(5).normal(size=(120, 3))
    y = X[:, 0] ** 2
    model = KernelMachineRegressor(
        Gaussian(2.0), n_components=40, alpha=0.1, solver=solver
    )
    model.fit(convert(X), y)
    found = find(model, convert(X), y, Origin())
    assert [one.column for one in found.explained.effects] == [
        f"x{j}" for j in found.explained.columns
    ]
    assert (found.by_size is None) == (solver == "exact")
    assert "x0" in model.report_html(convert(X), y)


@pytest.mark.slow
def test_dates_are_dates():
    rng = np.random.default_rng(6)
    X = pd.DataFrame({"other": rng.normal(size=100)})
    X["day"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(
        rng.integers(0, 100, 100), "D"
    )
    model = KernelMachineRegressor(
        Laplacian(3.0), n_components=64, alpha=0.1, random_state=0
    ).fit(X, X["other"])
    drawn = figures(model.report_html(X, X["other"]))
    assert {"Feb", "Mar"} <= set(texts(drawn["day"]))


@pytest.mark.slow
def test_curves_fit_again_with_other_sizes():
    rng = np.random.default_rng(7)
    X = rng.uniform(-3, 3, size=(600, 1))
    y = np.sin(3 * X[:, 0]) + 0.05 * rng.normal(size=600)
    model = KernelMachineRegressor(
        features=FourierFeatures(Gaussian(0.5), 8, random_state=0), alpha=1e-3
    ).fit(X, y)
    found = find(model, X, y, Origin())
    curve = found.by_size
    assert curve.n_rows == [2, 4, 8, 16]
    assert curve.gain > 2 * curve.gain_error
    assert curve.told("features").startswith("likely to help. From 8 to 16 features")
    assert curve.gain == pytest.approx(1 - curve.losses[3] / curve.losses[2])
    assert "150 evaluate" in found.curve_note
    assert (
        "Whether more rows would help is not known"
        in Page(model.report_html(X, y)).text
    )


def test_sizes_too_small_for_a_kernel_are_left_out_of_the_curve():
    """A sum of six terms has six grids or more."""
    rng = np.random.default_rng(17)
    X = rng.normal(size=(200, 6))
    kernel = Additive(Laplacian(2.0), [[j] for j in range(6)])
    features = BinningFeatures(kernel, 8, random_state=0)
    model = KernelMachineRegressor(features=features, alpha=0.1).fit(X, X[:, 0])
    curve, _ = curve_by_size(model, Rows.of(X, X[:, 0], model))
    assert curve.n_rows == [8, 16]


@pytest.mark.slow
def test_whether_more_rows_help_is_what_the_fit_has_measured(tmp_path):
    rng = np.random.default_rng(8)
    X = rng.uniform(-3, 3, size=(400, 2))
    model = KernelMachineRegressor(random_state=0).fit(X, np.sin(3 * X[:, 0]) * X[:, 1])
    save(model, tmp_path / "model.safetensors")
    kept = load(tmp_path / "model.safetensors").report_.rows
    assert kept == model.report_.rows
    X = rng.uniform(-3, 3, size=(50, 2))  # too few to tell anything themselves
    page = Page(model.report_html(X, np.sin(3 * X[:, 0]) * X[:, 1]))
    assert f"{kept}." in page.text
    assert kept.n_rows[-1] > 250


@pytest.mark.slow
def test_page_is_written_to_a_file(regression, tmp_path):
    model, X, y = regression
    out = tmp_path / "report.html"
    assert model.report_html(X, y, out) == out
    assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_what_cannot_be_reported_is_an_error(regression, classification):
    model, X, y = regression
    with pytest.raises(NotFittedError):
        KernelMachineRegressor().report_html(X, y)
    with pytest.raises(ValueError, match="given together"):
        model.report_html(X, y, X_train=X)
    with pytest.raises(ValueError, match="20 rows or more"):
        model.report_html(X[:19], y[:19])
    with pytest.raises(ValueError, match="one target of each row"):
        model.report_html(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="missing or infinite"):
        model.report_html(X, np.full(len(X), np.nan))
    with pytest.raises(
        ValueError, match=r"labels that the model does not know: \['other'\]"
    ):
        classification[0].report_html(classification[1], np.full(len(X), "other"))
    two = KernelMachineRegressor(kernel="gaussian", n_components=16).fit(
        X, np.column_stack([y, y])
    )
    with pytest.raises(ValueError, match="the model has 2"):
        two.report_html(X, y)


def figures(source):
    """Charts of a page by their titles, as a strict reader of XML sees them."""
    found = re.findall("<figure>.*?</figure>", source, re.DOTALL)
    read = [ElementTree.fromstring(one) for one in found]
    return {one.findtext("figcaption"): one.find("svg") for one in read}


def texts(svg):
    return ["".join(text.itertext()) for text in svg.iter("text")]


@pytest.mark.slow
def test_names_are_no_formulas_and_whole():
    rng = np.random.default_rng(9)
    names = ["$a_1$ & <b>cost</b>", "medianIncomeOfHouseholds2020", r"\$5 or 5$"]
    X = pd.DataFrame(rng.normal(size=(100, 3)), columns=names)
    model = KernelMachineRegressor("gaussian", n_components=32, random_state=0)
    y = X[names[0]] + X[names[1]] + X[names[2]]
    drawn = figures(model.fit(X, y).report_html(X, y))
    shown = {text for svg in drawn.values() for text in texts(svg)}
    assert set(names) <= shown


@pytest.mark.slow
def test_equal_inputs_have_equal_charts(regression):
    """In whatever style the user draws."""
    model, X, y = regression
    first = re.findall("<figure>.*?</figure>", model.report_html(X, y), re.DOTALL)
    with plt.style.context("dark_background"):
        second = re.findall("<figure>.*?</figure>", model.report_html(X, y), re.DOTALL)
    assert len(first) > 12
    assert first == second


CHART = """
from bochner.report.charts import chart
print(chart("a", "b", lambda ax: (ax.plot([1, 2], [3, 5], "o-"), ax.imshow([[1, 2]]))))
"""


@pytest.mark.slow
def test_charts_are_the_same_in_each_process():
    shown = {
        subprocess.run(
            [sys.executable, "-c", CHART],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    }
    assert len(shown) == 1


def test_charts_follow_the_page(pages):
    """Text and lines are in its colours, the first of them one blue, and its style
    has all of these.
    """
    for source in pages:
        drawn = "".join(re.findall("<svg.*?</svg>", source, re.DOTALL))
        used = set(re.findall(r"var\(--(\w+)\)", drawn))
        assert {"c0", "ink"} <= used
        assert all(f"--{name}:" in source for name in used)
        assert "#0072b2" not in drawn
        assert "#000000" not in drawn
        assert "font-family" not in drawn
        assert "<image" not in drawn


def test_curves_evaluate_no_copies_of_learned_rows():
    """Noise that each row holds twice is not predicted at all: of signs any rows have
    a variance of 1.
    """
    rng = np.random.default_rng(0)
    X, y = np.tile(rng.normal(size=(300, 3)), (2, 1)), np.tile(rng.permutation(300), 2)
    y = np.where(y % 2, 1.0, -1.0)
    model = KernelMachineRegressor(
        features="binning", n_components=64, alpha=1e-3, random_state=0
    ).fit(X, y)
    curve, note = curve_by_size(model, Rows.of(X, y, model))
    assert min(curve.losses) > 0.95**2
    learned, evaluated = map(int, re.findall(r"\d+", note))
    assert (learned + evaluated, evaluated % 2) == (600, 0)


@pytest.mark.slow
def test_levels_that_differ_by_a_blank_look_different():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "step": rng.choice(["finishing", "finishing ", "start"], 200),
            "size": rng.normal(size=200),
        }
    )
    y = (X["step"] == "finishing ") * 2.0 + X["size"]
    model = KernelMachineRegressor(
        kernel="gaussian", n_components=32, alpha=0.1, random_state=0
    ).fit(X, y)
    shown = Page(model.report_html(X[:60], y[:60])).texts
    assert {"finishing", "'finishing '"} <= set(shown)
    assert "finishing " not in shown
    assert "at &#39;finishing &#39;" in model.effects(X, ["step"])._repr_html_()
