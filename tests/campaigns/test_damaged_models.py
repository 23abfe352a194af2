"""A short slice of the campaign of damaged model files, and what it has found."""

import ast
import copy
from importlib import import_module
from inspect import get_annotations
from typing import Any

import damaged_models
import numpy as np
import pytest
from typer.testing import CliRunner

import bochner as bo
from bochner.cli.app import app
from bochner.cli.failures import guarded
from bochner.features import Metric
from bochner.kernels import Laplacian
from bochner.persistence import CLASSES, ModelFileError
from bochner.persistence.tree import kinds_of

KINDS = ["fourier", "bins", "structured", "classes", "table"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return (
        damaged_models.subjects(folder, KINDS),
        folder / "mutant",
        damaged_models.Watch(),
    )


@pytest.mark.parametrize("kind", damaged_models.MUTATIONS)
def test_slice(files, kind):
    subjects, path, watch = files
    for seed in range(50):
        subject = subjects[seed % len(subjects)]
        content = damaged_models.MUTATIONS[kind](
            subject.content, np.random.default_rng([seed, len(kind)])
        )
        verdict = damaged_models.judge(subject, content, kind == "tree", path, watch)
        assert not verdict.wrong, f"{kind} {seed} {subject.name}: {verdict.wrong}"


def array(tensors, name, values):
    """The node of an array that is put among the tensors."""
    tensors[name] = np.array(values)
    return {
        "$": "array",
        "dtype": tensors[name].dtype.str,
        "shape": list(tensors[name].shape),
        "tensor": name,
    }


def test_a_file_brings_no_tables_of_the_loops(tmp_path):
    """What is computed from the arrays of a map, and is checked then, was taken from
    the file if the file had it.
    """
    X = np.random.default_rng(0).normal(size=(80, 3))
    model = bo.KernelMachineRegressor(
        features=bo.BinningFeatures(Laplacian(), 5, random_state=0), random_state=0
    )
    bo.save(model.fit(X, X[:, 0]), tmp_path / "model")
    tree, tensors = damaged_models.opened((tmp_path / "model").read_bytes())
    tables = [
        np.zeros(1, np.int64),
        np.full(6, 2**40),
        2**40 + 2 * np.arange(6),
        np.zeros(1, np.int32),
    ]
    state = {
        "n_buckets": 0,
        "tile_rows": 64,
        "tables": {
            "$": "tuple",
            "items": [array(tensors, f"t{k}", table) for k, table in enumerate(tables)],
        },
    }
    lookups = {"$": "object", "class": "Gaussian", "state": state}
    for table in state["tables"]["items"]:
        assert table["tensor"] in tensors
    tree["state"]["features_"]["state"]["_caches"] = {
        "$": "dict",
        "items": {"lookups": lookups},
    }
    (tmp_path / "hostile").write_bytes(damaged_models.sealed(tree, tensors))
    np.testing.assert_array_equal(
        bo.load(tmp_path / "hostile").predict(X), model.predict(X)
    )


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
    warp = {
        "warped": [1],
        "knots": [[0.0, 1.0]],
        "levels": [[0.0, 4.0]],
        "slopes": [0.5],
    }
    metric = Metric(3, source=[0, 2], scale=[10.0, 1.0], **warp)
    broken = copy.copy(metric)
    setattr(broken, name, value)
    with pytest.raises(ValueError, match="arrays of this Metric are inconsistent"):
        broken.transform([[0.1, 7.0, 0.5]])
    assert metric.transform([[0.1, 7.0, 0.5]]).tolist() == [[1.0, 2.0]]


def test_slice_of_commands(files):
    subjects, path, _ = files
    for seed in range(10):
        case, wrong = damaged_models.judge_command(
            seed, subjects[seed % 4], path.parent
        )
        assert not wrong, f"{case}: {wrong}"


@pytest.fixture
def changed(files):
    """A function that changes the tree of a model, by its name, and gives the sealed
    file.
    """

    def change(name, work):
        subjects, path, _ = files
        subject = next(one for one in subjects if one.name == name)
        tree, tensors = damaged_models.opened(subject.content)
        work(tree["state"], tensors)
        path.write_bytes(damaged_models.sealed(tree, tensors, {"target": "y"}))
        return path

    return change


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            lambda state: state.update(encoder_=state["features_"]["state"]["kernel"]),
            "encoder_ is a Gaussian",
        ),
        (lambda state: state.update(features_=None), "features_ is a NoneType"),
        (lambda state: state.update(alpha_="1"), "alpha_ is a str"),
        (
            lambda state: state["encoder_"]["state"]["statistic_"]["state"].pop(
                "kinds"
            ),
            "TableStatistic.kinds is missing",
        ),
        (
            lambda state: state["encoder_"]["state"]["statistic_"]["state"].update(
                kinds=3
            ),
            "TableStatistic.kinds is a int",
        ),
    ],
)
def test_load_refuses_attributes_that_are_missing_or_of_another_type(
    changed, change, match
):
    """Such files were loaded, and ended in an AttributeError when they were used."""
    path = changed("structured", lambda state, tensors: change(state))
    with pytest.raises(ModelFileError, match=f"it is inconsistent: .*{match}"):
        bo.load(path)


