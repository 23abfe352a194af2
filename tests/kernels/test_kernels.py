"""The contract of kernels: exact matrices, algebra, parameters, errors."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import exact
from bochner import FourierFeatures, KernelMachineRegressor
from bochner.kernels import (
    Additive,
    Cauchy,
    Gabor,
    Gaussian,
    Hamming,
    Hat,
    Laplacian,
    Linear,
    Matern,
    Periodic,
    PowerExponential,
    Product,
    RationalQuadratic,
    Scaled,
    SpectralMixture,
    StudentT,
    Subspace,
    Sum,
)

# Logarithms of the entries here are sums of fewer than ten numbers below 700 in size:
# 10 * 700 * 2.2e-16 = 1.5e-12.
RTOL = 2e-12


def bessel_truncation(nu):
    """Largest first term left out of the uniform expansion, |u_4(p)| / nu^4 (DLMF
    10.41.11), doubled.
    """
    p = np.linspace(0, 1, 1001)
    u4 = (
        4465125 * p**4
        - 94121676 * p**6
        + 349922430 * p**8
        - 446185740 * p**10
        + 185910725 * p**12
    )
    return 2 * np.abs(u4 / 39813120).max() / nu**4


def tolerance(kernel):
    return max(
        [RTOL]
        + [
            bessel_truncation(60)
            for _, leaves in kernel.terms()
            for k in leaves
            if k == Matern(1.5, 60)
        ]
    )


@pytest.fixture
def rows():
    def draw(d, n=7, seed=0):
        return np.random.default_rng(seed).standard_normal((n, d))

    return draw


class TestContract:
    """What holds for every kernel, leaf or combination."""

    @pytest.mark.parametrize("d", [1, 3, 10])
    def test_equals_its_formula(self, case, rows, d):
        X, Y = rows(d), rows(d, 5, seed=1)
        kernel = case.kernel(d)
        np.testing.assert_allclose(
            kernel(X, Y), case.exact(X, Y), rtol=tolerance(kernel)
        )
        np.testing.assert_allclose(kernel(X), case.exact(X, X), rtol=tolerance(kernel))

    def test_small_and_large_distances(self, case):
        X, Y = np.zeros((1, 2)), np.outer([1e-9, 1e-5, 1e-3, 5.0, 15.0], [1.0, 0.5])
        kernel = case.kernel(2)
        np.testing.assert_allclose(
            kernel(X, Y), case.exact(X, Y), rtol=tolerance(kernel)
        )

    def test_very_far_rows_have_nothing_in_common(self, case):
        K = case.kernel(2)([[0.0, 0.0]], [[1e8, -1e8], [1e12, 1e12]])
        assert np.all(np.abs(K) <= case.kernel(2).variance)
        if case.falls:
            assert np.all((K >= 0) & (K < 1e-4))

    def test_distances_whose_squares_overflow(self, case):
        K = case.kernel(2)([[0.0, 0.0]], [[1e160, 1e160]])
        assert np.all(np.abs(K) <= case.kernel(2).variance)
        if case.falls:
            assert np.all((K >= 0) & (K < 1e-4))

    def test_is_symmetric_and_positive_semidefinite(self, case, rows):
        kernel, X = case.kernel(3), rows(3, 40)
        K = kernel(X)
        np.testing.assert_array_equal(K, K.T)
        # Entries off by a relative tolerance move an eigenvalue by at most n * variance
        # times that.
        least = np.linalg.eigvalsh(K)[0]
        assert least >= -len(K) * kernel.variance * tolerance(kernel)

    def test_diagonal_is_the_variance(self, case, rows):
        kernel = case.kernel(3)
        np.testing.assert_allclose(
            np.diag(kernel(rows(3))), kernel.variance, rtol=1e-15
        )
        np.testing.assert_allclose(
            kernel.variance,
            case.exact(np.zeros((1, 3)), np.zeros((1, 3)))[0, 0],
            rtol=1e-15,
        )

    def test_terms_expand_the_kernel(self, case, rows):
        kernel, X = case.kernel(3), rows(3)
        total = sum(
            variance * np.prod([leaf(X) for leaf in leaves], axis=0)
            for variance, leaves in kernel.terms()
        )
        np.testing.assert_allclose(total, kernel(X), rtol=1e-14)

    def test_output_is_float64_and_input_of_any_kind(self, case, rows, frozen):
        kernel, X = case.kernel(3), rows(3)
        K = kernel(X.astype(np.float32))
        assert K.dtype == np.float64
        np.testing.assert_array_equal(
            kernel(np.arange(6).reshape(2, 3)),
            kernel([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
        )
        np.testing.assert_array_equal(kernel(frozen(X)), kernel(np.asfortranarray(X)))

    def test_clone_is_equal_and_separate(self, case):
        kernel = case.kernel(3)
        copy = clone(kernel)
        assert copy == kernel
        assert copy is not kernel
        assert hash(copy) == hash(kernel)
        assert {kernel: 1}[copy] == 1
        assert kernel != Gaussian(123.0)
        assert kernel != "gaussian"
        name = next(
            name
            for name in kernel.get_params()
            if name.endswith(("lengthscale", "weights"))
        )
        copy.set_params(**{name: 9.0 if name.endswith("lengthscale") else [9.0, 1.0]})
        assert copy != kernel
        assert kernel == case.kernel(3)

    def test_parameters_round_trip(self, case):
        kernel = case.kernel(3)
        shallow = kernel.get_params(deep=False)
        assert type(kernel)(**shallow) == kernel
        assert set(shallow) <= set(kernel.get_params())
        assert clone(kernel).set_params(**kernel.get_params()) == kernel

    def test_repr_names_the_parameters(self, case):
        kernel = case.kernel(3)
        assert (
            eval(  # noqa: S307
                repr(kernel),
                {k.__name__: k for k in (*LEAVES, *NODES)} | {"inf": np.inf},
            )
            == kernel
        )

    def test_refuses_what_is_no_table(self, case):
        kernel = case.kernel(3)
        with pytest.raises(ValueError, match="two dimensions"):
            kernel([1.0, 2.0, 3.0])
        with pytest.raises(TypeError, match="sparse"):
            kernel(sp.csr_array(np.eye(3)))
        with pytest.raises(TypeError, match="sparse"):
            kernel(np.eye(3), sp.csc_matrix(np.eye(3)))
        with pytest.raises(ValueError, match="3 features and Y has 2"):
            kernel(np.eye(3), np.ones((1, 2)))


LEAVES = (
    Gaussian,
    Laplacian,
    Cauchy,
    Hat,
    Matern,
    RationalQuadratic,
    StudentT,
    PowerExponential,
)
NODES = (
    Additive,
    Gabor,
    Hamming,
    Linear,
    Periodic,
    SpectralMixture,
    Subspace,
    Sum,
    Product,
    Scaled,
)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Gaussian(1.7), gp.RBF(1.7)),
        (Gaussian([0.5, 1.0, 2.0]), gp.RBF([0.5, 1.0, 2.0])),
        (Matern(0.9, nu=0.5), gp.Matern(0.9, nu=0.5)),
        (Matern(1.1, nu=1.5), gp.Matern(1.1, nu=1.5)),
        (Matern([0.5, 1.0, 2.0], nu=2.5), gp.Matern([0.5, 1.0, 2.0], nu=2.5)),
        (Matern(1.5, nu=0.8), gp.Matern(1.5, nu=0.8)),
        (Matern(1.5, nu=np.inf), gp.Matern(1.5, nu=np.inf)),
        (RationalQuadratic(1.3, alpha=0.7), gp.RationalQuadratic(1.3, alpha=0.7)),
        (RationalQuadratic(1.3, alpha=3.0), gp.RationalQuadratic(1.3, alpha=3.0)),
        (Laplacian(2.0), lambda X, Y: laplacian_kernel(X, Y, gamma=0.5)),
        (2.0 * Gaussian(1.5) + Matern(nu=1.5), 2.0 * gp.RBF(1.5) + gp.Matern(nu=1.5)),
        (
            Gaussian(1.5) * RationalQuadratic(2.0),
            gp.RBF(1.5) * gp.RationalQuadratic(2.0),
        ),
    ],
    ids=lambda one: "" if callable(one) and not hasattr(one, "variance") else repr(one),
)
def test_agrees_with_scikit_learn(ours, theirs, rows):
    X, Y = rows(3, 20), rows(3, 30, seed=1)
    np.testing.assert_allclose(ours(X, Y), theirs(X, Y), rtol=RTOL)


@pytest.mark.parametrize("nu", [49.9, 50.0, 60.0, 100.0, 400.0])
def test_matern_of_high_order(nu, rows):
    """Both sides of the switch to the uniform expansion."""
    X, Y = rows(2, 6) * 2, rows(2, 6, seed=1)
    expected = exact.gram(lambda t: exact.matern(t, 1.0, nu), X, Y)
    # Rounding: terms of the logarithm up to log Gamma(nu), about nu log nu.
    rounding = 10 * nu * np.log(nu) * np.finfo(float).eps
    np.testing.assert_allclose(
        Matern(nu=nu)(X, Y),
        expected,
        rtol=rounding + (bessel_truncation(nu) if nu >= 50 else 0),
    )


def test_algebra_builds_the_nodes():
    A, B = Gaussian(1.0), Laplacian(2.0)
    assert Sum(A, B) == A + B
    assert Product(A, B) == A * B
    assert 2 * A == A * 2.0 == Scaled(A, 2)
    assert A + B != B + A
    assert Gaussian(1) == Gaussian(1.0)
    assert Gaussian([1, 2]) == Gaussian(np.array([1.0, 2.0]))
    assert hash(Gaussian([1, 2])) == hash(Gaussian(np.array([1.0, 2.0])))
    assert Gaussian() != Laplacian()
    assert (0.5 * (A + B) * B).variance == 1.0
    assert len(((A + B) * (A + B)).terms()) == 4


def test_nested_parameters():
    kernel = 2.0 * (Gaussian(1.0) + Laplacian(2.0))
    assert kernel.get_params()["kernel__left__lengthscale"] == 1.0
    kernel.set_params(kernel__left__lengthscale=3.0, factor=4.0)
    assert kernel == 4.0 * (Gaussian(3.0) + Laplacian(2.0))
    with pytest.raises(ValueError, match="no parameter 'gamma'"):
        kernel.set_params(kernel__right__gamma=1.0)
    with pytest.raises(ValueError, match="positive"):
        kernel.set_params(kernel__left__lengthscale=-1.0)


@pytest.mark.parametrize("kernel", LEAVES)
@pytest.mark.parametrize(
    "lengthscale", [0, 0.0, -1.0, np.nan, np.inf, [1.0, 0.0], [1.0, np.nan], []]
)
def test_lengthscales_are_positive_and_finite(kernel, lengthscale):
    with pytest.raises((ValueError, TypeError), match="lengthscale must be"):
        kernel(lengthscale)
    with pytest.raises((ValueError, TypeError), match="lengthscale must be"):
        kernel().set_params(lengthscale=lengthscale)


@pytest.mark.parametrize("kernel", LEAVES)
@pytest.mark.parametrize(
    "lengthscale", ["1", None, True, 1j, [[1.0]], {"a": 1.0}, ["a"], Gaussian()]
)
def test_lengthscales_are_numbers(kernel, lengthscale):
    with pytest.raises(TypeError, match="lengthscale must be"):
        kernel(lengthscale)


@pytest.mark.parametrize("kernel", LEAVES)
def test_as_many_lengthscales_as_features(kernel):
    with pytest.raises(ValueError, match="2 lengthscales and the data have 3"):
        kernel([1.0, 2.0])(np.eye(3))
    with pytest.raises(ValueError, match="2 lengthscales and the data have 3"):
        (Gaussian() + kernel([1.0, 2.0])).check_features(3)
    with pytest.raises(ValueError, match="2 lengthscales and the data have 3"):
        FourierFeatures(Gaussian() * kernel([1.0, 2.0])).fit(np.eye(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda v: Matern(nu=v),
        lambda v: RationalQuadratic(alpha=v),
        lambda v: v * Gaussian(),
    ],
)
def test_shapes_and_factors_are_positive_numbers(make):
    for value in (0, -1.5, np.nan):
        with pytest.raises(ValueError, match="positive"):
            make(value)
    for value in ("1", None, True, [1.0]):
        with pytest.raises(TypeError):
            make(value)


def test_kernels_combine_with_kernels_only():
    for wrong in (
        lambda: Gaussian() + 1,
        lambda: "a" * Gaussian(),
        lambda: Gaussian() + None,
        lambda: Sum(Gaussian(), 1),
    ):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="factor"):
        np.inf * Gaussian()


@pytest.mark.parametrize("face", ["pipeline", "machine"])
def test_grid_search_over_the_lengthscale(face, rows):
    X = rows(2, 60)
    y = np.sin(3 * X[:, 0])
    kernel = Gaussian(1e3) + 0.1 * Laplacian(1e3)
    if face == "pipeline":
        model = make_pipeline(FourierFeatures(kernel, 200, random_state=0), Ridge(1e-2))
        name = "fourierfeatures__kernel__left__lengthscale"
    else:
        model = KernelMachineRegressor(
            kernel, n_components=200, alpha=1e-2, random_state=0
        )
        name = "kernel__left__lengthscale"
    search = GridSearchCV(model, {name: [1.0, 1e3]}, cv=3).fit(X, y)
    assert search.best_params_ == {name: 1.0}
    assert kernel == Gaussian(1e3) + 0.1 * Laplacian(1e3)
    assert model.get_params()[name] == 1e3
    assert search.best_estimator_.get_params()[name] == 1.0
