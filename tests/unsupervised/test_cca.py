"""Kernel canonical correlations against linear ones on the explicit features, by
SciPy.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pyarrow.parquet
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import bochner
from bochner import BinningFeatures, FourierFeatures, KernelCCA, load, open_source, save
from bochner.design.moments import Moments
from bochner.kernels import Gaussian
from bochner.unsupervised.cca import choose_ridge

DIGITS = load_digits().data
LEFT, RIGHT = (
    half.reshape(len(DIGITS), -1)
    for half in np.split(DIGITS.reshape(-1, 8, 8), 2, axis=2)
)
MAPS = {
    "features": FourierFeatures(Gaussian(20.0), 40, random_state=0),
    "y_features": FourierFeatures(Gaussian(25.0), 30, random_state=1),
}


@pytest.mark.slow
@parametrize_with_checks([KernelCCA()])
def test_scikit_learn(estimator, check):
    check(estimator)


def directions(Z, U, alpha):
    """The first five pairs of linear regularised CCA, by the generalised symmetric
    eigenproblem of SciPy.
    """
    C = np.cov(Z.T, U.T, bias=True)
    D = Z.shape[1]
    own = [C[:D, :D], C[D:, D:]]
    own = [
        part + alpha * np.trace(part) / len(part) * np.eye(len(part)) for part in own
    ]
    _, vectors = scipy.linalg.eigh(
        C[:D, D:] @ np.linalg.solve(own[1], C[D:, :D]), own[0]
    )
    a = vectors[:, ::-1][:, :5]
    return a, np.linalg.solve(own[1], C[D:, :D] @ a)


@pytest.mark.parametrize("alpha", [1e-6, 0.01, 1.0])
def test_equals_linear_correlations_of_the_features(alpha):
    model = KernelCCA(5, **MAPS, alpha=alpha, standardize=False).fit(LEFT, RIGHT)
    encoded = model.encoder_.transform(LEFT), model.y_encoder_.transform(RIGHT)
    Z, U = (
        f.transform(X.astype(float))
        for f, X in zip((model.features_, model.y_features_), encoded, strict=True)
    )
    a, b = directions(Z, U, alpha)
    expected = [np.corrcoef(Z @ p, U @ q)[0, 1] for p, q in zip(a.T, b.T, strict=True)]
    np.testing.assert_allclose(model.correlations_, expected, atol=1e-6)
    scores, others = model.transform(LEFT, RIGHT)
    own = [np.corrcoef(p, q)[0, 1] for p, q in zip(scores.T, others.T, strict=True)]
    np.testing.assert_allclose(own, model.correlations_, atol=1e-9)
    np.testing.assert_allclose(model.score(LEFT, RIGHT), np.mean(own), atol=1e-9)


def test_the_ridge_term_is_judged_on_the_other_half():
    """Two tables of 30 columns have one factor in common; on its own half the least
    alpha would be the best.
    """
    rng = np.random.default_rng(0)
    factor, alphas = rng.standard_normal((300, 1)), np.array([1e-4, 1e-2, 1.0, 100.0])
    Z, U = (
        np.hstack([factor, np.zeros((300, 29))]) + rng.standard_normal((300, 30))
        for _ in range(2)
    )
    halves = [(Z[:150], U[:150]), (Z[150:], U[150:])]
    expected = []
    for alpha in alphas:
        pairs = []
        for own, other in (halves, halves[::-1]):
            a, b = directions(*own, alpha)
            pairs.append(
                [
                    np.corrcoef(other[0] @ p, other[1] @ q)[0, 1]
                    for p, q in zip(a.T, b.T, strict=True)
                ]
            )
        expected.append(np.mean(pairs))
    moments = []
    for own, other in halves:
        A = np.hstack([own, other, np.ones((len(own), 1))])
        moments.append(Moments.holding(A.T @ A, len(A), 30, np.float64))
    alpha, scores = choose_ridge((moments[0], moments[1]), alphas, 5)
    np.testing.assert_allclose(scores, expected, atol=1e-9)
    assert alpha == alphas[np.argmax(expected)] > alphas[0]


@pytest.mark.slow
def test_more_than_linear_correlations_on_other_rows():
    train, test = slice(0, 700), slice(1200, None)
    model = KernelCCA(10, random_state=0).fit(LEFT[train], RIGHT[train])
    linear = KernelCCA(
        10,
        features=FourierFeatures(Gaussian(1e4), 60),
        y_features=FourierFeatures(Gaussian(1e4), 60),
    )
    linear.set_params(random_state=0).fit(LEFT[train], RIGHT[train])
    assert model.score(LEFT[test], RIGHT[test]) > 1.05 * linear.score(
        LEFT[test], RIGHT[test]
    )
    assert (
        model.alpha_scores_.max() == model.alpha_scores_[model.alphas_ == model.alpha_]
    )


def test_weights_are_copies_of_rows():
    weight = np.random.default_rng(0).integers(0, 3, len(LEFT))
    model = KernelCCA(3, **MAPS, standardize=False, random_state=0)
    one = clone(model).fit(LEFT, RIGHT, sample_weight=weight.astype(float))
    two = clone(model).fit(*(np.repeat(half, weight, axis=0) for half in (LEFT, RIGHT)))
    np.testing.assert_allclose(one.correlations_, two.correlations_, rtol=1e-6)


def test_tables_of_any_kind():
    frame = pl.DataFrame(
        {"town": ["Bern", "Jena", "Ulm"] * 40, "size": np.tile([1.0, 2.0, 5.0], 40)}
    )
    noise = np.random.default_rng(0).standard_normal(120)
    model = KernelCCA(2, random_state=0).fit(
        np.column_stack([frame["size"], noise]), frame
    )
    assert model.correlations_[0] > 0.9
    sparse = KernelCCA(2, random_state=0).fit(
        sp.csr_array(LEFT[:300]), sp.csr_array(RIGHT[:300])
    )
    assert sparse.transform(sp.csr_array(LEFT), sp.csr_array(RIGHT))[1].shape == (
        len(LEFT),
        2,
    )


def test_text_beside_an_array_is_a_column_of_categories():
    """An array has no columns of these names."""
    labels = np.where(LEFT[:300].sum(axis=1) > LEFT.sum(axis=1).mean(), "dark", "light")
    model = KernelCCA(1, random_state=0)
    listed = clone(model).fit(LEFT[:300], labels.tolist())
    framed = clone(model).fit(LEFT[:300], pl.DataFrame({"label": labels}))
    np.testing.assert_allclose(listed.correlations_, framed.correlations_, rtol=1e-6)
    with pytest.raises(ValueError, match="'dark' is no column of X, an array"):
        model.fit(LEFT[:300], "dark")


def test_saved_model_is_the_same(tmp_path):
    model = KernelCCA(2, random_state=0).fit(LEFT[:300], RIGHT[:300])
    save(model, tmp_path / "cca.safetensors")
    again = load(tmp_path / "cca.safetensors").transform(LEFT, RIGHT)
    assert all(
        (a == b).all() for a, b in zip(again, model.transform(LEFT, RIGHT), strict=True)
    )


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"n_components": 0}, "n_components must be"),
        ({"alpha": "gcv"}, "alpha must be"),
        ({"y_features": BinningFeatures(n_buckets=64)}, "dense features on both sides"),
    ],
)
def test_refusals(arguments, match):
    with pytest.raises(ValueError, match=match):
        KernelCCA(**arguments).fit(LEFT, RIGHT)


def test_both_tables_have_the_same_rows():
    with pytest.raises(ValueError, match="inconsistent numbers"):
        KernelCCA().fit(LEFT, RIGHT[1:])


@pytest.fixture
def folders(tmp_path, policy):
    """Two folders of the same rows, with weights, and one of both; parts of the last
    are as those of the first.
    """
    policy(gathered_rows=500, sampled_rows=5000)
    weight = np.random.default_rng(0).integers(0, 3, len(LEFT)).astype(float)
    x, y = ([f"{name}{j}" for j in range(32)] for name in "xy")
    frame = pl.DataFrame(np.column_stack([LEFT, RIGHT, weight]), schema=[*x, *y, "w"])
    for name, columns, step in (
        ("left", [*x, "w"], 600),
        ("right", [*y, "w"], 500),
        ("both", [*x, *y, "w"], 600),
    ):
        (tmp_path / name).mkdir()
        for k, part in enumerate(frame.select(columns).iter_slices(step)):
            pyarrow.parquet.write_table(
                part.to_arrow(), tmp_path / name / f"{k}.parquet", row_group_size=150
            )
    return tmp_path, frame, x, y


def test_files_are_as_rows_in_memory(folders):
    folder, frame, x, y = folders
    model = KernelCCA(5, **MAPS, alpha=0.01, random_state=0)
    left, right = frame.select(x), frame.select(y)
    held = clone(model).fit(left, right, sample_weight=frame["w"].to_numpy())
    one = clone(model).fit(str(folder / "both"), y, sample_weight="w")
    two = clone(model).fit(folder / "left", str(folder / "right"), sample_weight="w")
    for found in (one, two):
        np.testing.assert_allclose(found.correlations_, held.correlations_, atol=1e-4)
        assert list(found.feature_names_in_) == x
    # Some processors multiply blocks of other sizes with other last bits
    np.testing.assert_allclose(
        np.hstack(one.transform(str(folder / "both"), y)),
        np.hstack(one.transform(left, right)),
        atol=1e-5,
    )
    assert one.score(str(folder / "both"), y) == pytest.approx(
        one.score(left, right), abs=1e-6
    )
    # Batches of both tables are run through once
    both = frame.select(*x, *y)
    batches = clone(model).fit(both.iter_slices(500), y)
    np.testing.assert_allclose(
        batches.correlations_, clone(model).fit(left, right).correlations_, atol=1e-4
    )
    beside = clone(model).fit(open_source(folder / "left", exclude=["w"]), RIGHT)
    np.testing.assert_allclose(
        beside.correlations_, clone(model).fit(LEFT, RIGHT).correlations_, atol=1e-4
    )


def test_same_bits_from_other_processes(folders):
    folder, _, _, y = folders
    model = KernelCCA(5, **MAPS, random_state=0)
    here = clone(model).fit(str(folder / "both"), y, sample_weight="w")
    with ThreadPoolExecutor(2) as executor, bochner.settings(engine=executor):
        there = clone(model).fit(str(folder / "both"), y, sample_weight="w")
    assert here.alpha_ == there.alpha_
    np.testing.assert_array_equal(here.x_weights_, there.x_weights_)


def test_refusals_of_files(folders):
    folder, frame, _, y = folders
    with pytest.raises(
        ValueError, match="inconsistent numbers of rows, 1,797 and 1,796"
    ):
        KernelCCA().fit(folder / "left", RIGHT[1:])
    with pytest.raises(
        ValueError, match="y has none: give y as a source with this column"
    ):
        KernelCCA().fit(folder / "left", RIGHT, sample_weight="w")
    with pytest.raises(ValueError, match="no column 'y40'; did you mean"):
        KernelCCA().fit(folder / "both", ["y40"])
    with pytest.raises(ValueError, match="X has no column 'z'"):
        KernelCCA().fit(frame, ["z"])
    other = frame.select(y).with_columns(w=1.0)
    other.write_parquet(folder / "other.parquet")
    with pytest.raises(ValueError, match="weights of X and y differ"):
        KernelCCA().fit(folder / "left", folder / "other.parquet", sample_weight="w")


@pytest.mark.parametrize("n", [15, 200])
@pytest.mark.parametrize("maps", [{}, MAPS], ids=["auto", "waves"])
def test_rows_that_do_not_vary_are_refused_by_name(n, maps):
    with pytest.raises(ValueError, match="All rows of y are equal"):
        KernelCCA(random_state=0, **maps).fit(LEFT[:n], np.ones(n))


def test_scores_of_a_wrong_second_table():
    model = KernelCCA(2, **MAPS, alpha=0.1).fit(LEFT[:100], RIGHT[:100])
    with pytest.raises(ValueError, match="y is None: give the second table"):
        model.score(LEFT, None)
    for table, width in ((RIGHT[:, 0], 1), (RIGHT[:, :3], 3)):
        message = f"columns of y is {width}, and was 32 where KernelCCA was fitted"
        with pytest.raises(ValueError, match=message):
            model.score(LEFT, table)
