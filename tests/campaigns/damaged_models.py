"""Model files that are damaged by chance or made with intent, and what becomes of
whoever loads them.

Three kinds of mutant, drawn by a seed: bytes that are changed blindly, headers that are
changed as JSON, and trees that are changed and sealed again with a right checksum,
which only an author can do. The first two must be refused by a `ModelFileError`. A tree
that is sealed may also load, for a checksum is no signature; but nothing may be
executed, no memory taken beyond twice the file, and no compiled loop may read outside
of its arrays. Commands that use such a file end with a result or with one line.
"""

from __future__ import annotations

import copy
import json
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from hostile_tables import command

import bochner as bo
from bochner.kernels import Gaussian, Laplacian
from bochner.persistence import CLASSES, ModelFileError, container, load, save

# Most that a file may take, and bytes beyond twice its size: of the interpreter itself
SECONDS, SLACK = (
    1.0,
    2**22,
)
EXECUTED = (
    "os.system",
    "os.exec",
    "subprocess.Popen",
    "pickle.find_class",
    "socket.connect",
    "ctypes.dlopen",
    "exec",
)
METHODS = (
    "predict",
    "predict_proba",
    "transform",
    "score_samples",
    "decision_function",
)


class Verdict(NamedTuple):
    """What a mutant did: its outcome ("refused", "loaded", "failed"), what is wrong
    with it if anything, and cost.
    """

    outcome: str
    wrong: str
    seconds: float
    memory: int


class Subject(NamedTuple):
    """A model file, its bytes, and rows that its model takes."""

    name: str
    content: bytes
    rows: Any
    predicts: bool = True


