"""Models come back as they were saved, and no file, however bad, does anything but
raise ModelFileError.
"""

import hashlib
import json
import math
import os
import pickle
import re
import stat
import struct
import sys
from contextlib import suppress
from datetime import date
from enum import IntEnum
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from safetensors.numpy import load_file, save_file
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from bochner import persistence
from bochner.data.table import TableEncoder
from bochner.features.fourier import FourierFeatures
from bochner.kernels import Cauchy, Gaussian, Laplacian, Matern, RationalQuadratic
from bochner.persistence import ModelFileError, container, describe, load, save
from bochner.persistence.tree import MAX_DEPTH, encode


class Box:
    """A dummy that holds anything."""

    default = 1

    def __init__(self, **state):
        self.__dict__.update(state)

    def predict(self):
        return "prediction"

    @property
    def size(self):
        return 1

    @cached_property
    def cached(self):
        return object()


class Subbox(Box):
    pass


class Slotted:
    __slots__ = ("__dict__", "a")


class Pair(NamedTuple):
    a: int


class Learner(BaseEstimator):
    """A dummy estimator."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self):
        self.coef_ = np.arange(3.0)
        return self


class Colour(IntEnum):
    RED = 1


REGISTRY = {cls.__name__: __name__ for cls in (Box, Learner, Slotted, Pair)}


@pytest.fixture(autouse=True, scope="module")
def dummies():
    """The dummies can be saved, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(persistence, "CLASSES", REGISTRY | persistence.CLASSES)
        yield


