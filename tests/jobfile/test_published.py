"""Published pages about job files are true: schema, reference, examples."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from diana.jobfile.options import SHORT
from diana.jobfile.problems import MODEL, plain
from diana.jobfile.schema import schema_text
from tests.jobfile.builders import parse

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "job-file.md"
SEVERAL = ("stages.toml",)
"""Examples of several groups each; `test_dag.py` reads them."""
EXAMPLES = sorted(
    p for p in (ROOT / "examples").iterdir() if p.suffix in (".toml", ".yaml", ".sh") and p.name not in SEVERAL
)


def test_the_published_schema_is_that_of_the_model() -> None:
    published = (ROOT / "docs" / "job-file.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "write it anew: python -m diana.jobfile.schema docs/job-file.schema.json"


def test_the_reference_names_every_key_and_no_other() -> None:
    sections: dict[str, str] = {}
    for part in re.split(r"^## ", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        sections[title.strip("[] ")] = text
    known = {field.encode_name: field.type for field in MODEL.fields}  # type: ignore[attr-defined]
    for name, kind in known.items():
        assert name in sections
        if name == "sweep":
            continue
        entry = table_of(kind)
        rows = re.findall(r"^\| (`[^|]*) \|", sections[name], flags=re.MULTILINE)
        written = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
        assert written == {field.encode_name for field in entry.fields}  # type: ignore[attr-defined]


def table_of(kind: Any) -> Any:
    """The table that a section is, or is a list of, or may be instead of a word."""
    kind = plain(kind)
    if hasattr(kind, "types"):
        return next(found for one in kind.types if (found := table_of(one)) is not None)
    if hasattr(kind, "item_type"):
        return table_of(kind.item_type)
    return kind if hasattr(kind, "fields") else None


def test_the_reference_names_every_short_option() -> None:
    text = REFERENCE.read_text(encoding="utf-8").partition("or a short one:")[2].partition(".")[0]
    assert set(re.findall(r"`(\w+)`", text)) == set(SHORT) - {"processors"}


def test_the_job_file_of_the_reference_is_in_order() -> None:
    text = REFERENCE.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    assert tomllib.loads(text)
    parsed = parse(text, files={"sim": b"#!/bin/sh\n"})
    assert parsed.jobs == 10_000
    script = REFERENCE.read_text(encoding="utf-8").partition("```sh\n")[2].partition("```")[0]
    assert parse(script, "script").jobs == 100


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_an_example_is_in_order(path: Path) -> None:
    format = {".toml": "toml", ".yaml": "yaml", ".sh": "script"}[path.suffix]
    content = path.read_bytes()
    needs = parse(content, format, source=path.name).needs_files
    files = {name: (path.parent / name).read_bytes() for name in needs}
    parsed = parse(content, format, files=files, source=path.name)
    assert parsed.needs_files == ()
    assert parsed.jobs > 1