def models() -> dict[str, Callable[[], tuple[Any, Any]]]:
    """Makers of small fitted models of most kinds, with rows for each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    wide = rng.normal(size=(80, 12))
    y, labels = X[:, 0] + np.sin(2 * X[:, 1]), np.where(X[:, 0] > 0, "yes", "no")
    table = pd.DataFrame(
        {
            "a": X[:, 0],
            "b": np.where(X[:, 1] > 0, "x", "y"),
            "c": pd.to_datetime("2020-01-01"),
        }
    )
    table["c"] += pd.to_timedelta(np.arange(80), unit="D")
    few, counts, regressor, classifier = (
        X[:5],
        np.round(np.exp(y)),
        bo.KernelMachineRegressor,
        bo.KernelMachineClassifier,
    )
    seed: dict[str, Any] = {"random_state": 0}
    small, bins = (
        {"n_components": 20, **seed},
        bo.BinningFeatures(Laplacian(), 5, **seed),
    )
    landmarks, half = (
        bo.NystroemFeatures(Gaussian(), 10, **seed),
        np.where(np.arange(80) < 60, y > 0, -1),
    )
    return {
        "fourier": lambda: (regressor(**small, features="fourier").fit(X, y), few),
        "bins": lambda: (regressor(features=bins, **seed).fit(X, y), few),
        "hybrid": lambda: (regressor(**small, features="hybrid").fit(X, y), few),
        "structured": lambda: (
            regressor(**small, kernel=Gaussian(3.0)).fit(wide, wide[:, 0]),
            wide[:5],
        ),
        "landmarks": lambda: (regressor(features=landmarks).fit(X, y), few),
        "exact": lambda: (regressor(kernel=Gaussian(), solver="exact").fit(X, y), few),
        "uncertain": lambda: (
            regressor(**small, features="fourier", uncertainty=True).fit(X, y),
            few,
        ),
        "std": lambda: (
            regressor(**small, kernel=Gaussian(), uncertainty="std").fit(X, y),
            few,
        ),
        "poisson": lambda: (
            regressor(features=bo.LinearFeatures(), loss="poisson").fit(X, counts),
            few,
        ),
        "classes": lambda: (
            classifier(**small, features="fourier").fit(table, labels),
            table[:5],
        ),
        "logistic": lambda: (
            classifier(features=bo.LinearFeatures(), loss="logistic").fit(X, labels),
            few,
        ),
        "half": lambda: (bo.SemiSupervisedClassifier(**seed).fit(X, half), few),
        "components": lambda: (bo.KernelPCA(2, **seed).fit(X), few),
        "correlations": lambda: (
            bo.KernelCCA(**seed).fit(X, np.column_stack([y, X[:, 2] ** 2])),
            few,
        ),
        "clusters": lambda: (bo.KernelKMeans(2, **seed).fit(X), few),
        "novelty": lambda: (bo.NoveltyDetector(n_components=50, **seed).fit(X), few),
        "table": lambda: (bo.TableEncoder().fit(table), table[:5]),
    }


def subjects(folder: Path, names: Sequence[str] | None = None) -> list[Subject]:
    """The files of some or all models; all modules are imported, lest a look at what
    is executed finds imports.
    """
    for module in CLASSES.values():
        import_module(module)
    found, makers = [], models()
    for name in names or makers:
        model, rows = makers[name]()
        save(model, folder / name)
        load(folder / name)
        found.append(
            Subject(name, (folder / name).read_bytes(), rows, hasattr(model, "predict"))
        )
    return found


def blind(content: bytes, rng: np.random.Generator) -> bytes:
    """Change bytes without a look at what they mean."""
    kind, at = rng.integers(7), int(rng.integers(len(content)))
    data = bytearray(content)
    if kind == 0:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        return content[:at]
    elif kind == 2:
        return content + rng.bytes(int(rng.integers(1, 100)))
    elif kind == 3:
        data[at : at + 64] = bytes(len(data[at : at + 64]))
    elif kind == 4:
        other = int(rng.integers(len(content)))
        data[at : at + 16], data[other : other + 16] = (
            data[other : other + 16],
            data[at : at + 16],
        )
    elif kind == 5:
        data[: int(rng.integers(1, 9))] = rng.bytes(8)
    else:
        data[at:at] = data[at : at + int(rng.integers(1, 1000))]
    return bytes(data)


OFFSETS = [[0, 2**62], [-8, 8], [8, 0], [0, 1], [2**70, 16], [0.0, 16], None, [0], "0"]
SHAPES = [[2**62, 2**62], [2**31], [-1], [0], [1] * 70, "3", None, [1.5], [True]]
DTYPES = ["BF16", "F8_E4M3", "I64", "U8", "BOOL", "object", None, 8]


def header(content: bytes, rng: np.random.Generator) -> bytes:
    """Change the header as JSON, not its checksum."""
    length = int.from_bytes(content[:8], "little")
    entries, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    names = [name for name in entries if name != "__metadata__"] or ["__metadata__"]
    name, other = (names[int(k)] for k in rng.integers(len(names), size=2))
    text = None
    match int(rng.integers(9)):
        case 0:
            entries[name]["data_offsets"] = OFFSETS[rng.integers(len(OFFSETS))]
        case 1:
            entries[name]["shape"] = SHAPES[rng.integers(len(SHAPES))]
        case 2:
            entries[name]["dtype"] = DTYPES[rng.integers(len(DTYPES))]
        case 3:
            entries[name], entries[other] = (
                {**entries[other], "shape": [1]},
                entries[name],
            )
        case 4:
            text = (
                json.dumps(entries)[:-1] + "," + json.dumps({name: entries[name]})[1:]
            )
        case 5:
            depth = int(rng.integers(100, 20000))
            entries["__metadata__"]["tree"] = "[" * depth + "]" * depth
        case 6:
            entries["__metadata__"]["tree"] = (
                "[" + "0.5," * int(rng.integers(1000, 100000)) + "0]"
            )
        case 7:
            entries["__metadata__"]["tree"] = (
                entries["__metadata__"]["tree"].replace("0.", "NaN", 1) + " "
            )
        case _:
            key = list(entries["__metadata__"])[int(rng.integers(5))]
            entries["__metadata__"][key] = [None, 1, "", "9" * 4000, "\0", {}][
                int(rng.integers(6))
            ]
    raw = (json.dumps(entries) if text is None else text).encode()
    return len(raw).to_bytes(8, "little") + raw + body


NODES: list[Any] = [
    None,
    True,
    -1,
    2**60,
    0,
    0.5,
    1e308,
    "",
    "<f4",
    [],
    [1],
    {"$": "int", "value": "0x1"},
]
NODES += [
    {"$": "float", "value": "nan"},
    {"$": "float", "value": "-inf"},
    {"$": "dict", "items": {}},
]
CACHES = (
    "_caches",
    "_tables",
    "_grids",
    "_factors",
    "_rng",
    "table",
    "_by_dtype",
)


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a tree, as the container and the key in it."""
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from places(node[key])


