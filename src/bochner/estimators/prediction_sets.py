"""Sets of classes with the coverage that is asked for."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metadata_routing import UNUSED

from bochner.data.streams.lazily import lazy
from bochner.features.boundary import any_arrays
from bochner.solvers.conformal_sets import mass_before, threshold


class PredictionSets:
    """A classifier whose fit keeps what thresholds of sets take."""

    __metadata_request__predict_set: ClassVar = {"n_jobs": UNUSED, "coverage": UNUSED}

    predict_proba: Any
    classes_: NDArray

    @lazy
    @any_arrays
    def predict_set(self, X: Any, coverage: float = 0.9, n_jobs: int | None = None) -> NDArray[np.bool_]:
        """Predict sets of classes that hold the true one as often as is asked for.

        A set has the most probable class, and the next ones until the mass before the rest is above a threshold: one
        class where that is certain enough, more where rows are in doubt. The threshold comes from the rows that
        calibrate the probabilities: rows held out, all rows in turn, or each left out by itself.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        coverage : float, default=0.9
            Between 0 and 1, without these.
        n_jobs : int or None, default=None
            Threads to use at most, 1 for the calling one alone; None and -1 are all that the process may. The result
            is the same to the bit.

        Returns
        -------
        bool array of shape (n, K)
            In the order of `classes_`; at least one in each row.

        Raises
        ------
        ValueError
            If `coverage` is out of range, or the rows that judge are too few for it: 9 are needed for 0.9, 99 for 0.99.

        Notes
        -----
        Of new rows drawn as those of the fit, sets of the model *without the rows that judge* hold the true class with
        the probability `coverage` or more, over draws of all rows (split conformal prediction; Vovk, Gammerman and
        Shafer 2005), as far as these rows did not choose the model. The fitted model has seen them too. That keeps the
        coverage as far as a few rows more or less do not change its scores (Barber, Candes, Ramdas and Tibshirani,
        "Predictive inference with the jackknife+", 2021, Theorem 5). It holds in the mean over all rows, not within
        each class. Where the most probable class is right more often than is asked for, sets hold it alone, and cover
        as often. The scores are the adaptive ones of Romano, Sesia and Candes, "Classification with Valid and Adaptive
        Coverage", 2020, without their random part (see `bochner.solvers.conformal_sets`).

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.utils import shuffle
        >>> from bochner import KernelMachineClassifier
        >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
        >>> model = KernelMachineClassifier(metric="isotropic", random_state=0).fit(X[:300], y[:300])
        >>> sets = model.predict_set(X[300:], coverage=0.98)
        >>> bool(sets[range(len(sets)), y[300:]].mean() > 0.97), bool(1 < sets.sum(axis=1).mean() < 1.2)
        (True, True)
        """
        probability = self.predict_proba(X, n_jobs)
        thresholds = getattr(self, "set_thresholds_", None)
        if thresholds is None:
            raise ValueError(
                "This model has no validation rows to calibrate sets of classes: fit it again, on more distinct rows "
                "unless an earlier version saved it."
            )
        return mass_before(probability) <= threshold(thresholds, coverage)
