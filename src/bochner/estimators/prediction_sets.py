"""Sets of classes with the coverage that is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.features.boundary import any_arrays
from bochner.solvers.conformal import mass_before, threshold
from bochner.sources.dask_map import lazy


class PredictionSets:
    """A classifier whose fit keeps what thresholds of sets take."""

    predict_proba: Any
    classes_: NDArray

    @lazy
    @any_arrays
    def predict_set(self, X: Any, coverage: float = 0.9, n_jobs: int | None = None) -> NDArray[np.bool_]:
        """Predict sets of classes that contain the true class with a given probability.

        A set has the most probable class, and the next ones until their total probability exceeds a threshold: one
        class for rows that are certain, more for rows in doubt. The threshold comes from the rows that calibrate the
        probabilities: validation rows, cross-validation, or leave-one-out. Of up to 250 distinct rows it comes from
        leave-one-out scores by choices of the kernel and penalty without a tenth of the rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        coverage : float, default=0.9
            Between 0 and 1, exclusive.
        n_jobs : int or None, default=None
            Maximum number of threads. None and -1 use all that the process may use. The result does not depend on it.

        Returns
        -------
        bool array of shape (n, K)
            In the order of `classes_`; at least one in each row.

        Raises
        ------
        ValueError
            If `coverage` is out of range, or needs more calibration rows: 9 are needed for 0.9, 99 for 0.99.

        Notes
        -----
        For new rows from the same distribution, sets of the model *without the calibration rows* contain the true class
        with a probability of at least `coverage`, over draws of all rows (split conformal prediction; Vovk, Gammerman
        and Shafer 2005), as far as these rows did not select the model. The fitted model has seen them too. This keeps
        the coverage as far as a few rows do not change its scores (Barber, Candes, Ramdas and Tibshirani, "Predictive
        inference with the jackknife+", 2021, Theorem 5). The coverage holds on average over all rows, not within each
        class. If the most probable class is right more often than `coverage`, sets contain it alone, and cover as
        often. The scores are the adaptive ones of Romano, Sesia and Candes, "Classification with Valid and Adaptive
        Coverage", 2020, without their random part (see `bochner.solvers.conformal`).

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
