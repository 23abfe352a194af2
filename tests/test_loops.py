"""Each `while` loop of the library is listed here with why it ends; those of numbers
are run on hostile input.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import bochner
from bochner.solvers import cg, line_search
from bochner.solvers.preconditioners import Preconditioner
from bochner.theory import bounds
from bochner.unsupervised import novelty_detector

COUNT = "a counter reaches its bound"
HALVED = "an interval is halved, or a size multiplied, until it reaches a bound"
INPUT = "each turn uses up input"
TABLE = "a table of hashes is at most half full, so that a free slot is found"
INNER = "each turn goes to an object inside of the former one"
LIFE = "a daemon thread, which ends with the process"
OTHERS = "others do the work, which ends, or they are lost, which is an error"
ENDS = {
    "cli/__init__.py main": [INNER],
    "data/columns.py unique_names": [
        COUNT
    ],  # a name for each of the finite number of names in use at most
    "data/weights.py draw_rows": [
        COUNT
    ],  # rows that are certain: one more in each turn
    "devices/device_fourier.py block_rows": [HALVED],
    "engines/dask.py DaskEngine._smallest": [OTHERS],
    "engines/dask.py DaskEngine._result": [OTHERS],
    "engines/futures.py FuturesEngine.results": [OTHERS],
    "engines/local.py _Pool._serve": [LIFE],
    "engines/local.py _Tasks.drain": [INPUT],
    "engines/local.py fold.add": [HALVED],
    "engines/local.py in_turn": [INPUT],
    "engines/local.py prefetched": [INPUT],
    "engines/local.py shards": [HALVED],
    "features/grids.py Table.number": [INPUT],
    "features/metric.py without_metrics": [INNER],
    "markup.py cut_all": [
        COUNT
    ],  # names that look alike are told from one another, two at least in each turn
    "loops/bins.py slot_of": [TABLE],
    "loops/coordinates.py warp": [HALVED],
    "loops/trig.py _transform": [HALVED],
    "notices.py warn": [INNER],
    "planning/plan.py Planner.refuse": [HALVED],
    "planning/plan.py least_limit": [HALVED],
    "selection/budget.py Budget.n_components": [HALVED],
    "selection/budget.py within_limit": [HALVED],
    "selection/kernel_candidates.py fit_fourier": [HALVED],
    "selection/metric_learning.py EarlyStopping.__iter__": [COUNT],
    "solvers/cg.py conjugate_gradients": [COUNT],
    "solvers/line_search.py _walk_downhill": [
        HALVED
    ],  # or a lower score is found, of finitely many points
    "solvers/line_search.py walk_downhill": [COUNT],
    "solvers/loss_passes.py minimise_in_passes": [COUNT, COUNT],
    "solvers/newton.py minimise": [COUNT],
    "sources/batches.py numbered": [INPUT],
    "sources/memory.py MappedArray.of": [INNER],
    "sources/rows.py rebatch": [INPUT],
    "sources/text_files.py whole_rows": [INPUT],
    "theory/bounds.py least_error": [HALVED],
    "unsupervised/novelty_detector.py bin_lengthscale": [HALVED],
}
EXTREME = [5e-324, 1e-300, 1.0, 1e300]


def while_loops(node, place):
    """The function of each `while` loop below a node, by the names that lead to it."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        inner = [*place, child.name] if named else place
        if isinstance(child, ast.While):
            yield ".".join(inner)
        yield from while_loops(child, inner)


WHILE = re.compile(
    r"^\s*while\b", re.MULTILINE
)  # most files have none, and need not be parsed
ENDLESS = re.compile(r"\bfor\b.*\bin (itertools\.)?(count|cycle|repeat|iter)\(")


def test_each_while_loop_is_known_to_end():
    """Add one with its reason, and with a test below if it depends on numbers."""
    root = Path(bochner.__file__).parent
    found: Counter[str] = Counter()
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert ENDLESS.search(text) is None, path
        if WHILE.search(text):
            found.update(
                f"{path.relative_to(root).as_posix()} {name}"
                for name in while_loops(ast.parse(text), [])
            )
    assert found == {name: len(reasons) for name, reasons in ENDS.items()}


