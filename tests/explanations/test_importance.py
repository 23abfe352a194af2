"""Permutation importance: known values, scikit-learn's, columns as they were given,
errors that are what they say.
"""

import html
import json
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.inspection import permutation_importance
from sklearn.metrics import (
    log_loss,
    mean_pinball_loss,
    mean_poisson_deviance,
    mean_squared_error,
)

from bochner import KernelMachineClassifier, KernelMachineRegressor, load, save
from bochner.explanations.importance import derangement, growths
from bochner.markup import percent

PLAIN = {
    "features": "fourier",
    "metric": "isotropic",
    "n_components": 200,
    "random_state": 0,
}
WEIGHTS = np.array([3.0, 1.0, 0.5, 0.0])


def linear_losses(X, y, weights=WEIGHTS):
    return lambda Z, rows: np.square(y[rows] - Z @ weights)


def additive(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X @ WEIGHTS + rng.normal(size=n)


def test_an_additive_target_has_known_importances_and_errors_are_their_deviations():
    """2 a^2 var(x) for the squared error, by z-scores over 200 samples."""
    found = []
    for seed in range(200):
        X, y = additive(150, seed)
        found.append(
            growths(linear_losses(X, y), X, np.ones(150), np.arange(4), 4, 2, seed)[:2]
        )
    values, errors = np.array(found).transpose(1, 0, 2)
    noise = values.std(axis=0) / np.sqrt(200)
    assert (np.abs(values.mean(axis=0) - 2 * WEIGHTS**2)[:3] < 4 * noise[:3]).all()
    assert_allclose(values[:, 3], 0, atol=1e-12)
    assert_allclose(
        np.sqrt(np.square(errors[:, :3]).mean(axis=0)),
        values[:, :3].std(axis=0),
        rtol=0.15,
    )


def test_weights_are_rows():
    """A weight of 3 is three rows, both among those that are scored and among those
    that lend.
    """
    X, y = additive(80, 0)
    times = np.random.default_rng(1).integers(1, 4, 80)
    rows = np.repeat(np.arange(80), times)
    one = growths(linear_losses(X, y), X, times.astype(float), np.arange(4), 4, 400, 0)
    two = growths(
        linear_losses(X[rows], y[rows]),
        X[rows],
        np.ones(len(rows)),
        np.arange(4),
        4,
        400,
        0,
    )
    assert_allclose(one[0][:3], two[0][:3], rtol=0.02)
    assert one[2] == pytest.approx(two[2])


def test_no_row_lends_to_itself_and_each_lends_by_its_weight():
    rng = np.random.default_rng(0)
    found = derangement(np.full(50, 0.02), rng)
    assert (np.sort(found) == np.arange(50)).all()
    assert (found != np.arange(50)).all()
    share = rng.uniform(size=50)
    share /= share.sum()
    counts = np.bincount(derangement(share, rng), minlength=50)
    assert (np.abs(counts - 50 * share) < 1).all()


@pytest.fixture(scope="module")
def frame():
    """Numbers, codes, categories, many towns, dates and gaps; and a target that
    depends on them.
    """
    rng, n = np.random.default_rng(0), 2600
    town, effect = rng.integers(0, 200, n), rng.normal(size=200)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "kind": rng.choice(["a", "b", "c"], n),
            "town": [f"t{k}" for k in town],
            "code": rng.choice([1, 3, 5, 7, 9, 11], n),
            "day": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 700, n), "D"),
            "noise": rng.normal(size=n),
        }
    )
    X.loc[rng.uniform(size=n) < 0.1, "size"] = np.nan
    season = np.cos(2 * np.pi * X["day"].dt.day_of_year / 365.25)
    codes = np.array([0, 0, 0, 2.0, 0, -2.0, 0, 2.0, 0, -2.0, 0, 1.0])[X["code"]]
    y = (
        X["size"].fillna(1.0)
        + (X["kind"] == "a")
        + effect[town]
        + codes
        + season
        + 0.1 * rng.normal(size=n)
    )
    return X, y.to_numpy()


@pytest.fixture(scope="module")
def learned(frame):
    X, y = frame
    return KernelMachineRegressor(
        features="fourier", n_components=256, bounded=False, random_state=0
    ).fit(X[:2200], y[:2200])