def same(a, b):
    """Equality of value, type, dtype and shape; nan equals nan, and 0.0 differs from
    -0.0.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, Box):
        return same(vars(a), vars(b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray | np.generic):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return False
        return (
            same(a.ravel().tolist(), b.ravel().tolist())
            if a.dtype.kind in "OU"
            else a.tobytes() == b.tobytes()
        )
    return repr(a) == repr(b)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def small(path):
    """A small file with something of everything, as (path, bytes)."""
    inner = Box(name="é", flags=(True, None), scale=np.float32(0.5))
    model = Box(
        X=np.arange(4, dtype=np.float32),
        k=2**70,
        labels=np.array(["a", "b"]),
        inner=inner,
    )
    save(model, path)
    return path, path.read_bytes()


def roundtrip(state, path):
    save(Box(value=state), path)
    return load(path).value


def craft(path, tree, tensors=None):
    """Write a file with a right checksum and any tree."""
    path.write_bytes(
        b"".join(bytes(chunk) for chunk in container.pack(tree, tensors or {}))
    )


def craft_value(path, value, tensors=None):
    craft(path, {"$": "object", "class": "Box", "state": {"value": value}}, tensors)


def refused(path, match):
    with pytest.raises(ModelFileError, match=match) as error:
        load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers().map(lambda n: n**40),
    st.floats(),
    st.text(),
)
NUMBERS = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="?"),
    npst.unsigned_integer_dtypes(endianness="?"),
    npst.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    npst.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    npst.datetime64_dtypes(endianness="?"),
    npst.timedelta64_dtypes(endianness="?"),
    npst.unicode_string_dtypes(endianness="?"),
)
SHAPES = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
ARRAYS = npst.arrays(NUMBERS, SHAPES) | npst.arrays(object, SHAPES, elements=SCALARS)
VALUES = st.recursive(
    SCALARS | ARRAYS | NUMBERS.flatmap(npst.from_dtype),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner)
    ),
    max_leaves=10,
)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(VALUES)
def test_roundtrip_of_nested_values(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "nested.safetensors"
    assert same(roundtrip(value, path), value)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(ARRAYS)
def test_roundtrip_of_arrays_in_any_layout(tmp_path_factory, array):
    path = tmp_path_factory.getbasetemp() / "array.safetensors"
    array.flags.writeable = False
    for layout in (
        array,
        array.T,
        np.asfortranarray(array),
        array[..., ::-1] if array.ndim else array,
    ):
        back = roundtrip(layout, path)
        assert same(back, layout)
        assert back.flags.writeable


def test_roundtrip_of_numbers(path):
    values = [
        math.nan,
        math.inf,
        -math.inf,
        -0.0,
        5e-324,
        2**53,
        2**53 + 1,
        1,
        1.0,
        True,
    ]
    assert same(roundtrip(values, path), values)
    assert roundtrip(-(10**5000), path) == -(10**5000)


@pytest.mark.parametrize(
    "value",
    [
        np.float64(math.nan),
        np.uint64(2**64 - 1),
        np.str_("é"),
        np.datetime64("NaT", "ns"),
        1j * np.ones(()),
    ],
)
def test_roundtrip_of_numpy_scalars(path, value):
    assert same(roundtrip({"$": value}, path), {"$": value})


def test_memmap_comes_back_as_array(path, tmp_path):
    mapped = np.memmap(tmp_path / "raw", dtype=np.int16, mode="w+", shape=(3, 2))
    assert same(roundtrip(mapped, path), np.zeros((3, 2), np.int16))


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(2.0),
        Laplacian(np.array([1.0, 2.0])),
        Cauchy([1.0, 3.0]),
        2.0 * Matern(nu=np.inf) + Gaussian() * RationalQuadratic(alpha=0.5),
    ],
)
def test_kernels(path, kernel):
    save(kernel, path)
    assert load(path) == kernel
    assert np.array_equal(load(path)(np.eye(2)), kernel(np.eye(2)))


def test_feature_map(path, tmp_path):
    features = FourierFeatures(Gaussian(2.0), n_components=11, random_state=0).fit(
        np.zeros((1, 3))
    )
    save(features, path)
    Z = features.transform(np.eye(3))
    assert np.array_equal(load(path).transform(np.eye(3)), Z)
    save(features, tmp_path / "used")
    assert (tmp_path / "used").read_bytes() == path.read_bytes()
    with pytest.raises(NotFittedError):
        save(FourierFeatures(), path)


def test_table_encoder(path):
    dates = np.array(["2020-01-01", "NaT", "2021-05-05"], "datetime64[ns]")
    table = pd.DataFrame(
        {
            "n": [1.0, np.nan, 3.0],
            "s": ["a", None, "é"],
            "b": [True, False, True],
            "t": dates,
        }
    )
    encoder = TableEncoder().fit(table)
    save(encoder, path)
    back = load(path)
    assert np.array_equal(back.transform(table), encoder.transform(table))
    more, again = encoder.partial_fit(table), back.partial_fit(table)
    assert np.array_equal(again.transform(table), more.transform(table))


@pytest.mark.parametrize(("tag", "module"), persistence.CLASSES.items())
def test_allow_list_names_classes_where_they_are_defined(tag, module):
    if find_spec(module) is None:
        pytest.skip(f"{module} does not exist")
    cls = getattr(import_module(module), tag)
    assert (cls.__module__, cls.__qualname__) == (module, tag)


def test_other_tools_read_the_tensors(small):
    assert same(load_file(small[0]), {"X": np.arange(4, dtype=np.float32)})


def test_same_model_same_bytes(small, tmp_path):
    path, content = small
    again = tmp_path / "again"
    save(load(path), again)
    assert again.read_bytes() == content


def test_numpy_alone_predicts_from_a_file(checkout, tmp_path, monkeypatch):
    """The program of the page on predictions without the library, on the model of the
    page and on rows far from those of its fit.
    """
    page = checkout / "docs" / "howto" / "deploy.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)  # noqa: S102 - a page of this repository
    X, model = names["X"], names["model"]
    for rows in (X, 3 * X):
        predicted = names["predict"]("model.safetensors", rows)
        np.testing.assert_allclose(predicted, model.predict(rows), rtol=0, atol=1e-6)


def test_path_may_be_a_string(path):
    assert save(Gaussian(), str(path)) is None
    assert load(str(path)) == Gaussian()


def test_attributes_in_another_order_give_the_same_bytes(path, tmp_path):
    save(Box(a=1, b=2), path)
    save(Box(b=2, a=1), tmp_path / "other")
    assert path.read_bytes() == (tmp_path / "other").read_bytes()


def test_generator_is_stored_as_none_and_cache_left_out(path):
    for random_state in (np.random.default_rng(0), np.random.RandomState(0)):
        save(Learner(random_state).fit(), path)
        assert load(path).random_state is None
    box = Box(a=1)
    assert box.cached is not None
    save(box, path)
    assert vars(load(path)) == {"a": 1}


def test_unfitted_estimator(path):
    with pytest.raises(NotFittedError):
        save(Learner(), path)
    assert not path.exists()


@pytest.mark.parametrize(
    "model", [object(), [Gaussian()], Subbox(), BaseEstimator, None]
)
def test_class_outside_of_the_list(path, model):
    with pytest.raises(TypeError, match="save takes one of Box, Learner"):
        save(model, path)


@pytest.mark.parametrize(
    ("state", "match"),
    [
        (
            {"a": [np.random.default_rng(0)]},
            r"Box\.a\[0\] is a Generator, which cannot be saved",
        ),
        ({"a": {"k": len}}, r"Box\.a\['k'\] is a builtin_function_or_method"),
        ({"a": {1: 2}}, r"Box\.a has the key 1"),
        ({"a": Box(b=Colour.RED)}, r"Box\.a\.b is a Colour"),
        ({"a": {1, 2}}, "is a set"),
        ({"a": b"x"}, "is a bytes"),
        ({"a": 1j}, "is a complex"),
        ({"a": Subbox()}, "is a Subbox"),
        ({"a": np.ma.masked_array([1])}, "is a MaskedArray"),
        ({"a": np.array([b"x"])}, "dtype"),
        ({"a": np.zeros(2, "f8,i4")}, "dtype"),
        ({"a": np.array([None, date(2000, 1, 1)])}, r"Box\.a\.flat\[1\] is a date"),
        ({"predict": 1}, r"Box\.predict cannot be saved: it would hide Box\.predict"),
        ({"size": 1}, "hide"),
        ({"__class__": 1}, "not an attribute name"),
        ({"a b": 1}, "not an attribute name"),
    ],
)
def test_what_cannot_be_saved_is_named(path, state, match):
    with pytest.raises(TypeError, match=match):
        save(Box(**state), path)
    assert not path.exists()


def test_state_outside_of_the_dict_is_refused(path):
    slotted = Slotted()
    slotted.a = 1
    for model in (slotted, Pair(1)):
        with pytest.raises(TypeError, match="has content outside of its __dict__"):
            save(model, path)


def test_cycles_and_depth(path):
    cycle = []
    cycle.append(cycle)
    with pytest.raises(ValueError, match=r"Box\.value\[0\] contains itself"):
        roundtrip(cycle, path)
    box = Box()
    box.me = box
    with pytest.raises(ValueError, match=r"Box\.me contains itself"):
        save(box, path)
    deep = 1
    for _ in range(MAX_DEPTH - 1):
        deep = (deep,)
    assert same(roundtrip(deep, path), deep)
    with pytest.raises(ValueError, match="deeper"):
        roundtrip([deep], path)


def test_too_much_text(path, monkeypatch):
    with pytest.raises(ValueError, match="too many for an array of text"):
        roundtrip(np.broadcast_to(np.array(["a" * 1000]), 2**20), path)
    monkeypatch.setattr(container, "MAX_VALUES", 1000)
    with pytest.raises(ValueError, match="too much text"):
        roundtrip([1] * 1000, path)


def test_flipped_byte_anywhere(small):
    path, content = small
    with open(path, "r+b", buffering=0) as file:
        for i, byte in enumerate(content):
            for changed in (byte ^ 1, byte ^ 0x20, byte ^ 0xFF, byte):
                file.seek(i)
                file.write(bytes([changed]))
                if changed != byte:
                    refused(path, "Cannot load")
    assert load(path).k == 2**70


def test_cut_short_anywhere_or_added_to(small):
    path, content = small
    for i in reversed(range(len(content))):
        os.truncate(path, i)
        refused(path, "truncated")
    for more in (b"\0", b" " * 8, content):
        path.write_bytes(content + more)
        refused(path, "extended")


def test_pickle_is_not_executed(path, tmp_path):
    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "owned"),)

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        path.write_bytes(pickle.dumps(Attack(), protocol=protocol))
        refused(path, "not a model")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 8,
        b"\0" * 100,
        b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
        b"just some text\n" * 10,
        struct.pack("<Q", 2**62) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 4) + b"\xff\xfe{}",
    ],
)
def test_foreign_files(path, content):
    path.write_bytes(content)
    refused(path, "give a file that bochner.save wrote")
    with pytest.raises(ModelFileError):
        describe(path)


def test_safetensors_of_another_tool(path):
    save_file({"weight": np.ones(3)}, path, metadata={"format": "pt"})
    refused(path, "not a bochner model")


def test_header_larger_than_allowed_is_not_read(path):
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", 2**30))
        file.truncate(2**31)
    refused(path, "not a model")


@pytest.mark.parametrize("nest", ["[", '{"a":'])
def test_deep_nesting(path, nest):
    text = (nest * 10**5).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    refused(path, "nests too deeply")


def test_deep_tree(path):
    for depth in (66, 150):
        tree = 1
        for _ in range(depth):
            tree = [tree]
        craft_value(path, tree)
        refused(path, "nests too deeply")


def test_absurd_number_of_values(path, monkeypatch):
    craft_value(path, [1] * 1000)
    monkeypatch.setattr(container, "MAX_VALUES", 1000)
    refused(path, "more than 1000 values")


@pytest.mark.parametrize(
    ("version", "match"),
    [
        ("4", "upgrade bochner"),
        ("2", "no longer read; fit the model again"),
        ("x", "malformed"),
        ("9" * 99, "malformed"),
    ],
)
def test_format_versions(path, monkeypatch, version, match):
    monkeypatch.setattr(container, "VERSION", version)
    craft_value(path, 1)
    monkeypatch.undo()
    refused(path, match)


def rewrite_header(path, change):
    """Apply `change` to the outer JSON of a file and mend its checksum."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    digits = header["__metadata__"]["checksum"]
    change(header)
    text = (
        json.dumps(header, separators=(",", ":"))
        .replace(digits, container.BLANK)
        .encode()
    )
    content = struct.pack("<Q", len(text)) + text + content[end:]
    digest = hashlib.sha256(content).hexdigest()
    path.write_bytes(content.replace(container.BLANK.encode(), digest.encode(), 1))


