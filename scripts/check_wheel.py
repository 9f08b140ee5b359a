"""Wheel: built, installed alone into a clean environment, and used as who just installed it does.

    python scripts/check_wheel.py

Fails where a command does, where a type checker does not see the package's types, and where the
base brings more than it is meant to.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REGISTRY = ROOT / "data" / "registry"
MOST_PACKAGES = 30
MOST_MB = 275

COMMANDS = (
    ("index", str(REGISTRY / "chatter.json")),
    ("search", "post the release notes"),
    ("route", "call Ana on +44 20 7946 0958 and close the issue", "--json"),
    ("doctor",),
)


def run(*words: str | Path, where: Path = ROOT) -> None:
    """Run a command, and end with what it said where it fails."""
    hidden = ("PYTHONPATH", "TOOLCRIB_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    done = subprocess.run(words, cwd=where, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")


def install(folder: Path) -> Path:
    """The environment's folder with the wheel and what it brings, and no more."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", folder / "wheel", ".")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "clean")
    (wheel,) = (folder / "wheel").iterdir()
    run(*pip, "--python", folder / "clean" / "bin" / "python", "install", wheel)
    return folder / "clean"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="toolcrib-wheel-") as temporary:
        folder = Path(temporary)
        clean = install(folder)
        (packages,) = clean.glob("lib/python*/site-packages")
        count = len(list(packages.glob("*.dist-info")))
        files = (path for path in packages.rglob("*") if path.is_file())
        size = sum(path.stat().st_size for path in files) / 2**20
        print(f"the base is {count} packages and {size:.0f} MB")
        if count > MOST_PACKAGES or size > MOST_MB:
            sys.exit(f"that is more than {MOST_PACKAGES} packages or {MOST_MB} MB")
        for command in COMMANDS:
            run(clean / "bin" / "toolcrib", *command, where=folder)
        types = ("--strict", "--python-executable", clean / "bin" / "python")
        run(sys.executable, "-m", "mypy", *types, ROOT / "typing_tests", where=folder)
        print("it is installed, answers, and shows its types")


if __name__ == "__main__":
    main()
