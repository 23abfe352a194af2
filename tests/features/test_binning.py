"""The contract of random binning features: the bins of the formula from any input,
collisions as the kernel says.
"""

import pickle
from fractions import Fraction
from math import floor

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import exact
from bochner import BinningFeatures, load, save
from bochner.features import grids
from bochner.kernels import (
    Additive,
    Cauchy,
    Coordinatewise,
    Gaussian,
    Hamming,
    Hat,
    Laplacian,
    Matern,
    SmoothBins,
    Subspace,
)

EPS = np.finfo(float).eps


def cusp(t):
    return np.exp(-np.sqrt(t))


def coordinatewise(delta, lengthscale):
    return np.prod([cusp(abs(t)) for t in delta / lengthscale])


def spread(d):
    return np.linspace(2.0, 5.0, d) * d


# name: kernel of d features, and its formula
KERNELS = {
    "laplacian": (
        lambda d: Laplacian(3.0 * d),
        lambda t: exact.laplacian(t, 3.0 * len(t)),
    ),
    "laplacian-ard": (
        lambda d: Laplacian(spread(d)),
        lambda t: exact.laplacian(t, spread(len(t))),
    ),
    "hat": (lambda d: Hat(6.0 * d), lambda t: exact.hat(t, 6.0 * len(t))),
    "coordinatewise": (
        lambda d: Coordinatewise(cusp, 5.0 * d**2),
        lambda t: coordinatewise(t, 5.0 * len(t) ** 2),
    ),
    "laplacian-hat": (
        lambda d: Laplacian(spread(d)) * Hat(8.0 * d),
        lambda t: exact.laplacian(t, spread(len(t))) * exact.hat(t, 8.0 * len(t)),
    ),
    "laplacian-laplacian": (
        lambda d: Laplacian(spread(d)) * Laplacian(6.0 * d),
        lambda t: exact.laplacian(t, spread(len(t))) * exact.laplacian(t, 6.0 * len(t)),
    ),
    "scaled": (
        lambda d: 2.5 * Laplacian(3.0 * d),
        lambda t: 2.5 * exact.laplacian(t, 3.0 * len(t)),
    ),
    "sum": (
        lambda d: 2.0 * Laplacian(4.0 * d) + Hat(6.0 * d),
        lambda t: 2.0 * exact.laplacian(t, 4.0 * len(t)) + exact.hat(t, 6.0 * len(t)),
    ),
    "sum-times-sum": (
        lambda d: (
            (Laplacian(4.0 * d) + 0.5 * Hat(6.0 * d))
            * (Laplacian(8.0 * d) + Hat(9.0 * d))
        ),
        lambda t: (
            (exact.laplacian(t, 4.0 * len(t)) + 0.5 * exact.hat(t, 6.0 * len(t)))
            * (exact.laplacian(t, 8.0 * len(t)) + exact.hat(t, 9.0 * len(t)))
        ),
    ),
    "smooth": (
        lambda d: SmoothBins(1.0 * d),
        lambda t: exact.smooth_bins(t, 1.0 * len(t)),
    ),
    "smooth-hat": (
        lambda d: SmoothBins(2.0 * d) * Hat(6.0 * d),
        lambda t: exact.smooth_bins(t, 2.0 * len(t)) * exact.hat(t, 6.0 * len(t)),
    ),
    "smooth-subspace": (
        lambda d: Subspace(SmoothBins(2.0), [d - 1]) * Subspace(Laplacian(4.0), [0]),
        lambda t: exact.smooth_bins(t[-1:], 2.0) * exact.laplacian(t[:1], 4.0),
    ),
    "subspace": (
        lambda d: Subspace(Laplacian([4.0]), [d - 1]) * Hat(9.0 * d),
        lambda t: exact.laplacian(t[-1:], 4.0) * exact.hat(t, 9.0 * len(t)),
    ),
    "additive-sum": (
        lambda d: Additive(Laplacian(3.0 * d), [[0], list(range(d))]),
        lambda t: (
            exact.laplacian(t[:1], 3.0 * len(t)) + exact.laplacian(t, 3.0 * len(t))
        ),
    ),
    "hamming": (
        lambda d: Hamming(spread(d)),
        lambda t: exact.hamming(t, spread(len(t))),
    ),
}
ONE_TERM = [name for name in KERNELS if "sum" not in name and "smooth" not in name]
MAPS = {
    "plain": BinningFeatures(Laplacian(2.0), 20, random_state=0),
    "sum": BinningFeatures(
        2.0 * Laplacian([1.0, 2.0, 3.0]) * Hat(4.0) + Hat(2.0), 21, random_state=1
    ),
    "smooth": BinningFeatures(
        SmoothBins(2.0) * Laplacian(3.0) + Hat(3.0), 20, random_state=2
    ),
    "one": BinningFeatures(Hat(3.0), 1, random_state=3),
    "subsets": BinningFeatures(Laplacian(2.0), 20, column_share=0.5, random_state=4),
    "columns": BinningFeatures(
        Subspace(SmoothBins(2.0), [0, 2]) + Subspace(Hat(3.0), [1]), 20, random_state=5
    ),
}
BUCKETS = BinningFeatures(Laplacian(2.0), 20, n_buckets=16, random_state=4)


@pytest.fixture(params=MAPS)
def features(request):
    return clone(MAPS[request.param])


