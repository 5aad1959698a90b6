"""Reading what Grid Engine prints; the texts are those of 8.1.9."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems import gridengine_text as read
from diana.adapters.batch.systems.gridengine import GridEngine
from diana.adapters.batch.systems.system import Array, BatchRefused, BatchUnreachable, Fate, Seen, Stage
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


COMPLEXES = """\
#name shortcut type relop requestable consumable default urgency
#---------------------------------------------------------------
gpu                 g          INT         <=    YES         {by}        0        0
gputype             gt         RESTRING    ==    YES         NO         NONE     0
"""


@pytest.mark.parametrize("by", ["YES", "JOB"])
def test_gpus_are_a_consumable_of_the_machines(by: str) -> None:
    text = COMPLEXES.format(by=by)
    assert (read.consumed(text, "gpu"), read.consumed(text, "g")) == (by, by)
    assert read.consumed(text, "gputype") == read.consumed(text, "other") == ""

    def at(name: str, free: str, state: str = "") -> str:
        told = f'<resource name="gpu" type="hc">{free}</resource>' if free else ""
        return f"<Queue-List><name>{name}</name><state>{state}</state>{told}</Queue-List>"

    queues = [
        at("a@x", "2.000000"),
        at("b@x", "2.000000"),
        at("a@y", "0.000000"),
        at("a@z", "4.0", "au"),
        at("a@w", ""),
    ]
    assert read.devices(f"<job_info>{''.join(queues)}</job_info>", "gpu") == {"x": 2, "y": 0}


def test_a_machine_declares_how_many_it_has_in_all() -> None:
    values = "complex_values        mem_free=8G, \\\n                      gpu=4,gpu2=7"
    host = f"hostname y\nload_scaling NONE\n{values}\nuser_lists NONE\n"
    assert read.declared(host, "gpu") == 4
    assert read.declared("hostname y\ncomplex_values        NONE\n", "gpu") == 0


class Fake(GridEngine):
    """Answers of qconf and qstat, and what qsub was told."""

    def __init__(self, by: str, resource: str = "gpu", *, machines: int = 2) -> None:
        super().__init__(ClusterSettings(kind="gridengine", gpu_resource=resource))
        self.by, self.machines, self.asked = by, machines, list[tuple[str, ...]]()

    def _run(self, *argv: str, transient: tuple[str, ...] = ()) -> str:
        self.asked.append(argv)
        match argv[:2]:
            case ("qconf", "-sc"):
                return COMPLEXES.format(by=self.by)
            case ("qconf", "-spl"):
                return "smp\n"
            case ("qconf", "-sp"):
                return "allocation_rule $pe_slots\n"
            case ("qconf", "-se"):
                return "complex_values gpu=3\n"
            case ("qstat", "-f"):
                free = '<resource name="gpu" type="hc">1.000000</resource>'
                rows = (
                    f"<Queue-List><name>q@m{number}</name><qtype>B</qtype><slots_used>0</slots_used>"
                    f"<slots_total>8</slots_total>{free}</Queue-List>"
                    for number in range(self.machines)
                )
                return f"<job_info>{''.join(rows)}</job_info>"
            case ("qsub", _):
                return "7.1-2:1\n"
        return ""

    def options(self, **more: int) -> str:
        self.submit(Array(token="a.1", script="/x/script", tasks=IndexSet.span(0, 2), **{"processors": 1, **more}))
        return " ".join(self.asked[-1])


def test_its_machines_are_asked_once_how_many_gpus_they_have() -> None:
    """The free slots are those that qstat shows."""
    cluster = Fake("JOB", machines=60)
    has = cluster.capacity()
    # Those that were not asked yet count by what is free there.
    assert (has.gpus, has.all_gpus) == (3, 50 * 3 + 10 * 1)
    assert cluster.capacity().all_gpus == cluster.capacity().all_gpus == 60 * 3
    assert sum(argv[:2] == ("qconf", "-se") for argv in cluster.asked) == 60


def test_gpus_are_asked_for_by_the_job_or_by_the_slot() -> None:
    by_job, by_slot = Fake("JOB"), Fake("YES")
    for cluster in (by_job, by_slot):
        cluster.capacity()
    assert "-l gpu=" not in by_job.options()
    assert "-l gpu=2" in by_job.options(gpus=2) and "-l gpu=2" in by_job.options(gpus=2, processors=4)
    assert "-l gpu=2" in by_slot.options(gpus=2) and "-l gpu=2" in by_slot.options(gpus=8, processors=4)
    with pytest.raises(BatchRefused, match="gpu is counted by the slot: 2 for 4 processors"):
        by_slot.options(gpus=2, processors=4)


def test_a_consumable_that_is_none_is_refused_and_without_one_there_are_no_gpus() -> None:
    with pytest.raises(BatchRefused, match="no consumable 'gputype'") as refused:
        Fake("JOB", "gputype").capacity()
    assert refused.value.every
    cluster = Fake("JOB", "")
    assert (cluster.capacity().gpus, cluster.capacity().all_gpus) == (0, 0)
    assert not any("gpu" in " ".join(argv) for argv in cluster.asked)


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
    with pytest.raises(BatchUnreachable):
        read.listing(xml)


@pytest.mark.parametrize(("tasks", "at_once"), [("0-4", []), ("0,9", ["-tc", "2"])])
def test_tasks_between_that_are_not_asked_for_run_no_more_at_once(
    tasks: str, at_once: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may wait in another array, of which only so many may run together."""
    system, said = GridEngine(ClusterSettings(kind="gridengine")), list[str]()

    def run(argv: Sequence[str], *_: object) -> str:
        said.extend(argv)
        return "17\n"

    monkeypatch.setattr(system.commands, "run", run)
    system.submit(Array(token="a.1", script="/x/1/script", tasks=IndexSet.parse(tasks), processors=1))
    assert said[said.index("-tc") :][:2] == at_once if at_once else "-tc" not in said
