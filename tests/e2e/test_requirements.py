"""Requirements over three real nodes by the command line: planned, refused, run where they hold, and explained."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from diana.errors import Unplaceable
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from diana.wire.client.messages import SubmitRequest
from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e


def said_to(grid: Grid, site: Site, *words: str) -> tuple[int, str, str]:
    done = grid.run(site, words[0], "--data", str(site.data), *words[1:])
    return done.returncode, done.stdout, done.stderr


def with_memory(site: Site, memory_bytes: int) -> None:
    """Write into the site's configuration how much memory a job may have there."""
    config = load_config(site.paths.config)
    settings = msgspec.structs.replace(config.settings, memory_bytes=memory_bytes, domain=f"{site.name}.example.edu")
    write_config(site.paths.config, msgspec.structs.replace(config, settings=settings))


def test_jobs_run_where_the_requirements_hold_and_explain_says_why_nowhere_else(grid: Grid, tmp_path: Path) -> None:
    for name, memory_bytes in (("alpha", 10**9), ("beta", 2 * 10**9), ("gamma", 4 * 10**9)):
        with_memory(grid.add(name, 2), memory_bytes)
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
    asked = SubmitRequest(content=b"[group]\ncommand = 'true'\nrequirements = 'site.memory_bytes >= 8e9'\n")
    with alpha.client() as client, pytest.raises(Unplaceable, match="gamma: does not meet") as older:
        client._call("Plan", asked)  # As a client asks that reads no refused decision.
    assert older.value.planned is None
    code, out, err = said_to(grid, alpha, "plan", "--require", "site.memory_bytes >= 8e9", "--json", "--", "true")
    decision = json.loads(out)["decision"]
    assert code == 3 and decision["refused"] in err and decision["requirements"]["conditions"][0]["text"] in err
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
    assert "site.properties.power_kw = '3.5', site.properties.tier = 'gold'" in said_to(grid, alpha, "sites")[1]
    config = load_config(grid.sites["beta"].paths.config)
    again = msgspec.structs.replace(config.settings, properties={"tier": "gold", "power_kw": "4"})
    write_config(grid.sites["beta"].paths.config, msgspec.structs.replace(config, settings=again))
    assert grid.sites["beta"].process is not None
    grid.sites["beta"].process.send_signal(signal.SIGHUP)
    until(lambda: "site.properties.power_kw = '4'" in said_to(grid, alpha, "sites")[1], "a property changed at SIGHUP")
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


def test_of_ten_pairs_of_five_sites_one_that_meets_a_set_requirement_is_taken_and_where_none_does_the_best_is_told(
    grid: Grid, tmp_path: Path
) -> None:
    for gigabytes, name in enumerate(("alpha", "beta", "gamma", "delta", "epsilon"), 1):
        with_memory(grid.add(name, 2), gigabytes * 10**9)
    grid.join()
    grid.start()
    alpha, pairs = grid.sites["alpha"], ({"beta", "epsilon"}, {"gamma", "delta"})
    job = tmp_path / "pair.toml"
    texts = '"size(set) == 2", "sum(set.memory_bytes) > 6.5e9 && sum(set.memory_bytes) < 7.5e9"'
    job.write_text(f"[group]\ncommand = 'true {{n}}'\nset_requirements = [{texts}]\n[sweep]\nn = {list(range(10))}\n")
    code, out, err = said_to(grid, alpha, "plan", "--json", str(job))
    assert code == 0, err
    assert {part["site"] for part in json.loads(out)["decision"]["parts"]} in pairs
    code, out, err = said_to(grid, alpha, "submit", "--wait", str(job))
    assert code == 0, err
    explained = json.loads(said_to(grid, alpha, "explain", "alpha-1", "--json")[1])
    (decision,) = explained["decisions"]
    used = {part["site"] for part in decision["parts"]}
    assert used in pairs
    others = {row["site"]: row["rejected"] for row in decision["candidates"] if row["site"] not in used}
    assert set(others.values()) == {"not of the set of sites that meets its requirements together"} and len(others) == 3
    job.write_text(job.read_text().replace("> 6.5e9", "> 10e9").replace("< 7.5e9", "< 11e9"))
    best = (
        "no set of sites meets: sum(set.memory_bytes) > 10e9; the best is delta + epsilon: "
        "9000000000 > 10000000000 does not hold (takes it if sum(set.memory_bytes) >= 9000000000)"
    )
    for verb in ("plan", "submit"):
        code, out, err = said_to(grid, alpha, verb, str(job))
        assert code == 3 and err.count("\n") == 1 and best in err, err
    code, out, err = said_to(grid, alpha, "plan", "--json", str(job))
    assert code == 3 and best in out + err, out + err


def test_jobs_that_wait_at_a_site_which_comes_back_with_less_memory_go_to_another_and_explain_says_why(
    grid: Grid, tmp_path: Path
) -> None:
    for name, gigabytes in (("alpha", 1), ("beta", 4), ("gamma", 4)):
        with_memory(grid.add(name, 1), gigabytes * 10**9)
    grid.settings(binding="early", migration="off")
    grid.join()
    grid.start()
    alpha, beta = grid.sites["alpha"], grid.sites["beta"]
    go = tmp_path / "go"
    wait = f"until [ -e {go} ]; do sleep 0.05; done; echo $DIANA_SITE"
    words = ("--require", "site.memory_bytes >= 2.5e9", "--", "sh", "-c", f"{wait} # {{}}", ":::", *map(str, range(8)))
    code, _, err = said_to(grid, alpha, "submit", *words)
    assert code == 0, err

    def explained() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(said_to(grid, alpha, "explain", "alpha-1", "--json")[1])["decisions"]
        return found

    assert {part["site"]: part["jobs"] for one in explained() for part in one["parts"]} == {"beta": 4, "gamma": 4}
    until(lambda: len(beta.jobs_alive()) and len(grid.sites["gamma"].jobs_alive()), "one job runs at each")
    beta.terminate()
    with_memory(beta, 2 * 10**9)
    beta.start()
    grid.meet()
    why = "beta no longer meets site.memory_bytes >= 2.5e9: 2000000000 >= 2500000000 does not hold"

    def moved() -> int:
        return sum(part["jobs"] for one in explained() if one.get("moved") == why for part in one["parts"])

    until(lambda: moved() == 3, "its jobs were called back", every_s=0.5)
    shown = " ".join(said_to(grid, alpha, "explain", "alpha-1")[1].split())
    assert re.search(rf"3 jobs (in \d moves )?to gamma: {re.escape(why)}", shown), shown
    go.touch()
    code, _, err = said_to(grid, alpha, "wait", "alpha-1")
    assert code == 0, err
    rows = [json.loads(line) for line in said_to(grid, alpha, "results", "alpha-1", "--json")[1].splitlines()]
    assert sorted(row["site"] for row in rows) == ["beta"] + ["gamma"] * 7, rows
