"""Two samples: the level is exact whatever the rows are, and the statistics are what slow sums say."""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import gamma, ks_2samp

from bochner import two_sample_test
from bochner.data.array_source import ArraySource
from bochner.hypotheses.features import Axes, column_slopes, draw_map
from bochner.hypotheses.result import combine
from bochner.hypotheses.two_sample import MEMBERS, _values, group_sums


def blobs(rng, n, stretched):
    centres, Z = 10.0 * rng.integers(0, 5, (n, 2)), rng.standard_normal((n, 2))
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    return centres + (Z * np.sqrt([6.0, 1.0]) @ turn if stretched else Z)


@pytest.fixture
def few_groups(monkeypatch):
    monkeypatch.setattr("bochner.hypotheses.two_sample.MOST_GROUPS", 16)
    monkeypatch.setattr("bochner.hypotheses.two_sample.FEWEST_GROUPS", 8)


def test_level_is_exact_of_small_and_uneven_samples(level):
    def draw(rng):
        return rng.standard_cauchy((9, 2)), rng.standard_cauchy((23, 2))

    level.is_exact(two_sample_test, "bochner.hypotheses.two_sample.combine", draw)


def test_level_is_exact_where_groups_are_permuted(level, few_groups):
    def draw(rng):
        return rng.standard_normal((70, 1)), rng.standard_normal((45, 1))

    level.is_exact(two_sample_test, "bochner.hypotheses.two_sample.combine", draw)


@pytest.mark.parametrize("size", [1, 5])
def test_permuted_statistics_are_those_of_permuted_samples(size, request):
    """Of groups of one row and of five: any of the permuted samples might have been the one that was seen."""
    if size > 1:
        request.getfixturevalue("few_groups")
    rng = np.random.default_rng(6)
    rows, n, m, B = rng.standard_normal((115, 2)), 70, 45, 4
    maps = [draw_map(rows, member.widths, 1.0, 20, 0) for member in MEMBERS]

    def values(X, Y):
        sources = [ArraySource(Z, np.empty((len(Z), 0))) for Z in (X, Y)]
        sums = group_sums(*sources, (n, m), maps, rows[:20])
        axes = [Axes.of(covariance) for covariance in sums.covariances]
        return _values(sums, axes, B, np.random.default_rng(7))

    groups = np.arange(115).reshape(-1, size)
    orders = np.random.default_rng(7).permuted(np.tile(np.arange(len(groups)), (B + 1, 1)), axis=1)
    found = values(rows[:n], rows[n:])
    for order, row in zip(orders[1:], found[1:], strict=True):
        first = order < n // size
        other = values(rows[groups[first].ravel()], rows[groups[~first].ravel()])[0]
        np.testing.assert_allclose(row, other, rtol=1e-6)


def test_finds_detail_that_one_width_overlooks():
    rng = np.random.default_rng(0)
    found = [two_sample_test(blobs(rng, 500, False), blobs(rng, 500, True), random_state=s) for s in range(3)]
    assert max(one.p_value for one in found) <= 0.05
    assert "to" in found[0].member


def test_groups_and_rest_give_the_difference_of_the_means():
    rng = np.random.default_rng(1)
    X, Y = (rng.standard_normal((n, 2)).astype(np.float32) for n in (903, 210))
    maps = [draw_map(X, member.widths, 1.0, 30, 0) for member in MEMBERS]
    sources = [ArraySource(Z, np.empty((len(Z), 0))) for Z in (X, Y)]
    sums = group_sums(*sources, (903, 210), maps, X[:50])
    Z = np.hstack([one.rows(np.concatenate([X, Y])) for one in maps]).astype(np.float64)
    difference = Z[:903].mean(axis=0) - Z[903:].mean(axis=0)
    labels = np.where(np.arange(len(sums.groups)) < sums.n_first, 1 / 903, -1 / 210)
    np.testing.assert_allclose(labels @ sums.groups + sums.rest, difference, atol=1e-6)
    np.testing.assert_allclose(sums.difference, difference, atol=1e-6)
    for part, found in zip(sums.columns, sums.covariances, strict=True):
        np.testing.assert_allclose(found, np.cov(Z[:, part].T, bias=True), atol=1e-6)


