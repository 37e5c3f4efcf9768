"""Compare the installed package with its sources, and use its SQL files from there.

Run isolated (``python -I``), so that the sources beside it are not what gets imported.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

PACKAGE = "django_graphile_worker"
SOURCES = Path(__file__).resolve().parents[1] / PACKAGE

# Without any of these the package is broken, whatever the sources hold.
KINDS = {".css", ".html", ".mo", ".py", ".sql", ".typed"}


def main() -> str | None:
    wanted = {
        path.relative_to(SOURCES.parent).as_posix()
        for path in SOURCES.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    files = importlib.metadata.files("django-graphile-worker") or []
    installed = {path.as_posix() for path in files if path.parts[0] == PACKAGE}
    installed = {name for name in installed if "__pycache__" not in name}
    if installed != wanted:
        return f"missing: {sorted(wanted - installed)}, not ours: {sorted(installed - wanted)}"
    others = [
        path.as_posix()
        for path in files
        if path.parts[0] != PACKAGE and ".dist-info" not in path.parts[0]
    ]
    if others:
        return f"files outside the package: {others}"
    if absent := KINDS - {Path(name).suffix or Path(name).name for name in installed}:
        return f"no file of these kinds: {sorted(absent)}"

    import django_graphile_worker
    from django_graphile_worker.sql.loader import load, render

    place = Path(django_graphile_worker.__file__).parent
    if place == SOURCES:
        return "this looks at the sources, not at an installed wheel"
    if importlib.metadata.version("django-graphile-worker") != django_graphile_worker.__version__:
        return "the wheel and the package disagree about the version"
    names = [path.relative_to(place / "sql").as_posix() for path in place.rglob("*.sql")]
    for name in names:
        render(load(name), "a schema")
    print(f"{len(installed)} files, {len(names)} of them SQL, in {place}")
    return None


if __name__ == "__main__":
    sys.exit(main())
