"""Release 0.1.0 beside this one: sites of both in a grid, each other's commands, and a site that is upgraded while it
has work."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from diana import __version__
from diana.adapters.sqlite_store import checking
from diana.client import Client
from diana.errors import UsageError
from diana.node.config.setup import init_user
from diana.wire.client import messages
from tests.e2e.grid import Grid, Site, Starts, outcomes, until
from tests.e2e.test_hold_retry import diana
from tests.real.old_code import RELEASE, OldCode, OldSite, of_both

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

PARTS = 6
MOVED = 16
END_S = 90.0


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> OldCode:
    return OldCode(tmp_path_factory.mktemp("release"))


def dataset(grid: Grid, at: Site, name: str) -> None:
    folder = grid.root / name
    folder.mkdir()
    for k in range(PARTS):
        (folder / f"part-{k}").write_text(f"{name} {k}\n")
    with at.client() as client:
        assert client.add_dataset(name, [folder]).files == PARTS


def with_data(starts: Starts, name: str, to: str) -> dict[str, object]:
    """Jobs at `to` that read a dataset and leave a file each."""
    job = starts.job(PARTS, then=("sh", "-c", "cat in > out-$DIANA_INDEX"), sites=[to])
    job["inputs"] = [{"url": f"dataset:{name}/part-{{array}}", "path": "in"}]
    job["outputs"] = {"collect": ["out-{array}"]}
    return job


def goes_there_and_comes_back(grid: Grid, starts: Starts, here: Site, there: Site, at: Site) -> None:
    """A group of `here` runs at `there` with data of `at`; its outputs are fetched from `here`."""
    name = f"set-of-{here.name}"
    dataset(grid, at, name)
    with here.client() as client:
        until(lambda: name in {d.name for d in client.datasets()}, "the dataset is heard of", 15)
        group = client.submit(with_data(starts, name, there.name)).group
        status = client.wait(group, timeout_s=END_S)
        assert (status.state, status.done) == ("done", PARTS), (status, grid.story())
        assert outcomes(client, group) == dict.fromkeys(range(PARTS), "done")
        assert {result.site for result in client.results(group)} == {there.name}
        fetched = {path.name: path.read_text() for path in client.fetch(group, grid.root / f"from-{here.name}")}
        assert fetched == {f"out-{k}": f"{name} {k}\n" for k in range(PARTS)}
        assert client.explain(group).group == group


def each_names_the_others_release(old: Site, new: Site) -> None:
    for site, own, other in ((old, RELEASE, __version__), (new, __version__, RELEASE)):
        with site.client() as client:
            assert client.info().release == own
            seen = {row.site: row.release for row in client.peers().peers}
            assert other in (seen.get("old"), seen.get("new")), seen


def test_sites_of_both_releases_do_each_others_work(grid: Grid, starts: Starts, old: OldCode) -> None:
    first, new, third = of_both(grid, old)
    each_names_the_others_release(first, new)
    goes_there_and_comes_back(grid, starts, here=new, there=first, at=third)
    goes_there_and_comes_back(grid, starts, here=first, there=new, at=first)
    assert starts.count() == 2 * PARTS
    cancelled_at_the_other(new, first, starts)
    moved_from_old_to_new(new, first, third, starts)


def cancelled_at_the_other(here: Site, there: Site, starts: Starts) -> None:
    with here.client() as client:
        before = starts.count()
        group = client.submit(starts.job(4, then=("sleep", "60"), sites=[there.name])).group
        until(lambda: starts.count() >= before + 2, lambda: f"two run there\n{there.story()}", 20)
        client.cancel(group)
        status = client.wait(group, timeout_s=END_S)
        assert (status.state, status.cancelled) == ("cancelled", 4), status
    until(lambda: not there.jobs_alive(), lambda: f"what ran there has ended\n{there.story()}", 10)


def moved_from_old_to_new(here: Site, old: Site, to: Site, starts: Starts) -> None:
    """Jobs that wait at the older site are called back from there and run elsewhere."""
    with here.client() as client:
        before = starts.count()
        job = starts.job(MOVED, then=("sleep", "1.5"), not_sites=[here.name], bind="early")
        job["resources"] = {"work": 1.5}
        group = client.submit(job).group
        until(lambda: starts.count() >= before + 3, lambda: f"both sites run it\n{old.story()}", 20)
        (held,) = [share.jobs for share in client.status([group])[0].shares if share.site == old.name]
        assert client.move(group, to.name).jobs > 0
        status = client.wait(group, timeout_s=END_S)
        assert (status.state, status.done) == ("done", MOVED), (status, old.story())
        where = Counter(result.site for result in client.results(group))
        assert 0 < where[old.name] < held and where[old.name] + where[to.name] == MOVED, (where, held)
    assert starts.count() == before + MOVED, "none twice"


# --- commands of one release, node of the other -----------------------------------------------------------------


def test_commands_of_each_release_are_understood_by_nodes_of_the_other(
    grid: Grid, old: OldCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, new, _ = of_both(grid, old)
    by_old_command(old, first, new, grid.root / "ann")
    by_new_command(first, grid.root / "bob")
    monkeypatch.setitem(messages.METHODS, "MoonPhase", messages.METHODS["Metrics"])
    with first.client() as client, Client(credential=grid.root / "bob") as remote:
        for one in (client, remote):
            new_call_to_old_node(one, "MoonPhase")
            assert one.info().release == RELEASE


def credential_at(vo: Site, name: str, to: Path, node: Site) -> None:
    """A user's credential, by the site that made the VO, for calls at `node`."""
    init_user(vo.data, name, to)
    path = to / "credential.toml"
    path.write_text(path.read_text().replace(vo.address, node.address).replace(f'"{vo.name}"', f'"{node.name}"'))


