"""`diana doctor` says who ought to lead and to stand by, with the command (SPEC D8)."""

from __future__ import annotations

from diana.node.doctor.running import availability
from diana.wire.client.peers import MachineRow, PeersResponse

MAIN = MachineRow(machine="main", role="RootGrid", state="here", availability=0.961)
SPARE = MachineRow(machine="spare", role="standby", state="here", availability=0.97)
THIRD = MachineRow(machine="third", role="member", state="here", availability=0.995)


def test_nothing_is_said_where_all_is_as_it_ought_to_be() -> None:
    assert not availability(PeersResponse(site="alpha", machines=(MAIN, SPARE), to_stand_by="spare"))
    assert not availability(PeersResponse(site="alpha", machines=(MAIN,)))


def test_the_hand_over_is_proposed_with_its_command_unless_it_comes_by_itself() -> None:
    for elects, mend in ((False, "diana site promote"), (True, "it leads soon by itself")):
        known = PeersResponse(site="alpha", machines=(MAIN, SPARE), to_lead="spare", why_to_lead="why", elects=elects)
        (row,) = availability(known)
        assert (row.name, row.state, row.found, row.mend) == ("RootGrid", "warn", "why", mend)


def test_a_member_that_is_more_available_than_the_standby_is_named_with_the_invitation() -> None:
    (row,) = availability(PeersResponse(site="alpha", machines=(MAIN, SPARE, THIRD), to_stand_by="third"))
    assert row.state == "warn" and row.found == "third is more available than spare: 99.5 % against 97.0 %"
    assert row.mend.endswith("diana invite --standby spare --again")
    (row,) = availability(PeersResponse(site="alpha", machines=(MAIN, THIRD), to_stand_by="third"))
    assert row.state == "ok" and "third, 99.5 %" in row.found
