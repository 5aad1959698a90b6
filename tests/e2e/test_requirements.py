"""Requirements over three real nodes by the command line: planned, refused, run where they hold, and explained."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site

pytestmark = pytest.mark.e2e


def said_to(grid: Grid, site: Site, *words: str) -> tuple[int, str, str]:
    done = grid.run(site, words[0], "--data", str(site.data), *words[1:])
    return done.returncode, done.stdout, done.stderr


def test_jobs_run_where_the_requirements_hold_and_explain_says_why_nowhere_else(grid: Grid, tmp_path: Path) -> None:
    for name, memory_bytes in (("alpha", 10**9), ("beta", 2 * 10**9), ("gamma", 4 * 10**9)):
        site = grid.add(name, 2)
        config = load_config(site.paths.config)
        settings = msgspec.structs.replace(config.settings, memory_bytes=memory_bytes, domain=f"{name}.example.edu")
        write_config(site.paths.config, msgspec.structs.replace(config, settings=settings))
    grid.join()
    grid.start()
    alpha = grid.sites["alpha"]
    enough = ("--require", "site.memory_bytes >= 4e9 && suffix(site.domain, ['gamma.example.edu', 'beta.example.edu'])")
    code, out, err = said_to(grid, alpha, "plan", *enough, "--", "true")
    assert code == 0, err
    assert "not beta: does not meet: site.memory_bytes >= 4e9 (takes it if site.memory_bytes >= 2000000000)" in out
    assert "not alpha: does not meet: site.memory_bytes >= 4e9 (and 1 more)" in out
    table = {line.split()[0]: line.split()[1:] for line in out.partition("SITE   1 ")[2].splitlines()[1:] if line}
    assert table == {
        "gamma": ["yes", "(4000000000)", "yes", "('gamma.example.edu')"],
        "beta": ["NO", "(2000000000)", "yes", "('beta.example.edu')"],
        "alpha": ["NO", "(1000000000)", "NO", "('alpha.example.edu')"],
    }
    code, out, err = said_to(grid, alpha, "plan", "--rank", "site.memory_bytes", "--json", "--", "true")
    decision = json.loads(out)["decision"]
    assert [part["site"] for part in decision["parts"]] == ["gamma"], out
    job = tmp_path / "modelled.toml"
    job.write_text("[group]\ncommand = 'true'\n[package.model]\ntime_s = \"site.name == 'beta' ? 5.0 : 50.0\"\n")
    code, out, err = said_to(grid, alpha, "plan", str(job))
    assert code == 0 and "beta" in out.partition("the plan:")[2].splitlines()[2], out + err
    assert "its model, 0 jobs seen" in out and "MODEL" in out
    code, out, err = said_to(grid, alpha, "plan", "--require", "site.memory_bytes >= 8e9", "--", "true")
    assert code == 3 and err.count("\n") == 1 and "takes it if site.memory_bytes >= 4000000000" in err
    assert "gamma  NO (4000000000)" in out
    code, out, err = said_to(grid, alpha, "plan", "--require", "site.memory_bytes >= 8e9", "--json", "--", "true")
    decision = json.loads(out)["decision"]
    assert code == 3 and decision["refused"] in err and decision["requirements"]["conditions"][0]["text"] in err
    code, out, err = said_to(grid, alpha, "submit", "--require", "site.memory >= 8e9", "--", "true")
    assert code == 2 and err.count("\n") == 1 and "did you mean site.memory_bytes?" in err
    code, out, err = said_to(grid, alpha, "submit", *enough, "--wait", "--", "true", ":::", *map(str, range(12)))
    assert code == 0, err
    status = json.loads(said_to(grid, alpha, "explain", "alpha-1", "--json")[1])
    assert {part["site"] for one in status["decisions"] for part in one.get("parts", ())} == {"gamma"}