def test_evidence_is_the_rank_of_the_largest_tail():
    values = np.random.default_rng(0).gamma(2.0, size=(40, 2))
    found = combine(values, np.array([0.75, 0.25]))
    tails = [gamma.sf(v, v.mean() ** 2 / v.var(), scale=v.var() / v.mean()) for v in values.T]
    scores = np.maximum(-np.log10(tails[0]) + np.log10(0.75), -np.log10(tails[1]) + np.log10(0.25))
    assert found.statistic == pytest.approx(scores[0])
    assert found.p_value == np.mean(scores >= scores[0])
    assert combine(np.ones((20, 1)), np.ones(1)).p_value == 1.0


def test_slopes_are_those_of_finite_differences():
    rng = np.random.default_rng(2)
    X, coef = rng.standard_normal((30, 3)), rng.standard_normal(40)
    features = draw_map(X, (0.5, 1.0), 1.0, 40, 0)
    steps = 1e-6 * np.eye(3)
    slopes = [(features.rows(X + h) - features.rows(X - h)) @ coef / 2e-6 for h in steps]
    wanted = np.mean(np.square(slopes), axis=1) * X.var(axis=0)
    np.testing.assert_allclose(column_slopes(features, X, coef), wanted, rtol=1e-5)
    np.testing.assert_allclose(column_slopes(features, sp.csr_array(X), coef), wanted, rtol=1e-5)


def test_frames_with_text_missing_values_and_dates():
    rng = np.random.default_rng(3)
    n = 300
    town = np.where(rng.random(2 * n) < 0.5, "Bern", "Jena").astype(object)
    town[n:][rng.random(n) < 0.4] = "Rom"
    frame = pd.DataFrame({"size": rng.standard_normal(2 * n), "town": town, "day": pd.Timestamp("2020-01-01")})
    frame["day"] += pd.to_timedelta(rng.integers(0, 300, 2 * n), "D")
    frame.loc[::7, "size"] = np.nan
    found = two_sample_test(frame[:n], frame[n:], random_state=0)
    assert found.p_value == 0.001
    assert found.top_columns(1)[0][0] == "town"
    assert found.columns == ("size", "town", "day")
    assert found.shares.sum() == pytest.approx(1)
    assert found.n_rows == (n, n)


def test_files_sparse_rows_and_arrays_agree(tmp_path):
    rng = np.random.default_rng(4)
    X, Y = rng.integers(0, 3, (200, 3)).astype(float), rng.integers(0, 3, (150, 3)) + np.array([0.0, 0.0, 1.0])
    frames = [pd.DataFrame(Z, columns=list("abc")) for Z in (X, Y)]
    for name, frame in zip("XY", frames, strict=True):
        frame.to_parquet(tmp_path / f"{name}.parquet")
    own = two_sample_test(*frames, random_state=0)
    read = two_sample_test(tmp_path / "X.parquet", tmp_path / "Y.parquet", random_state=0)
    assert own.statistic == pytest.approx(read.statistic)
    assert own.columns == read.columns == ("a", "b", "c")
    sparse = two_sample_test(sp.csr_array(X), sp.csr_array(Y), random_state=0)
    assert sparse.p_value == own.p_value == 0.001
    assert sparse.top_columns(1)[0][0] == "x2"


