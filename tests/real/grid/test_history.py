"""The past of real nodes: what they export replays as it was, and a change that is foretold comes true."""

from __future__ import annotations

import gzip
import random
import time
from pathlib import Path

import msgspec
import pytest

from diana.cli.main import main
from diana.client import Client
from diana.node.config.setup import init_user
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from diana.sim.past.merging import load, merged
from diana.sim.past.replay import as_it_was
from diana.sim.past.twin import twin
from diana.sim.past.whatif import whatif
from tests.e2e.grid import Grid, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SLOTS = {"alpha": 2, "beta": 2, "gamma": 1}


def _run(grid: Grid, seed: int) -> None:
    """Work of two sites for about 25 s: groups of short jobs, some of them too many at once."""
    rng = random.Random(seed)
    groups: list[tuple[str, str]] = []
    with grid.sites["alpha"].client() as alpha, grid.sites["beta"].client() as beta:
        clients = {"alpha": alpha, "beta": beta}
        for _ in range(8):
            at, work_s, jobs = rng.choice(("alpha", "beta")), rng.choice((1, 2, 3)), rng.randint(2, 7)
            job = {
                "group": {"command": ["sleep", str(work_s)]},
                "resources": {"work": work_s},
                "sweep": {"array": f"1-{jobs}"},
            }
            groups.append((at, clients[at].submit(job).group))
            time.sleep(rng.uniform(1.0, 4.0))
        for at, group in groups:
            assert clients[at].wait(group, timeout_s=120.0).done


def _exported(grid: Grid, folder: Path) -> Path:
    for name in ("alpha", "beta"):
        assert main(["history", "export", "--data", str(grid.sites[name].data), "--out", str(folder / name)]) == 0
    merged([folder / "alpha", folder / "beta"], folder / "all")
    return folder / "all"


