"""Independence: the level is right by permutations and by the law, and the statistics are what slow sums say."""

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from bochner import independence_test, load, save
from bochner.data.array_source import ArraySource
from bochner.data.table import TableEncoder
from bochner.hypotheses.features import Axes, draw_map
from bochner.hypotheses.independence import RIDGES, Pairs, PairSums, _Test, permuted_covariances, weighted_chi2_sf


def test_level_by_permutation_is_exact(level):
    def draw(rng):
        return rng.standard_cauchy((25, 2)), rng.standard_cauchy(25)

    level.is_exact(independence_test, "bochner.hypotheses.independence.combine", draw)


def test_level_by_the_law_is_right_of_many_rows():
    found = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((1000, 2)), rng.exponential(size=1000)
        found.append(independence_test(X, y, null="chi2", n_components=20, random_state=seed).p_value)
    for level in (0.1, 0.5):
        assert abs(np.mean(np.array(found) <= level) - level) < 3 * np.sqrt(level * (1 - level) / 100)


@pytest.mark.parametrize("df", [1, 2, 5, 30, 1000])
@pytest.mark.parametrize("level", [0.9999, 0.9, 0.5, 0.45, 0.4, 0.05, 1e-6, 1e-30])
def test_tail_of_equal_weights_is_that_of_chi2(df, level):
    assert weighted_chi2_sf(3 * chi2.isf(level, df), np.full(df, 3.0)) == pytest.approx(level, rel=1e-9)


@pytest.mark.parametrize("b", [0.5, 0.01, 0.999, 1e-4])
@pytest.mark.parametrize("x", [1e-3, 0.5, 2.0, 5.0, 100.0])
def test_tail_of_two_weights_twice_each_is_in_closed_form(b, x):
    """Twice each, they are two exponential variables of means 2 and 2 b."""
    exact = (np.exp(-x / 2) - b * np.exp(-x / (2 * b))) / (1 - b)
    assert weighted_chi2_sf(x, np.array([1, b, 1, b])) == pytest.approx(exact, rel=1e-9)


def test_tail_of_other_weights_is_that_of_draws():
    weights = 0.7 ** np.arange(30)
    draws = np.random.default_rng(0).chisquare(1, (200_000, 30)) @ weights
    for level in (0.5, 0.1, 0.01):
        found = weighted_chi2_sf(np.quantile(draws, 1 - level), weights)
        assert abs(found - level) < 4 * np.sqrt(level * (1 - level) / len(draws))
    assert weighted_chi2_sf(0.0, weights) == 1.0
    assert weighted_chi2_sf(1.0, np.zeros(3)) == 1.0


def pairs_of(X, Y, D=20):
    maps = tuple(draw_map(Z, (1.0,), 1.0, D, seed) for seed, Z in enumerate((X, Y)))
    centres = tuple(one.rows(Z[:10]).mean(axis=0) for one, Z in zip(maps, (X, Y), strict=True))
    return Pairs(tuple(ArraySource(Z, np.empty((len(Z), 0))) for Z in (X, Y)), maps, centres, len(X))


def test_statistic_is_that_of_kernel_matrices():
    """N HSIC = trace(K H L H) / n, of the kernels that the features have (Gretton et al., 2007, equation 4)."""
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((60, 2)), rng.standard_normal((60, 1))
    pairs = pairs_of(X, Y)
    Zx, Zy = (one.rows(Z) for one, Z in zip(pairs.maps, (X, Y), strict=True))
    H = np.eye(60) - 1 / 60
    hsic = np.trace(Zx @ Zx.T @ H @ Zy @ Zy.T @ H) / 60
    test = _Test(pairs)
    np.testing.assert_allclose(60 * np.sum(test.cross**2), hsic, rtol=1e-8)
    np.testing.assert_allclose(test.sums.cross, (Zx - Zx.mean(0)).T @ (Zy - Zy.mean(0)) / 60, atol=1e-12)


