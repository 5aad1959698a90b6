"""A gang of which two components are on machines of one site (SPEC K5, D8)."""

from __future__ import annotations

import os
import signal

from tests.e2e.grid import Grid, outcomes, until
from tests.real.gangs import APART_S, SITES, begins, job_file
from tests.real.members import add_member


def test_components_on_members_begin_with_the_others_though_their_leader_is_killed_meanwhile(grid: Grid) -> None:
    alpha, beta = grid.add(SITES[0], 0), grid.add(SITES[1], 1)
    grid.join()
    grid.settings(claim_wait_s=60.0)
    grid.start()
    members = [add_member(grid, alpha, f"m{k}", slots=1) for k in (1, 2)]
    for member in members:
        member.launch()
    for member in members:
        member.ready()
    path, spawner = grid.root / "begins", members[1].spawner_pid()
    with beta.client() as client:
        until(lambda: {row.site: row.slots for row in client.sites()}.get(alpha.name) == 2, "alpha's machines", 20.0)
        os.kill(spawner, signal.SIGSTOP)
        places = [{"site": alpha.name, "cpus": 1, "count": 2}, {"site": beta.name}]
        group = client.submit({**job_file(path), "components": places}).group
        note = f"its components hold processors and wait for {alpha.name}"
        until(lambda: client.status(group)[0].note == note, "one of alpha's two is not at the barrier", 20.0)
    alpha.kill()
    alpha.start()
    assert not begins(path)
    os.kill(spawner, signal.SIGCONT)
    with beta.client() as client:
        assert client.wait(group, timeout_s=90).state == "done", grid.story()
        assert set(outcomes(client, group).values()) == {"DONE"}
    found = begins(path)
    moments = [begin.at_s for begin in found]
    assert sorted((begin.rank, begin.site) for begin in found) == [(0, "alpha"), (1, "alpha"), (2, "beta")]
    assert max(moments) - min(moments) < APART_S, found