@pytest.mark.slow
def test_columns_are_permuted_as_they_were_given(frame, learned):
    """Encoded columns of an input column move together: the same as to permute the
    column of the table.
    """
    X, y = frame[0][2200:].reset_index(drop=True), frame[1][2200:]
    assert {type(column).__name__ for column in learned.encoder_.columns_} >= {
        "CodeColumn",
        "TimeColumn",
        "TextColumn",
    }
    assert learned.encoder_.has_level_means
    found = learned.importance(X, y, n_repeats=2, random_state=0)
    rng = np.random.default_rng(int(np.random.RandomState(0).randint(2**31)))
    lenders = [derangement(np.full(len(X), 1 / len(X)), rng) for _ in range(2)]
    for j, name in enumerate(X):
        losses = [
            mean_squared_error(
                y, learned.predict(X.assign(**{name: X[name].to_numpy()[lender]}))
            )
            for lender in lenders
        ]
        assert found.values[j] == pytest.approx(
            np.mean(losses) - found.baseline, rel=1e-3, abs=1e-5
        )
    assert found.baseline == pytest.approx(
        mean_squared_error(y, learned.predict(X)), rel=1e-4
    )
    assert {name for name, _ in found.top_columns(3)} == {"code", "size", "town"}
    assert found.shares[5] < 0.01


def agrees(found, model, X, y, scoring, **options):
    other = permutation_importance(
        model, X, y, scoring=scoring, n_repeats=30, random_state=1, **options
    )
    spread = np.hypot(found.errors, other.importances_std / np.sqrt(30)) + 1e-9
    assert (
        np.abs(found.values - other.importances_mean * len(X) / (len(X) - 1))
        < 4 * spread
    ).all()


def test_numbers_agree_with_scikit_learn(line_regressor):
    model, (X, y) = line_regressor.model, additive(200, 3)
    found = model.importance(X, y, n_repeats=30, random_state=0)
    agrees(found, model, X, y, "neg_mean_squared_error")


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_agree_with_scikit_learn(n_classes):
    X, y = additive(700, 4)
    labels = np.array(["low", "mid", "high"])[
        np.digitize(y, [0.0] if n_classes == 2 else [-2.0, 2.0])
    ]
    model = KernelMachineClassifier(**PLAIN).fit(X[:400], labels[:400])
    found = model.importance(X[400:], labels[400:], n_repeats=30, random_state=0)
    agrees(found, model, X[400:], labels[400:], "neg_log_loss")
    assert found.baseline == pytest.approx(
        log_loss(labels[400:], model.predict_proba(X[400:]), labels=model.classes_)
    )


@pytest.mark.parametrize("loss", ["poisson", "quantile", "huber"])
def test_other_losses_are_measured_by_their_own(loss):
    X, y = additive(500, 5)
    y = np.random.default_rng(0).poisson(np.exp(0.3 * y)) if loss == "poisson" else y
    options = {"quantile": 0.8} if loss == "quantile" else {}
    model = KernelMachineRegressor(loss=loss, **options, **PLAIN).fit(X[:300], y[:300])
    found, predicted = (
        model.importance(X[300:], y[300:], random_state=0),
        model.predict(X[300:]),
    )
    truth = {
        "poisson": lambda: mean_poisson_deviance(y[300:], predicted),
        "quantile": lambda: mean_pinball_loss(y[300:], predicted, alpha=0.8),
        "huber": lambda: np.mean(
            model.target_scale_**2
            * huber((y[300:] - predicted) / model.target_scale_, model)
        ),
    }
    assert found.baseline == pytest.approx(truth[loss]())
    assert found.values.argmax() == 0


def huber(errors, model):
    delta = model._fitted_loss.delta.item()
    return np.where(
        np.abs(errors) < delta, errors**2 / 2, delta * (np.abs(errors) - delta / 2)
    )


def test_several_targets_count_alike():
    X, _ = additive(400, 6)
    Y = np.column_stack([X[:, 0], 1000 * X[:, 1]])
    found = KernelMachineRegressor(**PLAIN).fit(X, Y).importance(X, Y, random_state=0)
    assert_allclose(
        found.values[:2], 1.0, rtol=0.25
    )  # half of the importance of a standardised target, which is 2


