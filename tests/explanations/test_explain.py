import json

import numpy as np
import pandas as pd
import pytest

import exact
from bochner import (
    AnchorFeatures,
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    LinearFeatures,
    MetricFeatures,
    load,
    save,
)
from bochner.explanations import shapley
from bochner.features import Metric
from bochner.kernels import Gaussian, Hat, Laplacian, Linear, SmoothBins

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2
WARPED = Metric(
    5,
    [0, 2, 0, 4],
    [1.0, 0.5, 2.0, 1.0],
    warped=[1, 3],
    knots=[[-1.0, 0.0, 1.0], [0.0, 1.0, 1.0]],
    levels=[[0.0, 0.1, 2.0], [0.0, 1.0, 1.0]],
    slopes=[0.5, 1.0],
)
MIXED = WARPED.mixed(RNG.normal(size=(2, 3)))
MAPS = {
    "fourier": FourierFeatures(Gaussian(1.5), 101, random_state=0),
    "offsets": FourierFeatures(Laplacian(2.0), 40, paired=False, random_state=0),
    "anisotropic": FourierFeatures(
        Linear(Gaussian(), RNG.normal(size=(3, 5))), 60, random_state=0
    ),
    "linear": LinearFeatures(),
    "warped": MetricFeatures(WARPED, FourierFeatures(Gaussian(), 64, random_state=0)),
    "mixed": MetricFeatures(MIXED, FourierFeatures(Gaussian(), 64, random_state=0)),
    "mixed linear": MetricFeatures(MIXED, LinearFeatures()),
    "bins": BinningFeatures(Laplacian(2.0), 30, random_state=0),
    "buckets": BinningFeatures(Laplacian(2.0), 30, n_buckets=50, random_state=0),
    "halves": BinningFeatures(Laplacian(1.0), 30, column_share=0.5, random_state=0),
    "sums": BinningFeatures(
        Laplacian(2.0) + Laplacian(1.0) * Hat(4.0), 40, random_state=0
    ),
    "warped bins": MetricFeatures(
        WARPED, BinningFeatures(Laplacian(1.0), 30, random_state=0)
    ),
    "hybrid": ConcatenatedFeatures(
        [
            BinningFeatures(Laplacian(2.0), 20, random_state=0),
            FourierFeatures(Gaussian(), 50, random_state=0),
        ]
    ),
    "mixed bins": MetricFeatures(
        MIXED, BinningFeatures(Laplacian(2.0), 30, random_state=0)
    ),
    "smooth bins": BinningFeatures(SmoothBins(2.0), 30, random_state=0),
    "anchors": AnchorFeatures(30, random_state=0),
    "both": ConcatenatedFeatures(
        [FourierFeatures(Gaussian(), 50, random_state=0), LinearFeatures()], [0.5, 2.0]
    ),
}


def prediction(model, rows):
    """The function that is explained, shape (n,) or (n, K)."""
    if hasattr(model, "classes_"):
        return model.link_[0] * model.decision_function(rows)
    return model.predict(rows)


def by_coalitions(model, row, background):
    """Shapley values of one row by all coalitions, on rows as they are given."""
    d = row.shape[1]

    def value(flags):
        rows = background.copy()
        for j in np.flatnonzero(flags):
            if isinstance(rows, pd.DataFrame):
                rows[rows.columns[j]] = pd.Series(
                    [row.iloc[0, j]] * len(rows),
                    index=rows.index,
                    dtype=row.dtypes.iloc[j],
                )
            else:
                rows[:, j] = row[0, j]
        return prediction(model, rows).mean(axis=0)

    return exact.shapley(value, d)


@pytest.mark.parametrize("name", MAPS)
def test_values_are_those_of_all_coalitions(name):
    machine = KernelMachineRegressor(features=MAPS[name], alpha=1e-3, bounded=False)
    model = machine.fit(X, Y)
    found = model.explain(X[:3], background=X[10:14])
    assert found.is_exact
    for i in range(3):
        np.testing.assert_allclose(
            found.values[i], by_coalitions(model, X[i : i + 1], X[10:14]), atol=1e-9
        )
    np.testing.assert_allclose(found.predictions, model.predict(X[:3]), atol=1e-9)
    np.testing.assert_allclose(
        found.base_values, model.predict(X[10:14]).mean(), atol=1e-9
    )


def table(n):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "gaps": np.where(rng.uniform(size=n) < 0.3, np.nan, rng.normal(size=n)),
            "text": pd.Series(rng.choice(["a", "b", "c"], n), dtype=object),
            "day": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 700, n), "D"),
        }
    )
    score = frame["number"] * (frame["text"] == "a") + frame["gaps"].fillna(1.0) ** 2
    return frame, score.to_numpy()


