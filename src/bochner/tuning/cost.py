"""Direct solution or conjugate gradients, by what each would cost."""

from __future__ import annotations

from typing import NamedTuple

from bochner.engines.local import available_memory
from bochner.features.base import FeatureMap

GEMM, PASS, FEATURES = 5e-12, 4e-11, 6e-10  # seconds a multiplication of a product, an entry of a pass, a feature
ITERATIONS, CANDIDATES = 20, 2.5  # of a fit, and what a run for all ridge terms costs over one
WORTH_ROUNDING = 1e12


class Plan(NamedTuple):
    """How the ridge problem is solved, and why.

    Attributes
    ----------
    solver : {"direct", "cg"}
    reason : str
        For people.
    """

    solver: str
    reason: str


def plan(solver: str, features: FeatureMap, n_rows: int, searched: bool) -> Plan:
    """Choose between the Gram matrix with its factors and conjugate gradients.

    The first takes n D^2 operations for the matrix and about 10 D^3 for its eigenvectors (D^3 / 3 for one Cholesky
    factor), and 44 D^2 bytes; the second some 20 passes over n D features of 8 bits. Answers of the first are exact for
    every ridge term, so that the second must be twice as fast on a problem of some seconds.

    Parameters
    ----------
    solver : {"auto", "direct", "cg"}
    features : FeatureMap
        Drawn.
    n_rows : int
    searched : bool
        Whether the ridge term is chosen too.

    Raises
    ------
    ValueError
        Where a direct solution is asked for and the features are sparse.
    """
    if not features.is_dense:
        if solver == "direct":
            raise ValueError("solver='direct' needs dense features; bins are solved by solver='cg' or 'auto'.")
        return Plan("cg", "the features are sparse")
    if solver != "auto":
        return Plan(solver, "as asked for")
    D = features.n_features_out
    direct = GEMM * (n_rows * D**2 + (10 if searched and D <= 3000 else 3) * D**3)
    passes = ITERATIONS * (1 + (CANDIDATES if searched else 0))
    iterative = n_rows * D * (FEATURES + PASS * passes) + GEMM * D**3 / 4
    free = available_memory()
    if free is not None and 0.8 * free < 44 * D**2:
        return Plan("cg", f"the Gram matrix of {D:,} features does not fit the memory that is free")
    figures = f"about {iterative:.2g} s by conjugate gradients, {direct:.2g} s by the Gram matrix"
    if n_rows * D**2 > WORTH_ROUNDING and iterative < direct / 2:
        return Plan("cg", figures)
    return Plan("direct", figures)