class Counted:
    """A function that counts its calls, and stops a test that would never end."""

    def __init__(self, function, most):
        self.function, self.most, self.calls = function, most, 0

    def __call__(self, *arguments):
        self.calls += 1
        if self.calls > self.most:
            pytest.fail(f"more than {self.most} calls")
        return self.function(*arguments)


SCORES = {
    "falls": lambda x: -x,
    "rises": lambda x: x,
    "is flat": lambda x: 0.0,
    "is no number": lambda x: np.nan,
    "is infinite": lambda x: np.inf,
    "falls without end": lambda x: -np.inf,
    "leaps": lambda x: np.sin(1e9 * x),
    "is a number for some": lambda x: np.nan if np.sin(1e9 * x) < 0 else x,
}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    "bounds",
    [
        (1e-7, 1.0),
        (5e-324, 1e300),
        (1.0, 1.0),
        (np.nan, np.nan),
        (0.0, 1.0),
        (0.0, np.inf),
        (1.0, np.inf),
    ],
)
def test_the_walk_over_ridge_penalties_ends(score, bounds):
    """It never ended where the trace of a matrix, and so the bounds, were no
    numbers.
    """
    with np.errstate(all="ignore"):
        reach = np.diff(np.log(bounds))[0]
        most = 20 + (2 * reach / np.log(6) if np.isfinite(reach) else 0)
        counted = Counted(
            lambda alphas: np.array([SCORES[score](np.log(alphas[0]))]), most
        )
        line_search._walk_downhill(counted, bounds)
    assert counted.calls >= 1


@pytest.mark.parametrize("loss", SCORES)
@pytest.mark.parametrize("start", [0.0, 3.0, -8.0, 1e300])
def test_walks_end_at_their_farthest(loss, start):
    counted = Counted(SCORES[loss], 4 + 4 * 8)
    line_search.walk_downhill(counted, start, 1.0, 8.0)


PRODUCTS = {
    "zero": lambda P: 0 * P,
    "identity": lambda P: P,
    "negative": lambda P: -P,
    "no number": lambda P: np.nan * P,
    "huge": lambda P: 1e300 * P,
    "skew": lambda P: P @ (np.eye(P.shape[1], k=1) - np.eye(P.shape[1], k=-1)),
}


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("scale", EXTREME)
@pytest.mark.parametrize("tol", [0.0, 1e-8])
def test_conjugate_gradients_end_by_their_count(product, scale, tol):
    def add(P, Q):
        found = PRODUCTS[product](P)
        np.add(Q, found, out=Q)
        return (P * found).sum(axis=1)

    def same(R, Z):
        Z[...] = R
        return (R * R).sum(axis=1)

    counted = Counted(add, 2 + 30)
    rhs = scale * np.random.default_rng(0).normal(size=(2, 40))
    with np.errstate(all="ignore"):
        system = cg.System(counted, np.full((2, 1), scale), Preconditioner(same))
        found = cg.conjugate_gradients(system, rhs, tol, 30)
    assert found.n_iter <= 30


@pytest.mark.parametrize("weight", EXTREME)
@pytest.mark.parametrize("scale", EXTREME)
def test_lengthscales_of_bins_end(monkeypatch, scale, weight):
    """Where shares of pairs vanished, they grew for ever."""
    exp = Counted(np.exp, 10_000)
    monkeypatch.setattr(novelty_detector.np, "exp", exp)
    X = scale * np.random.default_rng(0).normal(size=(12, 2))
    with np.errstate(all="ignore"):
        assert novelty_detector.bin_lengthscale(X, np.full(12, weight)) > 0


@pytest.mark.parametrize("value", [-np.inf, -1e300, np.nan, 0.0, np.inf])
def test_bounds_are_found_by_bisection(value):
    counted = Counted(lambda eps, size: value, 40)
    assert 0 <= bounds.least_error(counted, 10, 1e-300) <= 4.0


@pytest.mark.parametrize("least", [1, 2, 3, 10**6, bounds.LARGEST_SIZE, np.inf])
def test_the_smallest_size_is_found_by_halving(least):
    counted = Counted(lambda size: size >= least, 2 * 200 + 4)
    if least < np.inf:
        assert bounds._smallest(counted) == least
    else:
        with pytest.raises(ValueError, match="exceeds what a machine can represent"):
            bounds._smallest(counted)
