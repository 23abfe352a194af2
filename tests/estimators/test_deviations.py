"""Deviations and samples of a regressor: against dense algebra, scikit-learn's
Gaussian process, and statistics.
"""

from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.kernel_approximation import Nystroem

from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    LinearFeatures,
    load,
    save,
)
from bochner.kernels import Gaussian, Laplacian

rng = np.random.default_rng(0)
X, NEW = rng.standard_normal((400, 3)), rng.standard_normal((30, 3))
Y = np.column_stack(
    [np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2]
) + 0.2 * rng.standard_normal((400, 2))
y = Y[:, 0]
WEIGHT = rng.integers(0, 4, 400).astype(float)


def regressor(**options):
    """Without intervals, which take ten fits of few rows, where nothing else is
    said.
    """
    return KernelMachineRegressor(**{"uncertainty": "std", "random_state": 0} | options)


def parts(model, rows):
    """Variances of function and noise in the units of the targets."""
    function, noise = model.posterior_.variances(
        model.features_, model.encoder_.encode(rows, dtype=np.float64)
    )
    return function * model.target_scale_**2, noise * model.target_scale_**2


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize(
    "features",
    [LinearFeatures(), Nystroem(kernel="linear", n_components=3, random_state=0)],
)
def test_equals_dense_bayesian_linear_regression(features, weight):
    """Mean, and deviation for the noise that was found, by the precision matrix of
    intercept and weights, where the noise is that of a row of mean weight.
    """
    Y = X @ np.array(
        [[1.0, 0.0], [0.5, 1.0], [0.0, -1.0]]
    ) + 0.5 * np.random.default_rng(1).standard_normal((400, 2))
    model = regressor(features=features, alpha=3.0, solver="direct", tol=1e-6).fit(
        X, Y, weight
    )
    mean, std = model.predict(NEW, return_std=True)
    encoded = [model.encoder_.encode(rows, dtype=np.float64) for rows in (X, NEW)]
    A, B = (
        np.column_stack([np.ones(len(rows)), model.features_.transform(rows)])
        for rows in encoded
    )
    w = np.ones(400) if weight is None else weight
    precision = A.T * w @ A + 3.0 * np.diag([0.0] + [1.0] * (A.shape[1] - 1))
    np.testing.assert_allclose(
        mean, B @ np.linalg.solve(precision, A.T * w @ Y), atol=1e-8
    )
    forms = np.einsum("ij,ij->i", B @ np.linalg.inv(precision), B)
    forms *= w[w > 0].mean()
    noise = model.posterior_.constant_ * model.target_scale_**2
    assert (model.posterior_.slope_ == 0).all()
    np.testing.assert_allclose(
        std, np.sqrt(noise * (1 + forms[:, np.newaxis])), atol=1e-8
    )


def gaussian_process(d=2, n=300, noise=0.05, seed=0):
    """A function of a Gaussian process at rows inside, at the edge, and far away,
    with noise.
    """
    draws = np.random.default_rng(seed)
    X = draws.standard_normal((n, d))
    new = np.vstack(
        [
            draws.standard_normal((40, d)),
            2.5 * draws.standard_normal((40, d)),
            np.full((1, d), 50.0),
        ]
    )
    K = Gaussian(1.5)(X)
    f = np.linalg.cholesky(K + 1e-9 * np.eye(n)) @ draws.standard_normal(n)
    return X, f + np.sqrt(noise) * draws.standard_normal(n), new


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["direct", "cg", "exact"])
def test_agrees_with_the_gaussian_process_of_scikit_learn(solver):
    X, y, new = gaussian_process(n=200)
    model = regressor(
        kernel=Gaussian(1.5), n_components=1000, alpha=0.05, solver=solver, tol=1e-6
    ).fit(X, y)
    oracle = GaussianProcessRegressor(1.0 * RBF(1.5), alpha=0.05, optimizer=None).fit(
        X, y - y.mean()
    )
    mean, std = oracle.predict(new, return_std=True)
    assert model.posterior_.slope_ == 0
    function, noise = parts(model, new)
    shape = np.sqrt(
        function[:, 0] / noise[:, 0] * 0.05
    )  # the intercept adds a little where the prior is
    assert (shape[:80] / std[:80] > 0.97).all()
    assert (shape / std < 1.2).all()
    assert 0.7 < noise[0, 0] / 0.05 < 1.4
    assert (
        np.sqrt(np.mean((model.predict(new[:40]) - mean[:40] - y.mean()) ** 2)) < 0.05
    )