def test_mended_checksum_is_accepted(small):
    path, _ = small
    rewrite_header(path, lambda header: None)
    assert load(path).k == 2**70
    rewrite_header(
        path, lambda header: header["__metadata__"].update(library_version="9.9")
    )
    assert load(path).k == 2**70


@pytest.mark.parametrize(
    "value", [[0, 2**62], [0, 16.0], [0, "16"], [0, True], [0], None, {}]
)
def test_offsets(small, value):
    path, _ = small
    rewrite_header(path, lambda header: header["X"].update(data_offsets=value))
    refused(path, "malformed|truncated")


@pytest.mark.parametrize("value", [None, 1, [1]])
@pytest.mark.parametrize(
    "field", ["format", "format_version", "library_version", "checksum", "tree"]
)
def test_metadata(small, field, value):
    path, _ = small
    rewrite_header(path, lambda header: header["__metadata__"].update({field: value}))
    refused(path, "Cannot load")
    path.write_bytes(small[1])
    rewrite_header(path, lambda header: header["__metadata__"].pop(field))
    refused(path, "Cannot load")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "BF16"},
        {"dtype": "I32"},
        {"dtype": "nonsense"},
        {"dtype": None},
        {"shape": [2**62, 2**62]},
        {"shape": [5]},
        {"shape": [-4]},
        {"shape": "4"},
        {"data_offsets": [8, 16]},
        {"data_offsets": [-16, 16]},
        {"data_offsets": [2**70, 16]},
    ],
)
def test_tensor_entries(small, entry):
    path, _ = small
    rewrite_header(path, lambda header: header["X"].update(entry))
    refused(path, "Cannot load")


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.data())
def test_mutated_trees_load_or_are_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "mutated.safetensors"
    state = {
        "a": [2**70, math.inf],
        "b": ("x", {"k": np.float32(1)}),
        "c": np.array(["u"]),
        "d": np.ones((2, 1)),
        "e": Box(),
    }
    tree, tensors = encode(Box(**state), REGISTRY)
    places = [(tree, key) for key in tree]
    for parent, key in places:
        child = parent[key]
        if isinstance(child, dict | list):
            places += [
                (child, k)
                for k in (child if isinstance(child, dict) else range(len(child)))
            ]
    parent, key = data.draw(st.sampled_from(places))
    parent[key] = data.draw(
        st.sampled_from(
            [
                None,
                True,
                -1,
                2**60,
                0.5,
                "",
                "array",
                "<f4",
                "U",
                [],
                [1],
                {},
                {"$": "int", "value": "0x1"},
            ]
        )
    )
    craft(path, tree, tensors)
    with suppress(ModelFileError):
        load(path)