def tree(
    content: bytes, rng: np.random.Generator, metadata: dict[str, str] | None = None
) -> bytes:
    """Change the tree or its tensors, one to three times, and seal the file with a
    right checksum.
    """
    model_tree, tensors = opened(content)
    for _ in range(int(rng.integers(1, 4))):
        _change(model_tree, tensors, rng)
    try:
        return sealed(model_tree, tensors, metadata)
    except (KeyError, ValueError, TypeError):  # what the writer cannot write
        return blind(content, rng)


def opened(content: bytes) -> tuple[Any, dict[str, Any]]:
    """Tree and tensors of a file."""
    from safetensors.numpy import load as tensors_of

    length = int.from_bytes(content[:8], "little")
    return json.loads(
        json.loads(content[8 : 8 + length])["__metadata__"]["tree"]
    ), tensors_of(content)


def sealed(
    model_tree: Any, tensors: dict[str, Any], metadata: dict[str, str] | None = None
) -> bytes:
    """The file of a tree and tensors, with a right checksum."""
    return b"".join(
        bytes(chunk) for chunk in container.pack(model_tree, tensors, metadata)
    )


def _change(model_tree: Any, tensors: dict[str, Any], rng: np.random.Generator) -> None:
    spots = list(places(model_tree))
    parent, key = spots[rng.integers(len(spots))]
    nodes = [spot for spot in spots if isinstance(spot[0][spot[1]], dict)]
    objects = [node[key] for node, key in nodes if node[key].get("$") == "object"] + [
        model_tree
    ]
    arrays = [node[key] for node, key in nodes if node[key].get("$") == "array"]
    match int(rng.integers(9)):
        case 0 | 1:
            parent[key] = copy.deepcopy(NODES[rng.integers(len(NODES))])
        case 2:
            del parent[key]
        case 3:
            source, name = spots[rng.integers(len(spots))]
            parent[key] = copy.deepcopy(source[name])
        case 4:
            owner = objects[rng.integers(len(objects))]
            owner["class"] = list(CLASSES)[rng.integers(len(CLASSES))]
        case 5:
            owner, other = (objects[int(k)] for k in rng.integers(len(objects), size=2))
            if not isinstance(owner["state"], dict):  # as an earlier change has made it
                return
            owner["state"][CACHES[rng.integers(len(CACHES))]] = {
                "$": "dict",
                "items": {"lookups": copy.deepcopy(other)},
            }
        case _ if arrays:
            _change_array(
                arrays[rng.integers(len(arrays))],
                arrays[rng.integers(len(arrays))],
                tensors,
                rng,
            )


def _change_array(
    node: dict[str, Any], other: dict[str, Any], tensors: dict[str, Any], rng: Any
) -> None:
    """Give an array other numbers, another size, dtype or place."""
    if (tensor := tensors.get(str(node.get("tensor")))) is None:
        return
    kind = int(rng.integers(5))
    if kind == 0:
        node["tensor"], other["tensor"] = other.get("tensor"), node["tensor"]
        return
    if kind == 1:
        size = [0, 1, 2, len(tensor) + 1][rng.integers(4)] if tensor.ndim else 1
        tensor = (
            np.resize(tensor, (size, *tensor.shape[1:]))
            if tensor.ndim
            else np.resize(tensor, 1)
        )
    elif kind == 2:
        with np.errstate(all="ignore"):
            tensor = tensor.astype(["<f4", "<f8", "<i8", "<i4", "|u1"][rng.integers(5)])
    elif kind == 3:
        values = [np.nan, np.inf, 1e300, -1, 0, 2**31 - 1, 2**40, -(2**62)]
        with np.errstate(all="ignore"):
            tensor = np.full_like(
                tensor, np.array(values[rng.integers(8)]).astype(tensor.dtype)
            )
    else:
        tensor = tensor.T.copy()
    tensors[node["tensor"]] = tensor
    node["dtype"], node["shape"] = tensor.dtype.str, list(tensor.shape)


