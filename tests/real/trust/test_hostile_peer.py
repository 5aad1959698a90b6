"""A site of the VO that lies to a real node, message by message, and floods it (PROMISES 5.5, 5.12).

Whatever it says, the groups of the others come to their end once each, the journal holds nothing forged, the audit
trail names the liar, and the node answers quickly and stays small. The lies are in `tests/real/lies.py`;
`docs/security-messages.md` says what checks each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diana.adapters.trust import certificates
from tests.e2e.grid import Grid, Site, Starts, outcomes, timely, until
from tests.real.lies import AT_BETA, FORGED, NOW, SUMMARY, Liar, Lie, liar, lies

pytestmark = pytest.mark.e2e

VO = "alpha-vo"
JOBS = 4
MOST_MEMORY_BYTES = 256 << 20
"""The goal of 200 MB holds where the node keeps up (181 MiB alone on two cores); beside other load it is behind."""
ALL = [(kind, lie.name) for kind, some in lies("mallory", "").items() for lie in some]


class Attacked:
    """Alpha, the victim; beta, an honest site. Each has a group at the other whose jobs wait for a file."""

    def __init__(self, grid: Grid, starts: Starts) -> None:
        self.alpha, self.beta = grid.add("alpha", slots=JOBS), grid.add("beta", slots=JOBS)
        grid.join()
        grid.start()
        self.grid, self.starts = grid, starts
        self.go = grid.root / "go"
        self.liars = 0
        self.groups: dict[str, str] = {}
        wait = ("sh", "-c", f"while [ ! -e {self.go} ]; do sleep 0.2; done")
        for at, to in ((self.alpha, "beta"), (self.beta, "alpha")):
            with at.client() as client:
                self.groups[at.name] = client.submit(starts.job(JOBS, wait, sites=[to])).group
        starts.wait_for(2 * JOBS)
        assert self.groups == {"alpha": "alpha-1", "beta": "beta-1"}

    def keys(self) -> tuple[str, Path]:
        """A site of its own for each lie: what is told of one liar is bounded."""
        self.liars += 1
        name = f"liar{self.liars}"
        folder = self.grid.root / name
        certificates.issue_site(self.alpha.paths.keys, name, folder)
        return name, folder

    def audited(self, site: str) -> str:
        lines = self.alpha.paths.audit.read_text().splitlines()
        return "\n".join(line for line in lines if f'"site:{site}"' in line)

    def unharmed(self) -> None:
        self.alpha.assert_runs()
        began_s = time.monotonic()
        with self.alpha.client() as client:
            (status,) = client.status(["alpha-1"])
        timely(time.monotonic() - began_s, 2.0, "an answer")
        assert (status.done, status.failed, status.cancelled, status.unplaced) == (0, 0, 0, 0), status
        assert status.queued + status.running == JOBS, status
        journal = self.alpha.paths.journal
        for path in (journal, journal.with_name(journal.name + "-wal")):
            assert FORGED.encode() not in path.read_bytes(), path

    def memory_bytes(self) -> int:
        assert self.alpha.process is not None
        text = Path(f"/proc/{self.alpha.process.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) << 10


@pytest.fixture(scope="module")
def attacked() -> Iterator[Attacked]:
    grid = Grid()
    try:
        yield Attacked(grid, Starts(grid))
    finally:
        grid.close()


def told(attacked: Attacked, lie: Lie, kind: str, mallory: Liar) -> None:
    mallory.say(kind, **lie.fields)
    # What was said before is handled once this is answered.
    mallory.say("queue_request", query=77)
    until(
        lambda: any(one.query == 77 for one in mallory.heard.get("queue_report", ())),
        lambda: f"it still talks to the liar: {mallory.problem}\n{attacked.alpha.story()}",
        15,
    )


@pytest.mark.parametrize(("kind", "name"), ALL, ids=lambda text: text.replace(" ", "-"))
def test_no_lie_of_a_site_harms_the_work_of_others(attacked: Attacked, kind: str, name: str) -> None:
    site, keys = attacked.keys()
    with liar(site, keys, attacked.alpha, VO) as mallory:
        assert mallory.met(), mallory.problem
        lie = next(one for one in lies(site, mallory.boot_nonce)[kind] if one.name == name)
        told(attacked, lie, kind, mallory)
        if lie.audited:
            until(lambda: lie.audited in attacked.audited(site), lambda: f"audited: {attacked.audited(site)!r}", 10)
        if lie.heard:
            assert mallory.heard[lie.heard]
        if kind == "queue_request":
            assert not any(one.parts for one in mallory.heard["queue_report"])
        attacked.unharmed()


ENVELOPES: dict[str, dict[str, Any]] = {
    "names-another-sender": {"sender": "beta"},
    "is-for-another": {"receiver": "beta"},
}


@pytest.mark.parametrize("name", ENVELOPES)
def test_an_envelope_that_is_not_of_this_stream_is_ignored(attacked: Attacked, name: str) -> None:
    site, keys = attacked.keys()
    with liar(site, keys, attacked.alpha, VO) as mallory:
        assert mallory.met(), mallory.problem
        mallory.send(NOW.payload("committed", subgroup=AT_BETA, epoch=1), **ENVELOPES[name])
        mallory.write(b"\xff" * 100)
        mallory.send(b"\xff" * 100)
        until(lambda: attacked.audited(site).count("\n") >= 2, lambda: f"audited: {attacked.audited(site)!r}", 10)
        attacked.unharmed()


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        ({"site": "beta"}, "its certificate names"),
        ({"site": "alpha"}, "its certificate names"),
        ({"generation": 2**62}, "more than anybody counts"),
        ({"boot_nonce": "n" * 5000}, "at most"),
    ],
)
def test_who_lies_in_its_hello_gets_no_stream(attacked: Attacked, hello: dict[str, Any], why: str) -> None:
    site, keys = attacked.keys()
    with liar(site, keys, attacked.alpha, VO, hello) as mallory:
        assert not mallory.met() and why in mallory.problem
        until(lambda: why in attacked.alpha.paths.audit.read_text(), "it is audited", 10)
    attacked.unharmed()


FLOODS = {
    "long": lambda: NOW.payload("quote_request", quote=1, processors=1, jobs=1, refs=["dataset:" + "x" * 90] * 38_000),
    "short": lambda: NOW.payload("committed", subgroup=AT_BETA, epoch=1),
    "gossip": lambda: NOW.payload(
        "gossip",
        entries=[{"site": f"{FORGED}-{n}", "counter": 1, "notice": "x" * 900} for n in range(120)],
        ages_s=[0.0] * 120,
    ),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_of_one_site_leaves_the_node_small_and_quick(attacked: Attacked, kind: str) -> None:
    site, keys = attacked.keys()
    payload, took = FLOODS[kind](), []
    with liar(site, keys, attacked.alpha, VO) as mallory, attacked.alpha.client() as client:
        assert mallory.met(), mallory.problem
        stop_s = time.monotonic() + 6.0

        def flood() -> None:
            while time.monotonic() < stop_s:
                mallory.send(payload)

        flooding = threading.Thread(target=flood)
        flooding.start()
        while time.monotonic() < stop_s:
            began_s = time.monotonic()
            client.status(["alpha-1"])
            took.append(time.monotonic() - began_s)
            time.sleep(0.1)
        flooding.join()
    print(f"{kind}: status {max(took):.2f} s at most, {attacked.memory_bytes() >> 20} MiB")
    assert took, "the node answers in the flood"
    timely(max(took), 3.0, "an answer in the flood")
    assert attacked.memory_bytes() < MOST_MEMORY_BYTES
    attacked.unharmed()


INVENTED = f"{FORGED}-many-"


def invented(site: Site) -> list[str]:
    """Sites of the crowd that a site knows, by all that shows sites."""
    with site.client() as client:
        rows = {one.site for one in client.sites()} | {one.site for one in client.peers().peers}
        rows |= {one.site for one in client.datasets()}
    return sorted(name for name in rows if name.startswith(INVENTED))


def test_a_crowd_of_invented_sites_is_shown_and_goes_with_the_ban_of_who_invented_it(attacked: Attacked) -> None:
    site, keys = attacked.keys()
    names = [f"{n:03}" + "x" * 297 for n in range(256)]
    with liar(site, keys, attacked.alpha, VO) as mallory:
        assert mallory.met(), mallory.problem
        for first in range(0, 60, 20):
            long = [
                {
                    **SUMMARY,
                    "site": f"{INVENTED}{n:05}",
                    "counter": 1,
                    "address": "198.51.100.7:7400",
                    "datasets": names,
                }
                for n in range(first, first + 20)
            ]
            told(attacked, Lie("", {"entries": long, "ages_s": [0.0] * 20}), "gossip", mallory)
        for first in range(60, 3000, 980):
            short = [{**SUMMARY, "site": f"{INVENTED}{n:05}", "counter": 1} for n in range(first, first + 980)]
            told(attacked, Lie("", {"entries": short, "ages_s": [0.0] * 980}), "gossip", mallory)
        assert len(invented(attacked.alpha)) == 3000
        until(lambda: len(invented(attacked.beta)) > 20, "honest sites pass it on in good faith", 60)
        for verb in ("sites", "datasets", "peers"):
            shown = attacked.grid.run(attacked.alpha, verb, "--data", str(attacked.alpha.data))
            assert shown.returncode == 0 and INVENTED in shown.stdout, shown.stderr
        attacked.unharmed()
        said = attacked.grid.run(
            attacked.alpha, "site", "--data", str(attacked.alpha.data), "ban", site, "--reason", "it invents sites"
        )
        assert said.returncode == 0, said.stderr
        for honest in (attacked.alpha, attacked.beta):
            until(lambda: not invented(honest), lambda: f"left: {invented(honest)[:5]}", 90)  # noqa: B023
    for honest, other in ((attacked.alpha, "beta"), (attacked.beta, "alpha")):
        with honest.client() as client:
            assert any(one.site == other and one.state == "alive" for one in client.sites())
    attacked.unharmed()
    assert not invented(attacked.alpha) + invented(attacked.beta), "and nobody brings them back"


def test_after_all_of_it_both_groups_end_once_each(attacked: Attacked) -> None:
    attacked.go.touch()
    for site in (attacked.alpha, attacked.beta):
        with site.client() as client:
            group = attacked.groups[site.name]
            until(lambda: client.status([group])[0].state == "done", site.story, 60, 0.1)  # noqa: B023
            assert outcomes(client, group) == dict.fromkeys(range(JOBS), "done")
    by_site = [(one.index, one.site) for one in attacked.starts.all()]
    assert len(by_site) == len(set(by_site)) == 2 * JOBS