def by_old_command(old: OldCode, first: OldSite, node: Site, credential: Path) -> None:
    at = ("--data", str(node.data))
    group = old.told("submit", *at, "--", "true")["group"]
    assert old.told("wait", *at, group)
    (status,) = old.told("status", *at, group)["groups"]
    assert (status["state"], status["jobs"]) == ("done", 1)
    assert old.told("explain", *at, group)["group"] == group
    assert {row["site"]: row["release"] for row in old.told("peers", *at)["peers"]}["old"] == RELEASE
    # Over TLS, where what a user asks for is signed by her.
    credential_at(first, "ann", credential, node)
    far = ("--credential", str(credential))
    group = old.told("submit", *far, "--", "true")["group"]
    assert old.told("wait", *far, group)


def by_new_command(node: OldSite, credential: Path) -> None:
    group = json.loads(diana(node, "submit", "--json", "--", "true"))["group"]
    diana(node, "wait", group)
    (status,) = json.loads(diana(node, "status", "--json", group))["groups"]
    assert (status["state"], status["jobs"]) == ("done", 1)
    assert json.loads(diana(node, "explain", "--json", group))["group"] == group
    credential_at(node, "bob", credential, node)
    with Client(credential=credential) as client:
        group = client.submit({"group": {"command": ["true"], "sites": ["new"]}}).group
        assert client.wait(group, timeout_s=END_S).state == "done"
        assert {result.site for result in client.results(group)} == {"new"}


def new_call_to_old_node(client: Client, method: str) -> None:
    """A feature that release cannot know is refused in one line, with both releases."""
    with pytest.raises(UsageError) as caught:
        client._call(method, messages.Empty())
    said = str(caught.value)
    assert RELEASE in said and __version__ in said and "\n" not in said


# --- the upgrade ------------------------------------------------------------------------------------------------


def test_a_site_is_upgraded_while_it_has_work(grid: Grid, starts: Starts, old: OldCode) -> None:
    """Work of its own and of another site: finished, running and waiting when the older node stops."""
    first, new, _ = of_both(grid, old)
    with first.client() as client, new.client() as other:
        finished = client.submit(starts.job(2, sites=["old"])).group
        assert client.wait(finished, timeout_s=END_S).done == 2
        gate = grid.root / "gate"
        wait = ("sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.1; done")
        running = client.submit(starts.job(1, then=wait, sites=["old"])).group
        theirs = other.submit(starts.job(1, then=wait, sites=["old"])).group
        until(lambda: starts.count() == 4, lambda: f"both run\n{first.story()}", 20)
        queued = client.submit(starts.job(3, sites=["old"])).group
        queued_theirs = other.submit(starts.job(3, sites=["old"])).group

        def there() -> bool:
            shares = other.status([queued_theirs])[0].shares
            return [(share.site, share.state) for share in shares] == [("old", "committed")]

        until(there, lambda: f"it waits there: {other.status([queued_theirs])}", 20)
    spawner = first.spawner_pid()
    assert first.terminate() == 0 and starts.count() == 4
    upgraded = first.upgraded(grid)
    upgraded.start()
    assert spawner == upgraded.spawner_pid(), "it outlives the upgrade, for it has jobs"
    with upgraded.client() as client, new.client() as other:
        assert client.info().release == __version__
        assert starts.count() == 4, "what runs was not started again"
        gate.touch()
        for asked, group, jobs in ((client, running, 1), (client, queued, 3), (other, theirs, 1)):
            status = asked.wait(group, timeout_s=END_S)
            assert (status.state, status.done) == ("done", jobs), (status, upgraded.story())
        assert other.wait(queued_theirs, timeout_s=END_S).done == 3
        assert client.status([finished])[0].done == 2
        after = client.submit({"group": {"command": ["true"], "sites": ["new"]}}).group
        assert client.wait(after, timeout_s=END_S).state == "done"
    assert starts.count() == 10
    assert checking.meta(upgraded.paths.journal, "release") == __version__
