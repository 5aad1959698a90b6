"""The locks: they pin all that `make` installs, for each Python promised; one has what diana runs on, no more."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
RUN: list[str] = PROJECT["project"]["dependencies"]
LOCKS = ("requirements.lock", "requirements-dev.lock")
# What a first day meets, and the tool that puts diana itself into .venv.
TO_RUN = [
    *RUN,
    *(line for extra in ("calls", "charts", "top", "traces", "urls") for line in EXTRAS[extra]),
    *PROJECT["build-system"]["requires"],
]
ALL = [*TO_RUN, *(line for extra in EXTRAS.values() for line in extra)]
OLDEST = PROJECT["project"]["requires-python"].removeprefix(">=") + ".0"
PROMISED = (OLDEST, "3.12.0", "3.13.0", "3.14.0")


def pinned(lock: str) -> dict[str, str]:
    """Package to its whole entry: the version, where it is wanted at all, and every hash."""
    entries = re.split(r"^(?=\S)", (ROOT / lock).read_text(), flags=re.MULTILINE)
    return {entry.partition("==")[0]: entry.strip() for entry in entries if entry.strip()}


def wanted_here(lock: str) -> Iterator[Requirement]:
    """The pins of this lock that pip would install on this machine."""
    for entry in pinned(lock).values():
        pin = Requirement(entry.partition("\\")[0])
        if pin.marker is None or pin.marker.evaluate():
            yield pin


def closure(requirements: list[str], python: str) -> set[str]:
    """Every package these bring along under that Python, as those installed here say of themselves."""
    under = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(line) for line in requirements]
    while waiting:
        wanted = waiting.pop()
        for extra in ("", *wanted.extras):
            key = (canonicalize_name(wanted.name), extra)
            if key not in found:
                found.add(key)
                waiting += [
                    each
                    for each in map(Requirement, requirements_of(wanted.name))
                    if each.marker is None or each.marker.evaluate({**under, "extra": extra})
                ]
    return {name for name, _ in found}


def requirements_of(package: str) -> list[str]:
    """Nothing of one that this Python does not want, and so is not installed."""
    try:
        return distribution(package).requires or []
    except PackageNotFoundError:
        return []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_every_line_with_hashes_and_names_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    entries = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert entries and all(re.fullmatch(r"[a-z0-9-]+==[^\s;]+( ; [^;]+)? \\", line) for line in entries)
    assert "://" not in text and "--index-url" not in text and "#" not in text
    assert all("--hash=sha256:" in entry for entry in pinned(lock).values())


def test_no_package_is_in_both_locks_so_that_they_cannot_disagree() -> None:
    run, dev = map(pinned, LOCKS)
    assert run and dev and not run.keys() & dev.keys()


@pytest.mark.parametrize("python", PROMISED)
def test_every_dependency_and_what_it_brings_along_is_in_the_locks(python: str) -> None:
    assert closure(ALL, python) <= pinned("requirements.lock").keys() | pinned("requirements-dev.lock").keys()


def test_who_runs_diana_gets_what_it_runs_on_and_no_more() -> None:
    assert set().union(*(closure(TO_RUN, python) for python in PROMISED)) == set(pinned("requirements.lock"))


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_is_of_a_release_for_each_python_promised(lock: str) -> None:
    refused = []
    for pin in wanted_here(lock):
        release = distribution(pin.name)
        assert pin.specifier.contains(release.version), f"{pin.name} {release.version} is installed: run make dev"
        takes = SpecifierSet(release.metadata.json.get("requires_python", ""))
        refused += [f"{pin.name} {release.version}: {takes}" for python in PROMISED if python not in takes]
    assert not refused
