"""A short slice of the campaign of damaged model files, and what it has found."""

import copy

import damaged_models
import numpy as np
import pytest

import bochner as bo
from bochner.features import Metric
from bochner.kernels import Laplacian

KINDS = ["fourier", "bins", "structured", "classes", "table"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return damaged_models.subjects(folder, KINDS), folder / "mutant", damaged_models.Watch()


@pytest.mark.parametrize("kind", damaged_models.MUTATIONS)
def test_slice(files, kind):
    subjects, path, watch = files
    for seed in range(50):
        subject = subjects[seed % len(subjects)]
        content = damaged_models.MUTATIONS[kind](subject.content, np.random.default_rng([seed, len(kind)]))
        verdict = damaged_models.judge(subject, content, kind == "tree", path, watch)
        assert not verdict.wrong, f"{kind} {seed} {subject.name}: {verdict.wrong}"


def array(tensors, name, values):
    """The node of an array that is put among the tensors."""
    tensors[name] = np.array(values)
    return {"$": "array", "dtype": tensors[name].dtype.str, "shape": list(tensors[name].shape), "tensor": name}


def test_a_file_brings_no_tables_of_the_loops(tmp_path):
    """What is computed from the arrays of a map, and is checked then, was taken from the file if the file had it."""
    X = np.random.default_rng(0).normal(size=(80, 3))
    model = bo.KernelMachineRegressor(features=bo.BinningFeatures(Laplacian(), 5, random_state=0), random_state=0)
    bo.save(model.fit(X, X[:, 0]), tmp_path / "model")
    tree, tensors = damaged_models.opened((tmp_path / "model").read_bytes())
    tables = [np.zeros(1, np.int64), np.full(6, 2**40), 2**40 + 2 * np.arange(6), np.zeros(1, np.int32)]
    state = {
        "n_buckets": 0,
        "tile_rows": 64,
        "tables": {"$": "tuple", "items": [array(tensors, f"t{k}", table) for k, table in enumerate(tables)]},
    }
    lookups = {"$": "object", "class": "Gaussian", "state": state}
    for table in state["tables"]["items"]:
        assert table["tensor"] in tensors
    tree["state"]["features_"]["state"]["_caches"] = {"$": "dict", "items": {"lookups": lookups}}
    (tmp_path / "hostile").write_bytes(damaged_models.sealed(tree, tensors))
    np.testing.assert_array_equal(bo.load(tmp_path / "hostile").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("knots_", np.zeros((2, 2))),
        ("knots_", np.zeros((1, 0))),
        ("knots_", np.zeros((1, 2), np.float32)),
        ("levels_", np.zeros((1, 1))),
        ("slopes_", np.zeros(0)),
        ("scale_", np.ones(1)),
        ("source_", np.array([0, 3])),
        ("source_", np.array([-1, 2])),
        ("warped_", np.array([2])),
        ("warped_", np.array([1.0])),
        ("levels_", None),
    ],
)
def test_arrays_of_a_metric_must_fit_together(name, value):
    """The loop of the warps is not aware of bounds."""
    warp = {"warped": [1], "knots": [[0.0, 1.0]], "levels": [[0.0, 4.0]], "slopes": [0.5]}
    metric = Metric(3, source=[0, 2], scale=[10.0, 1.0], **warp)
    broken = copy.copy(metric)
    setattr(broken, name, value)
    with pytest.raises(ValueError, match="arrays of this Metric are inconsistent"):
        broken.transform([[0.1, 7.0, 0.5]])
    assert metric.transform([[0.1, 7.0, 0.5]]).tolist() == [[1.0, 2.0]]