def test_what_happened_is_replayed_and_more_slots_do_what_the_replay_foretold(
    grid: Grid, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, slots in SLOTS.items():
        grid.add(name, slots)
    grid.join()
    grid.start()
    _run(grid, 1)
    first = _exported(grid, tmp_path / "first")
    found = twin(load(first), range(3))
    print(msgspec.json.encode(found).decode())
    # Sixteen seconds are few: one group that waits for another's slot is a tenth of them.
    assert found.truly.groups == 8 and found.truly.unfinished == 0 == found.replayed.unfinished
    assert abs(found.makespan_error) < 0.15 and found.median_turnaround_error < 0.15, found
    assert main(["whatif", str(first), "--check", "--json"]) in (0, 1)
    foretold = whatif(load(first), [("site", "gamma.slots+5")], range(3))
    assert foretold.changed.turnaround_mean_s < foretold.base.turnaround_mean_s

    gamma = grid.sites["gamma"]
    gamma.terminate()
    config = load_config(gamma.paths.config)
    more = msgspec.structs.replace(config.settings, slots=6)
    write_config(gamma.paths.config, msgspec.structs.replace(config, settings=more))
    gamma.start()
    with grid.sites["alpha"].client() as client:
        until(lambda: any(s.site == "gamma" and s.slots == 6 for s in client.sites()), "gamma has six slots", 30.0)
    begun = time.time()
    _run(grid, 1)
    capfd.readouterr()
    words = ["history", "export", "--from", _iso(begun - 1.0), "--json"]
    for name in ("alpha", "beta"):
        assert main([*words, "--data", str(grid.sites[name].data), "--out", str(tmp_path / "then" / name)]) == 0
    told = [msgspec.json.decode(line) for line in capfd.readouterr().out.splitlines()]
    assert sum(one["groups"] for one in told) == 8
    merged([tmp_path / "then" / "alpha", tmp_path / "then" / "beta"], tmp_path / "then" / "all")
    truly = twin(load(tmp_path / "then" / "all"), range(1)).truly
    print(f"with six slots: foretold {foretold.changed.turnaround_mean_s:.2f} s, truly {truly.turnaround_mean_s:.2f} s")
    assert truly.turnaround_mean_s == pytest.approx(foretold.changed.turnaround_mean_s, rel=0.3)
    assert truly.turnaround_mean_s < found.truly.turnaround_mean_s


def _iso(wall_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(wall_s))


def test_a_user_exports_their_own_groups_and_nobody_a_command(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", slots=2)
    grid.join()
    for user in ("ann", "bob"):
        init_user(alpha.data, user, grid.root / user)
    grid.start()
    for user in ("ann", "bob"):
        with Client(credential=grid.root / user) as client:
            job = {
                "group": {"command": ["sh", "-c", "touch o; true SECRET"], "environment": {"KEY": "SECRET"}},
                "outputs": {"collect": ["o"], "merge": ["true"]},
            }
            assert client.wait(client.submit(job).group, timeout_s=30.0).state == "done"
    export = ["history", "export", "--out", str(tmp_path / "h")]
    assert main([*export, "--credential", str(grid.root / "ann")]) == 0
    scenario = load(tmp_path / "h")
    assert [user.name.partition("@")[0] for user in scenario.users] == ["ann"]
    assert "settings" not in (tmp_path / "h" / "scenario.toml").read_text()
    assert main([*export, "--data", str(alpha.data), "--owners", "hash"]) == 0
    assert len(load(tmp_path / "h").users) == 2
    # The merge of outputs is no job.
    assert [row.jobs for row in as_it_was(load(tmp_path / "h")).groups.values()] == [1, 1]
    written = b"".join(path.read_bytes() for path in (tmp_path / "h").iterdir() if path.suffix != ".gz")
    written += gzip.decompress((tmp_path / "h" / "alpha.swf.gz").read_bytes())
    assert b"SECRET" not in written and b"ann" not in written and b"bob" not in written


def _set(grid: Grid, name: str, history_for: str) -> None:
    config = load_config(grid.sites[name].paths.config)
    settings = msgspec.structs.replace(config.settings, history_for=history_for)
    write_config(grid.sites[name].paths.config, msgspec.structs.replace(config, settings=settings))


def test_a_grid_tells_its_history_to_whom_its_operators_allow_it_and_a_site_that_says_no_is_named(
    grid: Grid, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in SLOTS:
        grid.add(name, 1)
    grid.join()
    _set(grid, "beta", "operators")
    init_user(grid.sites["alpha"].data, "ann", grid.root / "ann")
    grid.start()
    job = {"group": {"command": ["sh", "-c", "true SECRET"]}, "sweep": {"array": "1-3"}}
    for name in SLOTS:
        with grid.sites[name].client() as client:
            assert client.wait(client.submit(job).group, timeout_s=60.0).done
    with Client(credential=grid.root / "ann") as client:
        assert client.wait(client.submit(job).group, timeout_s=60.0).done
    words = ["history", "export", "--grid", "--json", "--out"]
    capfd.readouterr()
    assert main([*words, str(tmp_path / "all"), "--data", str(grid.sites["alpha"].data)]) == 0
    told = msgspec.json.decode(capfd.readouterr().out)
    assert told["sites"] == ["alpha", "beta"] and told["groups"] == 3 and told["jobs"] == 9
    assert len(told["untold"]) == 1 and "gamma tells its history to nobody" in told["untold"][0]
    scenario = load(tmp_path / "all")
    assert [site.name for site in scenario.sites] == ["alpha", "beta", "gamma"]
    assert set(as_it_was(scenario).groups) == {"alpha-1", "alpha-2", "beta-1"}
    raw = b"".join(gzip.decompress(path.read_bytes()) for path in (tmp_path / "all").glob("*.gz"))
    assert b"SECRET" not in raw

    # A user is no operator, at beta either; their own groups alone.
    assert main([*words, str(tmp_path / "anns"), "--credential", str(grid.root / "ann")]) == 0
    told = msgspec.json.decode(capfd.readouterr().out)
    assert told["sites"] == ["alpha"] and told["groups"] == 1
    assert any("beta tells its history to operators alone" in line for line in told["untold"])

    # Hidden names are the same in all histories of the VO, so that they can be told together.
    hidden = [*words, str(tmp_path / "hidden"), "--owners", "hash", "--places", "hash"]
    assert main([*hidden, "--data", str(grid.sites["alpha"].data)]) == 0
    text = b"".join(p.read_bytes() for p in (tmp_path / "hidden").iterdir() if p.suffix != ".gz")
    text += b"".join(gzip.decompress(p.read_bytes()) for p in (tmp_path / "hidden").glob("*.gz"))
    # The name of the VO stays.
    text = text.replace(b"alpha-vo", b"")
    assert not any(word in text for word in (b"alpha", b"beta", b"gamma", b"ann"))
    assert len(load(tmp_path / "hidden").sites) == 3
