"""What work costs, in seconds, by which ways to do it are compared and sizes are chosen."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import sys
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from statistics import median

from bochner import __version__

FARTHEST = 1000.0  # times or by which a cost may differ from the usual one; others are no costs
MOST_BYTES = 1 << 16  # of a file of costs


@dataclass(frozen=True)
class Costs:
    """Seconds on all threads in single precision; by default those of two cores with AVX-512.

    Attributes
    ----------
    gram : float
        A multiplication and addition of Z'Z, of which n rows of D features take n D^2: 174 GFLOP/s, counted so.
    product : float
        One of a product of two matrices.
    double : float
        Times as much that products take in double precision.
    reduction : float
        One of the reduction to a tridiagonal matrix, which takes 4/3 D^3 and is bound by memory.
    feature : float
        A Fourier feature of a row of 16 columns, rounded to 8 bits.
    byte_pass, float_pass : float
        An entry, there and back for one vector, of stored features of 8 bits and of 32.
    byte_column, float_column : float
        The same for each further vector.
    factor_entry : float
        An entry of a preconditioner's factors that is read for one vector.
    gradient_step : float
        A step of the learning of a metric on 512 rows of few columns; of 40 columns it takes twice as long.
    bin : float
        The number of a bin of a row of 16 columns.
    bin_pass : float
        An entry, there and back for one vector, of stored bins.
    """

    gram: float = 5e-12
    product: float = 1e-11
    double: float = 2.0
    reduction: float = 4e-11
    feature: float = 5e-10
    byte_pass: float = 4.5e-11
    byte_column: float = 1.9e-11
    float_pass: float = 1.8e-10
    float_column: float = 1e-10
    factor_entry: float = 1.5e-10
    gradient_step: float = 5e-4
    bin: float = 5e-9
    bin_pass: float = 4e-10

    def direct(self, n_rows: int, n_columns: int, n_features: float, n_outputs: int) -> float:
        """Seconds of a direct solution in double precision: features, sums, the path of solutions and its errors."""
        D, seen = n_features, min(n_rows, 1 << 12)
        features = n_rows * D * (self.feature + max(n_columns - 16, 0) / 2 * self.product)
        sums = n_rows * D * (D * self.gram + n_outputs * self.product)
        path = 4 / 3 * D**3 * self.reduction + D * (D + seen) * (n_outputs + 2 * D) * self.product
        return self.double * (features + sums + path)

    @property
    def pace(self) -> float:
        """How many times as long as usual a fit takes, which is also Python's work: by the root of the median of costs.

        Never less than once.
        """
        own, usual = asdict(self), asdict(COSTS)
        return max(math.sqrt(median(own[name] / usual[name] for name in own if name != "double")), 1.0)

    def gram_work(self, seconds: float) -> float:
        """The n D^2 for which there are so many seconds."""
        return seconds / self.gram


COSTS = Costs()
"""The usual costs, on which maps, sizes and precisions depend, so that they are the same on every machine."""


def costs_file(threads: int) -> Path:
    """Where costs of this processor, number of threads and version are kept, in the user's folder of caches."""
    home, what = Path(os.path.expanduser("~")), f"{__version__} {sorted(_processor())} {threads}"
    if sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        folder = home / "Library" / "Caches"
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return folder / "bochner" / f"costs-{sha256(what.encode()).hexdigest()[:16]}.json"


def _processor() -> set[str]:
    """What is known of the processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    named = re.findall(r"(?m)^(?:vendor_id|cpu family|model|model name|cache size)\s*:.*$", text)
    return {*named, platform.machine(), platform.processor()}


def read_costs(path: Path) -> Costs | None:
    """Costs from a file; None where there is none, or none that can be right."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(MOST_BYTES))
        costs = Costs(**{field.name: float(found[field.name]) for field in fields(Costs)})
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return costs if plausible(costs) else None


def plausible(costs: Costs) -> bool:
    """Whether all costs are positive numbers, and none is a thousand times the usual one or a thousandth of it."""
    pairs = zip(asdict(costs).values(), asdict(COSTS).values(), strict=True)
    return all(math.isfinite(own) and usual / FARTHEST < own < usual * FARTHEST for own, usual in pairs)
