"""Explained rows: what each column adds to each prediction."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.data.columns import is_missing
from bochner.markup import Markup, cut, cut_all, cut_named, number, signed, table

MOST_SHOWN = 20  # columns in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Shapley values of the predictions for some rows: what the method `explain` of a
    model returns.

    The values of a row and the base value sum to its prediction. A value is the mean
    change of the prediction when a column takes the value that it has in the row, in
    the place of that of a background row, over all orders in which columns may change
    and over the background rows. It says what the model computes and not what would
    happen if the column were changed in the world.

    Attributes
    ----------
    values : array of shape (n, d), or (n, d, K) of K outputs
        In `unit`.
    base_values : array of shape (), or (K,)
        Mean prediction for the background rows.
    data : array of shape (n, d)
        The rows, as they were given.
    feature_names : tuple of d str
    output_names : tuple of K str
        The targets; or the classes, of two classes the second.
    unit : str
        What the values are in: the unit of the target, the logarithm of the mean
        (loss="poisson"), or log-odds; "first-order log-odds" where the probabilities
        also have a cubic term or a curve, which is a sum over no columns.
    n_background : int
        Number of background rows.
    errors : array of the shape of `values`, or None
        Standard errors, rather too large than too small, if the values are sampled;
        None if they are exact.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import KernelMachineRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KernelMachineRegressor("gaussian", random_state=0).fit(X[:350], y[:350])
    >>> explanation = model.explain(X[350:])
    >>> sorted(name for name, _ in explanation.top_columns(2))
    ['bmi', 's5']
    >>> bool(abs(explanation.predictions - model.predict(X[350:])).max() < 1e-8)
    True
    """

    values: Floats
    base_values: Floats
    data: NDArray
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    unit: str
    n_background: int
    errors: Floats | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Explanation:
        """The explanation of some rows, by a number, a slice, a mask or numbers."""
        rows = [rows] if isinstance(rows, int | np.integer) else rows
        errors = None if self.errors is None else self.errors[rows]
        return replace(
            self, values=self.values[rows], data=self.data[rows], errors=errors
        )

    def __repr__(self) -> str:
        if len(self) == 1 and self.values.ndim == 2:
            added = ", ".join(
                f"{name} {change}" for name, _, change in cut_named(self._steps()[:5])
            )
            return f"<Explanation: {self._sum()}, {self._way}; {added}>"
        named = ", ".join(cut_all(name for name, _ in self.top_columns(3)))
        n, d = self.values.shape[:2]
        return (
            f"<Explanation: {n:,} rows, {d:,} columns, {self._way}; largest on "
            f"average: {named}>"
        )

    @property
    def is_exact(self) -> bool:
        """Whether the values are exact, up to rounding."""
        return self.errors is None

    @property
    def _way(self) -> str:
        return "exact" if self.is_exact else "sampled"

    @property
    def predictions(self) -> Floats:
        """The predictions that the values sum to, shape (n,) or (n, K), in `unit`."""
        return self.base_values + self.values.sum(axis=1)

    @property
    def mean_absolute(self) -> Floats:
        """Mean absolute value of each column over the rows, and over the outputs,
        shape (d,).
        """
        return np.abs(self.values).reshape(*self.values.shape[:2], -1).mean(axis=(0, 2))

    def top_columns(self, most: int = 5) -> list[tuple[str, float]]:
        """Names and mean absolute values of the columns with the largest ones.

        Parameters
        ----------
        most : int, default=5
        """
        sizes = self.mean_absolute
        return [
            (self.feature_names[j], float(sizes[j]))
            for j in np.argsort(-sizes, kind="stable")[:most]
        ]

    def of_output(self, output: int) -> Explanation:
        """The explanation of one of several outputs, as that of a model with one.

        Parameters
        ----------
        output : int
        """
        return replace(
            self,
            values=self.values[..., output],
            base_values=self.base_values[..., output],
            output_names=(self.output_names[output],),
            errors=None if self.errors is None else self.errors[..., output],
        )

    def plot(
        self,
        row: int | None = None,
        ax: Any = None,
        *,
        output: int | str | None = None,
        max_columns: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Draw one row as a waterfall of steps, or all rows as a beeswarm of points;
        needs matplotlib.

        Parameters
        ----------
        row : int, optional
            Which row; if not given, all rows, or the one that there is.
        ax : matplotlib Axes, optional
            A subplot whose place the panel takes. None makes a figure.
        output : int or str, optional
            Which of several outputs.
        max_columns : int, optional
            Number of columns drawn at most: by default 10 of one row, 15 of all.
        **kwargs
            As of `WaterfallDisplay.plot` and `BeeswarmDisplay.plot`.

        Returns
        -------
        WaterfallDisplay or BeeswarmDisplay
        """
        from bochner.display import BeeswarmDisplay, WaterfallDisplay

        options: dict[str, Any] = {"output": output}
        if max_columns is not None:
            options["max_columns"] = max_columns
        display: Any
        if row is None and len(self) > 1:
            display = BeeswarmDisplay.from_explanation(self, **options)
        else:
            display = WaterfallDisplay.from_explanation(self, row or 0, **options)
        return display.plot(ax, **kwargs)

    def to_frame(self) -> Any:
        """Return a pandas data frame with a row for each row and a column for each
        column.

        Of several outputs columns are pairs of an output and a column.
        """
        import pandas as pd

        if self.values.ndim == 2:
            return pd.DataFrame(self.values, columns=list(self.feature_names))
        pairs = pd.MultiIndex.from_product(
            [self.output_names, self.feature_names], names=["output", "column"]
        )
        return pd.DataFrame(
            self.values.swapaxes(1, 2).reshape(len(self), -1), columns=pairs
        )

    def to_json(self) -> str:
        """Return all numbers as JSON; values of the rows that are no numbers as
        text, missing ones as null.
        """
        data = [[_json_value(value) for value in row] for row in self.data]
        facts = vars(self) | {"data": data, "exact": self.is_exact}
        return json.dumps(facts, default=np.ndarray.tolist)

    def to_shap(self) -> Any:
        """Return a ``shap.Explanation`` of the same, for the plots of the package
        shap, which must be installed.
        """
        import shap

        base = np.broadcast_to(
            self.base_values, (len(self), *np.shape(self.base_values))
        )
        names = list(self.feature_names)
        outputs = list(self.output_names) if self.values.ndim == 3 else None
        return shap.Explanation(
            self.values,
            base.copy(),
            self.data,
            feature_names=names,
            output_names=outputs,
        )

    def _steps(self) -> list[tuple[str, str, str]]:
        """Name, value and signed change of the prediction of each column of the first
        row, the largest first.
        """
        changes = self.values[0]
        order = np.argsort(-np.abs(changes), kind="stable").tolist()
        given = [_json_value(value) for value in self.data[0]]
        shown = [cut(one) if isinstance(one, str) else number(one) for one in given]
        return [(self.feature_names[j], shown[j], signed(changes[j])) for j in order]

    def _sum(self) -> str:
        """The prediction for the first row and what it starts from, in words."""
        name = self.output_names[0]
        what = f"{self.unit} of {name}" if self.unit.endswith("log-odds") else name
        return (
            f"{what} {number(self.predictions[0])}, from "
            f"{number(float(self.base_values))} on average"
        )

    def _repr_html_(self) -> Markup:
        if len(self) == 1 and self.values.ndim == 2:
            head = ("column", "value", f"added ({self.unit})")
            caption = f"Explanation of one row, {self._way}: {self._sum()}"
            return table(caption, head, cut_named(self._steps()[:MOST_SHOWN]))
        caption = (
            f"Explanation of {len(self):,} rows, {self._way}, by "
            f"{self.n_background} background rows"
        )
        rows = [
            (name, number(size))
            for name, size in cut_named(self.top_columns(MOST_SHOWN))
        ]
        return table(caption, ("column", f"mean absolute value ({self.unit})"), rows)


def _json_value(value: Any) -> Any:
    """A value as JSON has it."""
    if is_missing(value):
        return None
    if isinstance(value, np.bool_ | int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating) and np.isfinite(value):
        return float(value)
    return str(value)
