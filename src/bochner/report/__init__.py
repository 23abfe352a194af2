"""The report page of a fitted model: one file of HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bochner.report.findings import Origin, Training, find
from bochner.report.page import page
from bochner.whole_files import replacing

__all__ = ["Origin", "write_report"]


def write_report(
    model: Any,
    X: Any,
    y: Any,
    out: str | Path | None = None,
    origin: Origin | None = None,
    training: Training = None,
) -> str | Path:
    """Write the page of a fitted model; see `KernelMachineRegressor.report_html`.

    Parameters
    ----------
    model : fitted KernelMachineRegressor or KernelMachineClassifier
    X : array, sparse matrix or data frame of shape (n, d)
    y : array of shape (n,)
    out : path-like, optional
        File to write.
    origin : Origin, optional
        What else is known of the model and the rows.
    training : (X, y, int array of shape (n,) or None), optional
        Rows of the fit, their targets, and their numbers in their table.

    Returns
    -------
    str or Path
        The page, or the path of the file.
    """
    written = page(find(model, X, y, origin or Origin(), training))
    if out is None:
        return written
    with replacing(out) as name:
        Path(name).write_text(written, encoding="utf-8")
    return Path(out)