@pytest.fixture(params=[*MAPS, "buckets"])
def fitted(request):
    return clone(MAPS.get(request.param, BUCKETS)).fit(normal(150, 3))


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def oracle(features, train, X):
    return exact.binning(
        train,
        X,
        features.pitches_,
        features.shifts_,
        features.values_,
        features._smooth,
    )


def assert_bins(features, train, X, Z):
    """The same bins, and the same values up to rounding.

    A place t inside its bin, s = t - floor(t), is wrong by eps (|t| + |shift|) at most;
    so is sqrt(30) s (1 - s) by sqrt(30) times that, next to factors that are 1.37 at
    most; in all 2 F d roundings on top.
    """
    expected = oracle(features, train, X)
    assert sp.issparse(Z)
    assert Z.format == "csr"
    assert Z.has_canonical_format
    assert Z.shape == expected.shape == (len(X), features.n_features_out)
    weighted = features._smooth.any(axis=1)
    pattern = np.zeros(Z.shape, bool)
    pattern[np.repeat(np.arange(len(X)), np.diff(Z.indptr)), Z.indices] = True
    flat = np.repeat(~weighted, np.diff(features.offsets_))
    np.testing.assert_array_equal(pattern[:, flat], expected[:, flat] != 0)
    unit = np.finfo(Z.dtype).eps
    if not weighted.any():
        np.testing.assert_allclose(Z.toarray(), expected, rtol=unit)
        return
    factors = features._smooth.sum(axis=1).max() * X.shape[1]
    t = (
        np.abs(exact.places(X, features.pitches_, features.shifts_)).max()
        + (features.shifts_ / features.pitches_).max()
    )
    bound = (
        features.values_.max()
        * 1.37**factors
        * factors
        * (np.sqrt(30) * 2 * EPS * t + 2 * unit)
    )
    np.testing.assert_allclose(Z.toarray(), expected, rtol=unit, atol=bound)


class TestEstimate:
    """z(x)'z(y) as an estimate of k(x, y), over many seeds."""

    SEEDS, GRIDS = 125, 40

    def pairs(self, d):
        """Four pairs of rows, from near to far, at distances of 0.3 to 3."""
        X, step = normal(4, d), normal(4, d, seed=1)
        return X, X + step / np.linalg.norm(step, axis=1, keepdims=True) * np.linspace(
            0.3, 3, 4
        )[:, None]

    def estimates(self, kernel, d, **options):
        X, Y = (
            (np.rint(rows) for rows in self.pairs(d))
            if isinstance(kernel, Hamming)
            else self.pairs(d)
        )
        features = BinningFeatures(kernel, self.GRIDS, **options)
        found = []
        for seed in range(self.SEEDS):
            features.set_params(random_state=seed).draw(d)
            one = features.fit_store(X)
            features.finalize()
            two = features.store(Y)
            found.append(((one.ids == two.ids) * one.values * two.values).sum(axis=0))
        return np.array(found), X, Y

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "d"), [*((name, 10) for name in KERNELS), ("laplacian", 1), ("hat", 1)]
    )
    def test_is_unbiased_and_of_known_variance(self, name, d):
        """For one term, P indicators of chance k: variance k (1 - k) / P, whose
        estimate over S seeds deviates by

        its own size times sqrt((2 + e) / S), with e = (1 - 6 k (1 - k)) / (P k (1 - k))
        the excess kurtosis.
        """
        make, formula = KERNELS[name]
        found, X, Y = self.estimates(make(d), d)
        k = np.diag(exact.gram(formula, X, Y))
        if (
            same := k == make(d).variance
        ).any():  # codes of a pair may agree in every column
            np.testing.assert_allclose(
                found[:, same], make(d).variance, rtol=self.GRIDS * EPS
            )
            found, k = found[:, ~same], k[~same]
        spread = found.var(axis=0, ddof=1)
        if name in ONE_TERM:
            scale = make(d).variance
            share = k / scale * (1 - k / scale)
            variance = scale**2 * share / self.GRIDS
            excess = (1 - 6 * share) / (self.GRIDS * share)
            z = (spread / variance - 1) / np.sqrt((2 + excess) / self.SEEDS)
            assert np.abs(z).max() <= 5
            spread = variance
        assert np.all(
            k > 0.01
        )  # so that a pair meets 50 times at least, and its count is nearly normal
        assert (
            np.abs((found.mean(axis=0) - k) / np.sqrt(spread / self.SEEDS)).max() <= 5
        )

    def test_smooth_bins_have_the_kernel_on_the_diagonal(self):
        X = self.pairs(3)[0]
        found = []
        for seed in range(self.SEEDS):
            Z = BinningFeatures(
                SmoothBins(2.0), self.GRIDS, random_state=seed
            ).fit_transform(X)
            found.append(Z.multiply(Z).sum(axis=1).A1)
        z = (np.mean(found, axis=0) - 1) / (
            np.std(found, axis=0, ddof=1) / np.sqrt(self.SEEDS)
        )
        assert np.abs(z).max() <= 5

    @pytest.mark.parametrize("n_buckets", [2, 5])
    def test_buckets_add_their_chance(self, n_buckets):
        found, X, Y = self.estimates(Laplacian(2.0), 3, n_buckets=n_buckets)
        k = np.diag(Laplacian(2.0)(X, Y))
        z = (found.mean(axis=0) - k - (1 - k) / n_buckets) / (
            found.std(axis=0, ddof=1) / np.sqrt(self.SEEDS)
        )
        assert np.abs(z).max() <= 5

    @pytest.mark.parametrize("share", [0.3, 0.9])
    def test_subsets_of_the_columns_have_their_mixture(self, share):
        """Each column is split with probability q: the factor of a column is 1 - q +
        q k.
        """
        found, X, Y = self.estimates(Laplacian(2.0), 3, column_share=share)
        k = np.prod(1 - share + share * np.exp(-np.abs(X - Y) / 2.0), axis=1)
        assert (
            np.abs(
                (found.mean(axis=0) - k)
                / np.sqrt(k * (1 - k) / self.GRIDS / self.SEEDS)
            ).max()
            <= 5
        )

    def test_the_norm_of_a_row_is_exact(self):
        for kernel in (
            Laplacian(),
            3.0 * Laplacian() + Hat(),
            (Laplacian() + Hat()) * (Hat() + Laplacian(2.0)),
        ):
            Z = BinningFeatures(kernel, 30, random_state=0).fit_transform(normal(20, 2))
            # A sum of 30 squares, each rounded a few times.
            np.testing.assert_allclose(
                Z.multiply(Z).sum(axis=1), kernel.variance, rtol=40 * EPS
            )
            assert np.all(np.diff(Z.indptr) == 30)


