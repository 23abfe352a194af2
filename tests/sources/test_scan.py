"""One look at all rows: statistics, targets, and a sample that only the rows'
numbers decide.
"""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest

from bochner.data.table_statistic import TableStatistic
from bochner.engines.local import at_most
from bochner.settings import settings
from bochner.sources import scan as scan_module
from bochner.sources.base import Batch, SourceError, TableSource
from bochner.sources.rows import Roles, read_all
from bochner.sources.scan import counted_categories, scan
from bochner.sources.table_summary import RowSample, sure_limit

ROLES = Roles(("y",), "w")
N = 3000
rng = np.random.default_rng(1)
DENSE = rng.standard_normal((700, 4)).astype(np.float32)
CUTS = {
    "one part": {"parts": 1},
    "batches of 1": {"rows": 1},
    "of 7": {"rows": 7},
    "of 1000": {"rows": 1000},
}


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks in a part of hundreds of rows."""
    monkeypatch.setattr(scan_module, "MOST_ROWS", 128)
    monkeypatch.setattr(scan_module, "SPARSE_ROWS", 128)


def assert_same_table(a, b, exact=False):
    assert (a.rows, a.kinds, a.names, a.sparse) == (b.rows, b.kinds, b.names, b.sparse)
    assert a.categories == b.categories
    assert_array_equal(a.missing, b.missing)
    for name, values in vars(a.summary).items():
        loose = name in ("mean", "squares") and not exact
        assert_allclose(
            vars(b.summary)[name],
            values,
            rtol=1e-9 if loose else 0,
            atol=1e-9 if loose else 0,
        )


def assert_same_batch(a, b):
    if isinstance(a.X, pa.Table):
        assert a.X.to_pylist() == b.X.to_pylist()
    else:
        assert_array_equal(
            a.X.toarray() if sp.issparse(a.X) else a.X,
            b.X.toarray() if sp.issparse(b.X) else b.X,
        )
    for mine, other in zip(a[1:], b[1:], strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            assert mine.dtype == other.dtype
            assert_array_equal(mine, other)


def assert_same(a, b, exact=False):
    assert_same_table(a.table, b.table, exact)
    assert_same_batch(a.sample, b.sample)
    assert (a.n_rows, a.n_seen, a.classes) == (b.n_rows, b.n_seen, b.classes)
    assert a.largest_weight == b.largest_weight
    assert a.weight == pytest.approx(b.weight, rel=0 if exact else 1e-12)
    if a.targets is not None:
        assert_allclose(a.targets.mean, b.targets.mean, rtol=0 if exact else 1e-10)
    if exact:
        assert a.counts == b.counts
        assert a.checksums == b.checksums


def test_all_of_a_table(listed, mixed):
    seen = scan(listed(mixed), ROLES, labels=False, seed=0, size=10**6)
    w, y = mixed["w"].to_numpy(), mixed["y"].to_numpy()
    X = mixed.drop_columns(["y", "w"])
    assert_same_table(seen.table, TableStatistic.of(X, w))
    assert seen.n_rows == seen.n_seen == N
    assert seen.counts == [1000, 1000, 1000]
    assert seen.weight == w.sum()
    assert seen.largest_weight == 3.0
    assert_allclose(seen.targets.mean, np.average(y, weights=w))
    assert_allclose(seen.targets.squares / w.sum(), np.cov(y, aweights=w, ddof=0))
    assert_same_batch(seen.sample, Batch(X, y, w))
    assert_same_batch(seen.sample, read_all(listed(mixed), ROLES))


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(
            cut, id=name, marks=[pytest.mark.slow] if cut == {"rows": 1} else []
        )
        for name, cut in CUTS.items()
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_batches_leave_every_bit_and_parts_the_sample(
    listed, mixed, cut, known, small_blocks
):
    """Also where nobody knows beforehand how many rows a part has."""
    mixed = mixed[:600]
    whole = scan(listed(mixed, known=known), ROLES, False, seed=3, size=400)
    assert_same(whole, scan(listed(mixed), ROLES, False, seed=3, size=400))
    other = scan(listed(mixed, **cut, known=known), ROLES, False, seed=3, size=400)
    assert_same(whole, other, exact="parts" not in cut)
    assert other.sample.X.num_rows == 400


def test_threads_leave_every_bit(listed, mixed, small_blocks):
    source = listed(mixed, parts=16)
    seen = []
    for threads in (1, 2, 5):
        with at_most(threads):
            seen.append(scan(source, ROLES, False, seed=3, size=400))
    assert_same(seen[0], seen[1], exact=True)
    assert_same(seen[0], seen[2], exact=True)
    assert (
        seen[0].table.summary.squares.tobytes()
        == seen[2].table.summary.squares.tobytes()
    )


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("known", [True, False])
def test_arrays(listed, form, known, small_blocks):
    X = form(np.where(DENSE > 0.5, DENSE, 0))
    y = np.arange(700)
    first = scan(listed(X, y, known=known), Roles(), False, seed=0, size=50)
    for cut in CUTS.values():
        assert_same(
            first,
            scan(listed(X, y, known=known, **cut), Roles(), False, seed=0, size=50),
        )
    assert_same_table(first.table, TableStatistic.of(X))
    assert first.sample.weight is None
    rows = first.sample.y
    assert (np.diff(rows) > 0).all()
    assert_array_equal(
        first.sample.X.toarray() if sp.issparse(X) else first.sample.X,
        DENSE[rows] * (DENSE[rows] > 0.5),
    )


def test_labels(listed, mixed):
    w = mixed["w"].to_numpy()
    for name in ("label", "flag", "count", "code"):
        seen = scan(
            listed(mixed, parts=7, rows=100),
            Roles((name,), "w"),
            labels=True,
            seed=0,
            size=10,
        )
        expected = (
            pd.Series(w).groupby(mixed[name].to_pandas().astype(object)).sum().to_dict()
        )
        assert seen.classes == pytest.approx(expected)
        assert seen.targets is None
    objects = np.array(["a", 1, "a", True], object)
    assert scan(listed(DENSE[:4], objects), Roles(), True, 0, 10).classes == {
        "a": 2.0,
        1: 2.0,
    }


def test_the_sample_is_uniform_and_the_seed_decides_it(listed):
    n = 200_000
    numbers = np.arange(n)
    source = listed(numbers[:, np.newaxis].astype(float), numbers, parts=16)
    drawn = [scan(source, Roles(), False, seed, 5000).sample.y for seed in range(3)]
    for rows in drawn:
        assert len(np.unique(rows)) == 5000
        assert kstest(rows / n, "uniform").pvalue > 1e-4
        assert abs(np.mean(rows % 2) - 0.5) < 4 * 0.5 / np.sqrt(5000)
    common = len(np.intersect1d(drawn[0], drawn[1]))
    assert abs(common - 125) < 4 * np.sqrt(125)


def test_samples_of_parts_are_small():
    """Each collects its share, not as many rows as the whole sample has."""
    size, n = 1000, 10**6
    X = np.zeros((10**5, 1))
    sample = RowSample(size, 0, n)
    sample.add(Batch(X), 0)
    assert len(sample.batch.X) < 200
    assert size < sure_limit(size, n) * n < 2 * size
    assert sure_limit(size, size) == sure_limit(size, 10) == 1


def test_a_row_without_target_is_named_by_its_part(listed, mixed):
    y = mixed["y"].to_pandas().where(np.arange(N) % 3 > 0)
    table = mixed.set_column(
        mixed.column_names.index("y"), "y", pa.array(y, from_pandas=True)
    )
    with pytest.raises(
        SourceError, match="part 1: the target 'y' is missing in row 1;"
    ):
        scan(listed(table[1:], parts=[0, 1, N - 1]), ROLES, False, 0, 300)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 400, None])
def test_first_rows_that_stand_for_all(listed, mixed, rows):
    """They end within the second part, and within a batch of it."""
    mixed = mixed[:900]
    source = listed(mixed, rows=rows, sample=500)
    seen = scan(source, ROLES, False, seed=0, size=10**6)
    assert_same_table(
        seen.table,
        TableStatistic.of(
            mixed[:500].drop_columns(["y", "w"]), mixed["w"].to_numpy()[:500]
        ),
    )
    assert seen.n_seen == seen.sample.X.num_rows == 500
    assert seen.checksums == [None] * len(seen.counts)
    assert seen.n_rows == 900
    assert (
        scan(listed(mixed, known=False, sample=500), ROLES, False, 0, 10).counts
        == [None] * 3
    )
    few = scan(source, ROLES, False, seed=0, size=100)
    assert few.sample.X.num_rows == 100
    assert few.n_seen == 500


@pytest.mark.slow
def test_checksums_tell_content_and_order(listed, mixed):
    def sums(table):
        return scan(listed(table, parts=1, rows=13), ROLES, False, 0, 10).checksums[0]

    original = sums(mixed)
    assert sums(mixed.combine_chunks()) == original
    assert sums(mixed.take(np.r_[1, 0, 2:N])) != original
    for name in mixed.column_names[:7]:
        values = mixed[name].to_pylist()
        swap = next(k for k, value in enumerate(values) if value != values[0])
        values[0], values[swap] = values[swap], values[0]
        changed = mixed.set_column(
            mixed.column_names.index(name), name, pa.array(values, mixed[name].type)
        )
        assert sums(changed) != original, name
    text = pa.table({"a": ["ab", "c"], "y": [1, 2], "w": [1, 1]})
    assert sums(text) != sums(text.set_column(0, "a", pa.array(["a", "bc"])))


def test_column_types_that_differ_are_those_of_the_schema(listed, mixed):
    """A batch that knows nothing of a column, or has its text in codes."""
    source = listed(mixed, parts=2)
    odd = source.parts[1].batches[0].X
    odd = odd.set_column(2, "text", odd["text"].dictionary_encode()).set_column(
        1, "small", odd["small"].cast("double")
    )
    odd = odd.select(odd.column_names[::-1])
    late = replace(
        source, parts=(source.parts[0], replace(source.parts[1], batches=(Batch(odd),)))
    )
    assert_same(
        scan(source, ROLES, False, 0, 100), scan(late, ROLES, False, 0, 100), exact=True
    )
    gaps = odd.set_column(
        odd.column_names.index("text"), "text", pa.nulls(odd.num_rows)
    )
    late = replace(
        source,
        parts=(source.parts[0], replace(source.parts[1], batches=(Batch(gaps),))),
    )
    assert (
        scan(late, ROLES, False, 0, 100).table.kinds
        == scan(source, ROLES, False, 0, 100).table.kinds
    )
    assert read_all(late, ROLES).X["text"].null_count > N // 2


@pytest.mark.parametrize("first", ["null", "dictionary"])
def test_batches_of_several_types_where_the_schema_has_none(listed, first):
    """The rows of one block, as of a factory whose first batch had no value."""
    texts = pa.array(["u", "v", None])
    kinds = {"null": pa.nulls(3), "dictionary": texts.dictionary_encode()}
    batches = tuple(
        Batch(pa.table({"a": values, "y": [1, 2, 3]}))
        for values in (kinds[first], texts)
    )
    source = listed(batches[0].X, parts=1)
    source = replace(source, parts=(replace(source.parts[0], batches=batches),))
    seen = scan(source, Roles(("y",)), False, 0, 100)
    assert seen.table.categories == {
        "0": {"u": 1.0 + (first != "null"), "v": 1.0 + (first != "null")}
    }
    assert read_all(source, Roles(("y",))).X["a"].to_pylist()[3:] == ["u", "v", None]


def test_what_cannot_be_read(listed, mixed):
    with pytest.raises(SourceError, match=r"no column 'Y'"):
        scan(listed(mixed), Roles(("Y",)), False, 0, 10)
    with pytest.raises(SourceError, match="a list: there are no rows"):
        scan(listed(mixed[:0]), ROLES, False, 0, 10)
    with pytest.raises(SourceError, match="there are no rows"):
        read_all(listed(mixed[:0]), ROLES)
    with pytest.raises(SourceError, match="there are no rows"):
        scan(TableSource((), mixed.schema, "nothing"), ROLES, False, 0, 10)
    with pytest.raises(SourceError, match="holds text; for classes use"):
        scan(listed(mixed), Roles(("label",)), False, 0, 10)
    zero = mixed.set_column(mixed.column_names.index("w"), "w", pa.array(np.zeros(N)))
    with pytest.raises(SourceError, match="weight is zero in every row"):
        scan(listed(zero), ROLES, False, 0, 10)
    infinite = mixed.set_column(
        1, "small", pa.array(np.r_[np.zeros(N - 1000), np.inf, np.zeros(999)])
    )
    with pytest.raises(
        SourceError,
        match="part 2, counted from row 0: Input X contains infinity: column "
        "'small', row 0",
    ):
        scan(listed(infinite), ROLES, False, 0, 10)
    source = listed(mixed)
    lost = Batch(mixed.drop_columns(["small"]))
    with pytest.raises(SourceError, match="part 1: column 'small' is missing"):
        scan(
            replace(
                source,
                parts=(source.parts[0], replace(source.parts[1], batches=(lost,))),
            ),
            ROLES,
            False,
            0,
            10,
        )
    other = Batch(mixed.set_column(1, "small", pa.array(["x"] * N)))
    with pytest.raises(
        SourceError,
        match=r"part 1: column 'small' does not fit its type float .* holds string "
        r"values",
    ):
        scan(
            replace(
                source,
                parts=(source.parts[0], replace(source.parts[1], batches=(other,))),
            ),
            ROLES,
            False,
            0,
            10,
        )
    arrays = listed(DENSE)
    with pytest.raises(
        SourceError, match="part 0: the rows have 4 columns where 5 are expected"
    ):
        scan(replace(arrays, schema=5), Roles(), False, 0, 10)


def test_too_many_labels(listed, monkeypatch):
    monkeypatch.setattr("bochner.sources.table_summary.MOST_LABELS", 100)
    with pytest.raises(SourceError, match="more than 100 different labels"):
        scan(listed(DENSE, np.arange(700)), Roles(), True, 0, 10)


def test_a_memory_limit_bounds_the_categories(listed):
    """Of 3,000 different texts, beside two frequent ones; the more columns of text,
    the fewer of each.
    """
    texts = np.array([f"t{k}" for k in range(N)], object)
    texts[::3], texts[1::3] = "often", "sometimes"
    table = pa.table({"a": texts, "b": texts, "y": np.arange(N)})
    free = scan(listed(table, rows=100), Roles(("y",)), False, 0, 10).table
    assert free.undercounts == {}
    assert len(free.categories["0"]) == N // 3 + 2
    with settings(memory_limit="3 MB"):
        bounded = scan(
            listed(table, rows=100, parts=16), Roles(("y",)), False, 0, 10
        ).table
    assert bounded.categories == free.categories  # at least 1,024 are counted always
    assert counted_categories(table.schema, 10**8) == int(25e6) // 512 // 2
    assert counted_categories(table.schema, 10**12) == counted_categories(7, 0) == 2**20


def test_categories_beyond_the_limit(listed, monkeypatch, small_blocks):
    monkeypatch.setattr(scan_module, "FEWEST_CATEGORIES", 16)
    texts = np.where(np.arange(N) % 2, "often", np.arange(N).astype(str)).astype(object)
    with settings(memory_limit=1):
        seen = scan(
            listed(pa.table({"a": texts, "y": np.arange(N)}), rows=10),
            Roles(("y",)),
            False,
            0,
            10,
        ).table
    lost = seen.undercounts["0"]
    assert len(seen.categories["0"]) <= 16
    assert N / 2 - lost <= seen.categories["0"]["often"] <= N / 2
    assert lost <= N / 9


def test_part_with_another_number_of_rows(listed, mixed):
    source = listed(mixed)

    class Lying(type(source.parts[0])):
        n_rows = 5

    lying = Lying(source.parts[0].batches, "part 0")
    with pytest.raises(
        SourceError, match=r"part 0: 1,000 rows came where there were 5 before"
    ):
        scan(replace(source, parts=(lying, *source.parts[1:])), ROLES, False, 0, 10)


def test_an_overview_can_travel_and_tells_of_its_progress(listed, mixed):
    done = []
    seen = scan(listed(mixed), ROLES, False, 0, 100, done.append)
    assert sum(done) == N
    assert_same(pickle.loads(pickle.dumps(seen)), seen, exact=True)  # noqa: S301