MUTATIONS: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "blind": blind,
    "header": header,
    "tree": tree,
}


class Watch:
    """Notes events of the interpreter that tell of code being run."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.active = False
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: Any) -> None:
        if self.active and event.startswith(EXECUTED):
            self.events.append(f"{event} {arguments!r:.100}")


def judge(
    subject: Subject, content: bytes, sealed_again: bool, path: Path, watch: Watch
) -> Verdict:
    """Load a mutant, predict with what is loaded, and say what is wrong with the
    outcome, if anything is.
    """
    path.write_bytes(content)
    watch.events.clear()
    tracemalloc.start()
    start, watch.active, model, wrong = time.process_time(), True, None, ""
    try:
        model, outcome = load(path), "loaded"
    except ModelFileError as error:
        outcome = "refused"
        wrong = (
            ""
            if str(path) in str(error) and "\n" not in str(error)
            else f"unclear: {error}"
        )
    except BaseException as error:
        outcome, wrong = "failed", f"load raised {type(error).__name__}: {error}"
    watch.active = False
    seconds, (_, memory) = time.process_time() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if watch.events:
        wrong = f"executed {watch.events[0]}"
    if memory > 2 * len(content) + SLACK:
        wrong = wrong or f"took {memory} bytes for a file of {len(content)}"
    if seconds > SECONDS:
        wrong = wrong or f"took {seconds:.1f} s"
    if model is not None and not wrong:
        if not sealed_again and content != subject.content:
            wrong = "was loaded although it is damaged"
        else:
            outcome, wrong = used(model, subject.rows)
    return Verdict(outcome, wrong, seconds, memory)


def used(model: Any, rows: Any) -> tuple[str, str]:
    """What the methods of a model that was loaded come to: a result or an error of
    Python, no access out of bounds.
    """
    outcome = "loaded"
    for name in METHODS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if callable(method := getattr(model, name, None)):
                    method(rows)
        except IndexError as error:
            if (
                str(error) == "index is out of bounds"
            ):  # as compiled loops say it, with NUMBA_BOUNDSCHECK=1
                return "failed", f"{name} reads outside of an array"
            outcome = type(error).__name__
        except MemoryError:
            outcome = "MemoryError"
        except Exception as error:
            outcome = type(error).__name__
    return outcome, ""


COMMANDS = {
    "inspect": "none",
    "predict": "out.csv",
    "evaluate": "none",
    "explain": "out.csv",
    "report": "out.html",
}


def judge_command(seed: int, subject: Subject, folder: Path) -> tuple[str, str]:
    """Which command used a sealed tree, and what is wrong with how it ended."""
    rng, name = np.random.default_rng([seed, 7]), list(COMMANDS)[seed % len(COMMANDS)]
    mutant, table = folder / "mutant", table_of(subject, folder)
    mutant.write_bytes(tree(subject.content, rng, {"target": "y"}))
    tables = {"inspect": [], "predict": [table[0]], "explain": [table[0]]}.get(
        name, [table[1]]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f"{seed} {name} {subject.name}", command(
            folder / COMMANDS[name], name, str(mutant), *map(str, tables)
        )


def table_of(subject: Subject, folder: Path) -> tuple[Path, Path]:
    """Files of the rows of a subject, without and with a target "y", five times each
    for those that need many.
    """
    paths = folder / f"{subject.name}.csv", folder / f"{subject.name}_y.csv"
    if not paths[1].exists():
        table = pd.concat([pd.DataFrame(subject.rows)] * 5)
        known = load(folder / subject.name).predict(
            table if subject.name == "classes" else table.to_numpy()
        )
        table.to_csv(paths[0], index=False)
        table.assign(y=known).to_csv(paths[1], index=False)
    return paths
