"""A licence is the site's, not a machine's: two machines never hold more than there are, though the node is killed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, outcomes, until
from tests.real.members import add_member

JOBS = 16


def test_machines_of_a_site_share_its_licences_whoever_is_killed(grid: Grid, tmp_path: Path) -> None:
    root = grid.add("alpha", slots=4)
    grid.join()
    config = load_config(root.paths.config)
    settings = msgspec.structs.replace(config.settings, licences={"matlab": 3})
    write_config(root.paths.config, msgspec.structs.replace(config, settings=settings))
    root.start()
    member = add_member(grid, root, "m1", slots=4)
    member.start()
    marks, held = tmp_path / "marks", []
    script = f'echo "+$DIANA_MACHINE" >> {marks}; sleep 0.7; echo "-$DIANA_MACHINE" >> {marks}'
    wanted = {
        "group": {"command": ["sh", "-c", script]},
        "sweep": {"array": f"0-{JOBS - 1}"},
        "resources": {"licences": {"matlab": 1}, "work": 1.0},
    }
    with root.client() as client:
        group = client.submit(wanted).group
        until(lambda: marks.exists() and marks.read_text().count("+") >= 4, "some run", 30.0)
        notes = {one.note for one in client.explain(group).waiting}
    root.kill()
    root.start()
    with root.client() as client:
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", JOBS), f"{status}\n{grid.story()}"
        assert set(outcomes(client, group).values()) == {"done"}
    used = 0
    for line in marks.read_text().split():
        used += 1 if line[0] == "+" else -1
        held.append(used)
    assert max(held) == 3 and held[-1] == 0
    assert {line[1:] for line in marks.read_text().split()} == {"main", "m1"}
    assert "waits for a licence: too few of matlab are free at alpha" in notes
