"""Rows of LIBSVM files come back as scikit-learn reads whole files; what is wrong is
named by file and line.
"""

import gzip
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from bochner import settings
from bochner.sources import imported, libsvm_files
from bochner.sources.base import SourceError


@pytest.fixture
def pair():
    X = sp.random_array(
        (3000, 40), density=0.1, format="csr", rng=np.random.default_rng(0)
    )
    return X, np.random.default_rng(1).normal(size=3000).round(6)


def saved(path, pair, zero_based=False):
    dump_svmlight_file(*pair, str(path), zero_based=zero_based)
    return path


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def opened(paths, n_features=None):
    return libsvm_files.open_libsvm(paths, n_features, "LIBSVM files")


def rows(source, **options):
    batches = [batch for part in source.parts for batch in part.read(**options)]
    return sp.vstack([batch.X for batch in batches]).tocsr(), np.concatenate(
        [batch.y for batch in batches]
    )


@pytest.mark.parametrize("zero_based", [False, True])
@pytest.mark.parametrize("n_bytes", [1 << 12, 1 << 24])
def test_as_scikit_learn_reads_the_whole(
    tmp_path, pair, zero_based, n_bytes, monkeypatch
):
    monkeypatch.setattr(imported, "PART_BYTES", 1 << 15)
    monkeypatch.setattr(libsvm_files, "TEXT_BYTES", 1 << 13)
    path = saved(tmp_path / "t.svm", pair, zero_based)
    source = opened([path])
    parts = source.parts
    X, y = rows(source, n_bytes=n_bytes)
    truth = load_svmlight_file(str(path))
    assert source.schema == truth[0].shape[1] == 40
    assert len(parts) > 3
    assert sum(part.n_rows for part in parts) == 3000
    assert (truth[0] != X).nnz == 0
    assert np.array_equal(y, truth[1])
    assert pickle.loads(pickle.dumps(parts)) == parts  # noqa: S301 - made here


def test_several_files_and_compression(tmp_path, pair):
    X, y = pair
    first = saved(tmp_path / "a.svm", (X[:1000], y[:1000]))
    second = saved(tmp_path / "b.svm", (X[1000:], y[1000:]))
    zipped = written(tmp_path / "b.svm.gz", gzip.compress(second.read_bytes()))
    found, targets = rows(opened([first, zipped]))
    truth = load_svmlight_file(str(saved(tmp_path / "whole.svm", pair)))
    assert (found != truth[0]).nnz == 0
    assert np.array_equal(targets, truth[1])


def test_a_given_number_of_columns(tmp_path):
    path = written(tmp_path / "t.svm", "1 1:2 3:4 # a comment\n# all of it\n\n-1 2:5\n")
    source = opened([path], 7)
    assert source.schema == 7
    X, y = rows(source)
    assert X.toarray().tolist() == [[2, 0, 4, 0, 0, 0, 0], [0, 5, 0, 0, 0, 0, 0]]
    assert y.tolist() == [1, -1]
    assert source.n_rows == 2
    with pytest.raises(SourceError, match=r"3 columns, more than the 2"):
        opened([path], 2)


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("1 2:x", "could not convert"),
        ("1 2", "line"),
        ("a 1:2", "could not convert"),
        ("1 3:1 2:1", "sorted"),
        ("1,2 1:1", "could not convert"),
        ("1 -1:1", "egative|nvalid"),
        ("1 2:nan", None),
    ],
)
def test_bad_lines_are_named(tmp_path, line, match, monkeypatch):
    monkeypatch.setattr(libsvm_files, "TEXT_BYTES", 1 << 10)
    path = written(
        tmp_path / "t.svm", "1 1:2 2:3\n" * 700 + f"{line}\n" + "1 1:2 2:3\n" * 300
    )
    if match is None:
        assert np.isnan(rows(opened([path]))[0].data).sum() == 1
        return
    with pytest.raises(SourceError, match=rf"t\.svm, line 701: .*{match}"):
        opened([path])


def test_no_rows_and_changes(tmp_path):
    with pytest.raises(SourceError, match="no rows"):
        opened([written(tmp_path / "t.svm", "# nothing\n")])
    path = written(tmp_path / "t.svm", "1 1:2\n")
    source = opened([path])
    written(path, "1 1:2\n2 1:3\n")
    with pytest.raises(SourceError, match="changed while"):
        rows(source)


def test_truncated_gzip(tmp_path, pair):
    content = saved(tmp_path / "t.svm", pair).read_bytes()
    with pytest.raises(SourceError, match=r"damaged gzip file .*copy it again"):
        opened([written(tmp_path / "t.svm.gz", gzip.compress(content)[:20_000])])


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_an_absurd_index_is_named_by_its_line(tmp_path, ending, monkeypatch):
    monkeypatch.setattr(libsvm_files, "TEXT_BYTES", 1 << 8)
    content = (
        "1 1:2 3:1\n" * 50 + "# a comment\n1 5:2 2000000000:2\n" + "0 2:1\n" * 50
    ).encode()
    path = written(
        tmp_path / f"t.svm{ending}", gzip.compress(content) if ending else content
    )
    match = (
        rf"t\.svm{ending}, line 52: the index 2,000,000,000 is too large: a "
        r"table of 2,000,000,000 columns"
    )
    with settings(memory_limit="4 GB"), pytest.raises(SourceError, match=match):
        opened([path])
