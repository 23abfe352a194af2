"""Sums over rows by workers of an engine: those of this process, whoever takes them
and whatever is lost.
"""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import parquet
from sklearn.base import clone

from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    MetricFeatures,
    open_source,
)
from bochner.data.array_source import ArraySource
from bochner.data.table import TableEncoder
from bochner.design.design import Design
from bochner.design.normal import NormalEquations
from bochner.design.passes import Groups
from bochner.engines.futures import FuturesEngine
from bochner.engines.local import LOCAL
from bochner.engines.sums import RangeSum, reduce, whole, with_sum
from bochner.estimators.ridge.conjugate_gradients import solve_from_sample
from bochner.estimators.ridge.ridge_problem import RidgeProblem
from bochner.features.metric import Metric
from bochner.kernels import Gaussian, Laplacian
from bochner.sources.base import SourceError
from bochner.sources.rows import Roles, filter_rows
from bochner.sources.scan import scan
from bochner.sources.stream import StreamSource, even_ranges
from farm import Farm, copied

N, D, GROUP = 6000, 3, 250
ROLES, ONE = Roles(("a", "b", "c"), "w", False), Roles(("a",))
MAPS = {
    "dense": FourierFeatures(Gaussian(1.0), 40, random_state=0),
    "buckets": BinningFeatures(Laplacian(2.0), 10, n_buckets=16, random_state=0),
    "bins": BinningFeatures(Laplacian(2.0), 10, random_state=0),
    "metric": MetricFeatures(
        Metric(D, [0, 1, 1], [1.0, 0.5, 2.0]),
        FourierFeatures(Gaussian(1.0), 30, random_state=0),
    ),
    "together": ConcatenatedFeatures(
        [
            FourierFeatures(Gaussian(1.0), 30, random_state=0),
            BinningFeatures(Laplacian(2.0), 10, random_state=0),
        ]
    ),
}


@pytest.fixture(params=["threads", "processes", "farm"])
def engine(request):
    if request.param == "processes":
        yield FuturesEngine(request.getfixturevalue("processes"))
    elif request.param == "farm":
        yield Farm()
    else:
        with ThreadPoolExecutor(3) as pool:
            yield FuturesEngine(pool)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    columns = {f"x{j}": X[:, j] for j in range(D)}
    columns |= {
        "a": np.sin(4 * X[:, 0]),
        "b": X[:, 1] * X[:, 2],
        "c": rng.standard_normal(n),
    }
    return pa.table(columns | {"w": rng.uniform(0.5, 2.0, n)})


