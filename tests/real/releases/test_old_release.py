"""Sites of other releases join a real node of this one (SPEC U10, N / N-1 on the wire): one of the release whose
definitions are stored, one older than any, one of a release to come; each gives and takes work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.adapters.trust import certificates
from diana.adapters.trust.keyring import FileKeyring
from diana.model.ids import GroupId
from diana.model.job.spec import GroupSpec, encode_spec
from tests.e2e.grid import Grid, Site, outcomes, until
from tests.real.old_peer import OldPeer, unknown_fields
from tests.wire import releases
from tests.wire.releases import Release

pytestmark = pytest.mark.e2e

JOBS = 20
VO = "alpha-vo"
RELEASES = {"previous": releases.previous(), "spare": releases.spare(), "future": releases.future()}


@pytest.fixture
def alpha(grid: Grid) -> Site:
    site = grid.add("alpha", slots=1)
    grid.join()
    site.start()
    return site


@pytest.fixture
def keys(grid: Grid, alpha: Site) -> Path:
    folder = grid.root / "old"
    certificates.issue_site(alpha.paths.keys, "old", folder)
    return folder


@pytest.fixture(params=RELEASES)
def peer(request: pytest.FixtureRequest, alpha: Site, keys: Path) -> Iterator[OldPeer]:
    future = request.param == "future"
    release: Release = RELEASES[request.param]
    with OldPeer(release, "old", keys, alpha, VO, unknown_fields() if future else b"") as made:
        yield made
        assert not made.problem, (made.problem, alpha.story())


def state_of(site: Site, other: str) -> str:
    with site.client() as client:
        return next((seen.state for seen in client.sites() if seen.site == other), "")


def test_a_site_of_another_release_joins_gives_work_and_takes_it(alpha: Site, keys: Path, peer: OldPeer) -> None:
    until(lambda: state_of(alpha, "old") == "alive", lambda: f"it is alive\n{alpha.story()}", 15)
    until(lambda: len(peer.told("summary")) > 1, "it is told of alpha", 10)
    hello, told = peer.told("hello")[0], peer.told("summary")[0]
    assert (hello.site, hello.protocol, told.site, told.slots) == ("alpha", 1, "alpha", 1)
    takes_work(alpha, peer)
    gives_work(alpha, keys, peer)
    # All that was new to either side did no harm.
    assert state_of(alpha, "old") == "alive"
    text = dict(alpha.texts())["node.log"]
    assert not re.search(r"old is gone|ignored an envelope", text), text


def takes_work(alpha: Site, peer: OldPeer) -> None:
    """A group submitted at today's node runs at the other one, to its results."""
    with alpha.client() as client:
        group = client.submit(
            {
                "group": {"command": ["sleep", "0"], "sites": ["old"]},
                "sweep": {"array": f"0-{JOBS - 1}"},
                "resources": {"work": 1.0},
            }
        ).group

        def story() -> str:
            return f"done: {client.status([group])}\n{peer.story()}\n{alpha.story()}"

        until(lambda: client.status([group])[0].state == "done", story, 30, 0.1)
        assert outcomes(client, group) == dict.fromkeys(range(JOBS), "done")
        assert {result.site for result in client.results(group)} == {"old"}
    # An offer that a busy machine is late to answer is said again.
    prepare, *again = peer.told("prepare")
    assert {(one.subgroup, one.epoch) for one in again} <= {(prepare.subgroup, prepare.epoch)}
    assert prepare.authorisation.group == group and prepare.authorisation.signer == "site:alpha"
    until(lambda: peer.told("result_ack"), "its results are acknowledged", 10)


def gives_work(alpha: Site, keys: Path, peer: OldPeer) -> None:
    """Jobs that the other one hands over run at today's node; its results come back until they are acknowledged."""
    spec = encode_spec(GroupSpec(argv=("sh", "-c", "exit 3")))
    permit = FileKeyring(keys).authorise(f"ann@{VO}", GroupId("old-1"), spec)
    fields = {name: getattr(permit, name) for name in permit.__struct_fields__ if getattr(permit, name)}
    known = peer.release.cls("Authorisation").DESCRIPTOR.fields_by_name
    authorisation = peer.release.new("Authorisation", **{k: v for k, v in fields.items() if k in known})
    indices = peer.release.new("IndexSet", bounds=[0, 3])
    transfer = {"subgroup": "old-1/0", "epoch": 1}
    peer.say("prepare", **transfer, indices=indices, spec=spec, authorisation=authorisation, submitted_s=1.0)
    until(lambda: peer.told("prepared") or peer.told("refused"), lambda: f"an answer\n{alpha.story()}", 10)
    assert not peer.told("refused"), peer.told("refused")
    peer.say("commit", **transfer, db_uuid=peer.told("prepared")[0].db_uuid)
    until(lambda: peer.told("committed"), "committed", 10)

    def ended() -> set[int]:
        return {index for result in peer.told("result") for index in result.facts.indices}

    until(lambda: ended() == {0, 1, 2}, lambda: f"results\n{alpha.story()}", 20)
    codes = {code for result in peer.told("result") for code in result.facts.exit_codes}
    assert codes == {3}
    with alpha.client() as client:
        until(lambda: client.info().running_jobs == 0, "nothing is left running", 10)


def test_a_kind_of_message_nobody_knows_is_counted_and_the_stream_stands(alpha: Site, keys: Path) -> None:
    future = RELEASES["future"]
    with OldPeer(future, "old", keys, alpha, VO, unknown_fields()) as peer:
        until(lambda: state_of(alpha, "old") == "alive", "it is alive", 15)
        for _ in range(3):
            peer.say("news", text="of tomorrow")
        said = "ignored an envelope from old: a PeerMessage with no body this release knows"
        until(lambda: said in dict(alpha.texts())["node.log"], lambda: f"it is said\n{alpha.story()}", 10)
        seen = len(peer.told("summary"))
        until(lambda: len(peer.told("summary")) > seen + 1, "the stream stands", 10)
        assert state_of(alpha, "old") == "alive" and not peer.problem
