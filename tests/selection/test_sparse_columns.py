"""Many sparse columns, as of text, have a linear model as good as scikit-learn's."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

from bochner import KernelMachineClassifier, KernelMachineRegressor, load, save
from bochner.features import SparseColumns


def documents(n, n_words, n_topics, seed=0):
    """Words of documents by their frequency in a topic, as TF-IDF; the topics."""
    fixed, rng = np.random.default_rng(7), np.random.default_rng(seed)
    common = fixed.pareto(1.1, size=n_words) + 0.01
    stress = fixed.normal(size=(n_topics, n_words))
    stress *= fixed.uniform(size=stress.shape) < 0.15
    shares = common * np.exp(stress)
    shares /= shares.sum(axis=1, keepdims=True)
    y = rng.integers(n_topics, size=n)
    counts = [rng.multinomial(60, shares[topic]) for topic in y]
    return TfidfTransformer().fit_transform(sp.csr_array(np.array(counts))), y


@pytest.mark.parametrize(
    ("n_words", "n_topics"), [(1500, 2), pytest.param(6000, 5, marks=pytest.mark.slow)]
)
def test_text_is_classified_as_well_as_by_linear_svc(n_words, n_topics, tmp_path):
    X, y = documents(2000, n_words, n_topics)
    fit, new = slice(0, 1000), slice(1000, None)
    model = KernelMachineClassifier(random_state=0).fit(X[fit], y[fit])
    theirs = LinearSVC().fit(X[fit], y[fit])
    assert model.score(X[new], y[new]) > theirs.score(X[new], y[new]) - 0.01
    assert model.report_.chosen == "linear model"
    assert all("linear" in why for why in model.report_.not_tried.values())
    path = tmp_path / "text.safetensors"
    save(model, path)
    loaded = load(path).predict_proba(X[new])
    np.testing.assert_array_equal(loaded, model.predict_proba(X[new]))
    dense = model.predict_proba(X[:5].toarray())
    np.testing.assert_allclose(dense, model.predict_proba(X[:5]), atol=1e-6)


def test_numbers_are_predicted_as_well_as_by_ridge():
    X, _ = documents(1500, 1500, 3)
    rng = np.random.default_rng(1)
    y = X @ rng.normal(size=X.shape[1]) + 0.1 * rng.normal(size=1500)
    fit, new = slice(0, 1000), slice(1000, None)
    model = KernelMachineRegressor(random_state=0).fit(X[fit], y[fit])
    best = max(
        Ridge(alpha).fit(X[fit], y[fit]).score(X[new], y[new])
        for alpha in (0.01, 0.1, 1.0)
    )
    assert model.score(X[new], y[new]) > best - 0.02


@pytest.mark.slow
def test_another_map_or_fewer_columns_are_learned_as_before():
    X, y = documents(600, 1200, 2)
    model = KernelMachineClassifier(features="binning", random_state=0).fit(X, y)
    assert "binning" in model.report_.chosen
    model = KernelMachineClassifier(random_state=0).fit(X[:, :80], y)
    assert model.report_.chosen != "linear model" or model.loss_ == "logistic"


@pytest.mark.parametrize("factors", [[1.0, 2.0], [1.0, 0.0, 2.0], [1.0, np.nan, 2.0]])
def test_refuses_factors(factors):
    with pytest.raises(ValueError, match="factors must be 3 positive numbers"):
        SparseColumns(factors).fit(sp.eye_array(3, format="csr"))


def test_columns_times_factors():
    X = sp.random_array((20, 5), density=0.4, random_state=0, format="csr")
    features = SparseColumns([1.0, 2.0, 3.0, 4.0, 5.0]).fit(X)
    Z = features.transform(X)
    np.testing.assert_array_equal(Z.toarray(), X.toarray() * np.arange(1.0, 6.0))
    coef = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(features.dot(X, coef), Z @ coef)
    np.testing.assert_allclose(features.store(X).forward(coef.T).T, Z @ coef)


@pytest.mark.slow
def test_hundreds_of_sparse_columns_have_a_linear_model_where_it_leads():
    """Of words that add up, metrics are not learned to the end where a first look is
    clear, as it is for two tables of three at least, and the report says so.
    """
    fit, new = slice(0, 1500), slice(1500, None)
    clear = []
    for seed in range(3):
        X, y = documents(2500, 800, 2, seed)
        theirs = LinearSVC().fit(X[fit], y[fit])
        model = KernelMachineClassifier(random_state=seed).fit(X[fit], y[fit])
        assert model.score(X[new], y[new]) > theirs.score(X[new], y[new]) - 0.01
        assert model.report_.chosen == "linear model"
        reasons = model.report_.not_tried.values()
        if all("first look" in why for why in reasons):
            clear.append([candidate.name for candidate in model.report_.candidates])
    assert len(clear) >= 2
    assert all(
        tried == ["linear model", "Fourier features, learned lengthscales"]
        for tried in clear
    )


@pytest.mark.slow
def test_sparse_columns_that_interact_have_more_than_a_linear_model():
    rng = np.random.default_rng(0)
    X = (rng.uniform(size=(3000, 120)) < 0.3).astype(float)
    y = (X[:, 0] + X[:, 1] + X[:, 2]) % 2
    fit, new = slice(0, 2000), slice(2000, None)
    model = KernelMachineClassifier(random_state=0)
    model.fit(sp.csr_array(X[fit]), y[fit])
    assert model.score(sp.csr_array(X[new]), y[new]) > 0.9
    tried = [candidate.name for candidate in model.report_.candidates]
    assert "linear model" in tried
    assert model.report_.chosen != "linear model"


@pytest.mark.slow
@pytest.mark.parametrize(
    "machine", [KernelMachineClassifier, KernelMachineRegressor], ids=["classes", ""]
)
@pytest.mark.parametrize(
    ("columns", "unlearned"),
    [(401, False), (8193, True)],
)
def test_reports_say_what_many_columns_leave_out(machine, columns, unlearned):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, columns))
    y = X[:, 0] > 0
    report = machine(random_state=0).fit(X, y.astype(int)).report_
    for name in ("linear model", "learned lengthscales"):
        assert ("8,192" in report.not_tried.get(name, "")) == unlearned
    assert report.chosen.endswith("one lengthscale") == unlearned
    assert "not tried" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [150, 300])
def test_standardised_columns_are_no_pixels(columns):
    """Their common unit says nothing: two of them and their product count. One draw
    in two had taken the unit for one as of pixels, and left everything else out.
    """
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((3000, columns))
        y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.standard_normal(3000)
        model = KernelMachineRegressor(random_state=seed).fit(X[:2000], y[:2000])
        assert model.score(X[2000:], y[2000:]) > 0.8


@pytest.mark.slow
def test_images_keep_their_common_unit():
    """Beyond 128 columns, of numbers with one least value."""
    rng = np.random.default_rng(0)
    waves = np.sin(np.outer(rng.uniform(1, 3, 600), np.linspace(0, 6, 450)))
    X = np.maximum(waves, 0) * (rng.uniform(size=waves.shape) > 0.05)
    labels = (waves[:, 100] > 0).astype(int)
    report = KernelMachineClassifier(random_state=0).fit(X, labels).report_
    why = report.not_tried
    assert why["linear model"] == "there are more than 128 columns of a common unit"
    assert "common unit" in why["random binning, learned lengthscales"]