@pytest.mark.parametrize(("d", "lengthscale"), [(5, 1.5), (10, 3.0)])
def test_is_not_starved(d, lengthscale):
    """The median of the deviations over those of the exact process, inside, at the
    edge and far away.
    """
    draws = np.random.default_rng(0)
    n, kernel = 800, Gaussian(lengthscale)
    X = draws.standard_normal((n, d))
    K = kernel(X)
    f = np.linalg.cholesky(K + 1e-9 * np.eye(n)) @ draws.standard_normal(n)
    model = regressor(kernel=kernel, n_components=500, alpha=0.05).fit(
        X, f + 0.05**0.5 * draws.standard_normal(n)
    )
    inverse = np.linalg.inv(K + 0.05 * np.eye(n))
    for size, shift in ((1.0, 0.0), (2.0, 0.0), (10.0, 30.0)):
        new = size * draws.standard_normal((60, d)) + shift
        k = kernel(new, X)
        left = 1 - k @ inverse.sum(axis=1)
        exact = 1 - np.einsum("ij,ij->i", k @ inverse, k) + left**2 / inverse.sum()
        assert 0.9 < np.median(np.sqrt(parts(model, new)[0][:, 0] / exact)) < 1.2


def test_returns_to_the_prior_far_away():
    """Of bins, of which no training row has been in one of those."""
    model = regressor(
        kernel=Laplacian(3.0), features="binning", n_components=50, alpha=0.1
    ).fit(X, y)
    posterior = model.posterior_
    function = parts(model, np.full((1, 3), 1e3))[0] / model.target_scale_**2
    # Features are zero there: the prior of the kernel, 1, and what the intercept adds
    h = posterior.linear.forms(np.zeros((1, len(posterior.landmarks_))))
    h += 1 / posterior.alpha_
    assert 1 < h[0] * posterior.alpha_ < 1.3
    expected = posterior.constant_ * h - (
        posterior.constant_ - posterior.signal_
    ) * min(posterior.reach_, h[0])
    np.testing.assert_allclose(function[0], expected, rtol=1e-6)


MODELS = {
    "chosen": {},
    "bins": {"features": "binning", "n_components": 50},
    "halves": {"features": BinningFeatures(Laplacian(4.0), 30, column_share=0.5)},
    "together": {
        "features": ConcatenatedFeatures(
            [FourierFeatures(Gaussian(2.0), 60), LinearFeatures()], [1.0, 0.5]
        )
    },
    "linear": {"features": LinearFeatures(), "uncertainty": True},
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return regressor(**MODELS[request.param]).fit(X, Y, WEIGHT)


@pytest.mark.slow
def test_deviations_cover(model):
    """Nine tenths of new targets, where the model is right about the noise."""
    mean, std = model.predict(X[WEIGHT == 0], return_std=True)
    assert mean.shape == std.shape
    inside = np.mean(np.abs(Y[WEIGHT == 0] - mean) < 1.645 * std)
    assert 0.8 < inside <= 1


@pytest.mark.slow
def test_samples_have_mean_and_covariance_of_the_posterior(model):
    """By z-score over 30 draws of 20 functions."""
    draws = np.stack([model.sample_y(NEW[:6], 20, random_state=s) for s in range(30)])
    assert draws.shape == (30, 6, 2, 20)
    deviations = draws - model.predict(NEW[:6])[:, :, np.newaxis]
    means = deviations.mean(axis=3)
    assert np.abs(means.mean(axis=0) / (means.std(axis=0) / np.sqrt(30))).max() < 5
    squares = np.square(deviations).mean(axis=3)
    z = (squares.mean(axis=0) - parts(model, NEW[:6])[0]) / (
        squares.std(axis=0) / np.sqrt(30)
    )
    assert np.abs(z).max() < 5


@pytest.mark.slow
def test_samples_are_functions(model):
    whole = model.sample_y(NEW, 3, random_state=1)
    np.testing.assert_allclose(
        model.sample_y(NEW[4:9], 3, random_state=1), whole[4:9], rtol=1e-6
    )
    assert not np.allclose(model.sample_y(NEW, 3, random_state=2), whole)


def test_saves_and_loads(model, tmp_path):
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        again.predict(NEW, return_std=True)[1], model.predict(NEW, return_std=True)[1]
    )
    np.testing.assert_array_equal(
        again.sample_y(NEW, 2, random_state=0), model.sample_y(NEW, 2, random_state=0)
    )