def test_sparse_rows_have_the_importances_of_dense_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)) * (rng.uniform(size=(300, 6)) < 0.3)
    y = X @ [2.0, 1.0, 0, 0, 0, 0] + 0.1 * rng.normal(size=300)
    model = KernelMachineRegressor(**PLAIN).fit(sp.csr_array(X[:200]), y[:200])
    one = model.importance(sp.csr_array(X[200:]), y[200:], random_state=0)

    def losses(Z, rows):
        return np.square(y[200:][rows] - model.predict(sp.csr_array(Z)))

    seed = int(np.random.RandomState(0).randint(2**31))
    two = growths(losses, X[200:], np.ones(100), np.arange(6), 6, 5, seed)
    assert_allclose(one.values, two[0], atol=1e-4)
    assert_allclose(one.errors, two[1], atol=1e-4)


def test_the_record_is_shown_saved_and_drawn(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    X, y = additive(300, 7)
    frame = pd.DataFrame(X, columns=["<a>", "b", "c", "d"])
    found = (
        KernelMachineRegressor(**PLAIN)
        .fit(frame, y)
        .importance(frame, y, random_state=0)
    )
    save(found, tmp_path / "importance.safetensors")
    again = load(tmp_path / "importance.safetensors")
    assert str(again) == str(found)
    assert "<a>" in str(found)
    assert "&lt;a&gt;" in found._repr_html_()
    assert repr(found).startswith("Importance(squared error")
    told = json.loads(found.to_json())["columns"]
    assert [one["column"] for one in told] == found.to_frame()["column"].tolist()
    assert sum(one["share"] for one in told) == pytest.approx(1)
    display = found.plot(max_columns=2)
    assert [label.get_text() for label in display.axes_[0].get_yticklabels()] == [
        "<a>",
        "b",
    ]
    assert "2 of 4" in display.axes_[0].get_title(loc="left")


def test_what_cannot_be_measured_is_refused(line_regressor, sold_classifier):
    model, X, y = line_regressor.model, line_regressor.X, line_regressor.y
    with pytest.raises(NotFittedError, match="not fitted"):
        KernelMachineRegressor().importance(X, y)
    for arguments, options, words in [
        ((X[:1], y[:1]), {}, "two rows"),
        ((X, y, np.eye(400)[0]), {}, "two rows"),
        ((X[:, :3], y), {}, "3 features"),
        ((X, np.column_stack([y, y])), {}, "1 targets"),
        ((X, y), {"n_repeats": 0}, "n_repeats must be a positive integer"),
        ((X, y), {"n_rows": 1.5}, "n_rows must be a positive integer"),
    ]:
        with pytest.raises(ValueError, match=words):
            model.importance(*arguments, **options)
    with pytest.raises(ValueError, match="other classes"):
        sold_classifier.model.importance(
            sold_classifier.X, np.where(sold_classifier.y, "a", "b")
        )


def test_rows_are_drawn_and_seeds_repeat(line_regressor):
    model, X, y = line_regressor.model, line_regressor.X, line_regressor.y
    one, two = (model.importance(X, y, n_rows=100, random_state=3) for _ in range(2))
    assert one.n_rows == 100
    assert (one.values == two.values).all()


@pytest.mark.slow
def test_percentages_are_the_same_everywhere():
    """Shares of the total, in the table, the picture, the record of the fit and the
    report page; 100 % in all.
    """
    pytest.importorskip("matplotlib").use("Agg")
    X, y = additive(300, 8)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = KernelMachineRegressor(**PLAIN).fit(frame[:200], y[:200])
    found = model.importance(
        frame[200:], y[200:], n_rows=2000, n_repeats=3, random_state=0
    )
    growth = np.maximum(found.values, 0)
    shares = {
        name: percent(share)
        for name, share in zip(found.names, growth / growth.sum(), strict=True)
    }
    table = {
        line.split()[0]: line.split("  ")[-1].strip()
        for line in str(found).splitlines()[2:]
    }
    assert table == shares
    bars = found.plot().bars_
    order = np.argsort(-found.values)
    assert [bar.get_width() for bar in bars] == pytest.approx(
        (found.values / growth.sum())[order]
    )
    page = model.report_html(frame[200:], y[200:])
    chart = page.partition('id="importance"')[2].partition("</section>")[0]
    # The share is the last cell of a row of the table.
    cell = r"<td[^>]*>([^<]*)</td>"
    rows = dict(re.findall(rf">(\w)</th>(?:<td[^>]*>[^<]*</td>)*{cell}</tr>", chart))
    assert {name: rows[name] for name in "abcd"} == {
        name: html.escape(share) for name, share in shares.items()
    }
