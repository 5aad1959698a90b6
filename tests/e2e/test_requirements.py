"""Requirements over three real nodes by the command line: planned, refused, run where they hold, and explained."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import msgspec
import pytest

from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site, until

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
    assert (
        "    suffix(site.domain, ['gamma.example.edu', 'beta.example.edu']): site.domain = 'alpha.example.edu'" in out
    )
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
    code, out, err = said_to(grid, alpha, "submit", "--require", "site.memory >= 8e9", "--", "true")
    assert code == 2 and err.count("\n") == 1 and "did you mean site.memory_bytes?" in err
    code, out, err = said_to(grid, alpha, "submit", *enough, "--wait", "--", "true", ":::", *map(str, range(12)))
    assert code == 0, err
    status = json.loads(said_to(grid, alpha, "explain", "alpha-1", "--json")[1])
    assert {part["site"] for one in status["decisions"] for part in one.get("parts", ())} == {"gamma"}


def test_jobs_run_where_the_property_and_the_data_are(grid: Grid, tmp_path: Path) -> None:
    declared = {"alpha": {"tier": "iron"}, "beta": {"tier": "gold", "power_kw": "3.5"}, "gamma": {"tier": "gold"}}
    for name, properties in declared.items():
        site = grid.add(name, 2)
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in properties.items())
        with site.paths.config.open("a", encoding="utf-8") as file:
            file.write(f"\n[properties]\n{lines}")
    grid.join()
    grid.start()
    alpha, gamma = grid.sites["alpha"], grid.sites["gamma"]
    (tmp_path / "ocean.nc").write_bytes(b"x" * 100_000)
    done = grid.run(gamma, "datasets", "add", "--data", str(gamma.data), "ocean", str(tmp_path / "ocean.nc"))
    assert done.returncode == 0, done.stderr
    told = {
        one["site"]: one.get("properties") for one in json.loads(said_to(grid, alpha, "sites", "--json")[1])["sites"]
    }
    assert told == declared
    assert "power_kw=3.5, tier=gold" in said_to(grid, alpha, "sites")[1]
    config = load_config(grid.sites["beta"].paths.config)
    again = msgspec.structs.replace(config.settings, properties={"tier": "gold", "power_kw": "4"})
    write_config(grid.sites["beta"].paths.config, msgspec.structs.replace(config, settings=again))
    assert grid.sites["beta"].process is not None
    grid.sites["beta"].process.send_signal(signal.SIGHUP)
    until(lambda: "power_kw=4" in said_to(grid, alpha, "sites")[1], "a property changed at SIGHUP")
    gold = ("--require", "site.properties.tier == 'gold'")
    code, out, err = said_to(grid, alpha, "plan", *gold, "--rank", "number(site.properties.power_kw)", "--", "true")
    assert code == 0 and "the plan:" in out, err
    assert "not alpha: does not meet: site.properties.tier == 'gold'" in out
    assert "    no rank by number(site.properties.power_kw): site.properties.power_kw not told" in out
    code, out, err = said_to(grid, alpha, "plan", "--require", "site.properties.teir == 'gold'", "--", "true")
    assert code == 3 and "site.properties.teir not told; did you mean site.properties.tier?" in err
    code, out, err = said_to(grid, alpha, "plan", "--require", "site.properties.power_kw >= 3", "--", "true")
    assert code == 2 and err.count("\n") == 1 and "write number(site.properties.power_kw)" in err
    job = tmp_path / "near.toml"
    job.write_text(
        """[group]
command = "wc -c ocean.nc"
requirements = ["site.properties.tier == 'gold'", "site.data_bytes >= 0.5 * group.data_bytes"]
[[inputs]]
url = "dataset:ocean/ocean.nc"
"""
    )
    code, out, err = said_to(grid, alpha, "submit", "--wait", str(job))
    assert code == 0, err
    (decision, *_) = json.loads(said_to(grid, alpha, "explain", "alpha-1", "--json")[1])["decisions"]
    assert [part["site"] for part in decision["parts"]] == ["gamma"]
    found = {row["site"]: [one["found"] for one in row.get("failed", ())] for row in decision["candidates"]}
    assert found["beta"] == ["0 >= 50000 does not hold"] and not found["gamma"]
    assert found["alpha"] == ["'iron' == 'gold' does not hold", "0 >= 50000 does not hold"]
