"""The locks: all that `make` installs is pinned, and a node's image has of it what a node needs."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
RUN: list[str] = PROJECT["project"]["dependencies"]
OF_A_NODE = [*RUN, *EXTRAS["urls"], *EXTRAS["traces"], *PROJECT["build-system"]["requires"]]


def pinned(lock: str) -> dict[str, str]:
    """Package to its whole entry: the version and every hash."""
    entries = re.split(r"^(?=\S)", (ROOT / lock).read_text(), flags=re.MULTILINE)
    return {entry.partition("==")[0]: entry.strip() for entry in entries if entry.strip()}


def named(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


def closure(requirements: list[str]) -> set[str]:
    """Every package these bring along, as those installed here say of themselves."""
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(line) for line in requirements]
    while waiting:
        wanted = waiting.pop()
        for extra in ("", *wanted.extras):
            key = (canonicalize_name(wanted.name), extra)
            if key not in found:
                found.add(key)
                more = map(Requirement, distribution(wanted.name).requires or ())
                waiting += [each for each in more if each.marker is None or each.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-node.lock"])
def test_a_lock_pins_every_line_with_hashes_and_names_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    entries = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert entries and all(re.fullmatch(r"[a-z0-9-]+==\S+ \\", line) for line in entries)
    assert "://" not in text and "--index-url" not in text and "#" not in text
    assert all("--hash=sha256:" in entry for entry in pinned(lock).values())


def test_every_dependency_and_what_it_brings_along_is_in_the_lock() -> None:
    assert closure([*RUN, *(line for extra in EXTRAS.values() for line in extra)]) <= set(pinned("requirements.lock"))


def test_a_nodes_image_has_the_versions_and_hashes_that_make_installs() -> None:
    assert pinned("requirements-node.lock").items() <= pinned("requirements.lock").items()


def test_a_nodes_image_has_all_a_node_needs_and_no_tests_pages_or_workflow_engines() -> None:
    inside = set(pinned("requirements-node.lock"))
    assert closure(OF_A_NODE) <= inside
    others = named([line for extra in ("snakemake", "docs", "dev") for line in EXTRAS[extra]]) - named(OF_A_NODE)
    assert {"snakemake", "playwright", "pytest"} <= others and not inside & others