@pytest.mark.parametrize("tag", CLASSES)
def test_annotations_of_classes_that_are_loaded_are_text(tag):
    """By which their attributes are checked, and which must not be evaluated."""
    own = [
        base
        for base in getattr(import_module(CLASSES[tag]), tag).__mro__
        if base.__module__.startswith("bochner.")
    ]
    hints = {name: hint for base in own for name, hint in get_annotations(base).items()}
    assert [name for name, hint in hints.items() if not isinstance(hint, str)] == []


def test_types_of_hints():
    known = {"Laplacian": Laplacian, "Any": Any, "np": np}
    hints = {
        "float | None": (0.5, np.int64(1), None),
        "list[str]": ([], ()),
        "NDArray[np.float64]": (np.zeros(1),),
    }
    for hint, values in (
        hints
        | {
            "Laplacian": (Laplacian(),),
            "dict[str, Any] | str": ({}, ""),
            "np.ndarray": (np.zeros(1),),
        }
    ).items():
        kinds = kinds_of(ast.parse(hint, mode="eval").body, known)
        assert all(isinstance(value, kinds) for value in values)
        assert not isinstance({1}, kinds)
    for hint in ("Any", "float | Any", "ClassVar[int]", "Unknown", "'text'"):
        assert kinds_of(ast.parse(hint, mode="eval").body, known) == ()


def test_a_parameter_that_a_file_lacks_has_its_default(changed):
    """As in files of releases that did not have it."""
    model = bo.load(changed("structured", lambda state, tensors: state.pop("quantile")))
    assert model.get_params()["quantile"] == bo.KernelMachineRegressor().quantile


def without(name):
    """Leave out an array."""
    return lambda state, tensors: tensors.pop(state.pop(name)["tensor"])


def shorter(state, tensors):
    """Cut the coefficients."""
    name = state["feature_weights_"]["tensor"]
    tensors[name] = tensors[name][:5].copy()
    state["feature_weights_"]["shape"] = list(tensors[name].shape)


@pytest.mark.parametrize("name", damaged_models.COMMANDS)
@pytest.mark.parametrize("work", [without("intercept_"), shorter])
def test_commands_say_that_a_model_is_inconsistent(
    files, changed, tmp_path, work, name
):
    """They showed a traceback, or put it down to the table."""
    subject, path = files[0][2], changed("structured", work)
    table = damaged_models.table_of(subject, path.parent)[
        name in ("evaluate", "report")
    ]
    given = {"inspect": [path]}.get(name, [path, table])
    out = damaged_models.COMMANDS[name]
    result = CliRunner().invoke(
        app,
        [
            name,
            *map(str, given),
            *([] if out == "none" else ["--out", str(tmp_path / out)]),
        ],
    )
    assert result.exit_code == 1, result.exception
    assert result.stderr.startswith(
        f"error: {path}: the model in this file may be inconsistent ("
    )
    assert result.stderr.count("\n") == 1


def test_what_a_model_does_beside_predictions_may_fail_in_one_line_too(
    files, changed, tmp_path
):
    path = changed("structured", without("target_scale_"))
    table, _ = damaged_models.table_of(files[0][2], path.parent)
    result = CliRunner().invoke(
        app, ["explain", str(path), str(table), "--out", str(tmp_path / "out.csv")]
    )
    assert result.exit_code == 1
    assert "inconsistent (AttributeError" in result.stderr


def test_errors_of_the_library_itself_are_not_put_down_to_a_model():
    with pytest.raises(AttributeError), guarded(False):
        raise AttributeError("of a fit")


@pytest.mark.parametrize("name", ["inspect", "explain", "report"])
def test_commands_for_kernel_machines_refuse_other_models(tmp_path, name):
    """They showed a traceback of an AttributeError."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    bo.save(bo.KernelKMeans(2, random_state=0).fit(X), tmp_path / "model")
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b", comments="")
    given = (
        []
        if name == "inspect"
        else [tmp_path / "rows.csv", "--out", tmp_path / damaged_models.COMMANDS[name]]
    )
    result = CliRunner().invoke(app, [name, *map(str, [tmp_path / "model", *given])])
    assert result.exit_code == 1
    assert (
        "holds a KernelKMeans, which this command is not for; give a "
        "KernelMachineRegressor" in result.stderr
    )
