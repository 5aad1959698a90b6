"""Gangs that have not begun, as their users see them: who holds processors, who is waited for, since when (SPEC K5)."""

from __future__ import annotations

from diana.cli.groups.gangs import gang_lines, progress, run_lines, size
from diana.cli.shared.output import seconds
from diana.cli.top import tables
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.engine.views import ended
from diana.model.facts import Outcome
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from diana.model.views.queue import QueueView
from diana.model.views.views import Explanation, Groups, GroupView
from diana.node.api.convert import to_status
from diana.wire.client.messages import StatusResponse
from tests.engine.bench import Grid
from tests.engine.builders import BOB, OPERATOR, spec
from tests.engine.handover.test_gangs import gang, submit

SETTINGS = {"claim_wait_s": 100.0, "binding": "early", "migration": "off"}


def explanation(grid: Grid, group: str, job: int = -1) -> Explanation:
    grid["alpha"].handle(ev.Ask(request=998, principal=OPERATOR, what="explain", group=GroupId(group), job=job))
    # Sites that have parts of it are asked.
    grid.settle()
    found = grid["alpha"].replies.pop(998)
    assert isinstance(found, Explanation), found
    return found


def explained(grid: Grid, group: str, job: int = -1) -> list[str]:
    return gang_lines(explanation(grid, group, job).gangs)


def let_go(grid: Grid, group: str, job: int = -1) -> list[str]:
    return run_lines(explanation(grid, group, job).begun)


def status(grid: Grid) -> list[GroupView]:
    found = grid["alpha"].ask("groups")
    assert isinstance(found, Groups)
    return list(found.groups)


def test_who_holds_who_is_waited_for_and_since_when() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1, gamma=2)
    grid["beta"].submit(spec(1, sites=("beta",), work_s=40.0), 1, 5, who=BOB)
    grid.pass_time(1.0)
    name = submit(grid, "1x2@gamma+1x1@beta")
    assert explained(grid, name) == [
        "gang 0: beta has waited for 1 processor, expected after 39.0 s; gamma is asked for 2 processors later; "
        "given up in 2m58s if it has not begun"
    ]
    assert status(grid)[0].note == "its components wait for processors at beta"
    grid.pass_time(35.0)
    # Gamma was asked after three quarters of the time to the expected start.
    assert explained(grid, name) == [
        f"gang 0: gamma has held 2 processors for {seconds(35 - 0.75 * 39)}; "
        "beta has waited for 1 processor for 35.0 s, expected after 39.0 s; given up in 1m34s if it has not begun"
    ]
    assert status(grid)[0].note == "its components hold processors and wait for beta"
    grid["beta"].end()
    grid.settle()
    assert explained(grid, name) == []


def test_a_site_that_is_waited_for_and_does_not_answer_is_named() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1, gamma=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) and post[1] == "beta" else "deliver"
    name = submit(grid, "1x1@gamma+1x1@beta")
    grid.part("beta")
    grid.pass_time(20.0)
    assert status(grid)[0].note == "its components hold processors and wait for beta, which does not answer"
    told = explained(grid, name)[0]
    assert "beta does not answer, and has been asked for 1 processor for 20.0 s" in told


def test_a_component_that_holds_its_processors_does_not_count_as_running() -> None:
    grid = Grid(SETTINGS, alpha=2, beta=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) and post[1] == "beta" else "deliver"
    submit(grid, "2x1@alpha+1x1@beta")
    (one,) = status(grid)
    assert (one.state, one.running, one.queued) == ("queued", 0, 3)
    assert sorted((share.site, share.running, share.queued) for share in one.shares) == [
        ("alpha", 0, 2),
        ("beta", 0, 1),
    ]
    queue = grid["alpha"].ask("queue")
    assert isinstance(queue, QueueView)
    assert (queue.running, queue.claimed, [user.running for user in queue.users]) == (0, 2, [0])
    grid.fate = None
    grid.pass_time(30.0)
    (one,) = status(grid)
    assert (one.state, one.running, one.queued) == ("running", 3, 0)
    queue = grid["alpha"].ask("queue")
    assert isinstance(queue, QueueView)
    assert (queue.running, queue.claimed, [user.running for user in queue.users]) == (2, 0, [2])


def test_a_gang_that_was_given_up_says_when_it_is_tried_again_and_in_which_queue() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) else "deliver"
    name = submit(grid, "1x1@beta", jobs=2)
    assert explained(grid, name)[0].startswith("gang 0: beta has waited for 1 processor")
    assert explained(grid, name)[1] == "gang 1: no place yet, tried at the next scan (queue low)"
    grid.pass_time(101.0)
    assert explained(grid, name)[-1].startswith(
        "gang 0, try 2: no place yet, tried again in 4.0 s at the latest (queue low)"
    )


def test_an_offer_and_inputs_on_their_way_are_told_apart() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.Prepared) else "deliver"
    name = submit(grid, "1x1@beta")
    assert explained(grid, name) == ["gang 0: beta has been asked to take 1 processor"]
    grid["beta"].submit(spec(1, sites=("beta",)), 1, 5, who=BOB)
    grid.pass_time(5.0)
    assert explained(grid, name) == ["gang 0: beta has been asked to take 1 processor for 5.0 s"]
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) else "deliver"
    grid.pass_time(4.0)
    told = explained(grid, name)[0].partition(";")[0]
    assert told in {f"gang 0: beta has waited for 1 processor for {seconds(since_s)}" for since_s in (0.5, 1.0, 1.5)}


