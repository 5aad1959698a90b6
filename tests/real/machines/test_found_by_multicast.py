"""Discovery with real nodes (SPEC D9): on a LAN without any address in a file, sites find each other by multicast, a
member its RootGrid, and a group runs on all of them. Every other grid of these tests names its peers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import pytest

from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, until
from tests.real.machines.test_three_machines import Lan, Machine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

JOBS = 40
MEET_S = 30.0


@pytest.fixture
def lan() -> Iterator[Lan]:
    made = Lan(3)
    try:
        yield made
    finally:
        made.close()


class Found(Machine):
    """A machine that was told of nobody."""

    def attachments(self) -> int:
        return self.paths.node_log.read_text().count("attached to ") if self.paths.node_log.exists() else 0

    def forgets_all(self) -> None:
        config = msgspec.structs.replace(load_config(self.paths.config), peers=(), root=(), zeroconf=True)
        write_config(self.paths.config, config)


def joined(alpha: Found, machine: Found, *kind: str) -> None:
    told = alpha.says("invite", *kind)
    token = re.search(r"^  ([\w-]+)$", told, re.MULTILINE)
    assert token, told
    machine.says("join", token[1], *(() if kind else (machine.name,)), "--slots", "2")


def test_sites_find_each_other_and_a_member_its_root_where_nobody_was_told_an_address(lan: Lan, grid: Grid) -> None:
    alpha, beta = Found(grid, lan, 1, "alpha"), Found(grid, lan, 2, "beta")
    member = Found(grid, lan, 3, "m3")
    alpha.says("init", "alpha", "--listen", "10.0.0.1:7400", "--slots", "2")
    grid.sites |= {"alpha": alpha, "beta": beta}
    alpha.start()
    joined(alpha, beta)
    joined(alpha, member, "--member", "m3")
    alpha.terminate()
    for machine in (alpha, beta, member):
        machine.forgets_all()
        for remembered in ("member.json", "contacts.json"):
            (machine.data / remembered).unlink(missing_ok=True)
    # Alpha met nobody before it stopped, so its journal has no address either.
    for site in (alpha, beta):
        site.start()
    member.launch()
    grid.meet(MEET_S)
    until(lambda: member.attachments(), lambda: f"m3 attaches\n{member.story()}", MEET_S, 0.2)
    marks = grid.root / "marks"
    marks.mkdir()
    here = "$(ip -4 -o addr show eth0 | grep -o '10[.]0[.]0[.][0-9]' | head -1)"
    job = f"touch {marks}/at-{here}-{{array}}; sleep 0.4"
    alpha.says("submit", "--array", f"1-{JOBS}", "--wait", "--", "sh", "-c", job)
    ran = {address: len(list(marks.glob(f"at-{address}-*"))) for address in (alpha.ip, beta.ip, member.ip)}
    print(ran)
    assert sum(ran.values()) == JOBS and min(ran.values()) > 0, ran
    member.terminate()
