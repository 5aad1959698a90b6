"""`diana scenario`: every scenario of the repository is in order; a wrong one is one line; schema and docs are true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from diana.cli import main as cli
from diana.sim.scenario.published import schema, schema_text

ROOT = Path(__file__).parents[2]
SCENARIOS = sorted(str(path) for path in (ROOT / "scenarios").glob("*.toml"))
WRONG = 'version = 1\nsites = [{ name = "a" }]\n[[workload]]\nname = "w"\nsite = "b"\njobs = 1\n'


def test_every_scenario_of_the_repository_is_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scenario", "check", *SCENARIOS]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(SCENARIOS)
    assert all(re.search(r"\.toml: ok: [\d,]+ sites?, [\d,]+ (entry|entries) of work, [\d,]+ jobs?$", x) for x in lines)


def test_a_wrong_one_is_one_line_and_the_others_are_checked_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(WRONG)
    assert cli.main(["scenario", "check", str(wrong), str(tmp_path / "none.toml"), SCENARIOS[0]]) == 2
    shown = capsys.readouterr()
    assert shown.out.count(": ok: ") == 1
    first, second = shown.err.splitlines()
    assert first == f"diana: {wrong}: workload w: site: 'b' is not known; known: a"
    assert second.startswith("diana: scenario ") and "no such file" in second
    assert cli.main(["scenario", "check", "--json", str(wrong), SCENARIOS[0]]) == 2
    bad, good = json.loads(capsys.readouterr().out)
    assert (bad["ok"], good["ok"]) == (False, True) and "workload w" in bad["error"] and good["jobs"] > 0


@pytest.mark.parametrize(
    "words",
    [
        ["check"],
        ["schema", "x.toml"],
        ["run"],
        ["run", "a.toml", "b.toml"],
        ["run", "none.toml"],
        ["run", "a.toml", "--on", "moon"],
        ["run", "a.toml", "--speed-up", "0"],
        ["run", "a.toml", "--within", "soon"],
        ["check", "a.toml", "--on", "netns"],
    ],
)
def test_what_is_missing_or_too_much_is_said(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scenario", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_published_schema_is_that_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scenario", "schema"]) == 0
    assert capsys.readouterr().out == schema_text()
    published = (ROOT / "docs" / "scenario.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "write it anew: diana scenario schema > docs/scenario.schema.json"


def test_the_reference_names_every_key_of_the_schema() -> None:
    text = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`\[{0,2}(\w+)\]{0,2}`", text))
    tables = schema()["$defs"]
    keys = {key for table in tables.values() for key in table.get("properties", {})}
    assert len(tables) >= 10 and not keys - named
