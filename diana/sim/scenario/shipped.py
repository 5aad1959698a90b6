"""Scenarios that come with diana: beside the source tree, or inside an installed package."""

from __future__ import annotations

from pathlib import Path

from diana.errors import UsageError

_PACKAGE = Path(__file__).resolve().parents[2]
FOLDERS = (_PACKAGE / "scenarios", _PACKAGE.parent / "scenarios")
"""Where they may lie: a wheel has them within the package, a source tree beside it."""


def names() -> list[str]:
    return sorted({path.stem for folder in FOLDERS for path in folder.glob("*.toml")})


def resolved(given: str) -> str:
    """Return the path of a scenario: the file of that name, else the shipped one (`two-sites`, also
    `scenarios/two-sites.toml`), else what was given."""
    if Path(given).exists():
        return given
    name = given.removeprefix("scenarios/").removesuffix(".toml")
    if "/" not in name:
        for folder in FOLDERS:
            if (path := folder / f"{name}.toml").is_file():
                return str(path)
    return given


def found(given: str) -> str:
    """Do the same; UsageError names those there are."""
    path = resolved(given)
    if Path(path).exists():
        return path
    raise UsageError(f"scenario {given}: no such file; of those that come with diana there are: {', '.join(names())}")