def test_categories_dates_and_missing_values_are_whole_columns():
    frame, y = table(200)
    model = KernelMachineRegressor(
        kernel=Gaussian(2.0), alpha=1e-2, random_state=0
    ).fit(frame, y)
    found = model.explain(frame[:2], background=frame[5:8])
    assert found.values.shape == (2, 4)
    assert found.feature_names == tuple(frame.columns)
    for i in range(2):
        np.testing.assert_allclose(
            found.values[i],
            by_coalitions(model, frame[i : i + 1], frame[5:8]),
            atol=1e-9,
        )
    assert json.loads(found.to_json())["data"][0][2] == frame["text"][0]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_classes_are_explained_by_log_odds(n_classes, loss):
    labels = np.digitize(Y, np.quantile(Y, np.arange(1, n_classes) / n_classes))
    features = FourierFeatures(Gaussian(1.5), 60, random_state=0)
    model = KernelMachineClassifier(features=features, loss=loss, alpha=1e-2).fit(
        X, labels
    )
    found = model.explain(X[:2], background=X[10:13])
    assert found.unit == "log-odds"
    assert found.output_names == (("0", "1", "2") if n_classes == 3 else ("1",))
    for i in range(2):
        expected = by_coalitions(model, X[i : i + 1], X[10:13])
        np.testing.assert_allclose(found.values[i], expected, atol=1e-9)


@pytest.mark.parametrize(("noise", "is_all"), [(1.0, True), (0.5, False)])
def test_unit_says_whether_sums_are_the_log_odds_of_probabilities(noise, is_all):
    draws = np.random.default_rng(0)
    rows = draws.standard_normal((400, 3))
    labels = rows[:, 0] + noise * draws.standard_normal(400) > 0
    features = FourierFeatures(Gaussian(1.5), 60, random_state=0)
    model = KernelMachineClassifier(features=features, loss="squared", alpha=1e-2)
    proba = model.fit(rows, labels).predict_proba(rows)
    explanation = model.explain(rows)
    differences = explanation.predictions - np.log(proba[:, 1] / proba[:, 0])
    assert (np.abs(differences).max() < 1e-9) == is_all
    assert explanation.unit == ("log-odds" if is_all else "first-order log-odds")


@pytest.mark.parametrize(
    "name", ["warped", "mixed", "bins", "buckets", "both", "hybrid"]
)
def test_interactions_are_those_of_all_coalitions(name):
    model = KernelMachineRegressor(features=MAPS[name], alpha=1e-3).fit(X, Y)
    row, background = X[:1], X[10:13]
    found = model.interactions(row, background=background)
    assert found.is_exact

    def value(flags):
        return prediction(model, np.where(np.array(flags) == 1, row, background)).mean()

    expected = exact.shapley_interactions(value, 5)
    off = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(found.values[0][off], expected[off], atol=1e-9)
    whole = np.triu(found.values[0]).sum()
    np.testing.assert_allclose(
        whole, (model.predict(row) - model.predict(background).mean())[0], atol=1e-9
    )


def interactions_by_coalitions(model, row, background):
    """Interactions of one row by all coalitions, and where they stand off the
    diagonal.
    """
    d = row.shape[1]

    def value(flags):
        return prediction(model, np.where(np.array(flags) == 1, row, background)).mean()

    return exact.shapley_interactions(value, d), ~np.eye(d, dtype=bool)


def test_interactions_of_few_columns_are_exact_whatever_the_map():
    model = KernelMachineRegressor(
        features=AnchorFeatures(30, random_state=0), alpha=1e-3
    ).fit(X, Y)
    row, background = X[:1], X[10:14]
    found = model.interactions(row, background=background)
    assert found.is_exact
    expected, off = interactions_by_coalitions(model, row, background)
    np.testing.assert_allclose(found.values[0][off], expected[off], atol=1e-9)


@pytest.fixture(scope="module")
def sampled():
    """A model of seven columns that is no sum of products, rows, and background
    rows.
    """
    rows = np.random.default_rng(0).normal(size=(300, 7))
    model = KernelMachineRegressor(
        features=AnchorFeatures(30, random_state=0), alpha=1e-3
    )
    model.fit(rows, np.sin(2 * rows[:, 0]) * rows[:, 1] * rows[:, 3] + rows[:, 2] ** 2)
    return model, rows[:2], rows[10:50]


