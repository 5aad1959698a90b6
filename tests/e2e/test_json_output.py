"""`--json` of every verb that talks to a node, or makes one, is what docs/json-output.schema.json says: each printed by
a real node here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diana.cli import main as cli
from tests.cli import json_shapes
from tests.e2e.grid import Grid, Site, free_port, until

pytestmark = pytest.mark.e2e

ELSEWHERE = {
    "advise": "tests/cli/test_past.py",
    "demo": "tests/demo/test_demo_whole.py",
    "history-merge": "tests/cli/test_past.py",
    "scenario-check": "tests/cli/test_json_schema.py",
    "scenario-run": "tests/real/people/test_scenario_run.py",
    "service": "tests/e2e/test_service.py",
    "simulate": "tests/cli/test_json_schema.py",
    "whatif": "tests/cli/test_past.py",
    "whatif-check": "tests/cli/test_past.py",
}
"""Where those are checked that are not here."""


@pytest.fixture(scope="module")
def alpha() -> Iterator[Site]:
    made = Grid()
    try:
        site, beta = made.add("alpha", 2), made.add("beta", 2)
        made.join()
        made.start()
        with site.client() as client:
            client.wait(client.submit({"group": {"command": "true {x}"}, "sweep": {"x": "1-8"}}).group)
        assert beta.process is not None
        yield site
    finally:
        made.close()


class Verbs:
    """Runs verbs in this process, which is what `diana` does, and holds what they print against the schema."""

    def __init__(self, site: Site, capsys: pytest.CaptureFixture[str]) -> None:
        self._data = str(site.data)
        self._capsys = capsys

    def run(self, shape: str, *words: str, code: int = 0, data: str = "") -> list[Any]:
        """The values, one per line."""
        verb, *rest = words
        cut = rest.index("--") if "--" in rest else len(rest)
        assert cli.main([verb, "--json", "--data", data or self._data, *rest[:cut], *rest[cut:]]) == code, words
        return json_shapes.check_lines(shape, self._capsys.readouterr().out)

    def one(self, shape: str, *words: str, code: int = 0, data: str = "") -> Any:
        (value,) = self.run(shape, *words, code=code, data=data)
        return value


@pytest.fixture
def verbs(alpha: Site, capsys: pytest.CaptureFixture[str]) -> Verbs:
    return Verbs(alpha, capsys)


def test_work(verbs: Verbs, tmp_path: Path) -> None:
    collect = ("--collect", "o-{x}", "--", "sh", "-c", "echo {x} > o-{x}; exit {x}", ":::", "0", "3")
    group = verbs.one("submit", "submit", *collect)["group"]
    verbs.one("wait", "wait", group, code=1)
    assert verbs.one("submit-wait", "submit", "--wait", "--", "echo", "hi")["done"] == 1
    verbs.one("plan", "plan", "--", "true", "{x}", ":::", "1", "2")
    assert verbs.one("status", "status", group)["groups"][0]["shares"]
    assert verbs.one("groups", "groups", "--limit", "1")["leftOut"] > 0
    assert verbs.run("results", "results", "--outcome", "failed", group)
    assert verbs.run("results-columns", "results", "--columns", "--outcome", "failed", group)
    assert verbs.one("explain", "explain", f"{group}.1")["job"]["exitCode"] == 3
    told = verbs.run("status-job", "status", f"{group}.[0-1]")
    assert [(one["state"], one["exitCode"], one["signal"]) for one in told] == [("done", 0, 0), ("failed", 3, 0)]
    assert verbs.run("logs", "logs", "--failed", group)
    assert verbs.one("fetch", "fetch", group, "--to", str(tmp_path / "out"))["files"]
    assert verbs.one("retry", "retry", group)["jobs"] == 1
    assert verbs.one("explain", "explain", group)["decisions"]
    over = verbs.one("submit-wait", "submit", "--wait", "--", "true")["group"]
    assert verbs.one("drop", "drop", over) == {"groups": [over], "left": []}
    told = verbs.one("drop", "drop", "--older-than", "1ms")
    assert [left["group"] for left in told["left"]] and all(left["why"] for left in told["left"])


def test_control(verbs: Verbs) -> None:
    group = verbs.one("submit", "submit", "--array", "1-200", "--", "sleep", "60")["group"]
    assert verbs.one("hold", "hold", group)["jobs"] > 0
    assert verbs.one("explain", "explain", group)["waiting"]
    assert verbs.one("release", "release", group)["jobs"] > 0
    until(lambda: verbs.one("queue", "queue").get("classes"), "some wait here")
    assert verbs.one("users", "users")["users"]
    assert verbs.one("move", "move", group, "--to", "beta")["jobs"] > 0
    assert verbs.one("cancel", "cancel", group)["jobs"] > 0
    verbs.one("wait", "wait", group, code=1)


def test_a_running_job_is_asked_for_its_checkpoint(verbs: Verbs, tmp_path: Path) -> None:
    job = tmp_path / "saves.toml"
    job.write_text(
        'group = { command = ["python3", "saves.py"] }\ncheckpoint = { paths = ["state"] }\n'
        'inputs = [{ url = "saves.py" }]\n'
    )
    (tmp_path / "saves.py").write_text(
        "import signal, sys, time\n"
        "def save(*_):\n    open('state', 'w').write('1')\n    sys.exit(85)\n"
        "signal.signal(signal.SIGUSR1, save)\ntime.sleep(60)\n"
    )
    group = verbs.one("submit", "submit", str(job))["group"]
    until(lambda: verbs.one("status", "status", group)["groups"][0]["running"] == 1, "it runs")
    assert verbs.one("checkpoint", "checkpoint", group)["jobs"] == 1
    assert verbs.one("cancel", "cancel", group)["jobs"] == 1


def test_the_grid(verbs: Verbs, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("x\n")
    verbs.one("datasets-add", "datasets", "add", "events", str(tmp_path / "one.txt"))
    assert verbs.one("datasets", "datasets")["datasets"]
    assert verbs.run("datasets-show", "datasets", "show", "--files", "events")[-1]["files"]
    assert verbs.one("datasets-verify", "datasets", "verify", "events")["state"] == "registered"
    (tmp_path / "one.txt").write_text("y\n")
    assert verbs.one("datasets-verify", "datasets", "verify", "events", code=1)["state"] == "changed"
    assert verbs.one("datasets-remove", "datasets", "remove", "events")["datasets"]
    assert len(verbs.one("sites", "sites")["sites"]) == 2
    assert verbs.one("peers", "peers")["peers"]
    assert verbs.one("dashboard", "dashboard")["url"].startswith("http://127.0.0.1:")
    assert "diana_slots" in verbs.one("metrics", "metrics")["text"]
    verbs.one("links", "links")
    verbs.one("links", "links", "--paths", "alpha")
    assert verbs.one("history", "history", "export", "--out", str(tmp_path / "past"))["groups"]


def test_the_node(verbs: Verbs, tmp_path: Path) -> None:
    def folder(name: str) -> str:
        return str(tmp_path / name)

    assert verbs.one("init", "init", "gamma", data=folder("gamma"))["vo"] == "gamma-vo"
    verbs.one("init-user", "init", "--user", "ann", "--out", folder("ann"))
    token = verbs.one("invite", "invite", "--site", "delta")["token"]
    assert verbs.one("invite-list", "invite", "--list")
    made = verbs.one("join", "join", token, "--listen", f"127.0.0.1:{free_port()}", data=folder("delta"))
    assert (made["kind"], made["site"]) == ("site", "delta")
    token = verbs.one("invite", "invite", "--user", "ben")["token"]
    assert verbs.one("join-user", "join", token, "--out", folder("ben"))["user"] == "ben"
    assert verbs.one("invite-list", "invite", "--list") == []
    assert verbs.one("site", "site", "drain", "--reason", "for a test")["text"]
    assert verbs.one("policy", "policy")["drained"]
    assert verbs.one("sites", "sites")["sites"][0]["note"]
    verbs.one("site", "site", "undrain")
    (tmp_path / "policy.toml").write_text("job_threshold = 1000\n")
    verbs.one("policy-set", "policy", "set", folder("policy.toml"))
    assert verbs.one("policy", "policy")["valuesJson"]
    verbs.one("site", "site", "run-as", "check")
    assert verbs.one("doctor", "doctor", code=0)["checks"]
    assert verbs.one("backup", "backup", "--keys", folder("kept"))["files"] > 3
    assert verbs.one("restore", "restore", folder("kept"), data=folder("back"))["files"] > 3


def test_the_end(verbs: Verbs, alpha: Site) -> None:
    assert verbs.one("stop", "stop") == {}
    assert alpha.process is not None and alpha.process.wait(60) == 0


def test_no_verb_was_forgotten() -> None:
    root, text = Path(__file__).parents[2], Path(__file__).read_text(encoding="utf-8")
    here = set(re.findall(r'verbs\.(?:one|run)\(\s*"([a-z-]+)"', text))
    assert here | set(ELSEWHERE) == json_shapes.verbs()
    for shape, where in ELSEWHERE.items():
        text = (root / where).read_text(encoding="utf-8")
        assert "json_shapes" in text and json.dumps(shape) in text, where
