"""Leading eigenvectors, against all of them by NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from bochner.engines.algebra import leading


def checked(matrix, count):
    """The largest eigenvalues, and vectors of these; signs are fixed."""
    values, vectors = leading(matrix, count)
    dense = matrix.toarray() if sp.issparse(matrix) else matrix
    assert_allclose(values, np.linalg.eigvalsh(dense)[::-1][:count], atol=1e-10)
    assert_allclose(dense @ vectors, vectors * values, atol=1e-5)
    assert_allclose(vectors.T @ vectors, np.eye(count), atol=1e-9)
    assert (vectors[np.abs(vectors).argmax(axis=0), np.arange(count)] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("m", [30, 1200])
def test_dense(m):
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((m, m)))[0]
    checked(U * 0.9 ** np.arange(m) @ U.T, 12)


def test_sparse_with_a_value_that_is_many_times_there():
    """A graph in forty parts: one is an eigenvalue forty times."""
    rng = np.random.default_rng(0)
    parts = [rng.dirichlet(np.ones(30), 60) for _ in range(40)]
    parts = [Z / np.sqrt(Z.sum(axis=0)) for Z in parts]
    checked(sp.csr_array(sp.block_diag([A.T @ A for A in parts])), 25)


@pytest.mark.parametrize("m", [40, 1300])
def test_zeros_are_left_out(m):
    A = np.random.default_rng(0).standard_normal((m, 3))
    values, vectors = leading(A @ A.T, 10)
    assert vectors.shape == (m, 3)
    assert_allclose(values, np.linalg.eigvalsh(A.T @ A)[::-1])