def test_passes_over_a_stream_find_what_rows_in_memory_do(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    X, Y = rng.standard_normal((600, 2)), rng.standard_normal((500, 2)) * [1, 1.5]
    for name, Z in zip("XY", (X, Y), strict=True):
        pd.DataFrame(Z, columns=["a", "b"]).to_parquet(tmp_path / f"{name}.parquet")
    monkeypatch.setattr("bochner.inputs.training.Stream.is_gathered", False)
    found = two_sample_test(tmp_path / "X.parquet", tmp_path / "Y.parquet", random_state=0)
    assert found.n_rows == (600, 500)
    assert found.p_value == 0.001
    assert found.top_columns(1)[0][0] == "b"


def test_same_seed_same_answer_and_one_dimension():
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal(100), rng.standard_normal(120) + 0.8
    first, second = (two_sample_test(x, y, random_state=1) for _ in range(2))
    assert first.statistic == second.statistic
    np.testing.assert_array_equal(first.null, second.null)
    assert (first.p_value < 0.01) == (ks_2samp(x, y).pvalue < 0.01)
    assert two_sample_test(pd.Series(x, name="v"), pd.Series(y, name="v"), random_state=1).columns == ("v",)


def test_effect_is_zero_of_equal_and_one_of_distant_points():
    rng = np.random.default_rng(7)
    effects = []
    for seed in range(40):
        X, Y = rng.standard_normal((30, 2)), rng.standard_normal((30, 2))
        effects.append(two_sample_test(X, Y, n_permutations=19, n_components=50, random_state=seed).effect_size)
    assert abs(np.mean(effects)) < 3 * np.std(effects) / np.sqrt(40)
    X = np.repeat([[0.0], [1.0]], 20, axis=0)
    assert two_sample_test(X[:20], X[20:], random_state=0).effect_size == pytest.approx(1.0)


def test_equal_rows_are_no_evidence():
    found = two_sample_test(np.ones((5, 1)), np.ones((6, 1)), random_state=0)
    assert (found.p_value, found.effect_size, found.shares.sum()) == (1.0, 0.0, 0.0)


def test_refusals_name_what_is_wrong():
    X = np.random.default_rng(8).standard_normal((10, 2))
    frame = pd.DataFrame(X, columns=["a", "b"])
    with pytest.raises(ValueError, match="X has 2 columns and Y 1"):
        two_sample_test(X, X[:, :1])
    with pytest.raises(ValueError, match="name them alike"):
        two_sample_test(frame, frame.rename(columns={"b": "c"}))
    with pytest.raises(ValueError, match="Y has 3 rows"):
        two_sample_test(X, X[:3])
    with pytest.raises(ValueError, match="infinity: column 'x0', row 0"):
        two_sample_test(X, np.full((5, 2), np.inf))
    with pytest.raises(ValueError, match="n_permutations must be 19 or more"):
        two_sample_test(X, X, n_permutations=3)
    with pytest.raises(TypeError, match="n_components must be an integer"):
        two_sample_test(X, X, n_components=2.5)


def test_display_shows_the_statistic_among_the_permuted():
    rng = np.random.default_rng(9)
    found = two_sample_test(rng.standard_normal((60, 3)), rng.normal([2, 0, 0], size=(60, 3)), random_state=0)
    display = found.plot()
    assert display.line_.get_xdata()[0] == found.statistic
    assert sum(patch.get_height() for patch in display.histogram_) == 999
    assert [bar.get_width() for bar in display.bars_] == sorted(found.shares, reverse=True)
    assert display.axes_[1].get_yticklabels()[0].get_text() == "x0"
    assert "Distributions differ, p = 0.001" in display.axes_[0].get_title(loc="left")
    same = two_sample_test(rng.standard_normal((60, 2)), rng.standard_normal((60, 2)), random_state=0)
    assert same.p_value > 0.05
    assert same.finding == "No difference found"
    with pytest.raises(ValueError, match="max_columns"):
        type(display).from_test(found, max_columns=0)
    plt.close(display.figure_)


def splits(pooled, n):
    """Every split of the rows into a sample of n and the others."""
    rows = np.arange(len(pooled))
    for first in combinations(rows, n):
        yield pooled[list(first)], pooled[np.setdiff1d(rows, first)]


def test_permutations_that_are_equal_are_ties():
    """4 of 5 against 1 of 5: 52 of the 252 splits differ as much, whatever rounding makes of their statistics."""
    X, Y = np.array([[0.0], [1], [1], [1], [1]]), np.array([[0.0], [0], [1], [0], [0]])
    pooled = np.concatenate([X, Y])
    gaps = [abs(A.mean() - B.mean()) for A, B in splits(pooled, 5)]
    exact = np.mean(np.array(gaps) >= 0.6 - 1e-12)
    assert exact == pytest.approx(52 / 252)
    for seed in range(20):
        found = two_sample_test(X, Y, n_permutations=1999, random_state=seed).p_value
        assert abs(found - exact) < 4 * np.sqrt(exact * (1 - exact) / 2000)


def test_evidence_of_all_splits_is_that_of_exact_numbers():
    """Several statistics of three values, as they are and with rounding errors: the same ranks for each split."""
    pooled = np.array([0, 0, 1, 1, 1, 2, 2, 2])
    exact = np.array(
        [[abs(A.sum() - B.sum()), (A == 2).sum() ** 2 + (B == 1).sum() ** 2] for A, B in splits(pooled, 4)]
    )
    noise = 1 + 1e-13 * np.random.default_rng(0).standard_normal(exact.shape)
    for k in range(len(exact)):
        order = np.append(k, np.delete(np.arange(len(exact)), k))
        p_values = [combine(one[order], np.array([0.5, 0.5])).p_value for one in (exact.astype(float), exact * noise)]
        assert p_values[0] == p_values[1]