@pytest.mark.parametrize(
    "tag", ["os.system", "Subbox", "object", "", "Box.predict", "test_persistence.Box"]
)
def test_class_tags(path, tag):
    craft(path, {"$": "object", "class": tag, "state": {}})
    refused(path, "holds the class")


@pytest.mark.parametrize(
    "name",
    [
        "predict",
        "size",
        "cached",
        "__class__",
        "__dict__",
        "__reduce__",
        "a b",
        "",
        "class",
        "mro",
        "__init__",
    ],
)
def test_attribute_names(path, name):
    craft(path, {"$": "object", "class": "Box", "state": {name: 1}})
    refused(path, "hide|not an attribute name")


def test_attributes_may_replace_plain_class_attributes(path):
    craft(path, {"$": "object", "class": "Box", "state": {"default": 2}})
    assert load(path).default == 2


@pytest.mark.parametrize(
    "root",
    [
        None,
        1,
        [],
        {},
        {"$": "dict", "items": {}},
        {"$": "object"},
        {"$": "object", "class": [], "state": {}},
    ],
)
def test_roots(path, root):
    craft(path, root)
    refused(path, "Cannot load")


def node(kind, **fields):
    return {"$": kind, **fields}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": 1},
        node("eval", code="1"),
        node("object"),
        node(None),
        node(["int"]),
        node("int", value=1),
        node("int", value="12"),
        node("int", value="0x1", more=1),
        node("float", value="1.0"),
        node("float", value="infinity"),
        node("tuple", items={}),
        node("dict", items=[]),
        node("scalar", dtype="<f8", value=1),
        node("scalar", dtype="|u1", value=256),
        node("scalar", dtype="|b1", value=1),
        node("scalar", dtype="|O", value=1),
        node("scalar", dtype=None, value=1),
        node("scalar", dtype="<f8", value=node("array")),
        node("cell", array=1),
        node("cell", array=node("int", value="0x1")),
        node("cell", array=node("items", dtype="<U1", shape=[1], items=["a"])),
        node("items", dtype="<U1", shape=[], items=[1]),
        node("items", dtype="<U1", shape=[3], items=["a"]),
        node("items", dtype="<U1", shape=[-1], items=["a"]),
        node("items", dtype="<U1", shape=[True], items=["a"]),
        node("items", dtype="<U1", shape=[1.0], items=["a"]),
        node("items", dtype="<U1", shape=[1] * 65, items=["a"]),
        node("items", dtype="<U1", shape=[0, 2**62], items=[]),
        node("items", dtype="<U999999999", shape=[1], items=["a"]),
        node("items", dtype="<f8", shape=[1], items=[1.0]),
        node("items", dtype="|O", shape=[1], items=[[1]]),
        node(
            "items",
            dtype="|O",
            shape=[1],
            items=[node("object", **{"class": "Box", "state": {}})],
        ),
        node("array", dtype="<f8", shape=[1], tensor="missing"),
    ],
)
def test_malformed_nodes(path, value):
    craft_value(path, value)
    refused(path, "malformed")


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("<f8", [3]),
        ("<f8", [2**61]),
        ("<f8", [2, 1]),
        ("<i8", [2]),
        ("<c16", [2]),
        ("|O", [2]),
        ("M8", [2]),
        ("<M8[ns", [2]),
        ("<M8[0ns]", [2]),
        ("f8,f8", [1]),
    ],
)
def test_arrays_that_differ_from_their_tensor(path, dtype, shape):
    craft_value(
        path,
        node("array", dtype=dtype, shape=shape, tensor="value"),
        {"value": np.ones(2)},
    )
    refused(path, "malformed")


