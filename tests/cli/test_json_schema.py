"""The published schema of `--json`: it is what the code gives, names every verb, and tells right from wrong."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from diana.cli import main as cli
from diana.cli.published import json_schema
from tests.cli import json_shapes
from tests.cli.test_main import WITHOUT_JSON

ROOT = Path(__file__).parents[2]


def test_the_published_schema_is_that_of_the_types() -> None:
    published = json_shapes.PUBLISHED.read_text(encoding="utf-8")
    assert published == json_schema.schema_text(), (
        "write it anew: python -m diana.cli.published.json_schema docs/json-output.schema.json"
    )
    jsonschema.Draft202012Validator.check_schema(json.loads(published))


def test_every_verb_with_json_has_its_schema_and_no_other() -> None:
    named = {name.partition("-")[0] for name in json_shapes.verbs()}
    assert named == set(cli.VERBS) - set(WITHOUT_JSON)


def test_a_wrong_type_a_missing_and_an_unknown_key_are_told() -> None:
    json_shapes.check("cancel", {"jobs": 3})
    for verb, wrong in (("cancel", {"jobs": "3"}), ("fetch", {"folder": "/x"}), ("cancel", {"job": 3})):
        with pytest.raises(jsonschema.ValidationError):
            json_shapes.check(verb, wrong)


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("simulate", ["simulate", "scenarios/two-sites.toml"]),
        ("simulate", ["simulate", "scenarios/two-sites.toml", "--seeds", "2", "--report", "faults,coverage,expect"]),
        ("simulate", ["simulate", "scenarios/two-sites.toml", "--report", "groups,bound,decisions,arrivals,network"]),
        ("simulate", ["simulate", "scenarios/two-sites.toml", "--report", "transfers,migration,standby,traces"]),
        ("scenario-check", ["scenario", "check", "scenarios/two-sites.toml"]),
    ],
)
def test_what_needs_no_node_prints_what_is_published(
    verb: str, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert cli.main([*words, "--json"]) == 0
    json_shapes.check(verb, json.loads(capsys.readouterr().out))


def test_a_compared_scenario_and_a_trace_print_what_is_published(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    scenario = tmp_path / "compared.toml"
    scenario.write_text(
        'version = 1\nname = "c"\nsites = [{ name = "a", slots = 2 }, { name = "b", slots = 2 }]\n'
        'default_link = { latency_s = 0.002 }\n[[workload]]\nname = "w"\nsite = "a"\njobs = 6\nwork_s = 3.0\n'
        '[compare]\nseeds = 2\nloads = [1.0]\n[[policies]]\nname = "diana"\n'
        '[[policies]]\nname = "home"\nsettings = { migration = "off" }\n'
    )
    assert cli.main(["simulate", str(scenario), "--json"]) == 0
    json_shapes.check("simulate", json.loads(capsys.readouterr().out))
    log = tmp_path / "log.swf"
    rows = (f"{n} {n * 5} 0 {20 + n} 1 -1 -1 1 60 -1 1 1 1 -1 1 1 -1 -1" for n in range(1, 9))
    log.write_text("; MaxProcs: 4\n" + "\n".join(rows) + "\n")
    assert cli.main(["simulate", "--trace", str(log), "--json"]) == 0
    json_shapes.check("simulate", json.loads(capsys.readouterr().out))