def test_samples_of_a_process_have_its_covariance():
    """Covariances between rows, against the exact process, over 30 draws of 20
    functions.
    """
    X, y, new = gaussian_process(n=100)
    model = regressor(kernel=Gaussian(1.5), n_components=200, alpha=0.05).fit(X, y)
    K, k = Gaussian(1.5)(X), Gaussian(1.5)(new[:8], X)
    inverse = np.linalg.inv(K + 0.05 * np.eye(100))
    left = 1 - k @ inverse.sum(axis=1)
    exact = (
        Gaussian(1.5)(new[:8])
        - k @ inverse @ k.T
        + np.outer(left, left) / inverse.sum()
    )
    exact *= parts(model, new)[1][0, 0] / 0.05
    draws = np.stack([model.sample_y(new[:8], 20, random_state=s) for s in range(30)])
    draws -= model.predict(new[:8])[:, np.newaxis]
    products = np.einsum("sik,sjk->sij", draws, draws) / 20
    assert (
        np.abs(
            (products.mean(axis=0) - exact) / (products.std(axis=0) / np.sqrt(30))
        ).max()
        < 5
    )


def test_a_weight_is_as_many_rows():
    options = {"kernel": Gaussian(2.0), "n_components": 100, "alpha": 0.5}
    weighted = regressor(**options).fit(X, y, WEIGHT)
    repeated = regressor(**options).fit(
        np.repeat(X, WEIGHT.astype(int), axis=0), np.repeat(y, WEIGHT.astype(int))
    )
    ours, theirs = (
        model.posterior_.variances(model.features_, NEW)[0]
        for model in (weighted, repeated)
    )
    ours, theirs = (
        ours / weighted.posterior_.signal_,
        theirs / repeated.posterior_.signal_,
    )
    np.testing.assert_allclose(ours, theirs, rtol=0.02)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": Gaussian(2.0), "n_components": 100},
        {"kernel": Gaussian(2.0), "solver": "exact"},
        {"features": Nystroem(kernel="linear", n_components=3, random_state=0)},
    ],
)
def test_units_of_the_weights_do_not_matter(options):
    """Weights say what a row counts beside others, and a penalty in their unit is the
    same model.
    """
    tables = []
    for unit in (1.0, 0.01, 100.0):
        model = regressor(**options, alpha=0.5 * unit).fit(X, y, (1 + WEIGHT) * unit)
        far = np.vstack([NEW, np.full((1, 3), 40.0)])
        tables.append(
            [
                model.predict(far, return_std=True, noise=noise)[1]
                for noise in (True, False)
            ]
        )
        tables[-1].append(model.sample_y(far, 20, random_state=0).std(axis=1))
    np.testing.assert_allclose(tables[1], tables[0], rtol=1e-4)
    np.testing.assert_allclose(tables[2], tables[0], rtol=1e-4)


def test_noise_follows_the_rows():
    draws = np.random.default_rng(0)
    X = draws.uniform(-2, 2, (1500, 2))
    y = np.sin(2 * X[:, 0]) + np.exp(X[:, 1]) / 5 * draws.standard_normal(1500)
    model = regressor(kernel=Gaussian(1.0), n_components=300).fit(X, y)
    new = np.column_stack([np.zeros(9), np.linspace(-1.5, 1.5, 9)])
    ratio = np.log(model.predict(new, return_std=True)[1] / (np.exp(new[:, 1]) / 5))
    assert np.abs(ratio).max() < 0.4


def test_units_of_the_target_do_not_matter():
    std = (
        regressor(kernel=Gaussian(2.0), alpha=0.1)
        .fit(X, y)
        .predict(NEW, return_std=True)[1]
    )
    scaled = (
        regressor(kernel=Gaussian(2.0), alpha=0.1)
        .fit(X, 1e6 * y + 3)
        .predict(NEW, return_std=True)[1]
    )
    np.testing.assert_allclose(scaled, 1e6 * std, rtol=1e-6)


@pytest.mark.slow
def test_refit_to_other_rows_of_the_same_kind_has_alike(model):
    before = model.predict(NEW, return_std=True)[1]
    again = deepcopy(model).refit(X[:200], Y[:200], WEIGHT[:200])
    after = again.predict(NEW, return_std=True)[1]
    assert 0.85 < np.median(after / before) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("features", ["auto", "binning"])