class TestBins:
    """The computation, whatever the rows look like."""

    def test_is_the_formula(self, features):
        X, Y = normal(60, 3), 3 * normal(40, 3, seed=1)
        Z = features.fit_transform(X)
        assert_bins(features, X, X, Z)
        Z = features.transform(Y)
        assert_bins(features, X, Y, Z)
        assert Z.nnz < Z.shape[0] * features.n_grids

    def test_exact_floors(self):
        """Bins by rational numbers: rounding moves t by some 1e-15, and none of
        these is as near to an edge.
        """
        X = normal(50, 2)
        features = BinningFeatures(Laplacian(), 10, random_state=0).fit(X)
        Z = features.transform(X)
        meet = (Z @ Z.T).toarray() * 10
        for i in range(0, 50, 7):
            expected = np.zeros(50)
            for pitches, shifts in zip(
                features.pitches_[:, 0], features.shifts_[:, 0], strict=True
            ):
                cells = [
                    tuple(
                        floor((Fraction(x) - Fraction(u)) / Fraction(p))
                        for x, u, p in zip(row, shifts, pitches, strict=True)
                    )
                    for row in X
                ]
                expected += [cell == cells[i] for cell in cells]
            np.testing.assert_allclose(meet[i], expected, rtol=20 * EPS)

    def test_keeps_the_precision(self, features):
        X = normal(40, 3)
        assert features.fit_transform(X).dtype == np.float64
        single = X.astype(np.float32)
        Z = features.fit_transform(single)
        assert Z.dtype == np.float32
        assert_bins(features, single, single, Z)
        for dtype in (np.int64, np.uint8, np.float16, bool):
            rows = (4 * X).astype(dtype)
            assert_bins(features, rows, rows, features.fit_transform(rows))
            assert features.transform(rows).dtype == np.float64

    @pytest.mark.parametrize(
        ("kind", "dtype"),
        [
            (kind, np.float64)
            for kind in ("csr_array", "csr_matrix", "csc_matrix", "coo_array")
        ]
        + [("csr_array", np.float32)],
    )
    def test_sparse_rows_are_dense_rows(self, features, kind, dtype):
        X = np.where(
            np.random.default_rng(0).random((100, 3)) < 0.3, normal(100, 3), 0.0
        ).astype(dtype)
        one, two = clone(features).fit(X), features.fit(getattr(sp, kind)(X))
        np.testing.assert_array_equal(one.keys_, two.keys_)
        for rows in (X, getattr(sp, kind)(X)):
            Z = two.transform(rows)
            assert_bins(two, X, X, Z)
            np.testing.assert_array_equal(Z.toarray(), one.transform(X).toarray())

    def test_sparse_rows_with_an_entry_in_parts(self, frozen):
        """0.5 + 0.75 at one place, and columns out of order."""
        parts = [
            frozen(array)
            for array in (
                np.array([0.5, 9.0, 0.75]),
                np.array([2, 0, 2]),
                np.array([0, 3]),
            )
        ]
        X = sp.csr_matrix(tuple(parts), shape=(1, 3))
        dense = np.array([[9.0, 0.0, 1.25]])
        features = BinningFeatures(Laplacian(), 50, random_state=0).fit(dense)
        assert features.transform(X).nnz == 50
        assert X.nnz == 3

    def test_layouts(self, fitted, frozen, tmp_path):
        X = normal(150, 3)
        expected = fitted.transform(X)
        file = np.memmap(tmp_path / "rows", dtype=float, mode="w+", shape=X.shape)
        file[:] = X
        wide = np.zeros((300, 7))
        wide[::2, 1:6:2] = X
        sparse = sp.csr_array(X)
        for array in (sparse.data, sparse.indices, sparse.indptr):
            array.flags.writeable = False
        for rows in (
            frozen(X),
            frozen(np.asfortranarray(X)),
            wide[::2, 1:6:2],
            file,
            X.tolist(),
            sparse,
        ):
            assert same(fitted.transform(rows), expected)

    @pytest.mark.parametrize("d", [1, 2, 300])
    @pytest.mark.parametrize("n", [1, 2, 30])
    def test_rows_and_columns(self, n, d):
        X = normal(n, d)
        features = BinningFeatures(
            Laplacian(3.0 * d) * Hat(20.0 * d), 10, random_state=0
        )
        assert_bins(features, X, X, features.fit_transform(X))

    @pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
    def test_constant_and_one_hot_columns(self, form):
        X = np.zeros((120, 40))
        X[np.arange(120), np.random.default_rng(0).integers(0, 38, 120)] = 1
        X[:, 39], X[:, 38] = 7, normal(120)
        features = BinningFeatures(Laplacian(10.0), 20, random_state=0)
        assert_bins(features, X, X, features.fit_transform(form(X)))

    @pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize("kernel", [Laplacian(3.0), SmoothBins(3.0)], ids=repr)
    def test_huge_and_tiny_values(self, kernel, form):
        """By the same arithmetic as the oracle: the bin of 1e18 depends on its
        rounding, and beyond 2^62 pitches all

        values of one sign share a bin.
        """
        values = [
            0.0,
            -0.0,
            1e-300,
            -1e-300,
            5e-324,
            1.0,
            -1.0,
            1e18,
            -1e18,
            1e19,
            1e300,
            -1e300,
            1.7e308,
        ]
        X = np.array([[a, b] for a in values for b in values])
        features = BinningFeatures(kernel, 20, random_state=0)
        Z = features.fit_transform(form(X))
        assert np.all(np.isfinite(Z.data))
        if not features._smooth.any():
            assert_bins(features, X, X, Z)
        same_place = features.transform(
            np.array([[0.0, -0.0], [-0.0, 0.0], [1e-300, 0.0], [5e-324, -0.0]])
        ).toarray()
        np.testing.assert_array_equal(same_place, np.tile(same_place[0], (4, 1)))
        X = np.array([[1e38, -1e38], [1e-38, -1e-45]], np.float32)
        assert_bins(
            features, X, X, features.fit_transform(X)
        ) if not features._smooth.any() else None

    @pytest.mark.parametrize("lengthscale", [1e-320, 1e-300, 1e300, 1e308])
    @pytest.mark.parametrize("kernel", [Laplacian, SmoothBins])
    def test_lengthscales_at_the_ends(self, kernel, lengthscale):
        X = normal(20, 1) * min(lengthscale, 1e300)
        Z = BinningFeatures(kernel(lengthscale), 20, random_state=0).fit_transform(X)
        assert np.all(np.isfinite(Z.data))
        assert np.all(np.diff(Z.indptr) == 20)

    def test_any_tiles_and_threads(self, features, monkeypatch):
        X = normal(100, 3)
        reference = clone(features).fit(X)
        Z = reference.transform(X)
        for tile, threads in ((7, 1), (1, 5), (99, 3), (100, 2), (8192, 40)):
            monkeypatch.setattr("bochner.features.grids.BLOCK_ROWS", tile)
            monkeypatch.setattr(
                "bochner.engines.local.n_threads", lambda threads=threads: threads
            )
            again = clone(features).fit(X)
            np.testing.assert_array_equal(again.keys_, reference.keys_)
            np.testing.assert_array_equal(again.offsets_, reference.offsets_)
            assert same(again.transform(X), Z)
            assert same(again.transform(sp.csr_array(X)), Z)
        assert same(
            sp.vstack([reference.transform(X[i : i + 1]) for i in range(100)]).tocsr(),
            Z,
        )

    def test_rows_fitted_block_by_block(self, features):
        """The same as all at once, and the ids are those of the map in the end."""
        X = normal(300, 3)
        reference = clone(features).fit(X)
        features.draw(3)
        held = [features.fit_store(block) for block in (X[:1], X[1:200], X[200:])]
        features.finalize()
        np.testing.assert_array_equal(features.keys_, reference.keys_)
        assert (features.singleton_share_, features.rows_per_bin_) == (
            reference.singleton_share_,
            reference.rows_per_bin_,
        )
        np.testing.assert_array_equal(
            np.hstack([block.ids for block in held]), features.store(X).ids
        )
        assert held[0].offsets is features.offsets_
        with pytest.raises(RuntimeError, match="draw it again"):
            features.fit_store(X)
        new = normal(20, 3, seed=1)
        np.testing.assert_array_equal(features.store(new).ids, reference.store(new).ids)
        features.finalize()
        np.testing.assert_array_equal(features.keys_, reference.keys_)

    def test_rows_stored_in_an_order_of_their_own(self, features, monkeypatch):
        """In products and as a matrix they are those that the map gives."""
        monkeypatch.setattr("bochner.features.binning.ORDERED_ROWS", 90)
        monkeypatch.setattr("bochner.features.binning.ORDERED_GRIDS", 1)
        monkeypatch.setattr("bochner.features.grids.MANY_OWN", 0.0)
        X, blocks = normal(300, 3), (slice(0, 200), slice(200, 300))
        features.draw(3)
        held = [features.fit_store(X[rows]) for rows in blocks]
        features.finalize()
        V, T = normal(2, features.n_features_out), normal(2, 300, seed=1)
        for stored, rows in zip(held, blocks, strict=True):
            Z = features.transform(X[rows])
            assert not np.array_equal(stored.order, np.arange(stored.n_rows))
            assert same(stored.to_csr(X.dtype), Z)
            Q = np.zeros_like(V)
            stored.backward(T[:, rows], Q)
            bound = 310 * EPS
            assert np.all(
                np.abs(stored.forward(V) - V @ Z.T) <= bound * (np.abs(V) @ abs(Z).T)
            )
            assert np.all(
                np.abs(Q - T[:, rows] @ Z) <= bound * (np.abs(T[:, rows]) @ abs(Z))
            )

    def test_pickled_while_numbering(self, features):
        X = normal(60, 3)
        reference = clone(features).fit(X)
        features.draw(3)
        for block in (X[:30], X[30:]):
            features = pickle.loads(pickle.dumps(features))  # noqa: S301
            features.fit_store(block)
        features.finalize()
        np.testing.assert_array_equal(features.keys_, reference.keys_)
        assert same(features.transform(X), reference.transform(X))

    def test_no_rows(self, fitted):
        held = fitted.store(np.empty((0, 3)))
        assert held.ids.shape == (len(fitted.values_), 0)
        assert fitted.dot(
            np.empty((0, 3)), np.ones((fitted.n_features_out, 2))
        ).shape == (0, 2)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_dot_is_rows_times_coefficients(self, fitted, dtype, monkeypatch):
        monkeypatch.setattr("bochner.features.binning.DOT_ROWS", 90)
        coef = normal(fitted.n_features_out, 2).astype(dtype)
        for n in (1, 90, 200):
            X = normal(n, 3, seed=n).astype(dtype)
            Z = fitted.transform(X.astype(dtype)).astype(float)
            product = fitted.dot(X, coef)
            assert product.dtype == dtype
            # A sum of P products: each value, product and addition rounds once.
            bound = (
                (len(fitted.values_) + 3)
                * np.finfo(dtype).eps
                / 2
                * (abs(Z) @ np.abs(coef))
            )
            assert np.all(np.abs(product - Z @ coef.astype(float)) <= bound)
        with pytest.raises(ValueError, match="features, and vectors of length"):
            fitted.dot(X, coef[1:])

    def test_held_bytes(self, fitted):
        held = fitted.store(normal(10, 3).astype(np.float32))
        size = held.ids.nbytes + (held.values.nbytes if held.values.shape[1] > 1 else 0)
        assert size == 10 * fitted.stored_bytes(np.dtype(np.float32), False)


