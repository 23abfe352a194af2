"""Shards of the rows, whose moments are summed by themselves: by the data and the
map alone.
"""

import gc
import threading
import time
import weakref

import numpy as np
import pytest

from bochner import BinningFeatures, FourierFeatures
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.design.reductions import factor_bytes
from bochner.engines import local
from bochner.engines.local import LOCAL
from bochner.engines.sums import reduce
from bochner.kernels import Gaussian, Laplacian


class Counted:
    """A source of so many rows in so many parts, none of which is read."""

    n_outputs = 1

    def __init__(self, n_rows, n_parts):
        self.n_rows, self.n_parts = n_rows, n_parts


class Cut(ArraySource):
    """Rows in parts of a given size, as files have them."""

    def __init__(self, X, y, size):
        super().__init__(X, y)
        self.size = size

    @property
    def n_parts(self):
        return -(-self.n_rows // self.size)

    def span(self, first, stop):
        rows = slice(first * self.size, stop * self.size)
        return ArraySource(self.X[rows], self.y[rows])


def spans_of(n_rows, n_parts, D=500, features=None):
    features = features or FourierFeatures(n_components=D, random_state=0).draw(2)
    return Design(Counted(n_rows, n_parts), features).spans()


@pytest.mark.parametrize(
    ("n_rows", "n_parts", "D", "expected"),
    [
        (1000, 4, 500, 1),
        (10_000, 40, 500, 8),
        (100_000, 391, 500, 16),
        (1 << 20, 4096, 500, 16),  # as many as ever
        (1 << 20, 4096, 2000, 16),
        ((1 << 20) - 1, 4096, 4000, 16),
        (1 << 20, 4096, 4000, 1),  # one sum, for which alone there is memory
        (4_000_000, 32, 500, 32),
        (10_000_000, 4096, 500, 128),
        (10_000_000, 80, 500, 64),
        (10_000_000, 80, 4000, 1),
        (10_000_000, 1, 500, 1),
        (100_000_000, 800, 500, 512),
        (10**9, 8000, 500, 1024),
        (10_000_000, 80, 8000, 1),
    ],
)
def test_number_of_shards(n_rows, n_parts, D, expected):
    spans = spans_of(n_rows, n_parts, D)
    assert len(spans) == expected
    assert [stop for _, stop in spans[:-1]] == [first for first, _ in spans[1:]]
    assert (spans[0][0], spans[-1][1]) == (0, n_parts)


def test_hashed_bins_have_one_sum():
    features = BinningFeatures(Laplacian(), 20, n_buckets=50, random_state=0).draw(2)
    assert len(spans_of(1_000_000, 4096, features=features)) == 1


MAPS = [
    FourierFeatures(Gaussian(2.0), 60, random_state=0).draw(3),
    BinningFeatures(Laplacian(), 20, n_buckets=16, random_state=0).draw(3),
]


@pytest.mark.parametrize("features", MAPS, ids=["dense", "bins"])
@pytest.mark.parametrize("own", [True, False], ids=["own sums", "one sum"])
def test_bits_of_many_shards(features, own, monkeypatch):
    """Any number of threads, whatever memory is free; the sum is right."""
    monkeypatch.setattr("bochner.design.design.SHARD_ROWS", 4)
    monkeypatch.setattr("bochner.design.design.LARGE_SHARD", 4)
    if not own:
        monkeypatch.setattr("bochner.design.design.OWN_MOMENTS_FEATURES", 0)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60_000, 3)), rng.standard_normal((60_000, 1))
    design, found = Design(Cut(X, y, 777), features, np.float64), []
    assert (
        len(design.spans()) >= 32
        if own and features.is_dense
        else len(design.spans()) == 1
    )
    for threads, free in ((1, None), (2, None), (5, None), (5, 1 << 30)):
        monkeypatch.setattr(local, "n_threads", lambda threads=threads: threads)
        monkeypatch.setattr(local, "available_memory", lambda free=free: free)
        found.append(design.moments().matrix)
    for matrix in found[1:]:
        np.testing.assert_array_equal(matrix, found[0])
    Z = features.transform(X)
    A = np.hstack(
        [Z if isinstance(Z, np.ndarray) else Z.toarray(), y, np.ones((len(X), 1))]
    )
    np.testing.assert_allclose(found[0], A.T @ A, rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("threads", "slow"), [(1, None), (2, 0), (2, 127), (5, 0), (5, 127)]
)
def test_few_sums_are_alive_at_a_time(threads, slow, monkeypatch):
    """One for each power of two below the number of parts, for what each thread is
    at, also where that takes long.
    """
    monkeypatch.setattr(local, "n_threads", lambda: threads)
    alive, most, lock = [], [0], threading.Lock()

    class Sum:
        def __init__(self):
            with lock:
                alive.append(weakref.ref(self))
                alive[:] = [one for one in alive if one() is not None]
                most[0] = max(most[0], len(alive))

        def __iadd__(self, other):
            return self

    def work(item, _):
        if item == slow:
            time.sleep(0.05)
        return Sum()

    gc.collect()
    reduce(LOCAL, range(256), work)
    assert most[0] <= 9 * threads


def test_memory_that_is_asked_for():
    """That of one large matrix, or of the sums that wait for one another, with a
    product and two or three blocks.
    """
    block = 64 << 20
    for D, n_sums, entry in ((500, 11, 8 * 11 + 4), (500, 1, 28), (6000, 11, 12)):
        assert (
            factor_bytes(10**8, D, 1, np.float32, n_sums=n_sums)
            == (D + 2) ** 2 * entry + 2 * block
        )
    assert (
        factor_bytes(10**8, 12_800, 1, np.float32, binned=True)
        == 12_802**2 * 8 + 3 * block
    )
