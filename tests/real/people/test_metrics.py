"""SPEC U6: what the two machines of a pair tell a Prometheus server, and that a takeover shows there."""

from __future__ import annotations

from tests.e2e.grid import Grid, until
from tests.e2e.test_metrics import scrape
from tests.real.pairs import add_standby, in_sync, takes_over


def test_both_machines_of_a_pair_tell_who_leads_and_on_how_many_disks_it_is(grid: Grid) -> None:
    alpha = grid.add("alpha", 1)
    grid.add("beta", 1)
    grid.join()
    grid.start()
    spare = add_standby(grid, alpha, "beta")
    spare.launch()
    in_sync(alpha, other=spare)
    until(lambda: scrape(alpha)["diana_durability",] == 2, "the leader shows both disks", 10, 0.5)
    leads, follows = scrape(alpha), scrape(spare)
    assert leads["diana_leader_term",] == follows["diana_leader_term",] >= 1
    assert follows["diana_durability",] == 0 and ("diana_slots",) not in follows
    alpha.kill()
    takes_over(spare)
    until(lambda: scrape(spare).get(("diana_durability",)) == 1, "the standby leads alone", 10, 0.5)
    assert scrape(spare)["diana_leader_term",] > leads["diana_leader_term",]