def written(folder, table, n_files=4):
    folder.mkdir(exist_ok=True)
    step = table.num_rows // n_files
    for k in range(n_files):
        parquet.write_table(
            table.slice(k * step, step), folder / f"{k}.parquet", row_group_size=GROUP
        )
    return folder


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Row groups are parts of their own, however small they are."""
    monkeypatch.setattr("bochner.sources.arrow_files.PART_ROWS", GROUP)


@pytest.fixture
def folder(tmp_path):
    return written(tmp_path / "rows", rows(N))


def columns(y):
    return y.reshape(len(y), -1).astype(np.float64)


def encoded(data, roles=ROLES):
    source = open_source(data)
    seen = scan(source, roles, labels=False, seed=0, size=1500)
    encode = partial(TableEncoder.of(seen.table).encode, dtype=np.float64)
    X, y, weight, *_ = seen.sample
    sample = ArraySource(encode(X), y, weight, targets=columns)
    return StreamSource(
        source,
        roles,
        encode,
        columns,
        tuple(seen.counts),
        tuple(seen.checksums),
        sample,
        float(seen.weight),
    )


def test_the_look_is_that_of_this_process(tmp_path, engine):
    table = rows(N).drop_columns(["b", "c"])
    words = np.random.default_rng(1).choice(["north", "south", "east", "west"], N)
    source = open_source(
        written(tmp_path / "rows", table.append_column("word", pa.array(words)))
    )
    for roles, labels in ((Roles(("a",), "w"), False), (Roles(("word",), None), True)):
        here = scan(source, roles, labels, seed=3, size=400)
        done = []
        there = scan(source, roles, labels, 3, 400, done.append, engine)
        assert there.sample.X.equals(here.sample.X)
        assert_array_equal(there.sample.y, here.sample.y)
        assert (there.counts, there.checksums, there.classes) == (
            here.counts,
            here.checksums,
            here.classes,
        )
        figures = ("n_seen", "weight", "largest_weight")
        assert [getattr(there, name) for name in figures] == [
            getattr(here, name) for name in figures
        ]
        encoders = [TableEncoder.of(one.table) for one in (here, there)]
        assert_array_equal(
            *(one.encode(here.sample.X, dtype=np.float64) for one in encoders)
        )


def test_what_a_look_brings_does_not_grow_with_the_rows(tmp_path):
    sizes = []
    for n in (N, 4 * N):
        source = open_source(written(tmp_path / str(n), rows(n)))
        seen = scan(source, ROLES, False, 0, 500, engine=Farm())
        seen.sample  # noqa: B018 - cuts the rows to the sample
        sizes.append(len(pickle.dumps(seen)))
    assert sizes[1] < 1.2 * sizes[0]


@pytest.mark.parametrize("kind", ["dense", "metric"])
def test_moments_have_the_same_bits(kind, folder, engine):
    source, features = encoded(folder), clone(MAPS[kind]).draw(D)
    here = Design(source, features, np.float64)
    there = Design(source, features, np.float64, engine=engine)
    assert len(there.spans()) > 1
    expected, found = here.moments(), there.moments()
    assert_array_equal(found.matrix, expected.matrix)
    assert (found.n_rows, found.n_outputs) == (N, 3)


def test_moments_of_one_shard(tmp_path):
    source, features = (
        encoded(written(tmp_path / "rows", rows(GROUP), 1)),
        clone(MAPS["dense"]).draw(D),
    )
    found = Design(source, features, np.float64, engine=Farm()).moments()
    assert_array_equal(
        found.matrix, Design(source, features, np.float64).moments().matrix
    )
    found.matrix += 1.0  # is its owner's, and no read-only copy


@pytest.mark.parametrize("kind", ["dense", "buckets"])
def test_where_there_is_one_sum_here_there_are_several_elsewhere(
    kind, folder, engine, monkeypatch
):
    monkeypatch.setattr("bochner.design.design.OWN_MOMENTS_FEATURES", 10)
    monkeypatch.setattr("bochner.design.design.LARGE_SHARD", 1)
    source, features = encoded(folder), clone(MAPS[kind]).draw(D)
    here = Design(source, features, np.float64)
    there = Design(source, features, np.float64, engine=engine)
    assert here.has_one_sum
    assert 1 < len(there.spans()) <= 16
    expected = here.moments().matrix
    size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs(there.moments().matrix - expected).max() <= 1e-12 * size.max()


WAYS = {
    "held": {},
    "again": {"worker_memory": 1},
    "never held": {"keeps_results": False},
}


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("way", WAYS)
def test_equations_are_those_of_this_process(kind, way, folder):
    source, engine = encoded(folder), Farm(**WAYS[way])
    features = clone(MAPS[kind]).draw(D)
    sample = Design(source.gathered, features, np.float64)
    X, _, weight = sample.source.whole()
    centres = features.centres(X, weight)
    sample.store(False, centres)  # numbers the bins of the sample
    width = features.n_features_out
    here, there = (
        NormalEquations(
            Design(source, features, np.float64, fixed=True, **own).store(
                False, centres
            ),
            width,
            3,
            np.float64,
        )
        for own in ({}, {"engine": engine})
    )
    assert isinstance(there.blocks, Groups)
    assert there.blocks.held == (way == "held")
    V = np.random.default_rng(0).standard_normal((3, width))
    assert (there.n_rows, there.weight) == (
        here.n_rows,
        pytest.approx(here.weight, rel=1e-12),
    )
    for name in ("feature_mean", "target_mean", "rhs"):
        expected = getattr(here, name)
        assert_allclose(
            getattr(there, name), expected, rtol=0, atol=1e-11 * np.abs(expected).max()
        )
    for expected, found in ((here(V), there(V)), (here.diagonal(), there.diagonal())):
        assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def solved(source, kind, engine=LOCAL):
    """Few iterations do for this ridge penalty: many magnify rounding errors, in
    whatever order sums are taken.
    """
    features = clone(MAPS[kind]).draw(source.gathered.X.shape[1])
    design = Design(source, features, np.float64, engine=engine)
    problem = RidgeProblem(30.0, 1e-9 if features.is_dense else 1e-2, 0)
    return solve_from_sample(design, problem, source.gathered)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "bins", "metric"])
@pytest.mark.parametrize("way", WAYS)
def test_conjugate_gradients(kind, way, folder):
    source = encoded(folder)
    here, there = solved(source, kind), solved(source, kind, Farm(**WAYS[way]))
    assert there.n_iter == here.n_iter > 1
    assert_allclose(there.coef, here.coef, rtol=0, atol=1e-6 * np.abs(here.coef).max())
    assert_allclose(there.intercept, here.intercept, rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "bins"])
@pytest.mark.parametrize("most", [256, 5, 4])
def test_any_number_of_workers_gives_the_same_bits(kind, most, folder, monkeypatch):
    """As many ranges as there are parts, or fewer; held or computed again."""
    monkeypatch.setattr("bochner.design.design.RANGES", most)
    source = encoded(folder)
    expected = solved(source, kind, Farm(1))
    for engine in (
        Farm(2),
        Farm(3),
        Farm(100),
        Farm(2, worker_memory=1),
        Farm(3, keeps_results=False),
    ):
        assert_array_equal(solved(source, kind, engine).coef, expected.coef)


@pytest.mark.parametrize("n", [*range(1, 18), 33])
def test_ranges_are_added_in_the_tree_of_all_sums(n):
    """Whatever groups they come in."""
    parts = [[i] for i in range(n)]
    expected = reduce(LOCAL, parts, lambda part, _: Tree(part[0]))
    for most in range(1, n + 1):
        sums = []
        for first, stop in even_ranges([1] * n, most):
            own = []
            for k in range(first, stop):
                own = with_sum(own, RangeSum(k, 1, Tree(k)))
            for one in own:
                sums = with_sum(sums, one)
        assert whole(sums).added == expected.added


class Tree:
    """A sum that remembers how it was added."""

    def __init__(self, added):
        self.added = added

    def __iadd__(self, other):
        self.added = (self.added, other.added)
        return self


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "bins"])
def test_conjugate_gradients_of_executors(kind, folder, engine):
    source = encoded(folder, ONE)
    here, there = solved(source, kind), solved(source, kind, engine)
    assert_allclose(there.coef, here.coef, rtol=0, atol=1e-6 * np.abs(here.coef).max())


def test_a_pass_is_one_work_a_worker(folder):
    source, engine = encoded(folder), Farm(n_processes=3)
    features = clone(MAPS["dense"]).draw(D)
    blocks = Design(source, features, np.float64, fixed=True, engine=engine).store(
        False
    )
    assert isinstance(blocks, Groups)
    assert blocks.held
    assert blocks.n_rows == [N // 3] * 3
    equations = NormalEquations(blocks, 40, 3, np.float64)
    before = engine.n_done
    equations(np.ones((3, 40)))
    assert engine.n_done - before == 3


def test_large_arguments_are_sent_once(folder, monkeypatch):
    source, engine = encoded(folder), Farm(n_processes=3)
    blocks = Design(
        source, clone(MAPS["dense"]).draw(D), np.float64, fixed=True, engine=engine
    ).store(False)
    equations, V = NormalEquations(blocks, 40, 3, np.float64), np.ones((3, 40))
    expected = equations(V)
    monkeypatch.setattr("bochner.design.passes.SENT_BYTES", V.nbytes - 1)
    engine.sent.clear()
    assert_array_equal(equations(V), expected)
    assert [size > V.nbytes for size in engine.sent] == [True, False, False, False]


class Unlucky(Farm):
    """A farm that loses all results now and then."""

    def submit(self, work, *arguments):
        if len(self.works) % 7 == 6:
            self.lose()
        return super().submit(work, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "bins"])
def test_what_is_lost_is_done_again_to_the_same_bits(kind, folder):
    source = encoded(folder)
    lucky, unlucky = Farm(), Unlucky()
    whole, again = solved(source, kind, lucky), solved(source, kind, unlucky)
    assert_array_equal(again.coef, whole.coef)
    assert unlucky.n_done > lucky.n_done
    features = clone(MAPS["dense"]).draw(D)
    sums = [
        Design(source, features, np.float64, engine=one).moments().matrix
        for one in (Farm(), Unlucky())
    ]
    assert_array_equal(*sums)


def test_no_rows_travel_with_work_on_files(folder):
    source, engine = encoded(folder), Farm()
    features = clone(MAPS["dense"]).draw(D)
    Design(source, features, np.float64, engine=engine).moments()
    scan(open_source(folder), ROLES, False, 0, 500, engine=engine)
    solved(source, "dense", engine)
    assert max(engine.sent) < 20_000
    assert len(pickle.dumps(source.part_range(0, source.n_parts))) < 20_000


@pytest.mark.parametrize(
    "counts", [[10, 10, 10, 10], [100, 1, 1, 1], [0, 0, 5, 5, 0], [7], None]
)
@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_groups_are_all_parts_in_order(counts, most, folder):
    source = encoded(folder)
    parts = source.table.parts[: len(counts or range(6))]
    known = tuple(counts or [None] * 6)
    source = replace(
        source,
        table=replace(source.table, parts=parts),
        counts=known,
        checksums=(None,) * len(parts),
    )
    groups = source.part_ranges(most)
    assert [part for group in groups for part in group.parts] == list(parts)
    assert sum((group.counts for group in groups), ()) == known
    assert 1 <= len(groups) <= most
    assert all(group.parts for group in groups)
    if counts == [10, 10, 10, 10] and most == 2:
        assert [group.n_rows for group in groups] == [20, 20]


def test_a_worker_that_does_not_see_the_files(folder):
    source = encoded(folder)
    span = copied(pickle.dumps(source.part_range(0, 2)))
    os.rename(folder, folder.with_name("elsewhere"))
    with pytest.raises(
        SourceError,
        match=r"0\.parquet: a worker on .* cannot find this file.*all\s+workers see it",
    ):
        list(source.without_parts().with_parts(span).blocks(500))
    for table in (source.table, filter_rows(source.table, 0.0, 0.5, 0)):
        with pytest.raises(SourceError, match="cannot find this file"):
            scan(table, ROLES, False, 0, 500, engine=Farm())


def test_a_worker_that_does_not_see_a_mapped_file(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((5, 2)))
    sent = pickle.dumps(
        open_source(np.load(tmp_path / "X.npy", mmap_mode="r")).parts[0]
    )
    assert next(copied(sent).read()).X.shape == (5, 2)
    (tmp_path / "X.npy").unlink()
    with pytest.raises(
        SourceError, match=r"X\.npy: a worker on .* cannot find this file"
    ):
        copied(sent)


def test_a_path_is_the_same_wherever_a_worker_works(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder.parent)
    source = encoded("rows")
    sent = pickle.dumps(source.part_range(0, source.n_parts))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert (
        sum(
            len(block.y)
            for block in source.without_parts().with_parts(copied(sent)).blocks(1000)
        )
        == N
    )


def test_progress_is_told_here(folder):
    source, done = encoded(folder), []
    blocks = Design(
        source,
        clone(MAPS["dense"]).draw(D),
        np.float64,
        done.append,
        True,
        engine=Farm(),
    ).store(False)
    NormalEquations(blocks, 40, 3, np.float64)
    assert sum(done) == N


def test_parts_of_tables_in_memory_travel_without_the_rest():
    source = open_source(rows(200_000))
    assert len(source.parts) > 2
    size = [len(pickle.dumps(part)) for part in source.parts]
    assert sum(size) < 1.1 * rows(200_000).nbytes
    sent = next(copied(pickle.dumps(source.parts[1])).read()).X
    assert sent.equals(next(source.parts[1].read()).X)
