"""Reading what Grid Engine prints; the texts are those of 8.1.9."""

from __future__ import annotations

import pytest

from diana.adapters.batch import gridengine_text as read
from diana.adapters.batch.system import Fate, Seen, Stage, Unreachable
from diana.model.indexset import IndexSet


def job(number: int, name: str, state: str, tasks: str, slots: int = 1) -> str:
    return f"""<job_list state="running"><JB_job_number>{number}</JB_job_number><JB_name>{name}</JB_name>
        <state>{state}</state><slots>{slots}</slots>{f"<tasks>{tasks}</tasks>" if tasks else ""}</job_list>"""


def test_a_listing_tells_ours_by_stage_with_tasks_counted_from_0_and_the_slots_they_hold() -> None:
    jobs = [
        job(7, "diana.abc.1", "r", "1", 2),
        job(7, "diana.abc.1", "r", "2", 2),
        job(7, "diana.abc.1", "qw", "3,5,9-20:1", 2),
        job(7, "diana.abc.1", "dr", "4", 2),
        job(8, "diana.abc.2", "Eqw", "1"),
        job(9, "diana.abc.3", "hqw", "1-9:2"),
        job(10, "by hand", "r", ""),
    ]
    seen, holding = read.listing(f"<job_info><queue_info>{''.join(jobs)}</queue_info></job_info>")
    assert seen == [
        Seen("7", "abc.1", IndexSet.parse("0-1"), Stage.RUNNING),
        Seen("7", "abc.1", IndexSet.parse("2,4,8-19"), Stage.WAITING),
        Seen("7", "abc.1", IndexSet.of([3]), Stage.RUNNING),
        Seen("8", "abc.2", IndexSet.of([0]), Stage.WAITING, "in error; see qstat -explain E", never=True),
        Seen("9", "abc.3", IndexSet.of([0, 2, 4, 6, 8]), Stage.WAITING, "on hold"),
    ]
    assert holding == 6


def queue(total: int, used: int, state: str = "", memory: str = "23.541G", name: str = "", kind: str = "BIP") -> str:
    return f"""<Queue-List><name>{name or f"main.q@{total}"}</name><qtype>{kind}</qtype>
        <slots_used>{used}</slots_used><slots_total>{total}</slots_total>
        <state>{state}</state><resource name="mem_total" type="hl">{memory}</resource></Queue-List>"""


def test_capacity_counts_machines_in_use_and_takes_what_others_hold_for_theirs() -> None:
    xml = f"<job_info><queue_info>{queue(8, 5)}{queue(16, 2, 'au', '99G')}{queue(4, 0, 'd')}</queue_info></job_info>"
    config = "max_aj_instances             2000\nmax_aj_tasks                 75000\nmax_u_jobs 0\n"
    has = read.capacity(xml, config, "SGE 8.1.9", 3, parallel=True)
    assert (has.slots, has.others, has.widest) == (10, 4, 8)
    assert has.memory_bytes == int(23.541 * 2**30)
    # `max_aj_instances` is of one array.
    assert (has.most_tasks, has.most_jobs) == (75000, 0)
    assert read.capacity(xml, config, "SGE 8.1.9", 0, parallel=False).widest == 1


def test_queues_of_one_machine_share_its_slots_and_those_for_other_work_do_not_count() -> None:
    queues = [
        queue(4, 4, name="short.q@a"),
        queue(4, 4, name="long.q@a"),
        queue(4, 0, name="long.q@d"),
        queue(8, 0, name="desk.q@b", kind="IP"),
        queue(2, 0, "s", name="long.q@c"),
    ]
    has = read.capacity(f"<job_info>{''.join(queues)}</job_info>", "", "", 0, parallel=True)
    assert (has.slots, has.others, has.widest) == (8, 4, 4)


def test_a_resource_may_be_used_up() -> None:
    complexes = "#name shortcut type relop requestable consumable default urgency\nmem_free mf MEMORY <= YES {} 0 0\n"
    assert read.is_used_up(complexes.format("YES"), "mem_free")
    assert not read.is_used_up(complexes.format("NO"), "mem_free")
    assert not read.is_used_up("", "mem_free")


def test_accounts_tell_how_tasks_ended() -> None:
    def record(task: str, failed: str, status: int) -> str:
        lines = ("jobname      diana.a.1", "jobnumber    3", f"taskid       {task}", f"failed       {failed}")
        return "".join(f"{line}     \n" for line in (*lines, f"exit_status  {status}"))

    records = [record("1", "0", 3), record("7", "37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", 137)]
    assert read.past("=" * 20 + "\n" + ("=" * 20 + "\n").join([*records, record("undefined", "0", 0)])) == [
        Seen("3", "", IndexSet.of([0]), Stage.OVER, "exit status 3"),
        Seen(
            "3",
            "",
            IndexSet.of([6]),
            Stage.OVER,
            "37  : qmaster enforced h_rt, h_cpu, or h_vmem limit",
            fate=Fate.LIMIT,
        ),
    ]


def test_an_environment_counts_when_all_its_slots_are_on_one_machine() -> None:
    spelled = {
        "mpi": "allocation_rule $fill_up\n",
        "wide": "allocation_rule    $pe_slots\n",
        "smp": "pe_name smp\nallocation_rule    $pe_slots\n",
    }
    assert read.one_machine_environments(spelled.items()) == ["smp", "wide"]


@pytest.mark.parametrize(
    "xml", ["garbage", "<job_info>", f"<a>{job(1, 'diana.a', '?', '1')}</a>", f"<a>{job(1, 'diana.a', 'r', 'x-y')}</a>"]
)
def test_a_listing_that_is_none_is_no_answer(xml: str) -> None:
    with pytest.raises(Unreachable):
        read.listing(xml)
