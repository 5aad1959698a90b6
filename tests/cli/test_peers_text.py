"""SPEC U2, U10: `diana peers`, `diana sites` and `diana doctor` as people read them."""

from __future__ import annotations

import msgspec
import pytest

from diana.cli.groups import look
from diana.cli.shared import output
from diana.cli.sites import doctor, peers
from diana.model.views.site import Site
from diana.wire.client.peers import CheckResult, Count, DoctorResponse, MachineRow, PeerRow, PeersResponse

BETA = PeerRow(
    site="beta", state="alive", link="out", streams=2, held="both", address="10.0.0.2:7400", rtt_s=0.0021, age_s=1.0,
    summary_age_s=2.0, release="0.1.0",
)  # fmt: skip
HIDDEN = PeerRow(
    site="gamma", state="alive", link="via beta", streams=1, held="here", rtt_s=-1.0, age_s=0.5, summary_age_s=30.0,
    dials_out_only=True,
)  # fmt: skip
DEAD = PeerRow(
    site="omega", state="lost", address="10.0.0.9:7400", rtt_s=-1.0, age_s=4000.0, summary_age_s=-1.0,
    dials_out_only=True,
)  # fmt: skip
BANNED = PeerRow(site="rogue", state="banned", note="banned: stolen", rtt_s=-1.0, age_s=60.0, summary_age_s=60.0)


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_a_row_says_how_a_site_is_linked_and_when_it_was_heard_of(capsys: pytest.CaptureFixture[str]) -> None:
    peers.show(PeersResponse(site="alpha", peers=(BETA, HIDDEN, DEAD, BANNED)))
    head, beta, gamma, omega, rogue, note, *_ = shown(capsys)
    assert head == "SITE STATE LINK STREAMS HELD REACHED RTT HEARD SUMMARY RELEASE"
    assert beta == "beta alive out 2 both 10.0.0.2:7400 2.1 ms now now 0.1.0"
    assert gamma == "gamma alive via beta 1 here dials out only - now 30.0 s ago -"
    assert omega == "omega lost - 0 - not at 10.0.0.9:7400 - 1h06m ago never -"
    assert rogue.startswith("rogue banned - 0 -")
    assert note == "rogue: banned: stolen"


def test_machines_stand_below_with_the_standby_and_its_witness(capsys: pytest.CaptureFixture[str]) -> None:
    machines = (
        MachineRow(
            **{"machine": "main", "role": "RootGrid", "state": "here", "away_s": -1.0, "slots": 4, "used_slots": 1},
            **{"jobs": 1, "scratch_bytes": 200 * 10**9, "scratch_free_bytes": 150 * 10**9},
            **{"availability": 0.9612, "known_s": 1000.0, "here_s": 998.0, "goings": 4.2},
            has=(Count(what="fpga", count=2), Count(what="gpus", count=1)),
        ),
        MachineRow(
            **{"machine": "m2", "role": "member", "state": "away", "away_s": 75.0, "slots": 8, "jobs": 1200},
            **{"scratch_bytes": 100 * 10**9, "scratch_free_bytes": -1},
        ),
        MachineRow(machine="spare", role="standby", state="here", away_s=-1.0, note="in sync"),
    )
    more = {
        "relays_to": ("far",),
        "to_lead": "spare",
        "why_to_lead": "spare is more available than main: 99.0 % against 96.1 %",
    }
    peers.show(PeersResponse(site="alpha", machines=machines, witness="beta", relayed_by=("hub",), **more))
    none, _, head, main, m2, spare, witness, ought, by, to, counts = shown(capsys)
    assert none == "no other site is known; let one in with: diana invite"
    assert head == "MACHINE ROLE STATE SLOTS FREE JOBS SCRATCH HAS WAS HERE GOINGS AVAILABLE STANDBY"
    assert main == "main RootGrid here 4 3 1 150.0 GB of 200.0 GB 2 fpga, 1 gpus 99.8 % 4 96.1 % -"
    assert m2 == "m2 member away for 1m15s 8 - 1,200 ? of 100.0 GB - - - - -"
    assert spare == "spare standby here 0 0 0 - - - - - in sync"
    assert witness == "witness of the standby: beta"
    assert ought == f"{more['why_to_lead']}; hand over with: diana site promote"
    assert by == "hub: cannot dial this site, relay to it"
    assert to == "far: reached through this site"
    assert counts == "since the node started: nothing dropped, refused or retried"


def test_what_was_dropped_or_refused_is_counted_below(capsys: pytest.CaptureFixture[str]) -> None:
    counts = (Count(what="dials that failed", count=1200), Count(what="peers refused", count=0))
    peers.show(PeersResponse(site="alpha", counts=counts))
    assert shown(capsys)[-1] == "since the node started: dials that failed 1,200"


SITES = (
    Site(site="alpha", home=True, state="alive", slots=4, free_slots=2, machines=3, note="drained: power"),
    Site(site="zeta", state="lost", age_s=7300.0, slots=8, rtt_s=-1.0, bytes_per_s=-1.0),
    Site(site="beta", state="alive", age_s=1.0, slots=8, rtt_s=0.01, bytes_per_s=1e6, note="banned: stolen"),
)


def test_sites_are_in_order_and_the_reason_of_a_drain_or_a_ban_stands_below(capsys: pytest.CaptureFixture[str]) -> None:
    look.show_sites(SITES)
    head, alpha, beta, zeta, drained, banned = shown(capsys)
    assert head == "SITE STATE HEARD SLOTS FREE RUNNING QUEUED AHEAD MACHINES SPEED RTT RATE DATASETS"
    assert alpha.startswith("alpha (here) drained now 4 2 0 0 0 s 3 0 - -")
    assert beta.startswith("beta banned now 8")
    assert zeta.startswith("zeta lost 2h01m ago 8")
    assert (drained, banned) == ("alpha: drained: power", "beta: banned: stolen")


def test_what_operators_declare_stands_below_the_sites_where_no_terminal_is_too_narrow_for_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    alpha, _, beta = SITES
    declares = {"properties": {"rack": "a12", "tier": "gold"}, "resources": {"fpga": 2}, "domain": "cs.utk.edu"}
    look.show_sites((msgspec.structs.replace(alpha, memory_bytes=2**33, **declares), beta))
    lines = shown(capsys)
    at = lines.index("what requirements may name of them (--json has it of all):")
    assert lines[at + 1] == (
        "alpha: site.domain = 'cs.utk.edu', site.memory_bytes = 8589934592, site.properties.rack = 'a12', "
        "site.properties.tier = 'gold', site.resources.fpga = 2"
    )
    assert not lines[at + 2].startswith("beta: site")


def test_a_check_is_one_line_with_its_mend_and_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (
        CheckResult(name="disk", state="ok", found="9 MiB free"),
        CheckResult(name="port", state="fail", found="taken\033[2J", mend="set listen"),
        CheckResult(name="account", state="warn", found="root", mend="another"),
    )
    doctor.show(DoctorResponse(checks=rows))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ok    disk     9 MiB free"
    assert lines[1] == "fail  port     taken?[2J; set listen"
    assert lines[3] == "3 checks: 1 failed, 1 to look at"
