"""What the estimators refuse, with which words."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.multioutput import MultiOutputClassifier
from sklearn.utils import Bunch

from bochner import (
    BinningFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
)
from bochner.kernels import Gaussian, Laplacian

ESTIMATORS = [KernelMachineRegressor, KernelMachineClassifier]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
Y = (X[:, 0] > 0).astype(float)
FAST = {"kernel": Gaussian(), "n_components": 10, "alpha": 1.0}


@pytest.fixture(params=ESTIMATORS, ids=lambda estimator: estimator.__name__)
def estimator(request):
    return request.param


class Samples:
    """Pairs of inputs and a target, as loaders of PyTorch read them."""

    def __len__(self):
        return 30

    def __getitem__(self, k):
        return X[:30][k], Y[k]


def changed(value, at=(4, 1)):
    rows = X.copy()
    rows[at] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (changed(np.inf), ValueError, "Input X contains infinity"),
        (changed(-np.inf), ValueError, "Input X contains infinity"),
        (sp.csr_array(changed(np.nan)), ValueError, "Input X contains NaN"),
        (X * 1j, ValueError, "Complex data not supported"),
        (
            np.full((30, 3), "a"),
            ValueError,
            r"pass a data frame.*make_pipeline\(TableEncoder",
        ),
        (
            np.array([[{"a": 1}] * 3] * 30),
            TypeError,
            "has type struct<a.*argument must be a string",
        ),
        (X[0], ValueError, "Expected 2D array, got 1D"),
        (X[None], ValueError, "Expected 2D array, got 3D"),
        (np.empty((30, 0)), ValueError, "0 feature"),
        (X[:0], ValueError, "0 sample"),
        (None, ValueError, "None|Expected 2D"),
        ("rows", ValueError, "rows: no such file or directory"),
        (
            {"a": [1.0] * 30},
            TypeError,
            r"X, a dict, has columns by name, or records: pass a data frame, for "
            r"example pd.DataFrame\(X\)",
        ),
        (
            [{"a": 1.0}] * 30,
            TypeError,
            r"X, a list, has columns by name.*pd.DataFrame\(X\)",
        ),
        (Bunch(data=X, target=Y), TypeError, r"X, a Bunch, .*X\.data of a Bunch"),
        (Samples(), ValueError, r"X, a Samples, has rows .*pd.DataFrame\(X\)"),
        (
            [[1.0, 2.0], [3.0]] * 15,
            ValueError,
            r"X, a list, has rows that are no arrays of one length",
        ),
        (object(), TypeError, r"X, a object, is no table"),
        (X[:29], ValueError, "inconsistent numbers of samples"),
    ],
)
def test_rows(estimator, rows, error, message):
    with pytest.raises(error, match=message):
        estimator(**FAST).fit(rows, Y)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames(estimator, library):
    module = pytest.importorskip(library)

    def frame(columns):
        return (
            module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
        )

    with pytest.raises(ValueError, match="second"):
        estimator(**FAST).fit(
            frame({"first": X[:, 0], "second": changed(np.inf)[:, 1]}), Y
        )
    with pytest.raises(ValueError, match="0 sample"):
        estimator(**FAST).fit(frame({"first": X[:0, 0]}), Y[:0])
    with pytest.raises(ValueError, match=r"0 feature|0 sample"):
        estimator(**FAST).fit(frame({}), Y[:0])
    model = estimator(**FAST).fit(frame({"first": X[:, 0], "second": X[:, 1]}), Y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame({"first": X[:, 0], "third": X[:, 1]}))
    with pytest.raises(ValueError, match="feature"):
        model.predict(frame({"first": X[:, 0]}))
    with pytest.raises(ValueError, match="second"):
        model.predict(frame({"first": X[:, 0], "second": changed(np.inf)[:, 1]}))


def test_order_of_named_columns(estimator):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = estimator(**FAST).fit(frame, Y)
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(frame[["b", "a", "c"]])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (X[:, :2], "X has 2 features, but KernelMachine.* is expecting 3 features"),
        (
            np.hstack([X, X]),
            "X has 6 features, but KernelMachine.* is expecting 3 features",
        ),
        (changed(np.inf), "Input X contains infinity"),
        (X[:0], "0 sample"),
        (X[0], "Expected 2D array"),
        (np.full((2, 3), "a"), "pass a data frame"),
    ],
)
def test_rows_at_predict(estimator, rows, message):
    model = estimator(**FAST).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        model.predict(rows)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        (
            np.where(np.arange(30) == 4, np.nan, Y),
            "Input y contains NaN.*first in row 4.*SemiSupervised",
        ),
        (np.where(np.arange(30) == 4, np.inf, Y), "Input y contains infinity"),
        (Y[:29], "inconsistent numbers of samples"),
        (Y.reshape(5, 6, 1), "dim 3|shape"),
        (np.empty(0), "inconsistent|0 sample"),
        (3.0, "Singleton|0D|shape|scalar"),
        (Y * 1j, "Complex|[Uu]nknown label type"),
        (np.array([b"a", b"b"] * 15), "bytes|could not convert|dtype"),
    ],
)
def test_targets(estimator, target, message):
    with pytest.raises((ValueError, TypeError), match=message):
        estimator(**FAST).fit(X, target)


@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
def test_targets_of_classes():
    with pytest.raises(
        ValueError,
        match="a different label in each of the 30 rows: it looks like an identifier",
    ):
        KernelMachineClassifier(**FAST).fit(X, [f"id{i}" for i in range(30)])
    with pytest.raises(
        ValueError,
        match="a different label in each of the 30 rows: it looks like an identifier",
    ):
        KernelMachineClassifier(**FAST).fit(X, np.arange(30))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        KernelMachineClassifier(**FAST).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"1d array|should be a 1d|shape"):
        KernelMachineClassifier(**FAST).fit(X, np.column_stack([Y, Y]))


@pytest.mark.parametrize("weight", [-1.0, np.nan])
def test_weights_of_classes(weight):
    model = KernelMachineClassifier(**FAST, class_weight={0.0: weight, 1.0: 2})
    with pytest.raises(ValueError, match="class_weight must not be negative or missin"):
        model.fit(X, Y)


@pytest.mark.parametrize("kind", [int, bool, float])
def test_labels_that_are_objects(kind):
    """Numbers in a column of objects are the labels that they are."""
    labels = (X[:, 0] > 0).astype(kind)
    model = KernelMachineClassifier(**FAST, random_state=0)
    expected = clone(model).fit(X, labels)
    model.fit(X, labels.astype(object))
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.classes_.dtype == labels.dtype


@pytest.mark.parametrize("labels", [[-1, 0, 1], [-1.0, 0.0, 1.0], [-1, 1, 2, 3]])
def test_labels_that_mark_none(labels):
    y = np.resize(labels, 30)
    with pytest.warns(
        UserWarning, match="-1 counts as a class.*drop these rows"
    ) as caught:
        model = KernelMachineClassifier(**FAST).fit(X, y)
    assert caught[0].filename == __file__
    assert list(model.classes_) == labels


@pytest.mark.parametrize(
    "labels", [[-1, 1], [-1, 0], [-2, -1, 0], ["-1", "0", "1"], [0, 1, 2]]
)
def test_labels_that_are_classes(labels):  # warnings are errors here
    KernelMachineClassifier(**FAST).fit(X, np.resize(labels, 30))


@pytest.mark.parametrize(
    ("text", "what"), [("NaN", "NaN"), ("inf", "infinity"), ("1e999", "infinity")]
)
@pytest.mark.parametrize("rows", [1, 3])
def test_targets_of_text_that_are_no_numbers(text, what, rows):
    """Such text is read as a number."""
    y = np.array([text, "-inf", "2"][:rows])
    with pytest.raises(ValueError, match=f"Input y contains {what}"):
        KernelMachineRegressor().fit(np.arange(rows)[:, np.newaxis], y)


def test_targets_of_regression():
    with pytest.raises(ValueError, match="could not convert string to float"):
        KernelMachineRegressor(**FAST).fit(X, ["a"] * 30)
    with pytest.raises((ValueError, TypeError), match="dict"):
        KernelMachineRegressor(**FAST).fit(X, np.array([{}] * 30))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (
            np.where(np.arange(30) == 4, -0.5, 1.0),
            "sample_weight must not be negative; row 4 has -0.5",
        ),
        (np.zeros(30), "(?i)sample.weight.* zero|non-zero"),
        (np.full(30, np.nan), "sample_weight.*NaN"),
        (np.full(30, np.inf), "sample_weight.*infinity"),
        (np.ones(29), "sample_weight.shape"),
        (np.ones((30, 2)), "[Ss]ample weights must be 1D|sample_weight"),
        (["a"] * 30, "could not convert"),
        (3.0 - 4.0, "negative"),
    ],
)
def test_weights(estimator, weight, message):
    with pytest.raises(ValueError, match=message):
        estimator(**FAST).fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": 0}, ValueError, "alpha must be positive"),
        ({"alpha": -1.0}, ValueError, "alpha must be positive"),
        ({"alpha": np.nan}, ValueError, "alpha must be positive"),
        ({"alpha": np.inf}, ValueError, "alpha must be positive"),
        ({"alpha": [1.0, 0.0]}, ValueError, "alpha must be positive"),
        ({"alpha": 1e-40}, ValueError, "alpha must be positive, within 1e-25 and 1e25"),
        ({"alpha": [1.0, 1e40]}, ValueError, "alpha must be positive, within 1e-25"),
        ({"alpha": []}, TypeError, "alpha must be a positive number"),
        ({"alpha": None}, TypeError, "alpha must be a positive number"),
        ({"alpha": True}, TypeError, "alpha must be a positive number"),
        ({"alpha": ["a"]}, TypeError, "alpha must be a positive number"),
        ({"alpha": [[1.0]]}, TypeError, "alpha must be a positive number"),
        ({"alpha": "best"}, ValueError, "alpha must be a positive number"),
        (
            {"kernel": "rbf"},
            ValueError,
            "kernel must be a Kernel or one of .*auto.*gaussian",
        ),
        ({"kernel": None}, ValueError, "kernel must be a Kernel"),
        ({"kernel": Gaussian}, ValueError, "kernel must be a Kernel"),
        ({"kernel": ["gaussian"]}, (ValueError, TypeError), "kernel must be a Kernel"),
        (
            {"kernel": Gaussian([1.0, 2.0])},
            ValueError,
            "2 lengthscales and the data have 3",
        ),
        (
            {"kernel": Gaussian() + Laplacian(), "n_components": 2},
            ValueError,
            "sum of 2 terms",
        ),
        ({"metric": "diagonal"}, ValueError, "metric must be one of"),
        ({"metric": None}, ValueError, "metric must be one of"),
        ({"features": "nystroem"}, ValueError, "features must be one of"),
        ({"loss": "hinge"}, ValueError, "loss must be one of"),
        ({"n_components": 0}, ValueError, "n_components must be positive"),
        ({"n_components": -5}, ValueError, "n_components must be positive"),
        (
            {"n_components": 1.5},
            TypeError,
            "n_components must be a positive integer or 'auto'",
        ),
        (
            {"n_components": "many"},
            TypeError,
            "n_components must be a positive integer or 'auto'",
        ),
        (
            {"n_components": True},
            TypeError,
            "n_components must be a positive integer or 'auto'",
        ),
        (
            {"n_components": None},
            TypeError,
            "n_components must be a positive integer or 'auto'",
        ),
        ({"random_state": "seed"}, ValueError, "seed"),
    ],
    ids=lambda value: repr(value) if isinstance(value, dict) else "",
)
def test_parameters(estimator, options, error, message):
    with pytest.raises(error, match=message):
        estimator(**FAST | options).fit(X, Y)


def test_lengthscales(estimator):
    for wrong in (0.0, -1.0):
        with pytest.raises(ValueError, match="lengthscale must be positive"):
            estimator(**FAST).set_params(kernel__lengthscale=wrong)


def test_memory(estimator, little_memory):
    with pytest.raises(
        MemoryError,
        match=r"Ridge regression on 10 features needs .* Use a smaller n_components",
    ):
        estimator(**FAST).fit(X, Y)


def test_a_loss_of_bins_that_are_not_stored(monkeypatch):
    """They have been numbered by passes over the rows."""
    monkeypatch.setattr("bochner.design.design.STORED_SHARE", 0.0)
    bins = BinningFeatures(Laplacian(2.0), 20)
    with pytest.raises(MemoryError, match="fewer features"):
        KernelMachineClassifier(features=bins, loss="logistic").fit(X, Y)
    model = KernelMachineClassifier(features=bins).fit(X, Y)
    assert model.loss_ == "squared"
    assert model.score(X, Y) > 0.9


def test_must_be_fitted(estimator):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        estimator().predict(X)
    if estimator is KernelMachineClassifier:
        with pytest.raises(NotFittedError):
            estimator().predict_proba(X)
        with pytest.raises(NotFittedError):
            estimator().decision_function(X)


def test_a_failed_fit_leaves_no_half_model(estimator):
    model = estimator(**FAST)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(changed(np.inf), Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_sparse_targets_have_a_cure():
    for estimator in (KernelMachineRegressor, KernelMachineClassifier):
        with pytest.raises(TypeError, match=r"y is sparse.*y.toarray\(\)"):
            estimator(**FAST).fit(X, sp.csr_array(np.ones((30, 1))))


def test_several_labels_of_a_row_have_another_estimator():
    labels = np.column_stack([Y, X[:, 1] > 0]).astype(int)
    one = KernelMachineClassifier(**FAST, random_state=0)
    cure = r"MultiOutputClassifier .*y\.argmax\(axis=1\)"
    with pytest.raises(ValueError, match=cure):
        one.fit(X, labels)
    with pytest.raises(ValueError, match=cure):
        one.fit(X, Y).score(X, labels)
    assert MultiOutputClassifier(one).fit(X, labels).score(X, labels) > 0.5
