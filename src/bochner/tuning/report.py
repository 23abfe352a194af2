"""What was tried, what it cost, and why the choice fell as it did."""

from __future__ import annotations

from dataclasses import dataclass, field

from bochner.markup import Markup, number, table, tag


@dataclass
class Candidate:
    """A model that was fitted and judged on the held-out rows.

    Attributes
    ----------
    name : str
        For people.
    size : int
        Grids or features, or both.
    loss : float
        Mean loss of the held-out rows.
    standard_error : float
        Of the mean.
    seconds : float
        Of its fit at that size.

    Examples
    --------
    >>> from bochner.tuning import Candidate
    >>> Candidate("bins, learned scales", 800, 0.148, 0.009, 0.4).size
    800
    """

    name: str
    size: int
    loss: float
    standard_error: float
    seconds: float


@dataclass
class Report:
    """How a model was chosen.

    Attributes
    ----------
    criterion : str
        The loss, for people.
    rows_held_out : int
        Rows that neither the metric nor the candidates saw.
    candidates : list of Candidate
        In the order in which they were judged, each at its final size.
    chosen : str
        Name of the chosen one.
    reason : str
    sizes : list of (str, float, float)
        Of the search of sizes: the candidate, the logarithm to base 2 of the factor on its coordinates, the loss.
    seconds : dict of str to float
        Of each stage.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelMachineRegressor
    >>> X = np.random.default_rng(0).uniform(size=(300, 2))
    >>> model = KernelMachineRegressor(features="binning", metric="ard", n_components=50, random_state=0)
    >>> report = model.fit(X, np.floor(3 * X[:, 0])).report_
    >>> report.chosen, report.reason, 40 < report.rows_held_out < 80
    ('bins, learned scales', 'the only candidate that the arguments allow', True)
    """

    criterion: str = ""
    rows_held_out: int = 0
    candidates: list[Candidate] = field(default_factory=list)
    chosen: str = ""
    reason: str = ""
    sizes: list[tuple[str, float, float]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.chosen}: {self.reason}."] if self.chosen else []
        for candidate in sorted(self.candidates, key=lambda one: one.loss):
            mark = "*" if candidate.name == self.chosen else " "
            lines.append(
                f"{mark} {candidate.name}: {self.criterion} {candidate.loss:.4g} (standard error "
                f"{candidate.standard_error:.2g}), {candidate.seconds:.1f} s"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = ("candidate", self.criterion, "standard error", "features or grids", "seconds")
        rows = [
            (
                tag("strong", one.name) if one.name == self.chosen else one.name,
                number(one.loss),
                number(one.standard_error),
                f"{one.size:,}",
                f"{one.seconds:.1f}",
            )
            for one in sorted(self.candidates, key=lambda one: one.loss)
        ]
        reason = tag("p", f"{self.chosen}: {self.reason}.") if self.chosen else Markup()
        return reason + table(f"Candidates on {self.rows_held_out:,} validation rows", head, rows)
