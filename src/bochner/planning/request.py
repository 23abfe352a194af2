"""What the parameters of a kernel machine ask for, before any row is seen: a fit and
its plan decide by it alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bochner.engines.costs import gram_work
from bochner.features.base import FeatureMap
from bochner.features.binning import require_hashed
from bochner.features.leaves import is_dense
from bochner.features.transformer import as_map
from bochner.kernels import Kernel
from bochner.selection.budget import Budget, choose_n_components, choose_n_grids
from bochner.selection.policy import POLICY

# Ten times the error that bins were left with: 2e-4 of 300,000 rows
SINGLE_TOL, SINGLE_TOL_A_ROW = 5e-3, 1e-8
# Ridge penalty over the trace of the Gram matrix, of whose rounding less would be noise
SINGLE_ALPHA_A_ROW = 1e-9
BINNED_WORK_COLUMNS = 1000
# Why conjugate gradients solve where it is given which rows validate
BY_SPLITS = "rows validate by the splits that are given"


def given_alphas(alpha: object) -> NDArray | None:
    """Ridge penalties as the user gives them, ascending; None where they are to be
    chosen.
    """
    if isinstance(alpha, str):
        return None
    return np.unique(np.asarray(alpha, dtype=np.float64))


class FitRequest:
    """Parameters of a kernel machine, checked, which are read as attributes.

    Attributes
    ----------
    model : KernelMachineRegressor or KernelMachineClassifier
    classes : bool
        Whether targets are labels.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.classes = is_classifier(model)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    @property
    def alphas(self) -> NDArray | None:
        """Ridge penalties, ascending; None where they are to be chosen."""
        return given_alphas(self.alpha)

    @property
    def is_named(self) -> bool:
        """Whether neither a map nor a kernel is given."""
        return isinstance(self.features, str) and not isinstance(self.kernel, Kernel)

    @property
    def is_open(self) -> bool:
        """Whether any kind of model may be chosen."""
        return self.learnable() == self.metric == self.n_components == "auto"

    @property
    def needs_unseen(self) -> bool:
        """Whether the fit needs predictions for rows that it has not seen."""
        return self.classes or bool(self.uncertainty) or self.loss != "squared"

    def wants(self, kind: str) -> bool:
        """Whether the fit is to keep what deviations ("std") or "intervals" need."""
        return self.uncertainty in (True, kind)

    def budget(self) -> Budget:
        """The clock of a fit that begins now, with the stages that it has."""
        stages = {
            "learning": True,
            "trials": True,
            "solution": True,
            "loss": self.loss not in ("auto", "squared")
            or (self.classes and self.loss == "auto"),
            "intervals": self.wants("intervals"),
            "deviations": self.wants("std"),
            "calibration": True,
        }
        asked = tuple(name for name, is_asked in stages.items() if is_asked)
        return Budget(self.time_limit, asked)

    @property
    def criterion(self) -> bool:
        """Whether alpha is chosen by a criterion of the direct solver, "gcv" or
        "loo".
        """
        return isinstance(self.alpha, str) and self.alpha != "auto"

    @property
    def may_be_exact(self) -> bool:
        """Whether few rows may have the exact kernel without being asked."""
        return (
            self.solver == "auto"
            and self.loss in ("auto", "squared")
            and self.features == "auto"
            and self.n_components == "auto"
            and not self.criterion
        )

    def needs_all(self, in_parts: bool = False) -> str | None:
        """The first parameter that needs all rows in memory, or at once for fits in
        parts; None if there is none.
        """
        other = self.loss not in ("auto", "squared")
        asked = {
            f"loss={self.loss!r}": other and (in_parts or not self.classes),
            "solver='exact'": self.solver == "exact",
            "uncertainty with standard deviations ('intervals' does not)": self.wants(
                "std"
            ),
            "alpha='loo'": isinstance(self.alpha, str) and self.alpha == "loo",
            "cv": self.cv is not None,
        }
        return next((what for what, wanted in asked.items() if wanted), None)

    def refuse_rows_alone(self) -> None:
        """Raise ValueError where the parameters ask for a solver that leaves rows out
        one at a time, whatever belongs together.
        """
        for name in ("solver", "alpha"):
            value = getattr(self, name)
            if isinstance(value, str) and value in ("direct", "exact", "gcv", "loo"):
                cure = "'auto' or 'cg'" if name == "solver" else "'auto'"
                raise ValueError(
                    f"{name}={value!r} validates each row by all others, also by those "
                    f"of its group: with groups, cv or validation use {name}={cure}."
                )

    def refuse_unsummed(self) -> None:
        """Raise ValueError where the parameters do not allow partial fits."""
        maps = (
            self.features if isinstance(self.features, str) else as_map(self.features)
        )
        for name, value in (("solver", self.solver), ("features", maps)):
            if isinstance(value, str) and value in ("cg", "exact", "hybrid"):
                raise ValueError(
                    f"partial_fit sums moments of features, which {name}={value!r} "
                    "does not support."
                )
        if not (isinstance(maps, str) or is_dense(maps)):
            require_hashed(maps, POLICY.hashed_columns)

    def learnable(self, summed: bool = False) -> str | None:
        """The maps that may be learned ("fourier", "binning", "hybrid", or "auto"
        for all); None for none.
        """
        if not self.is_named or self.metric == "isotropic":
            return None
        direct = self.solver in ("direct", "exact") or self.criterion
        if self.features in ("binning", "hybrid"):
            allowed = self.kernel in ("auto", "laplacian") and not direct
            return self.features if allowed else None
        waves = self.kernel != "auto" or self.features == "fourier"
        return "fourier" if direct or summed or waves else "auto"

    def of_outputs(self, wanted: str | None, n_rows: int, n_outputs: int) -> str | None:
        """The maps that may be learned for `n_outputs` targets: bins would have too
        many coefficients for many targets.
        """
        if wanted != "auto" or n_outputs == 1:
            return wanted
        grids = POLICY.final_grids if self.time_limit is None else POLICY.trial_grids
        coefficients = min(n_rows, POLICY.screened_rows) * grids[0] * n_outputs
        most = self.budget().work_share * POLICY.final_entries
        return "fourier" if coefficients > most else wanted

    def must_learn(self, features: str) -> bool:
        """Whether the parameters leave no other choice than a learned map."""
        return self.metric != "auto" or features == "hybrid"

    def fewest_rows(self, features: str) -> int:
        """Rows by which a map is learned at the least."""
        asked = self.must_learn(features) or self._learns_from_few
        return POLICY.fewest_asked_rows if asked else POLICY.few_rows + 1

    def may_learn(
        self, features: str, n_rows: int, n_columns: int, is_sparse: bool = False
    ) -> bool:
        """Whether a map is learned by `n_rows` rows of `n_columns` columns, if the rows
        differ; of many sparse columns that is a linear one.
        """
        if n_rows < self.fewest_rows(features):
            return False
        is_linear = (
            is_sparse and self.is_open and n_columns > POLICY.most_sparse_columns
        )
        return is_linear or n_columns <= POLICY.most_features

    @property
    def may_have_lengths(self) -> bool:
        """Whether few rows of numbers may have lengthscales of each column."""
        return self.is_open and not self.classes and self.alphas is None

    def compares_few(self, n_rows: int, n_columns: int, n_outputs: int) -> bool:
        """Whether of few rows of numbers learned lengthscales are compared with one of
        all columns.
        """
        is_open = self.is_open and not self.classes
        narrow = n_columns <= POLICY.most_features
        narrow &= n_outputs <= POLICY.mixed_outputs
        return is_open and narrow and n_rows >= POLICY.fewest_learned

    def size(
        self,
        n_rows: int,
        weight: NDArray | None = None,
        n_columns: int = 16,
        n_outputs: int = 1,
    ) -> int:
        """Number of features, or of grids, where no map is learned."""
        if not isinstance(self.n_components, str):
            return int(self.n_components)
        if self.features == "binning":
            return int(choose_n_grids(n_rows))
        size = choose_n_components(n_rows, weight)
        if self.time_limit is None:
            return int(size)
        # The choice of a kernel, and what follows the solution, take as long each
        third = self.budget().first_of(3)
        return int(min(size, third.n_components(n_rows, n_columns, n_outputs)))

    def dtype(self, n_rows: int, weight: NDArray | None = None) -> np.dtype:
        """Double precision where that costs a fraction of a second, or where single
        precision does not reach `tol`.
        """
        alphas = self.alphas
        double = self.solver == "exact" or self.tol < SINGLE_TOL
        named = isinstance(self.features, str)
        if alphas is not None and not double:
            # More rows make the sums of bins in single precision less exact
            double = alphas[0] < SINGLE_ALPHA_A_ROW * n_rows or (
                self.tol < SINGLE_TOL_A_ROW * n_rows
                and (
                    self.features != "fourier"
                    if named
                    else not is_dense(as_map(self.features))
                )
            )
        if not double:
            binned = not named or self.features == "binning"
            columns = BINNED_WORK_COLUMNS if binned else self.size(n_rows, weight)
            double = n_rows * columns**2 <= gram_work(POLICY.double_seconds)
        return np.dtype(np.float64 if double else np.float32)

    @property
    def asked_solver(self) -> str:
        """The solver as given, or the only one that the criterion for alpha allows."""
        return "direct" if self.criterion and self.solver == "auto" else self.solver

    def solver_for(self, features: FeatureMap) -> str:
        """The solver as asked for, or the only one that weights of maps allow."""
        if self.criterion and not features.is_dense:
            raise ValueError(
                f"alpha={self.alpha!r} needs the direct solver; for bins, which have "
                "no such solver, use alpha='auto'."
            )
        if self.solver == "auto" and features.learns_weights:
            return "cg"
        return self.asked_solver
