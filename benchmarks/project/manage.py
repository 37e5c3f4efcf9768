"""Django's command line for the project that the benchmarks of the worker run."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    # Run as a script, only this folder is on the path; the packages are found from the root.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.project.settings")

    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