class TestOrder:
    """Of many rows with many bins, along the column that the grids cut most often."""

    def test_is_that_of_the_widest_column_in_pitches(self):
        X = normal(500, 3) * [1.0, 100.0, 10.0]
        features = BinningFeatures(
            Laplacian([0.1, 100.0, 0.1]), 20, random_state=0
        ).draw(3)
        np.testing.assert_array_equal(
            features.grids().order(X), np.argsort(X[:, 2], kind="stable")
        )

    def test_few_bins_need_none(self):
        assert (
            BinningFeatures(Laplacian(100.0), 20, random_state=0)
            .draw(3)
            .grids()
            .order(normal(500, 3))
            is None
        )

    def test_of_values_beyond_all_sums(self):
        X = normal(500, 2)
        X[:, 1] *= 1e308 / np.abs(X[:, 1]).max()
        order = (
            BinningFeatures(Laplacian([0.1, 1e300]), 20, random_state=0)
            .draw(2)
            .grids()
            .order(X)
        )
        np.testing.assert_array_equal(np.sort(order), np.arange(500))


def same(A, B):
    """Equality of sparse matrices to the bit."""
    return A.dtype == B.dtype and all(
        np.array_equal(getattr(A, name), getattr(B, name))
        for name in ("indptr", "indices", "data")
    )


