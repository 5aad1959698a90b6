"""A site whose machines offer different software: jobs start only where theirs is, be it that it comes later."""

from __future__ import annotations

import os
import signal

import msgspec

from diana.adapters.lrm.software import Software
from diana.client import Client
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site, outcomes, until
from tests.real.members import add_member

JOBS = 20
GREETER = Software(modules={"greeter/1.0": "export GREETING=hello"})


def offer(site: Site, software: Software) -> None:
    config = load_config(site.paths.config)
    write_config(site.paths.config, msgspec.structs.replace(config, software=software))


def job(script: str, *modules: str) -> dict[str, object]:
    return {
        "group": {"command": ["sh", "-c", script], "modules": list(modules)},
        "sweep": {"array": f"0-{JOBS - 1}"},
        "resources": {"work": 30.0},
    }


def machines_of(client: Client, group: str) -> set[str]:
    logs = (b"".join(chunk.data for chunk in client.logs(f"{group}.{index}")).decode() for index in range(JOBS))
    return {line for text in logs for line in text.splitlines()}


def test_jobs_start_only_on_the_machine_that_has_their_module_and_wait_for_it_while_others_run(grid: Grid) -> None:
    root = grid.add("alpha", slots=4)
    grid.join()
    root.start()
    member = add_member(grid, root, "m1", slots=2)
    offer(member, GREETER)
    member.start()
    script = 'echo "$DIANA_MACHINE $GREETING"; sleep 0.05'
    with root.client() as client:
        first = client.submit(job(script, "greeter/1.0")).group
        status = client.wait(first, timeout_s=60)
        assert (status.state, status.done) == ("done", JOBS), f"{status}\n{grid.story()}"
        assert machines_of(client, first) == {"m1 hello"}

        # Its machine ends in good order: what wants it waits and says so, what wants nothing goes past it.
        member.terminate()
        later = client.submit(job(script, "greeter/1.0")).group
        plain = client.submit(job(script)).group
        assert client.wait(plain, timeout_s=60).state == "done"
        assert machines_of(client, plain) == {"main "}
        notes = {one.note for one in client.explain(later).waiting}
        assert notes == {"alpha has no module greeter/1.0 just now: machine m1 is away"}
        assert not outcomes(client, later)
        member.start()
        assert client.wait(later, timeout_s=60).state == "done"
        assert machines_of(client, later) == {"m1 hello"}

        # The operator gives the machine of the node the module too, and takes it from the member: from then on there.
        offer(root, GREETER)
        offer(member, Software())
        for site in (root, member):
            assert site.process is not None
            os.kill(site.process.pid, signal.SIGHUP)
        until(lambda: "was read again" in member.paths.node_log.read_text(), "the member has read it", 10.0)
        until(lambda: "was read again" in root.paths.node_log.read_text(), "the node has read it", 10.0)
        last = client.submit(job(script, "greeter/1.0")).group
        assert client.wait(last, timeout_s=60).state == "done"
        assert machines_of(client, last) == {"main hello"}
        for group in (first, later, plain, last):
            assert set(outcomes(client, group).values()) == {"done"}
