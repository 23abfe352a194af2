"""The command, as ``python -m bochner``."""

from bochner.cli import main

main()
