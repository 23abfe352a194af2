"""Run a benchmark by name: ``python -m benchmarks NAME [options]``; without a name they
are listed.

Scripts of published results (`papers/`) keep what is measured in benchmarks/results,
and go on where they stopped; ``--fresh`` measures again.
"""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
HELPERS = (
    "__main__",
    "datasets",
    "report",
    "runner",
    "limits",
    "synthetic",
    "cells",
    "adapters",
    "conformal",
)
HELPERS += ("scale_cluster", "scale_data", "scale_fit", "scale_same", "scale_watch")
HELPERS += tuple(
    f"unsupervised_{part}" for part in ("data", "graphs", "lines", "peers")
)


def main() -> None:
    """Run the script of that name as if it had been called by itself."""
    scripts = {
        path.stem: path
        for path in [*HERE.glob("*.py"), *HERE.glob("papers/*.py")]
        if path.stem not in HELPERS
    }
    if len(sys.argv) < 2 or sys.argv[1] not in scripts:
        sys.exit(
            "usage: python -m benchmarks NAME [options]\nnames: "
            f"{', '.join(sorted(scripts))}"
        )
    script = scripts[sys.argv[1]]
    sys.path[:0] = [str(HERE), str(HERE / "papers")]
    sys.argv = [str(script), *sys.argv[2:]]
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