@pytest.mark.parametrize(
    ("n", "before", "after"), [(300, 0.1, 0.4), (800, 1.0, 0.1), (800, 0.1, 0.4)]
)
def test_refit_tells_the_noise_again(features, n, before, after):
    """Rows of a fit had other noise: 12 to 34 % of new targets lay within 1.645
    standard deviations.
    """
    draws = np.random.default_rng(5)

    def rows(n, noise):
        X = draws.standard_normal((n, 2))
        return X, np.sin(2 * X[:, 0]) + noise * draws.standard_normal(n)

    model = KernelMachineRegressor(features=features, uncertainty=True, random_state=0)
    model.fit(*rows(n, before)).refit(*rows(n, after))
    new, targets = rows(3000, after)
    mean, std = model.predict(new, return_std=True)
    low, high = model.predict_interval(new).T
    assert 0.84 < np.mean(np.abs(targets - mean) < 1.645 * std) < 0.96
    assert 0.84 < np.mean((low <= targets) & (targets <= high)) < 0.97


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.05, 0.4])
@pytest.mark.parametrize("seed", range(3))
def test_early_stopping_is_no_lack_of_a_penalty(seed, noise):
    """Bins that iterations regularise have hardly any ridge penalty, and deviations
    were up to three times too large.
    """
    draws = np.random.default_rng(seed)
    rows = draws.standard_normal((5500, 2))
    y = np.sin(2 * rows[:, 0]) + noise * draws.standard_normal(5500)
    model = KernelMachineRegressor(
        features="binning", uncertainty="std", random_state=0
    ).fit(rows[:2500], y[:2500])
    mean, std = model.predict(rows[2500:], return_std=True)
    error = np.sqrt(np.mean(np.square(y[2500:] - mean)))
    assert std.mean() == pytest.approx(error, rel=0.12)


@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_few_rows(n):
    std = (
        regressor(kernel="gaussian", uncertainty=True)
        .fit(X[:n], y[:n])
        .predict(NEW, return_std=True)[1]
    )
    assert np.isfinite(std).all()
    assert (std >= 0).all()


@pytest.mark.slow
def test_constant_target():
    std = regressor().fit(X[:100], np.ones(100)).predict(NEW, return_std=True)[1]
    assert (std < 1e-6).all()


def test_threads_do_not_matter():
    model = regressor(kernel=Laplacian(3.0), features="binning", n_components=20).fit(
        X, y
    )
    alone, all_threads = (
        model.predict(NEW, return_std=True, n_jobs=n)[1] for n in (1, None)
    )
    np.testing.assert_array_equal(alone, all_threads)


@pytest.mark.slow
def test_without_uncertainty_says_so():
    X, y = load_diabetes(return_X_y=True)
    model = KernelMachineRegressor("gaussian", alpha=1.0).fit(X, y)
    with pytest.raises(ValueError, match="uncertainty=True"):
        model.predict(X, return_std=True)
    with pytest.raises(ValueError, match="uncertainty=True"):
        model.sample_y(X)
    with pytest.raises(ValueError, match="n_samples"):
        regressor(features=LinearFeatures()).fit(X, y).sample_y(X, 0)
    with pytest.raises(TypeError, match="return_std"):
        KernelMachineClassifier("gaussian", alpha=1.0).fit(X, y > 100).predict(
            X, return_std=True
        )