@pytest.mark.slow
def test_interactions_of_other_maps_are_sampled_with_standard_errors(sampled):
    model, rows, background = sampled
    found = model.interactions(rows, background=background)
    assert not found.is_exact
    assert json.loads(found.to_json())["errors"] == found.errors.tolist()
    z = []
    for i in range(2):
        expected, off = interactions_by_coalitions(model, rows[i : i + 1], background)
        z.append((found.values[i] - expected)[off] / found.errors[i][off])
        assert (found.errors[i][off] > 0).all()
        whole = np.triu(found.values[i]).sum() + prediction(model, background).mean()
        np.testing.assert_allclose(whole, model.predict(rows[i : i + 1])[0], atol=1e-9)
        np.testing.assert_array_equal(found.errors[i], found.errors[i].T)
    assert 0.4 < np.sqrt(np.mean(np.square(z))) < 1.2
    assert np.abs(z).max() < 5
    own = np.diagonal(found.errors, axis1=1, axis2=2)
    assert (own >= model.explain(rows, background=background).errors).all()


def test_several_targets_and_weights():
    targets = np.stack([Y, 5 * X[:, 3] - 2], axis=1)
    model = KernelMachineRegressor(kernel=Gaussian(2.0), alpha=1e-3, random_state=0)
    model.fit(X, targets, np.random.default_rng(0).uniform(size=len(X)))
    found = model.explain(X[:2], background=X[10:14])
    assert found.values.shape == (2, 5, 2)
    np.testing.assert_allclose(
        found.values[0], by_coalitions(model, X[:1], X[10:14]), atol=1e-9
    )
    assert list(found.to_frame().columns[5]) == ["y1", "x0"]


def test_properties_of_shapley_values():
    """Columns without effect have none, and rows that are alike have none."""
    metric = Metric(4, [0, 1, 2], [1.0, 1.0, 0.7])
    features = MetricFeatures(metric, FourierFeatures(Gaussian(), 80, random_state=0))
    rows = X[:, [0, 0, 1, 2]]
    model = KernelMachineRegressor(features=features, alpha=1e-2).fit(rows, Y)
    found = model.explain(rows[:4], background=rows[:1])
    assert np.array_equal(found.values[0], np.zeros(4))
    assert np.array_equal(found.values[:, 3], np.zeros(4))


def test_many_columns_have_fewer_nodes_and_still_sum_to_the_prediction():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 150))
    y = np.sin(rows[:, 0]) + rows[:, 1]
    model = KernelMachineRegressor(
        kernel=Gaussian(10.0), n_components=64, alpha=1e-2, random_state=0
    ).fit(rows, y)
    found = model.explain(rows[:3], background=3 * rows[50:53])
    np.testing.assert_allclose(found.predictions, model.predict(rows[:3]), atol=1e-10)


def test_other_maps_are_sampled_with_standard_errors(sampled):
    model, rows, background = sampled
    found = model.explain(rows, background=background)
    assert not found.is_exact
    np.testing.assert_allclose(found.predictions, model.predict(rows), atol=1e-9)
    expected = np.array(
        [by_coalitions(model, rows[i : i + 1], background) for i in range(2)]
    )
    assert (found.errors > 0).all()
    z = (found.values - expected) / found.errors
    assert 0.3 < np.sqrt(np.mean(z**2)) < 1.2
    assert np.abs(z).max() < 5


def test_errors_hold_where_both_ways_of_a_permutation_err_alike():
    """A column that is the last of three one way is the first the other way; the
    middle one stays the middle one.
    """

    class Parity:
        sources, coef = np.arange(8), np.ones((8, 1))

        def scores(self, rows):
            return rows[:, :3].sum(axis=1, keepdims=True) % 2

    x, background = np.ones((1, 8)), np.zeros((64, 8))
    values, variances = np.zeros((1, 8, 1)), np.zeros((1, 8, 1))
    z = []
    for seed in range(20):
        values[:] = variances[:] = 0
        shapley._add_sampled([Parity()], x, background, values, variances, (seed, 0))
        z.append((values[0, :3, 0] - 1 / 3) / np.sqrt(variances[0, :3, 0]))
    assert 0.5 < np.sqrt(np.mean(np.square(z))) < 1.3


