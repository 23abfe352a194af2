"""The density on a grid against scikit-learn's sum over all rows."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import kstest, norm
from sklearn import neighbors
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import KernelDensity, load, save


def rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * [1.0, 3.0, 0.5][:d] + 7.0


OF_MORE_COLUMNS = [
    "check_array_api_input",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_fit2d_1sample",
    "check_n_features_in_after_fitting",
    "check_positive_only_tag_during_fit",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
]


@parametrize_with_checks(
    [KernelDensity("scott")],
    expected_failed_checks=lambda _: dict.fromkeys(OF_MORE_COLUMNS, "it fits four columns or more, which are refused"),
)
def test_promises_of_scikit_learn(estimator, check):
    check(estimator)


def test_a_weight_counts_as_equal_rows():
    X, weight = rows(200, 2), np.random.default_rng(3).integers(0, 4, 200)
    weighted = KernelDensity("scott", random_state=0).fit(X, sample_weight=weight)
    repeated = KernelDensity(weighted.bandwidth_, random_state=0).fit(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), atol=0.02)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_is_that_of_scikit_learn(d):
    X, new = rows(3000, d), rows(500, d, 1)
    exact = np.exp(neighbors.KernelDensity(bandwidth=0.3).fit(X).score_samples(new))
    found = np.exp(KernelDensity(0.3).fit(X).score_samples(new))
    assert np.abs(found - exact).max() < 1e-3 * d * exact.max()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_logarithms_are_those_of_scikit_learn(d):
    """To a fiftieth for each column, where the density is above a hundredth of its greatest value; and their sum."""
    X, new = rows(3000, d), rows(500, d, 1)
    reference, density = neighbors.KernelDensity(bandwidth=0.3).fit(X), KernelDensity(0.3).fit(X)
    exact, found = reference.score_samples(new), density.score_samples(new)
    inside = exact > exact.max() + np.log(0.01)
    assert np.abs(found - exact)[inside].max() < 0.02 * d
    assert density.score(new[inside]) == pytest.approx(reference.score(new[inside]), abs=0.005 * d * inside.sum())


def test_one_row_equal_rows_and_a_constant_column_with_a_bandwidth():
    one = KernelDensity(2.0).fit([[5.0]])
    np.testing.assert_allclose(one.score_samples([[5.0], [7.0]]), norm.logpdf([0.0, 2.0], scale=2.0), atol=0.02)
    new = [[5.0], [7.0]]
    np.testing.assert_allclose(KernelDensity(2.0).fit([[5.0]] * 9).score_samples(new), one.score_samples(new))
    X = np.column_stack([rows(100, 1), np.ones(100)])
    exact = neighbors.KernelDensity(bandwidth=0.5).fit(X).score_samples(X)
    np.testing.assert_allclose(KernelDensity(0.5).fit(X).score_samples(X), exact, atol=0.04)


def test_weights_are_those_of_scikit_learn():
    X, weight = rows(1000, 2), np.random.default_rng(2).uniform(0, 2, 1000)
    exact = neighbors.KernelDensity(bandwidth=0.5).fit(X, sample_weight=weight).score_samples(rows(300, 2))
    found = KernelDensity(0.5).fit(X, sample_weight=weight).score_samples(rows(300, 2))
    np.testing.assert_allclose(found, exact, atol=0.02)


def test_integrates_to_one_and_is_never_negative():
    density = KernelDensity([0.2, 0.7]).fit(rows(500, 2))
    table = density.grid_.table
    assert (table >= 0).all()
    assert table.sum() * density.grid_.step.prod() == pytest.approx(1.0, abs=1e-9)


def test_far_rows_have_the_floor():
    density = KernelDensity(1.0).fit(rows(100, 1))
    assert density.score_samples([[1e300], [-50.0]]) == pytest.approx(norm.logpdf(8.0) - np.log(100))


def test_rules():
    X = rows(1000, 2)
    scott = KernelDensity("scott").fit(X)
    np.testing.assert_allclose(scott.bandwidth_, X.std(axis=0) * 1000 ** (-1 / 6), rtol=1e-5)
    silverman = KernelDensity("silverman").fit(X)
    np.testing.assert_allclose(silverman.bandwidth_, X.std(axis=0) * 1000 ** (-1 / 6), rtol=1e-5)  # equal for d = 2


def test_held_out_likelihood_finds_what_a_rule_blurs():
    rng = np.random.default_rng(0)
    X, new = ((rng.integers(0, 8, 4000) + 0.02 * rng.standard_normal(4000))[:, None] for _ in range(2))
    auto, scott = KernelDensity(random_state=0).fit(X), KernelDensity("scott").fit(X)
    assert auto.score(new) > scott.score(new) + 2000


def test_sample_is_drawn_from_the_density():
    X = rows(5000, 1)
    density = KernelDensity(0.8).fit(X)
    drawn = density.sample(2000, random_state=0)[:, 0]
    assert kstest(drawn, lambda t: norm.cdf((t[:, None] - X[:, 0]) / 0.8).mean(axis=1)).pvalue > 0.01


def test_frames_sparse_rows_files_and_saved_models(tmp_path):
    X = rows(2000, 2)
    frame = pd.DataFrame(X, columns=["x", "y"])
    density = KernelDensity(random_state=0).fit(frame)
    scores = density.score_samples(frame)
    frame.to_parquet(tmp_path / "rows.parquet")
    read = KernelDensity(random_state=0).fit(tmp_path / "rows.parquet")
    np.testing.assert_allclose(read.score_samples(tmp_path / "rows.parquet"), scores, atol=1e-9)
    sparse = KernelDensity(random_state=0).fit(sp.csr_array(X))
    np.testing.assert_allclose(sparse.score_samples(sp.csr_array(X)), scores, atol=1e-9)
    save(density, tmp_path / "density.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "density.safetensors").score_samples(frame), scores)


@pytest.mark.parametrize(
    ("X", "bandwidth", "message"),
    [
        (np.ones((50, 4)) * np.arange(50)[:, None], "auto", "at most 3 columns.*NoveltyDetector"),
        (pd.DataFrame({"town": ["Bern", "Jena"] * 20}), "auto", "columns of numbers"),
        (pd.DataFrame({"x": [1.0, None, 3.0] * 20}), "auto", "missing"),
        (np.ones((20, 1)), "auto", "one value only"),
        (np.array([[0.0, 0.0], [1e6, 1e6]]), 0.1, "Use a larger bandwidth"),
        (rows(50, 2), "rule", "bandwidth must be"),
        (rows(50, 2), -1.0, "bandwidth must be positive"),
        (rows(50, 2), [1.0, 1.0, 1.0], "bandwidth must be one number, or 2"),
    ],
)
def test_refuses_by_name(X, bandwidth, message):
    with pytest.raises(ValueError, match=message):
        KernelDensity(bandwidth).fit(X)


@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_columns_without_squares_are_refused_by_name(unit):
    with pytest.raises(ValueError, match=r"squares of column b .*change its unit"):
        KernelDensity().fit(pd.DataFrame({"a": rows(50, 1)[:, 0], "b": rows(50, 1)[:, 0] * unit}))


def test_columns_that_are_no_numbers_or_miss_values_are_named():
    frame = pd.DataFrame({"a": rows(50, 1)[:, 0], "b": np.nan, "c": list("xy") * 25})
    with pytest.raises(ValueError, match="there are others, 'b', 'c': drop or impute"):
        KernelDensity().fit(frame)
