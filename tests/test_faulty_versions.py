"""Each faulty version that `tests/real/durable` judges is a version: its text stands once in today's code, and what
comes of it is Python. Real nodes would find that out a quarter of an hour later."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.real.durable import faulty

ROOT = Path(__file__).parent.parent / "diana"
VERSIONS = {
    f"{table} {name}": changes
    for table, versions in vars(faulty).items()
    if table.startswith("FAULTY") and isinstance(versions, dict)
    for name, changes in versions.items()
}


@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_a_faulty_version_is_a_version(name: str) -> None:
    for file, texts in VERSIONS[name].items():
        code = (ROOT / file).read_text(encoding="utf-8")
        for old, new in zip(texts[::2], texts[1::2], strict=True):
            assert old in code, f"{file} has no longer: {old!r}"
            code = code.replace(old, new)
        if file.endswith(".py"):
            ast.parse(code)


def test_there_are_versions_to_judge() -> None:
    assert len(VERSIONS) > 20