def test_shares_are_those_of_the_function_that_depends():
    """g(x, y) = z(x)'C z(y) about the means, C the covariance of the features: its slopes at the pairs of rows."""
    rng = np.random.default_rng(3)
    X = rng.normal([0.0, 1.0, 3.0], size=(60, 3))
    Y = np.column_stack([X[:, 0] * X[:, 1], rng.standard_normal(60)])
    pairs = pairs_of(X, Y)
    test, encoders = _Test(pairs), [TableEncoder().fit(Z) for Z in (X, Y)]
    found = test.shares(RIDGES.index(np.inf), encoders)
    centred = [one.rows(Z) - one.rows(Z).mean(axis=0) for one, Z in zip(pairs.maps, (X, Y), strict=True)]
    C = centred[0].T @ centred[1] / 60
    for rows, one, ways, shares in (
        (X, pairs.maps[0], centred[1] @ C.T, found[0]),
        (Y, pairs.maps[1], centred[0] @ C, found[1]),
    ):
        steps = 1e-5 * np.eye(rows.shape[1])
        slopes = [np.sum((one.rows(rows + h) - one.rows(rows - h)) * ways, axis=1) for h in steps]
        wanted = np.mean(np.square(slopes), axis=1) * rows.var(axis=0)
        np.testing.assert_allclose(shares, wanted / wanted.sum(), rtol=1e-4)


def test_permutations_stay_within_blocks():
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((30, 2)), rng.standard_normal((30, 2))
    pairs = pairs_of(X, Y, 6)
    (Zx, Zy), sums = next(pairs.features()), PairSums.of(pairs.features(), 30, 6)
    axes = Axes(np.ones(6), np.eye(6)), Axes(np.ones(6), np.eye(6))
    single = [(Zx[i : i + 1], Zy[i : i + 1]) for i in range(30)]  # blocks of one row, which stays where it is
    found = permuted_covariances(single, sums.means, axes, 3, rng)
    np.testing.assert_allclose(found, np.broadcast_to(30 * sums.cross, (4, 6, 6)), atol=1e-9)
    whole = permuted_covariances([(Zx, Zy)], sums.means, axes, 2000, rng)  # 30 groups of one row
    np.testing.assert_allclose(whole[0], 30 * sums.cross, atol=1e-9)
    spread = np.sqrt(np.outer(np.diag(sums.own[0]), np.diag(sums.own[1])) * 30**2 / 29)
    assert np.abs(whole[1:].mean(axis=0)).max() < 4 * spread.max() / np.sqrt(2000)
    np.testing.assert_allclose(whole[1:].std(axis=0), spread, rtol=0.1)


def test_groups_are_permuted_as_they_are(monkeypatch):
    """Of two groups of 3 shuffled pairs and one row beside them there are two covariances: as they are, or swapped."""
    monkeypatch.setattr("bochner.hypotheses.independence.GROUPS", 3)
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((7, 2)), rng.standard_normal((7, 3))
    axes, means = (Axes(np.ones(2), np.eye(2)), Axes(np.ones(3), np.eye(3))), (np.zeros(2), np.zeros(3))
    found = permuted_covariances([(X, Y)], means, axes, 40, np.random.default_rng(5))
    order = np.random.default_rng(5).permutation(7)
    one, other, last = order[:3], order[3:6], order[6:]
    swapped = X[one].T @ Y[other] + X[other].T @ Y[one] + X[last].T @ Y[last]
    is_swapped = np.isclose(found, swapped).all(axis=(1, 2))
    assert 5 < is_swapped.sum() < 35
    np.testing.assert_allclose(found[~is_swapped], np.broadcast_to(X.T @ Y, found[~is_swapped].shape))


@pytest.mark.parametrize(("null", "level"), [("permutation", 0.001), ("chi2", 0.01)])
def test_finds_what_has_no_correlation_and_names_the_column(null, level):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (600, 3))
    y = np.cos(5 * X[:, 2]) + 0.5 * rng.standard_normal(600)
    found = independence_test(X, y, null=null, random_state=0)
    assert found.p_value <= level
    assert found.columns == ("x0", "x1", "x2", "y0")
    assert found.shares[:3].argmax() == 2
    assert found.shares[:3].sum() == pytest.approx(1) == found.shares[3]
    assert found.method == null
    beyond = np.mean(found.null >= found.statistic)  # the p-value but for the draw of the null
    assert abs(beyond - found.p_value) < 4 * np.sqrt(found.p_value / len(found.null))