@pytest.mark.parametrize("solver", ["direct", "exact", "cg"])
@pytest.mark.parametrize("times", [2, 8])
def test_noise_is_what_targets_vary_by_at_equal_inputs(times, solver):
    """The variance of the noise by analysis of variance, of 800 rows: its standard
    error is 7 % and less.
    """
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.uniform(-2, 2, (800 // times, 2)), times, axis=0)
    y = np.sin(rows[:, 0]) + rows[:, 1] + 0.3 * rng.standard_normal(800)
    within = y.reshape(-1, times).var(axis=1, ddof=1).mean()
    model = regressor(
        kernel=Gaussian(2.0), n_components=100, solver=solver, alpha=0.05
    ).fit(rows, y)
    noise = model.posterior_.constant_[0] * model.target_scale_[0] ** 2
    assert noise == pytest.approx(within, rel=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [Gaussian(2.0), "auto"])
def test_copies_are_as_weights(kernel):
    """Ten copies of each row tell no more of the noise than a weight of 10 does."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 3))
    y = rows[:, 0] + np.sin(2 * rows[:, 1]) + 0.3 * rng.standard_normal(60)
    copied = regressor(kernel=kernel).fit(np.repeat(rows, 10, axis=0), np.repeat(y, 10))
    weighted = regressor(kernel=kernel).fit(rows, y, np.full(60, 10.0))
    new = rng.standard_normal((200, 3))
    ours, theirs = (
        model.predict(new, return_std=True)[1] for model in (copied, weighted)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-3)


@pytest.mark.parametrize("solver", ["direct", "exact"])
def test_covariances_are_those_of_the_gaussian_process_of_scikit_learn(solver):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((120, 2))
    new = np.vstack([rng.standard_normal((20, 2)), np.full((2, 2), 9.0)])
    y = np.sin(rows[:, 0]) + 0.2 * rng.standard_normal(120)
    model = regressor(
        kernel=Gaussian(1.5), n_components=1000, alpha=0.05, solver=solver, tol=1e-6
    ).fit(rows, y)
    # A constant of large variance is the free intercept
    kernel = 1.0 * RBF(1.5) + ConstantKernel(1e4)
    oracle = GaussianProcessRegressor(kernel, alpha=0.05, optimizer=None).fit(rows, y)
    expected = oracle.predict(new, return_cov=True)[1]
    mean, covariance = model.predict(new, return_cov=True, noise=False)
    np.testing.assert_array_equal(mean, model.predict(new))
    noise = model.predict(new, return_cov=True)[1] - covariance
    np.testing.assert_allclose(noise, np.diag(np.diag(noise)), atol=1e-12)
    own = covariance / noise[0, 0] * 0.05
    np.testing.assert_allclose(own, expected, atol=1e-3)
    std = model.predict(new, return_std=True, noise=False)[1]
    np.testing.assert_allclose(std**2, np.diag(covariance), rtol=1e-9)
    total = model.predict(new, return_std=True)[1]
    np.testing.assert_allclose(total**2, std**2 + np.diag(noise), rtol=1e-9)


@pytest.mark.slow
def test_covariances_are_those_of_the_functions_that_are_drawn():
    Y = np.column_stack([X[:, 0], 10 * X[:, 1] ** 2])
    model = regressor(kernel="gaussian", alpha=0.1, solver="direct").fit(X, Y)
    rows = NEW[:6]
    drawn = model.sample_y(rows, 10_000, random_state=0)
    covariance = model.predict(rows, return_cov=True, noise=False)[1]
    assert covariance.shape == (6, 6, 2)
    for k in range(2):
        deviations = np.sqrt(np.diag(covariance[:, :, k]))
        scale = np.multiply.outer(deviations, deviations)
        np.testing.assert_allclose(
            np.cov(drawn[:, k]) / scale, covariance[:, :, k] / scale, atol=0.05
        )


@pytest.mark.slow
def test_covariances_are_of_rows_in_memory_alone(tmp_path, monkeypatch):
    model = regressor(kernel="gaussian", alpha=0.1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="return_cov is for rows in memory"):
        model.predict(NEW, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="return_cov is for rows in memory"):
        model.predict(NEW, return_cov=True, out=tmp_path / "out.csv")
    with pytest.raises(ValueError, match="need a posterior"):
        KernelMachineRegressor(kernel="gaussian", alpha=0.1).fit(X, X[:, 0]).predict(
            NEW, return_cov=True
        )
    monkeypatch.setattr("bochner.engines.local.available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="covariance matrix of 30 rows"):
        model.predict(NEW, return_cov=True)


@pytest.mark.slow
def test_covariances_of_sparse_rows():
    rows = sp.random(300, 40, 0.1, random_state=0, format="csr")
    y = np.asarray(rows[:, :5].sum(axis=1)).ravel()
    model = regressor(kernel="gaussian", alpha=0.1).fit(rows, y)
    covariance = model.predict(rows[:9], return_cov=True)[1]
    std = model.predict(rows[:9], return_std=True)[1]
    np.testing.assert_allclose(np.diag(covariance), std**2)


def test_samples_of_a_rough_kernel_have_the_deviations_that_are_told():
    """Of 1,000 functions at 50 rows, each by its chi-square quantile of 1e-7."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(800, 3))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(800)
    model = regressor(kernel="matern32", n_components=100, alpha=1e-3).fit(X, y)
    new = rng.uniform(size=(50, 3))
    std = model.predict(new, return_std=True, noise=False)[1]
    drawn = model.sample_y(new, 1000, random_state=0)
    assert np.abs(drawn.std(axis=1) / std - 1).max() < 5.5 / np.sqrt(2 * 1000)