def test_tensors_are_used_and_take_memory_once(path):
    array = node("array", dtype="<f8", shape=[1000], tensor="value")
    craft_value(path, [array] * 500, {"value": np.ones(1000)})
    arrays = load(path).value
    assert all(np.shares_memory(one, arrays[0]) for one in arrays)
    craft_value(
        path,
        node("array", dtype="<f8", shape=[1000], tensor="other"),
        {"value": np.ones(1000)},
    )
    refused(path, "malformed")
    craft_value(path, 1, {"stray": np.ones(2)})
    refused(path, "'stray' belongs to nothing")


def test_booleans_are_zero_or_one(path):
    craft_value(
        path,
        node("array", dtype="|b1", shape=[1], tensor="value"),
        {"value": np.array([2], np.uint8).view(bool)},
    )
    refused(path, "booleans")


@pytest.mark.parametrize(
    "text",
    ["NaN", "Infinity", "1e999", "1" * 5000, '{"$":"int","$":"int","value":"0x1"}'],
)
def test_json_is_strict(path, monkeypatch, text):
    monkeypatch.setattr(
        json,
        "dumps",
        lambda tree, dumps=json.dumps, **kw: (
            dumps(tree, **kw)
            .replace('"HERE"', text)
            .replace('\\"HERE\\"', text.replace('"', '\\"'))
        ),
    )
    craft_value(path, "HERE")
    monkeypatch.undo()
    refused(path, "JSON|malformed")


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_failure_leaves_the_old_file(small, monkeypatch, error):
    path, content = small

    def fail(*args):
        raise error("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(
            persistence,
            "pack",
            lambda *args: (fail() if i else b"half" for i in range(2)),
        )
        with pytest.raises(error):
            save(Box(), path)
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(error):
        save(Box(), path)
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes and links")
def test_file_modes_and_links(path, tmp_path):
    old = os.umask(0o027)
    try:
        save(Gaussian(), path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    save(Laplacian(), link)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert link.is_symlink()
    assert load(path) == Laplacian()


def test_operating_system_errors_pass(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        save(Gaussian(), tmp_path / "missing" / "model")
    for call in (load, describe, lambda path: save(Gaussian(), path)):
        with pytest.raises((IsADirectoryError, PermissionError)):
            call(tmp_path)
    assert os.listdir(tmp_path) == []


def test_describe(path):
    save(2.0 * Gaussian(np.array([1.0, 2.0])) + Matern(nu=math.inf), path)
    report = describe(path)
    tree = report.pop("tree")
    assert report.pop("library_version")
    assert report == {
        "format_version": 3,
        "class": "Sum",
        "n_tensors": 1,
        "tensor_bytes": 16,
        "file_bytes": path.stat().st_size,
        "metadata": {},
    }
    left = tree["state"]["left"]["state"]
    assert left["factor"] == 2.0
    assert left["kernel"]["class"] == "Gaussian"
    lengthscale = left["kernel"]["state"]["lengthscale"]
    assert (lengthscale["dtype"], lengthscale["shape"]) == ("<f8", [2])
    assert tree["state"]["right"]["state"]["nu"] == {"$": "float", "value": "inf"}
    assert json.loads(json.dumps(tree, allow_nan=False)) == tree


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.dictionaries(st.text(), st.text(), max_size=4))
def test_metadata_of_the_caller(tmp_path_factory, metadata):
    path = tmp_path_factory.getbasetemp() / "metadata.safetensors"
    save(Gaussian(lengthscale=2.0), path, metadata=metadata)
    assert describe(path)["metadata"] == metadata
    assert load(path) == Gaussian(lengthscale=2.0)


def test_metadata_of_the_caller_are_checked(path):
    save(Gaussian(), path, metadata={"target": "price"})
    content = path.read_bytes()
    path.write_bytes(content.replace(b"price", b"prime"))
    refused(path, "checksum")
    for text in ("[]", '{"a":1}', "{", '{"a":"b","a":"c"}', None, 1):
        path.write_bytes(content)
        rewrite_header(
            path, lambda header, text=text: header["__metadata__"].update(metadata=text)
        )
        refused(path, "Cannot load")


@pytest.mark.parametrize("metadata", [{"rows": 1}, {1: "rows"}, {"a": None}])
def test_metadata_are_strings(path, metadata):
    with pytest.raises(TypeError, match="metadata"):
        save(Gaussian(), path, metadata=metadata)
    assert not path.exists()


def test_loading_imports_no_other_module(path):
    craft(path, {"$": "object", "class": "antigravity", "state": {}})
    refused(path, "holds the class")
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("shape", [(3, 4), (1, 5), (2, 3, 4)])
def test_the_order_of_arrays_is_kept(path, shape):
    values = {
        order: np.array(
            np.arange(np.prod(shape), dtype=float).reshape(shape), order=order
        )
        for order in "CF"
    }
    save(Box(**values), path)
    back = load(path)
    for order, value in values.items():
        again = getattr(back, order)
        np.testing.assert_array_equal(again, value)
        assert again.flags.c_contiguous == value.flags.c_contiguous
        assert again.flags.f_contiguous == value.flags.f_contiguous


def test_models_predict_the_same_bits_after_load(path, shared_machine):
    model, X = shared_machine.model, shared_machine.X
    save(model, path)
    back = load(path)
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(
            back.decision_function(X), model.decision_function(X)
        )
        np.testing.assert_array_equal(
            back.predict_proba(X[:1]), model.predict_proba(X[:1])
        )


def test_errors_of_save_name_the_file_that_was_asked_for(tmp_path):
    missing = tmp_path / "missing" / "model"
    with pytest.raises(FileNotFoundError) as caught:
        save(Gaussian(), missing)
    assert caught.value.filename == str(missing)
    with pytest.raises(
        IsADirectoryError, match="folder/ names a folder: add the name of a file"
    ):
        save(Gaussian(), f"{tmp_path}/folder/")
    assert not list(tmp_path.iterdir())


def test_equal_arrays_are_written_once(path):
    array = np.arange(1000.0)
    save(
        Box(a=array, b=array.copy(), c=array.astype("f4"), d=array.reshape(10, 100)),
        path,
    )
    assert describe_tensors(path) == {"a": (1000,), "c": (1000,), "d": (10, 100)}
    back = load(path)
    for name in "abcd":
        np.testing.assert_array_equal(np.ravel(getattr(back, name)), array)


def describe_tensors(path):
    return {name: tensor.shape for name, tensor in load_file(path).items()}


def test_a_hybrid_holds_its_metric_once(hybrid_regressor):
    tensors = [
        (tensor.dtype.str, tensor.shape, tensor.tobytes())
        for tensor in load_file(hybrid_regressor.path).values()
    ]
    assert len(set(tensors)) == len(tensors)