class TestColumns:
    def test_counts(self):
        X = np.round(normal(500, 2), 1)
        features = BinningFeatures(Laplacian(3.0), 15, random_state=0).fit(X)
        counts = (oracle(features, X, X) > 0).sum(axis=0)
        assert features.n_features_out == len(counts) == len(features.keys_)
        assert features.rows_per_bin_ == 500 * 15 / len(counts)
        assert features.singleton_share_ == np.count_nonzero(counts == 1) / (500 * 15)

    def test_many_bins(self):
        """Tables double again and again: the bins are those of a sort."""
        X = np.random.default_rng(0).permutation(40_000).reshape(-1, 1).astype(float)
        with pytest.warns(UserWarning, match="alone"):
            features = BinningFeatures(Hat(0.5), 2, random_state=0).fit(X)
        assert features.n_features_out == 80_000
        Z = features.transform(X[::-1])
        np.testing.assert_array_equal(
            Z.indices.reshape(-1, 2)[:, 0], np.arange(40_000)[::-1]
        )
        assert features.transform(X + 0.25).nnz < 80_000

    def test_counts_of_bins_stay_as_tables_grow(self):
        """Each row comes twice, in 10,000 bins of each grid: none is alone."""
        X = np.repeat(np.arange(10_000.0), 2)[:, np.newaxis]
        features = BinningFeatures(Hat(0.5), 2, random_state=0).fit(X)
        assert (features.n_features_out, features.singleton_share_) == (20_000, 0)

    def test_warns_where_most_rows_are_alone(self):
        X = normal(200, 3)
        message = (
            r"^(\d+)% of the rows are alone in their bins \(1\.\d rows per "
            r"bin\).*twice as large"
        )
        with pytest.warns(UserWarning, match=message) as caught:
            features = BinningFeatures(Laplacian(0.2), 20, random_state=0).fit(X)
        assert f"{features.singleton_share_:.0%}" in str(caught[0].message)
        assert features.singleton_share_ > 0.5
        assert caught[0].filename == __file__
        BinningFeatures(Laplacian(0.2), 20, random_state=0).fit(X[:99])
        BinningFeatures(Laplacian(0.2), 20, n_buckets=1000, random_state=0).fit(X)
        assert (
            BinningFeatures(Laplacian(8.0), 20, random_state=0).fit(X).singleton_share_
            < 0.5
        )

    def test_buckets_need_no_data(self):
        X = normal(50, 3)
        blind = clone(BUCKETS).draw(3)
        blind.finalize()
        for train in (X, normal(300, 3, seed=9), sp.csr_array(X), X.astype(np.float32)):
            features = clone(BUCKETS).fit(train)
            assert same(features.transform(X), blind.transform(X))
        assert same(features.transform(sp.csr_array(X)), blind.transform(X))
        Z = blind.transform(X)
        assert Z.shape == (50, 20 * 16)
        assert np.all(Z.indices.reshape(50, 20) // 16 == np.arange(20))
        assert np.unique(Z.indices).size > 100
        np.testing.assert_array_equal(Z.data, 1 / np.sqrt(20))
        assert np.isnan(blind.rows_per_bin_)
        assert np.isnan(blind.singleton_share_)
        assert blind.keys_.size == 0

    def test_buckets_follow_the_bins(self):
        """Rows of one bin share their bucket."""
        X = normal(80, 3)
        options = {"kernel": Laplacian(2.0), "n_grids": 10, "random_state": 0}
        bins = BinningFeatures(**options).fit(X).store(X).ids
        buckets = BinningFeatures(**options, n_buckets=2**31 - 1).fit(X).store(X).ids
        assert np.all(buckets >= 0)
        np.testing.assert_array_equal(
            bins[:, :, None] == bins[:, None], buckets[:, :, None] == buckets[:, None]
        )

    def test_one_bucket(self):
        Z = BinningFeatures(
            n_grids=3, n_buckets=np.uint8(1), random_state=0
        ).fit_transform(normal(4, 2))
        assert Z.shape == (4, 3)
        assert Z.nnz == 12


class TestFace:
    """scikit-learn's side: parameters, names, errors, files."""

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"n_grids": 0}, ValueError, "n_grids must be positive"),
            ({"n_grids": -2}, ValueError, "n_grids must be positive"),
            (
                {"n_grids": 2**31},
                ValueError,
                r"n_grids must be positive and below 2\^31",
            ),
            ({"n_grids": 2.0}, TypeError, "n_grids must be an integer"),
            ({"n_grids": True}, TypeError, "n_grids must be an integer"),
            ({"n_grids": None}, TypeError, "n_grids must be an integer"),
            ({"n_buckets": 0}, ValueError, "n_buckets must be positive"),
            ({"n_buckets": 2**31}, ValueError, "n_buckets must be positive"),
            ({"n_buckets": "many"}, TypeError, "n_buckets must be an integer"),
            ({"n_buckets": False}, TypeError, "n_buckets must be an integer"),
            ({"column_share": 0.0}, ValueError, "column_share must be above 0"),
            ({"column_share": 1.5}, ValueError, "column_share must be above 0"),
            ({"column_share": "half"}, ValueError, "column_share must be above 0"),
            (
                {"column_share": 0.5, "kernel": SmoothBins()},
                ValueError,
                "column_share must be 1 for SmoothBins",
            ),
            ({"kernel": "laplacian"}, TypeError, "kernel must be a bochner kernel"),
            ({"kernel": None}, TypeError, "kernel must be a bochner kernel"),
            (
                {"kernel": Laplacian([1.0, 2.0])},
                ValueError,
                "2 lengthscales and the data have 3",
            ),
            (
                {"kernel": Hat() + Laplacian() + Hat(2.0), "n_grids": 2},
                ValueError,
                "sum of 3 terms.*raise n_grids",
            ),
            (
                {"kernel": Gaussian(2.0)},
                ValueError,
                r"Gaussian\(lengthscale=2.0\) is not a mixture.*FourierFeatures",
            ),
            (
                {"kernel": Laplacian() + Laplacian() * Cauchy()},
                ValueError,
                r"Cauchy.*Use FourierFeatures",
            ),
            ({"kernel": Matern()}, ValueError, "Use FourierFeatures"),
            ({"random_state": "seed"}, ValueError, "seed"),
        ],
    )
    def test_refuses_bad_parameters(self, options, error, message):
        with pytest.raises(error, match=message):
            BinningFeatures(**options).fit(np.ones((4, 3)))

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (np.array([[np.nan, 1, 2]]), "NaN"),
            (np.array([[np.inf, 1, 2]]), "infinity"),
            (np.ones((2, 4)), "4 features, but BinningFeatures is expecting 3"),
            (np.ones(3), "Expected 2D"),
            (np.empty((0, 3)), "0 sample"),
        ],
    )
    def test_refuses_bad_rows(self, fitted, X, message):
        with pytest.raises(ValueError, match=message):
            fitted.transform(X)

    def test_must_be_fitted(self):
        for call in (
            lambda features: features.transform(np.ones((1, 2))),
            BinningFeatures.get_feature_names_out,
        ):
            with pytest.raises(NotFittedError):
                call(BinningFeatures())

    def test_same_seed_same_draw(self):
        X = normal(30, 3)
        one, two = (
            BinningFeatures(Laplacian(4.0), 10, random_state=5).fit(rows)
            for rows in (X, X.astype(np.float32))
        )
        for name in ("pitches_", "shifts_", "values_", "multipliers_"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        assert one.pitches_.shape == one.shifts_.shape == (10, 1, 3)
        assert np.all((one.shifts_ >= 0) & (one.shifts_ <= one.pitches_))
        other = BinningFeatures(
            Laplacian(4.0), 10, random_state=np.random.RandomState(5)
        ).fit(X)
        np.testing.assert_array_equal(one.pitches_, other.pitches_)
        assert not np.any(
            BinningFeatures(n_grids=10).draw(3).pitches_
            == BinningFeatures(n_grids=10).draw(3).pitches_
        )
        assert np.unique(one.pitches_).size == 30

    def test_factors_that_a_term_lacks_split_nothing(self):
        features = BinningFeatures(
            Laplacian() * Hat() + Hat(2.0), 8, random_state=0
        ).draw(2)
        assert np.all(np.isfinite(features.pitches_[:4]))
        assert np.all(np.isinf(features.pitches_[4:, 1]))
        np.testing.assert_array_equal(features.pitches_[4:, 0], 2.0)

    def test_a_fitted_map_keeps_its_draw(self):
        X = normal(30, 2)
        for n_buckets in (None, 8):
            features = BinningFeatures(
                Laplacian(3.0), 10, n_buckets=n_buckets, random_state=0
            ).fit(X)
            Z = features.transform(X)
            features.set_params(n_grids=50, n_buckets=3, kernel__lengthscale=1.0)
            for again in (features, pickle.loads(pickle.dumps(features))):  # noqa: S301
                assert same(again.transform(X), Z)
                assert again.get_feature_names_out().size == Z.shape[1]
        assert BinningFeatures().kernel == Laplacian(1.0)

    def test_fit_draws_anew(self):
        X = normal(30, 3)
        features = BinningFeatures(Laplacian(3.0), 10, random_state=0)
        before = features.fit_transform(X)
        assert not same(features.set_params(random_state=1).fit_transform(X), before)
        assert features.fit(X[:, :2]).transform(X[:, :2]).shape[0] == 30
        assert same(features.set_params(random_state=0).fit(X).transform(X), before)

    def test_pickles(self, fitted):
        X = normal(50, 3, seed=1)
        Z = fitted.transform(X)
        assert same(pickle.loads(pickle.dumps(fitted)).transform(X), Z)  # noqa: S301
        assert same(clone(fitted).fit(normal(150, 3)).transform(X), Z)

    def test_feature_names(self, fitted):
        names = fitted.get_feature_names_out()
        assert len(set(names)) == len(names) == fitted.n_features_out
        assert names[0] == "binningfeatures0"
        assert names[-1] == f"binningfeatures{len(names) - 1}"
        with pytest.raises(ValueError, match="sparse"):
            fitted.set_output(transform="pandas").transform(normal(4, 3))

    def test_named_columns(self):
        pd = pytest.importorskip("pandas")
        X = pd.DataFrame(normal(5, 2), columns=["a", "b"])
        features = BinningFeatures(n_grids=4, random_state=0).fit(X)
        assert list(features.feature_names_in_) == ["a", "b"]
        assert_bins(features, X.to_numpy(), X.to_numpy(), features.transform(X))
        with pytest.raises(ValueError, match="feature names"):
            features.transform(X.rename(columns={"a": "z"}))

    def test_memory_is_asked_for_first(self, request, monkeypatch):
        features = BinningFeatures(Laplacian(9.0), n_grids=100).fit(normal(200, 3))
        request.getfixturevalue("little_memory")
        with pytest.raises(
            MemoryError,
            match=r"Drawing 100 grids in 3 dimensions needs .* Use fewer n_grids",
        ):
            BinningFeatures().fit(normal(200, 3))
        with pytest.raises(
            MemoryError,
            match=r"Binning 200 rows by 5 grids needs .* are free\. Transform in "
            r"blocks",
        ):
            BinningFeatures(n_grids=5).fit(normal(200, 3))
        with pytest.raises(MemoryError, match="Binning 5 rows by 100 grids"):
            features.transform(normal(5, 3))
        smooth = BinningFeatures(SmoothBins(), 2).draw(3)
        with pytest.raises(
            MemoryError, match="dense copy of 200 sparse rows, for smooth bins,"
        ):
            smooth.store(sp.csr_array(normal(200, 3)))
        monkeypatch.setattr(grids, "LARGE_TABLE", 1024)
        with pytest.raises(
            MemoryError, match=r"A table of 1,024 bins.*larger lengthscales"
        ):
            BinningFeatures(Laplacian(0.1), n_grids=2).draw(3).fit_store(normal(900, 3))


class TestLearners:
    """Learners of scikit-learn on the sparse rows."""

    def moons(self):
        return make_moons(400, noise=0.2, random_state=0)

    @pytest.mark.parametrize(
        "learner", [LogisticRegression(), SGDClassifier(random_state=0)], ids=repr
    )
    def test_classifiers(self, learner):
        X, y = self.moons()
        pipeline = make_pipeline(
            BinningFeatures(Laplacian(2.0), 200, random_state=0), learner
        ).fit(X[:300], y[:300])
        assert pipeline.score(X[300:], y[300:]) > clone(learner).fit(
            X[:300], y[:300]
        ).score(X[300:], y[300:])

    def test_ridge_is_kernel_ridge(self):
        """On the kernel Z Z'; systems of condition (300 + 1) / 1 are solved to 300
        times some eps.
        """
        X, y = self.moons()
        features = BinningFeatures(Laplacian(2.0), 100, random_state=0).fit(X[:300])
        Z, new = features.transform(X[:300]), features.transform(X[300:])
        ours = (
            Ridge(1.0, fit_intercept=False, solver="cholesky")
            .fit(Z, y[:300])
            .predict(new)
        )
        theirs = KernelRidge(alpha=1.0, kernel="precomputed").fit(
            (Z @ Z.T).toarray(), y[:300]
        )
        np.testing.assert_allclose(
            ours, theirs.predict((new @ Z.T).toarray()), rtol=0, atol=300 * 300 * EPS
        )

    def test_grid_search(self):
        X, y = self.moons()
        scales = [0.5, 500.0]
        pipeline = make_pipeline(BinningFeatures(n_grids=30, random_state=0), Ridge())
        search = GridSearchCV(
            pipeline, {"binningfeatures__kernel__lengthscale": scales}, cv=3
        ).fit(X, y)
        assert search.best_params_ == {"binningfeatures__kernel__lengthscale": 0.5}
        assert BinningFeatures().kernel == Laplacian(1.0)


class TestFiles:
    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "features.safetensors"

    def test_comes_back(self, fitted, path, tmp_path):
        X = normal(50, 3, seed=1)
        Z, single = fitted.transform(X), fitted.transform(X.astype(np.float32))
        save(fitted, path)
        again = load(path)
        save(fitted, tmp_path / "again")
        assert path.read_bytes() == (tmp_path / "again").read_bytes()
        assert same(again.transform(X), Z)
        assert same(again.transform(X.astype(np.float32)), single)
        np.testing.assert_array_equal(
            again.get_feature_names_out(), fitted.get_feature_names_out()
        )
        again.finalize()
        assert again.n_features_out == Z.shape[1]
        with pytest.raises(NotFittedError):
            save(BinningFeatures(), path)

    def test_size(self, path):
        features = BinningFeatures(Laplacian(0.1), 50, random_state=0)
        with pytest.warns(UserWarning, match="alone"):
            features.fit(normal(2000, 3))
        save(features, path)
        assert path.stat().st_size <= 16 * features.n_features_out

    @pytest.mark.parametrize("n_buckets", [None, 8])
    @pytest.mark.parametrize(
        "change",
        [
            lambda f: {"offsets_": f.offsets_[:-1]},
            lambda f: {"offsets_": f.offsets_ + 1},
            lambda f: {
                "offsets_": f.offsets_
                - f.offsets_[1] * (np.arange(11) == 1)
                - (np.arange(11) == 1)
            },
            lambda f: {"offsets_": f.offsets_ + 8 * (np.arange(11) == 10)},
            lambda f: {"offsets_": f.offsets_ * 2**40},
            lambda f: {"offsets_": -f.offsets_},
            lambda f: {"offsets_": f.offsets_.astype(float)},
            lambda f: {"offsets_": f.offsets_.reshape(1, -1)},
            lambda f: {"offsets_": np.empty(0, np.int64)},
            lambda f: {"keys_": np.zeros(3, np.int64)},
            lambda f: {"keys_": np.zeros((1, len(f.keys_) + 1), np.int64)},
            lambda f: {"keys_": np.zeros(len(f.keys_) + 1)},
            lambda f: {"pitches_": f.pitches_[1:]},
            lambda f: {"pitches_": f.pitches_[:, :, :2]},
            lambda f: {"pitches_": f.pitches_[0]},
            lambda f: {"pitches_": -f.pitches_},
            lambda f: {"pitches_": f.pitches_ * np.nan},
            lambda f: {"pitches_": f.pitches_ * 0},
            lambda f: {"pitches_": f.pitches_.astype(np.float32)},
            lambda f: {"shifts_": f.shifts_ * np.inf},
            lambda f: {"shifts_": f.shifts_[:, :, :1]},
            lambda f: {"multipliers_": f.multipliers_[:, :, :1]},
            lambda f: {"multipliers_": f.multipliers_ * 1.0},
            lambda f: {"values_": f.values_[1:]},
            lambda f: {"values_": np.empty(0)},
            lambda f: {"_smooth": f._smooth[:, :0]},
            lambda f: {"_smooth": f._smooth.astype(int)},
            lambda f: {"n_features_in_": 2},
        ],
    )
    def test_arrays_that_do_not_fit_are_refused(self, path, change, n_buckets):
        X = normal(100, 3)
        features = BinningFeatures(
            Laplacian(2.0), 10, n_buckets=n_buckets, random_state=0
        ).fit(X)
        vars(features).update(change(features))
        save(features, path)
        again = load(path)
        with pytest.raises(ValueError, match="are inconsistent"):
            again.transform(X[:, : again.n_features_in_])


@parametrize_with_checks([BinningFeatures(Laplacian(50.0))])
def test_scikit_learn(estimator, check):
    check(estimator)
