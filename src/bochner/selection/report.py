"""What was tried, what it cost, and why the choice fell as it did."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

from bochner.markup import Markup, joined, number, percent, table, tag
from bochner.selection.policy import POLICY

WIDTH = 80  # characters of a line of the printed report
NOTICED = 0.01  # share of a loss, below which a gain is none
HEAVY = 0.5  # share of the squared error of a hundredth of the rows
# Targets, of whose predictions the bounds are printed, and codes of a column
SHOWN_BOUNDS, SHOWN_CODES = 3, 8


@dataclass
class Candidate:
    """A candidate model with its validation loss.

    Attributes
    ----------
    name : str
        Name of the candidate.
    size : int
        Number of grids, or of features where there are no grids, of the fit that was
        compared.
    loss : float
        Validation loss: the mean over the validation rows.
    standard_error : float
        Standard error of the loss.
    seconds : float
        Seconds of its fit at that size.
    lost : str
        Why it was not selected; empty for the one that was.
    behind, behind_error : float
        By how much its mean loss is more than that of the selected one, on the same
        validation rows, and the standard error of that difference.

    Examples
    --------
    >>> from bochner.selection import Candidate
    >>> Candidate("random binning, learned lengthscales", 800, 0.148, 0.009, 0.4).size
    800
    """

    name: str
    size: int
    loss: float
    standard_error: float
    seconds: float
    lost: str = ""
    behind: float = 0.0
    behind_error: float = 0.0


@dataclass
class RowsCurve:
    """Validation losses of the selected model with fewer training rows: would more of
    them help?

    The metric, the kernel and the number of features are the same for all numbers of
    rows. Bins may be fewer than those of the candidate, which tells the same sooner, so
    that the losses are larger than its own.

    Attributes
    ----------
    n_rows : list of int
        Numbers of rows, ascending; the last one is what candidates were compared with.
    losses, standard_errors : list of float
        Mean losses of the validation rows with each number of rows, and their standard
        errors.
    gain, gain_error : float
        By what share of itself the loss falls from the last but one number of rows to
        the last one, on the same validation rows, and the standard error of that.

    Examples
    --------
    >>> from bochner.selection import RowsCurve
    >>> RowsCurve(
    ...     [1000, 2000, 4000], [0.5, 0.4, 0.35], [0.01, 0.01, 0.01], 0.125, 0.02
    ... ).verdict
    'likely to help'
    """

    n_rows: list[int]
    losses: list[float]
    standard_errors: list[float]
    gain: float
    gain_error: float

    @property
    def verdict(self) -> str:
        """Whether more rows are likely to help: not, or not known, if the last ones
        moved the loss within its noise.
        """
        if abs(self.gain) <= POLICY.certain * self.gain_error:
            return "cannot tell" if self.gain_error > NOTICED else "unlikely to help"
        return "likely to help" if self.gain > NOTICED else "unlikely to help"

    def told(self, what: str = "rows") -> str:
        """The verdict and what it is by, of rows or of what else is counted."""
        fewer, most = self.n_rows[-2:]
        change = (
            f"{'falls' if self.gain >= 0 else 'rises'} by {percent(abs(self.gain))}"
        )
        noise = f"(standard error {percent(self.gain_error)})"
        return (
            f"{self.verdict}. From {fewer:,} to {most:,} {what} the loss {change} "
            f"{noise}"
        )

    def __str__(self) -> str:
        return self.told()


@dataclass
class Report:
    """How a model was selected: the candidates, their validation losses, and the
    reason.

    Attributes
    ----------
    criterion : str
        Name of the loss; of three classes and more it is the log loss of each class
        against the rest, summed.
    rows_held_out : int
        Number of validation rows, which neither the metric nor the candidates saw.
    candidates : list of Candidate
        In the order in which they were scored.
    chosen : str
        Name of the selected candidate.
    reason : str
        Why it was selected.
    sizes : list of (str, float, float)
        The search for the size: the candidate, the base-2 logarithm of the factor on
        its coordinates, and the loss.
    seconds : dict of str to float
        Seconds of each stage.
    not_tried : dict of str to str
        Why further candidates that the arguments allow were not tried.
    rows : RowsCurve or None
        Losses of the selected model with fewer training rows; None where there was no
        time or nothing to compare.
    parts : list of str
        The maps of the selected model side by side, each with its size and its ridge
        penalty; empty where it has one map.
    codes : dict of str to list of float
        Columns of numbers that were taken for codes of categories, by name, and the
        codes that the fit saw; the most frequent of more than 100.
    written : dict of str to str
        Columns of text that were read as dates or numbers, by name, and how they are
        written.
    left_out : list of str
        Columns of more levels than are kept, whose mean targets differ by no more than
        chance: they count as one level.
    bounds : list of (float, float)
        The least and the greatest prediction of each target; empty where predictions
        have no bounds.
    validated_on : str
        What the validation rows are where that is given: "whole groups", "splits of
        cv", or "rows that only validate"; empty where chance held them out.
    outliers : float
        Share of the squared error of the selected candidate that the worst hundredth of
        the validation rows has; 0 where the loss is another one.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelMachineRegressor
    >>> X = np.random.default_rng(0).uniform(size=(300, 2))
    >>> model = KernelMachineRegressor(
    ...     features="binning", metric="ard", n_components=50, random_state=0
    ... )
    >>> report = model.fit(X, np.floor(3 * X[:, 0])).report_
    >>> report.chosen, 40 < report.rows_held_out < 80
    ('random binning, learned lengthscales', True)
    """

    criterion: str = ""
    rows_held_out: int = 0
    candidates: list[Candidate] = field(default_factory=list)
    chosen: str = ""
    reason: str = ""
    sizes: list[tuple[str, float, float]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    not_tried: dict[str, str] = field(default_factory=dict)
    rows: RowsCurve | None = None
    parts: list[str] = field(default_factory=list)
    codes: dict[str, list[float]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    bounds: list[list[float]] = field(default_factory=list)
    validated_on: str = ""
    outliers: float = 0.0

    @property
    def validation_rows(self) -> str:
        """How many rows validate, and what they are."""
        what = f", {self.validated_on}" if self.validated_on else ""
        return f"{self.rows_held_out:,} validation rows{what}"

    @property
    def bounded(self) -> str:
        """Between which numbers predictions lie, and how to lift these bounds: a
        sentence; empty where there are no bounds.
        """
        if not self.bounds:
            return ""
        ends = "; ".join(
            f"{low:.6g} to {high:.6g}" for low, high in self.bounds[:SHOWN_BOUNDS]
        )
        more = len(self.bounds) - SHOWN_BOUNDS
        others = f"; and {more:,} more targets" if more > 0 else ""
        return (
            f"Predictions are bounded: {ends}{others}; bounded=False (--unbounded in "
            "the command) lifts the bounds."
        )

    @property
    def guesses(self) -> list[str]:
        """What the fit took columns for, and how to say otherwise: a sentence each."""
        sentences = list[str]()
        if self.left_out:
            sentences.append(
                f"Left out: {', '.join(self.left_out)}; mean targets of their levels "
                "differ by no more than chance."
            )
        if self.written:
            read = ", ".join(f"{name} ({kind})" for name, kind in self.written.items())
            sentences.append(
                f"Read from text: {read}; text_features= (--text in the command) names "
                "columns that stay text."
            )
        if not self.codes:
            return sentences
        taken = []
        for name, column_codes in self.codes.items():
            shown = [f"{code:.15g}" for code in column_codes[:SHOWN_CODES]]
            more = ["..."] * (len(column_codes) > SHOWN_CODES)
            taken.append(f"{name} ({', '.join([*shown, *more])})")
        names = ", ".join(taken)
        cure = (
            "numeric_features= (--numeric in the command) names columns that are "
            "quantities"
        )
        return [*sentences, f"Taken for codes of categories: {names}; {cure}."]

    def _sentences(self) -> tuple[list[str], list[str]]:
        """What is told before the candidates, and after them."""
        first = [f"{self.chosen}: {self.reason}."] if self.chosen else []
        first += [f"Parts: {'; '.join(self.parts)}."] if self.parts else []
        last = [f"{name}: not tried, as {why}." for name, why in self.not_tried.items()]
        last += [f"More rows: {self.rows}."] if self.rows else []
        if self.outliers > HEAVY:
            last.append(
                f"Outliers: 1 % of the validation rows has {percent(self.outliers)} of "
                "the squared error. Where such targets are mistakes, loss='huber' "
                "(--loss huber in the command) is not led by them."
            )
        last += [self.bounded] if self.bounded else []
        return first, last + self.guesses

    def __str__(self) -> str:
        told, last = self._sentences()
        if self.validated_on:
            told += [f"Validated on {self.rows_held_out:,} rows, {self.validated_on}."]
        told += self._lines_of_candidates() if self.candidates else []
        return "\n".join(textwrap.fill(text, WIDTH) for text in told + last)

    def _lines_of_candidates(self) -> list[str]:
        """A table of the candidates, whose names are last, as they may be long."""
        width = max(13, len(self.criterion))
        head = f"  {self.criterion:>{width}}  {'behind (s.e.)':>17}    size  candidate"
        lines = [head]
        for one in sorted(self.candidates, key=lambda one: one.loss):
            mark = "*" if one.name == self.chosen else " "
            behind = f"{one.behind:.2g} ({one.behind_error:.2g})" if one.lost else ""
            start = f"{mark} {one.loss:>{width}.4g}  {behind:>17} {one.size:>7,}  "
            name = textwrap.wrap(one.name, WIDTH - len(start))
            lines += [start + name[0], *(" " * len(start) + rest for rest in name[1:])]
        return lines

    def candidates_table(self) -> Markup:
        """Return a table of the candidates, the best first: their losses, and by how
        much each is behind the selected one on the same validation rows.

        Returns
        -------
        Markup
            HTML.

        Examples
        --------
        >>> from bochner.selection import Candidate, Report
        >>> bins = Candidate("bins", 800, 0.25, 0.01, 1.5)
        >>> report = Report("log loss", 500, [bins], "bins", "lowest validation loss")
        >>> report.candidates_table().startswith("<table>")
        True
        """
        head = (
            "candidate",
            self.criterion,
            "standard error",
            "behind the chosen one",
            "standard error of that",
            "against the best",
            "features or grids",
            "seconds",
        )
        rows = [
            (
                tag("strong", one.name) if one.name == self.chosen else one.name,
                number(one.loss),
                f"{one.standard_error:.2g}",
                f"{one.behind:.2g}" if one.lost else "",
                f"{one.behind_error:.2g}" if one.lost else "",
                one.lost or "chosen",
                f"{one.size:,}",
                f"{one.seconds:.1f}",
            )
            for one in sorted(self.candidates, key=lambda one: one.loss)
        ]
        caption = f"Candidates on {self.validation_rows}"
        return table(caption, head, rows, words=(0, 5))

    def _repr_html_(self) -> str:
        first, last = ([tag("p", text) for text in part] for part in self._sentences())
        return joined([*first, self.candidates_table(), *last])


def of_no_candidates(is_dense: bool, why: str) -> Report:
    """The report where no metrics are learned, so that no candidates are compared.

    Parameters
    ----------
    is_dense : bool
        Whether the model has Fourier features, and not bins.
    why : str
    """
    features = "Fourier features" if is_dense else "random binning"
    names = "linear model", "learned lengthscales"
    return Report(
        chosen=f"{features}, one lengthscale",
        reason=f"nothing is compared, as {why}",
        not_tried=dict.fromkeys(names, why),
    )