def test_a_status_says_that_jobs_are_components() -> None:
    grid = Grid(SETTINGS, alpha=4)
    grid["alpha"].submit(gang("3x1@alpha", jobs=2), 6, 1)
    grid["alpha"].submit(spec(6), 6, 2)
    assert [size(one) for one in status(grid)] == ["2 gangs of 3", ""]
    shown = tables.groups(StatusResponse(groups=tuple(map(to_status, status(grid)))), "")
    assert sorted(row.cells[1] for row in shown.rows) == ["-", "- (2 gangs of 3: 1 wait, 1 run)"]


def test_gangs_are_counted_as_gangs_from_the_first_that_waits_to_the_last_that_is_over() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1, gamma=1)
    name = submit(grid, "1x1@beta+1x1@gamma", jobs=3)

    def told() -> str:
        (one,) = status(grid)
        return progress(to_status(one))

    assert told() == "3 gangs of 2: 2 wait, 1 run"
    grid["gamma"].end(1)
    grid.settle()
    assert told() == "3 gangs of 2: 2 wait, 1 run", "one of its components runs yet"
    grid["beta"].end(1)
    for _ in range(20):
        grid.pass_time(1.0)
    assert told() == "3 gangs of 2: 1 wait, 1 run, 1 over"
    grid.finish()
    assert grid["alpha"].group(name).state == "done" and told() == "3 gangs of 2: 3 over"
    grid["alpha"].submit(spec(2), 2, 7)
    assert [progress(to_status(one)) for one in status(grid)][1] == ""


def test_a_component_that_ended_with_its_gang_says_so_and_a_cancelled_gang_does_not() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=2, gamma=2)
    broke, called_off = submit(grid, "1x1@beta+1x1@gamma"), submit(grid, "1x1@beta+1x1@gamma")
    (first, _) = sorted(grid["gamma"].running, key=lambda run: run.subgroup)
    grid["gamma"]._ends(first, Outcome.FAILED)
    grid["alpha"].cancel(called_off, IndexSet.span(1, 2))
    for _ in range(3):
        for site in grid.sites.values():
            site.obey_kills()
        grid.pass_time(2.0)
    assert [one.state for one in status(grid)] == ["failed", "cancelled"]
    why = "ended with its gang: alpha-1.1 failed"
    assert [one.note for one in status(grid)] == [f"alpha-1.0 {why}", ""]
    assert [ended.page(grid["alpha"].group(one), "ended", 0, 0).with_gangs for one in (broke, called_off)] == [
        ((0, why),),
        (),
    ]


def test_of_many_gangs_some_are_told_and_of_other_groups_none() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=30)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) else "deliver"
    names = [submit(grid, "1x1@beta", jobs=25), submit(grid, "1x1@beta", jobs=2)]
    assert len(explained(grid, names[0])) == 20
    assert [line[:24] for line in explained(grid, names[1])] == ["gang 0: beta has waited ", "gang 1: beta has waited "]
    assert [line[:24] for line in explained(grid, names[0], 24)] == ["gang 24: beta has waited"], "any is told by a job"
    assert explained(grid, names[1], 2) == [], "it has no such job"


def test_a_gang_that_was_let_go_says_where_it_runs_and_in_the_end_how_far_apart_its_components_began() -> None:
    grid = Grid(SETTINGS, alpha=1, beta=2, gamma=1)
    grid["gamma"].submit(spec(1, sites=("gamma",), work_s=20.0), 1, 5, who=BOB)
    name = submit(grid, "1x1@alpha+2x1@beta+1x1@gamma")
    assert let_go(grid, name) == [] and explained(grid, name)
    grid.pass_time(20.0)
    grid["gamma"].end()
    grid.settle()
    assert explained(grid, name) == []
    grid.pass_time(7.0)
    assert let_go(grid, name) == [
        "gang 0: let go 7.0 s ago; alpha runs 1 processor; beta runs 2 processors; gamma runs 1 processor"
    ]
    # By the clocks of their sites the second component at beta began half a second after the first, which began first.
    late_s = {0: 0.25, 1: 0.0, 2: 0.5, 3: 0.125}
    for site in ("beta", "alpha", "gamma"):
        for run in sorted(grid[site].running, key=lambda run: run.index):
            grid[site].began[run] += late_s[run.index]
            grid[site]._ends(run, Outcome.DONE)
            grid.settle()
        if site == "alpha":
            (line,) = let_go(grid, name)
            assert "gamma runs 1 processor; beta is done; alpha is done, 0.250 s later" in line and "within" not in line
    whole = (
        "gang 0: began 20.0 s after submission, all components within 0.500 s; "
        "beta is done; gamma is done, 0.125 s later; alpha is done, 0.250 s later"
    )
    assert let_go(grid, name) == [whole]
    assert [let_go(grid, name, job) for job in (0, 3, 4)] == [[whole], [whole], []]
    grid["alpha"].restart()
    assert let_go(grid, name) == [whole], "the journal has it"
    grid["alpha"].submit(spec(2), 2, 7)
    assert let_go(grid, "alpha-2") == []


def test_a_gang_that_broke_says_who_failed_and_of_many_the_latest_are_told_and_any_by_a_job_of_it() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1, gamma=1)
    name = submit(grid, "1x1@beta+1x1@gamma", jobs=25)
    for at in range(25):
        grid.pass_time(3.0)
        if at == 24:
            assert "beta runs 1 processor; gamma runs 1 processor" in let_go(grid, name)[0], "that which runs is first"
        grid["gamma"].end(outcome=Outcome.FAILED if at == 24 else Outcome.DONE)
        grid["beta"].end() if at < 24 else grid.settle()
        for site in grid.sites.values():
            site.obey_kills()
        grid.settle()
    told = let_go(grid, name)
    assert len(told) == 20 and told[0].startswith("gang 24: ") and told[-1].startswith("gang 5: ")
    assert "beta was ended" in told[0] and "gamma failed" in told[0]
    assert [line[:8] for line in let_go(grid, name, 3)] == ["gang 1: "]
