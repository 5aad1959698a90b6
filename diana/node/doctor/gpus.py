"""Checks that the GPUs a site file declares are there: jobs are told their names, and no one else looks."""

from __future__ import annotations

from diana.model.words import counted
from diana.node.config import gpus
from diana.node.doctor.bounded import Results, fail, ok


def there(names: tuple[str, ...], where: str) -> Results:
    """`where`: the site file, for the mend. Nothing is said of a machine that declares none and shows none."""
    has = gpus.shown()
    if not names:
        if not has.names:
            return []
        return [ok("gpus", f"{counted(len(has.names), 'GPU')} by {has.by}, none for jobs: gpus is not set in {where}")]
    if gone := gpus.missing(names, has):
        seen = (
            f"{counted(len(has.names), 'GPU')} by {has.by}" if has.names else "none by nvidia-smi, /dev or AMD's driver"
        )
        found = f"{len(names)} declared, this machine shows {seen}: jobs are given what is not there: {_some(gone)}"
        return [
            fail("gpus", found, f"see what its driver says, or {_setting(has)} in {where} and start the node again")
        ]
    return [ok("gpus", f"{len(names)} declared, {len(has.names)} there by {has.by}")]


def _some(names: list[str]) -> str:
    return ", ".join([*names[:4], f"{len(names) - 4} more"] if len(names) > 5 else names)


def _setting(has: gpus.VisibleGpus) -> str:
    if all(name.isdecimal() for name in has.names):
        return f"set gpus = {len(has.names)}"
    return f"name those of {has.by} as gpus"