class TestBackground:
    @pytest.fixture(autouse=True)
    def take(self, line_regressor):
        self.model, self.X = line_regressor.model, line_regressor.X

    def test_is_of_the_training_rows(self):
        rows = self.model.background_
        assert rows.shape == (100, 4)
        assert rows.dtype == np.float32
        encoded = self.model.encoder_.transform(self.X)
        assert all((np.abs(encoded - row).max(axis=1) == 0).any() for row in rows)

    def test_number_of_rows(self):
        assert self.model.explain(self.X[:2], n_background=7).n_background == 7
        assert (
            self.model.explain(self.X[:2], self.X, n_background=None).n_background
            == 400
        )

    def test_is_saved(self, tmp_path):
        save(self.model, tmp_path / "model.safetensors")
        again = load(tmp_path / "model.safetensors").explain(self.X[:2])
        assert np.array_equal(again.values, self.model.explain(self.X[:2]).values)

    def test_is_left_out_of_a_file(self, tmp_path):
        save(self.model, tmp_path / "model.safetensors", background=False)
        again = load(tmp_path / "model.safetensors")
        with pytest.raises(ValueError, match="no background rows"):
            again.explain(self.X[:2])
        assert again.explain(self.X[:2], background=self.X[:9]).n_background == 9
        assert self.model.background_ is not None

    def test_refusals(self):
        with pytest.raises(ValueError, match="n_background must be a positive integer"):
            self.model.explain(self.X[:2], n_background=0)
        with pytest.raises(ValueError, match="4 features"):
            self.model.explain(self.X[:2, :3])
        for method in (self.model.explain, self.model.interactions, self.model.effects):
            with pytest.raises(ValueError, match="minimum of 1 is required"):
                method(self.X[:0])
        for method in (self.model.explain, self.model.interactions):
            with pytest.raises(ValueError, match=r"background is .* 0 sample\(s\)"):
                method(self.X[:2], background=self.X[:0])
            with pytest.raises(
                ValueError,
                match=r"background is of no use for this model\..*4 features",
            ):
                method(self.X[:2], background=self.X[:, :3])


def test_bins_that_span_too_many_corners_are_sampled():
    """Of twelve columns all coalitions of which are looked up, and of more columns."""
    rows = np.random.default_rng(0).normal(size=(200, 16))
    for d, is_exact in ((11, True), (16, False)):
        features = BinningFeatures(Laplacian(0.2), 4, n_buckets=64, random_state=0)
        model = KernelMachineRegressor(features=features, alpha=1e-2).fit(
            rows[:, :d], rows[:, 0]
        )
        found = model.explain(rows[:2, :d], background=rows[5:8, :d])
        assert found.is_exact is is_exact
        np.testing.assert_allclose(
            found.predictions, model.predict(rows[:2, :d]), atol=1e-9
        )
        if is_exact:
            np.testing.assert_allclose(
                found.values[0],
                by_coalitions(model, rows[:1, :d], rows[5:8, :d]),
                atol=1e-9,
            )


def test_one_row_unlike_all_others_is_sampled():
    """It differs from the background in 45 columns, of which no one looks up 2^45
    bins.
    """
    rows = np.zeros((80, 45))
    rows[:, :2] = np.random.default_rng(0).normal(size=(80, 2))
    rows[60] = 7.0
    model = KernelMachineRegressor(
        features=BinningFeatures(Laplacian(1.0), 4, random_state=0), alpha=1e-2
    )
    model.fit(rows, rows[:, 0])
    usual, unusual = (
        model.explain(rows[:60], background=rows[70:75]),
        model.explain(rows[:61], background=rows[70:75]),
    )
    assert usual.is_exact
    assert not unusual.is_exact
    np.testing.assert_allclose(unusual.predictions, model.predict(rows[:61]), atol=1e-9)


def test_does_not_depend_on_threads(line_regressor, monkeypatch):
    model, X = line_regressor.model, line_regressor.X
    many = model.explain(X[:100]).values
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert np.array_equal(model.explain(X[:100]).values, many)


def test_rows_of_an_explanation(line_regressor):
    found = line_regressor.model.explain(line_regressor.X[:6])
    assert len(found[2]) == 1
    assert np.array_equal(found[1:3].values, found.values[1:3])
    assert found.to_frame().shape == (6, 4)
    assert "mean absolute value" in found._repr_html_()


def test_one_row_is_told_with_its_prediction_and_signs():
    frame = pd.DataFrame({"up": X[:, 0], "down": X[:, 1], "day": "monday"})
    model = KernelMachineRegressor(features=LinearFeatures(), alpha=1e-3)
    model.fit(frame, 3 * frame["up"] - 2 * frame["down"] + 7)
    row = pd.DataFrame({"up": [2.0], "down": [2.5], "day": ["monday"]})
    explanation = model.explain(row)
    predicted = f"{model.predict(row)[0]:.4g}"
    for text in (repr(explanation), explanation._repr_html_()):
        assert f"prediction {predicted}, from " in text
    up, down = explanation.values[0, :2]
    assert up > 0 > down
    assert f"up +{up:.4g}" in repr(explanation)
    assert f"down {down:.4g}" in repr(explanation)
    assert f'>2.5</td><td style="text-align:right">{down:.4g}<' in (
        explanation._repr_html_()
    )
    assert ">monday<" in explanation._repr_html_()
    assert "largest on average" in repr(model.explain(frame[:2]))
