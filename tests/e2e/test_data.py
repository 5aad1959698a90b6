"""Data on real nodes: inputs that live at two sites, outputs gathered at a third, merged once, whatever is killed."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from diana.errors import UsageError
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site, Starts, outcomes, until

pytestmark = pytest.mark.e2e

PARTS = 40
MERGE = "echo merged >> ../merges; cat out-*.bin > all.bin"


def with_datasets(grid: Grid, chance: random.Random) -> tuple[Site, dict[str, bytes], Path]:
    """Three sites, `left` at beta and `right` at gamma; what the group should leave, and where."""
    alpha, beta, gamma = grid.add("alpha", 2), grid.add("beta"), grid.add("gamma")
    grid.join()
    expected: dict[str, bytes] = {}
    for k in range(PARTS):
        parts = []
        for name in ("left", "right"):
            folder = grid.root / name
            folder.mkdir(exist_ok=True)
            content = chance.randbytes(chance.randrange(1, 200_000))
            (folder / f"part-{k}.bin").write_bytes(content)
            parts.append(content)
        expected[f"out-{k}.bin"] = b"".join(parts)
    grid.start()
    for site, name in ((beta, "left"), (gamma, "right")):
        with site.client() as client:
            assert client.add_dataset(name, [grid.root / name]).files == PARTS
    with alpha.client() as client:
        until(lambda: {d.name for d in client.datasets()} >= {"left", "right"}, "alpha knows the datasets")
    (grid.root / "gathered").mkdir()
    return alpha, expected, grid.root / "gathered" / "out"


def join_job(starts: Starts, to: Path) -> dict[str, object]:
    job = starts.job(PARTS, then=["sh", "-c", "sleep 0.1; cat left.bin right.bin > out-$DIANA_INDEX.bin"])
    job["inputs"] = [
        {"url": "dataset:left/part-{array}.bin", "path": "left.bin"},
        {"url": "dataset:right/part-{array}.bin", "path": "right.bin"},
    ]
    job["outputs"] = {"collect": ["out-{array}.bin"], "to": str(to), "merge": ["sh", "-c", MERGE]}
    return job


def check(expected: dict[str, bytes], to: Path) -> None:
    merged = b"".join(expected[name] for name in sorted(expected))
    found = {path.name: path.read_bytes() for path in to.iterdir()}
    assert sorted(found) == sorted([*expected, "all.bin"])
    assert [name for name, content in expected.items() if found[name] != content] == []
    assert found["all.bin"] == merged
    assert (to.parent / "merges").read_text() == "merged\n"


def test_inputs_of_two_sites_are_staged_and_outputs_gathered_and_merged_once(
    grid: Grid, starts: Starts, chance: random.Random
) -> None:
    alpha, expected, to = with_datasets(grid, chance)
    with alpha.client() as client:
        group = client.submit(join_job(starts, to)).group
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done, status.gathering) == ("done", PARTS, 0), status
        assert status.bytes_moved > 0
        found = outcomes(client, group)
        assert {index: found[index] for index in range(PARTS)} == dict.fromkeys(range(PARTS), "done")
    check(expected, to)
    assert len(starts.all()) == PARTS and not starts.doubled()


def test_kill_of_the_origin_while_outputs_are_gathered_loses_none(
    grid: Grid, starts: Starts, chance: random.Random
) -> None:
    alpha, expected, to = with_datasets(grid, chance)
    with alpha.client() as client:
        group = client.submit(join_job(starts, to)).group
    some = chance.randrange(1, PARTS // 2)
    until(lambda: to.exists() and len(list(to.glob("out-*"))) >= some, f"{some} outputs are there", every_s=0.002)
    alpha.kill()
    alpha.start()
    with alpha.client() as client:
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done, status.gathering) == ("done", PARTS, 0), status
    check(expected, to)
    assert len(starts.all()) == PARTS and not starts.doubled()


def test_kill_of_a_site_that_holds_inputs_and_runs_jobs_loses_no_output(
    grid: Grid, starts: Starts, chance: random.Random
) -> None:
    alpha, expected, to = with_datasets(grid, chance)
    with alpha.client() as client:
        group = client.submit(join_job(starts, to)).group
    starts.wait_for(chance.randrange(PARTS // 2))
    time.sleep(chance.uniform(0.0, 0.3))
    victim = grid.sites[chance.choice(["beta", "gamma"])]
    victim.kill()
    time.sleep(chance.uniform(0.0, 1.0))
    victim.start()
    with alpha.client() as client:
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done, status.gathering) == ("done", PARTS, 0), status
    check(expected, to)
    assert len(starts.all()) == PARTS and not starts.doubled()


def read_job(source: str, to: Path, site: str) -> dict[str, object]:
    """One job that puts all files of a dataset, by name, into one."""
    return {
        "group": {"command": ["sh", "-c", "cat all/* > out.bin"], "sites": [site]},
        "inputs": [{"url": source, "path": "all"}],
        "outputs": {"collect": ["out.bin"], "to": str(to)},
    }


def test_whole_datasets_travel_once_versions_stand_side_by_side_and_what_changed_is_told(grid: Grid) -> None:
    alpha, beta = grid.add("alpha", 2), grid.add("beta")
    grid.join()
    grid.start()
    folders = {}
    for version in (1, 2):
        folders[version] = grid.root / f"v{version}"
        folders[version].mkdir()
        for k in range(300):
            (folders[version] / f"f{k:03}").write_bytes(b"%d %d\n" % (version, k))
    with beta.client() as client:
        told: list[int] = []
        first = client.add_dataset("events", [folders[1]], progress=lambda p: told.append(p.files))
        assert (first.version, first.files, first.state, told[-1]) == (1, 300, "registered", 300)
        with pytest.raises(UsageError, match="--new-version"):
            client.add_dataset("events", [folders[2]])
        assert client.add_dataset("events", [folders[2]], new_version=True).version == 2
    with alpha.client() as client:
        until(lambda: any(d.site == "beta" for d in client.datasets()), "alpha hears of the dataset")
        for source, version in (("dataset:events@1", 1), ("dataset:events", 2)):
            to = grid.root / f"out-{version}"
            status = client.wait(client.submit(read_job(source, to, "alpha")).group, timeout_s=60)
            assert (status.state, status.done) == ("done", 1), status
            wanted = b"".join(b"%d %d\n" % (version, k) for k in range(300))
            assert (to / "0" / "out.bin").read_bytes() == wanted
            assert status.bytes_moved > len(wanted)
        again = client.wait(client.submit(read_job("dataset:events", grid.root / "out-3", "alpha")).group, timeout_s=60)
        assert (again.state, again.bytes_moved) == ("done", 0)
        assert [d.state for d in client.datasets() if d.site == "alpha"] == ["cached", "cached"]
        with pytest.raises(UsageError, match="did you mean events"):
            list(client.show_dataset("evnets"))
        with pytest.raises(UsageError, match="did you mean events"):
            client.submit(read_job("dataset:evnets", grid.root / "out-4", "alpha"))
    with beta.client() as client:
        chunks = list(client.show_dataset("events@1", files=True))
        assert [d.version for chunk in chunks for d in chunk.datasets] == [1]
        assert len([file for chunk in chunks for file in chunk.files]) == 300
        (folders[2] / "f007").write_bytes(b"other\n")
        lines: list[str] = []
        assert client.verify_dataset("events", progress=lambda p: lines.extend(p.changed)).state == "changed"
        assert len(lines) == 1 and "dataset:events/f007" in lines[0] and "site beta" in lines[0]
        assert client.verify_dataset("events@1").state == "registered"
        assert [d.version for d in client.remove_dataset("events@2")] == [2]
        assert [(d.version, d.state) for d in client.datasets() if d.site == "beta"] == [(1, "registered")]
        client.remove_dataset("events")
        assert not [d for d in client.datasets() if d.site == "beta"]
        assert (folders[1] / "f000").exists()


def test_what_a_job_does_to_its_inputs_is_its_own_affair_here_and_at_another_site(grid: Grid, tmp_path: Path) -> None:
    alpha, beta = grid.add("alpha", 2), grid.add("beta", 2)
    for site in (alpha, beta):
        config = load_config(site.paths.config)
        staging = msgspec.structs.replace(config.staging, copy_bytes=1 << 20)
        write_config(site.paths.config, msgspec.structs.replace(config, staging=staging))
    grid.join()
    grid.start()
    one, big = tmp_path / "one" / "a.txt", tmp_path / "big" / "b.bin"
    for path, content in ((one, b"given\n"), (big, b"given\n" + bytes(2 << 20))):
        path.parent.mkdir()
        path.write_bytes(content)
        path.chmod(0o666)
    (tmp_path / "main.py").write_text("import helper\nprint(helper.WORD)\n")
    (tmp_path / "helper.py").write_text("WORD = 'found'\n")
    command = (
        "set -e; python3 main.py > out; cat a.txt >> out; echo x >> a.txt; head -n 1 b.bin >> out; ls -l b.bin >> out;"
        f" [ -e {tmp_path}/good ] || (chmod u+w b.bin; echo y >> b.bin); cp out out.{{index}}"
    )
    job: dict[str, Any] = {
        "group": {"command": ["sh", "-c", command], "sites": ["beta"]},
        "sweep": {"n": "1-2"},
        "inputs": [f"{tmp_path}/main.py", f"{tmp_path}/helper.py", "dataset:one/a.txt"],
        "outputs": {"collect": "out.{index}", "to": str(tmp_path / "out")},
    }
    job["inputs"].append({"url": "dataset:big/b.bin", "mode": "link"})
    with alpha.client() as client:
        client.add_dataset("one", [one.parent])
        client.add_dataset("big", [big.parent])
        group = client.submit(job).group
        until(lambda: client.status([group])[0].final, lambda: str(client.status([group])))
        assert set(outcomes(client, group).values()) <= {"failed", "staging_failed"}
        assert "failed" in outcomes(client, group).values()
        errors = [each.error for each in client.results(group)]
        assert any("input b.bin (dataset:big/b.bin) is shared by all jobs" in error for error in errors), errors
        (tmp_path / "good").touch()
        client.retry(group)
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", 2), (status, [*client.results(group)])
    assert one.read_bytes() == b"given\n" and big.read_bytes() == b"given\n" + bytes(2 << 20)
    for index in range(2):
        found = (tmp_path / "out" / f"out.{index}").read_text().splitlines()
        assert found[:3] == ["found", "given", "given"], found