def test_columns_by_name_of_frames_and_files(tmp_path, monkeypatch):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"a": rng.standard_normal(400), "b": rng.choice(["u", "v", "w"], 400)})
    frame["c"] = np.where(frame["b"] == "u", 1.0, 0.0) + 0.5 * rng.standard_normal(400)
    frame.to_parquet(tmp_path / "rows.parquet")
    own = independence_test(frame, "c", random_state=0)
    assert own.columns == ("a", "b", "c")
    assert own.shares[:2].argmax() == 1
    assert independence_test(tmp_path / "rows.parquet", ["c"], random_state=0).statistic == pytest.approx(own.statistic)
    monkeypatch.setattr("bochner.inputs.training.Stream.is_gathered", False)
    passes = independence_test(tmp_path / "rows.parquet", "c", random_state=0)
    assert passes.p_value == own.p_value == 0.001
    with pytest.raises(ValueError, match="no column 'z'"):
        independence_test(frame, "z")


def test_effect_is_one_of_a_table_and_itself_and_zero_by_chance():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((3000, 2))
    assert independence_test(X, X, null="chi2", random_state=0).effect_size > 0.9
    effects = []
    for seed in range(40):
        x, y = rng.standard_normal(40), rng.standard_normal(40)
        effects.append(independence_test(x, y, null="chi2", n_components=20, random_state=seed).effect_size)
    assert abs(np.mean(effects)) < 3 * np.std(effects) / np.sqrt(40)


def test_law_serves_many_rows_by_itself_and_refusals():
    rng = np.random.default_rng(6)
    x = rng.standard_normal(6000)
    found = independence_test(x, rng.standard_normal(6000), n_components=20, random_state=0)
    assert found.method == "chi2"
    assert found.null.shape == (999,)
    with pytest.raises(ValueError, match="X has 6,000 rows and Y 10"):
        independence_test(x, x[:10])
    with pytest.raises(ValueError, match="null must be one of"):
        independence_test(x, x, null="exact")
    with pytest.raises(TypeError, match="n_permutations"):
        independence_test(x, x, n_permutations=None)
    display = found.plot()
    assert display.axes_[0].get_xlabel() == "Statistic over its mean"
    plt.close(display.figure_)


def test_comes_back_from_a_file_and_says_what_it_found_in_a_line(tmp_path):
    x = np.random.default_rng(7).standard_normal(100)
    found = independence_test(x, x, random_state=0)
    save(found, tmp_path / "test.safetensors")
    again = load(tmp_path / "test.safetensors")
    assert repr(again) == repr(found) == "HypothesisTest(X and Y are independent: p = 0.001, effect 0.97, n = 100)"
    np.testing.assert_array_equal(again.null, found.null)
    assert again.top_columns() == found.top_columns()


def test_columns_of_one_unit_are_not_scaled():
    rng = np.random.default_rng(8)
    pixels = rng.uniform(0, 255, (200, 20))
    pixels[:2] = [[0.0], [255.0]]
    y = rng.standard_normal(200)
    auto, raw, scaled = (independence_test(pixels, y, standardize=s, random_state=0) for s in ("auto", False, True))
    assert auto.statistic == pytest.approx(raw.statistic, rel=1e-4)
    assert auto.statistic != pytest.approx(scaled.statistic, rel=1e-2)
    with pytest.raises(ValueError, match="standardize must be"):
        independence_test(pixels, y, standardize="yes")


def test_permutations_that_are_equal_are_ties():
    """Two columns of zeros and ones: 17 of 35 permutations are as far from even."""
    x, y = np.repeat([0.0, 1.0], 4), np.array([0.0, 0, 0, 1, 0, 1, 1, 1])
    both = [x @ y[list(rows)] for rows in permutations(range(8))]
    exact = np.mean(np.abs(np.array(both) - 2) >= 1)
    assert exact == pytest.approx(17 / 35)
    for seed in range(8):
        found = independence_test(x, y, null="permutation", n_permutations=1999, random_state=seed).p_value
        assert abs(found - exact) < 4 * np.sqrt(exact * (1 - exact) / 2000)
