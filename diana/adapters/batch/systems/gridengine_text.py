"""Readers of what Grid Engine's commands print. Pure; anything that is not as expected is `BatchUnreachable`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from xml.etree import ElementTree

from diana.adapters.batch.systems import task_ranges
from diana.adapters.batch.systems.system import BatchUnreachable, ClusterCapacity, Fate, Seen, Stage
from diana.adapters.batch.systems.understood import understood
from diana.bounds import check_xml
from diana.model.indexset import IndexSet

WHO = "Grid Engine"
NAME_PREFIX = "diana."
"""Prefix before the token, in the name of a job."""
FIRST = 1
"""The number of an array's first task."""
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_OUT_OF_USE = frozenset("auADEdocCsS")
"""States of a queue instance that starts nothing: alarm, unknown, disabled by calendar or hand, error, orphaned,
ambiguous, suspended by calendar, by hand or for another queue."""
_LIMIT = "37"
"""Grid Engine's number for a job that it ended for a limit."""


def stage_of(state: str) -> Stage:
    """Return the stage of `qw`, `hqw`, `Eqw`, `r`, `t`, `Rr`, `dr`, `s`, `S`, `T` and combinations of them."""
    if not state.isalpha():
        raise BatchUnreachable(f"{WHO} shows the state {state!r}")
    return Stage.WAITING if "q" in state else Stage.RUNNING


@understood(WHO, lines=False)
def listing(xml: str) -> tuple[list[Seen], int]:
    """Read `qstat -xml`: our tasks, and the slots they hold now."""
    found: dict[tuple[str, str, str], list[IndexSet]] = {}
    holding = 0
    for job in _tree(xml).iter("job_list"):
        name, state = _text(job, "JB_name"), _text(job, "state")
        if not name.startswith(NAME_PREFIX):
            continue
        tasks = _tasks(job.findtext("tasks") or "")
        if stage_of(state) is Stage.RUNNING:
            holding += int(_text(job, "slots")) * len(tasks)
        found.setdefault((_text(job, "JB_job_number"), name.removeprefix(NAME_PREFIX), state), []).append(tasks)
    return [_seen(*key, IndexSet.union(tasks)) for key, tasks in found.items()], holding


def _seen(job: str, token: str, state: str, tasks: IndexSet) -> Seen:
    wrong = "E" in state
    why = "in error; see qstat -explain E" if wrong else "on hold" if "h" in state else ""
    return Seen(job, token, tasks, stage_of(state), why, never=wrong and stage_of(state) is Stage.WAITING)


def _tasks(text: str) -> IndexSet:
    """Read task numbers, counted from 0."""
    return task_ranges.read(text, WHO, FIRST) if text else IndexSet()


@understood(WHO, lines=False)
def capacity(xml: str, config: str, version: str, ours: int, *, parallel: bool) -> ClusterCapacity:
    """Read the capacity from `qstat -f -F mem_total -xml` without jobs and `qconf -sconf`. `ours`: slots our own
    jobs hold; `parallel`: a job may have more than one."""
    known = dict(re.findall(r"^(\w+)[ \t]+(\S+)", config, re.MULTILINE))
    widest = memory = 0
    at_host, used = dict[str, int](), Counter[str]()
    """Slots by machine: those of several queues on one machine are the same processors."""
    for queue in _tree(xml).iter("Queue-List"):
        total, busy = int(_text(queue, "slots_total")), int(_text(queue, "slots_used"))
        host = _text(queue, "name").partition("@")[2]
        used[host] += busy
        if _OUT_OF_USE & set(queue.findtext("state") or "") or "B" not in (queue.findtext("qtype") or "B"):
            # Tasks that run there still end.
            at_host[host] = max(at_host.get(host, 0), busy)
            continue
        at_host[host] = max(at_host.get(host, 0), total)
        widest = max(widest, total if parallel else 1)
        for resource in queue.findall("resource"):
            if resource.get("name") == "mem_total":
                memory = max(memory, _bytes(resource.text or ""))
    return ClusterCapacity(
        version=version,
        slots=sum(at_host.values()),
        others=max(0, sum(min(used[host], slots) for host, slots in at_host.items()) - ours),
        memory_bytes=memory,
        widest=widest,
        throttles=True,
        most_tasks=_number(known, "max_aj_tasks", 75000),
    )


@understood(WHO, lines=False)
def devices(xml: str, name: str) -> dict[str, int]:
    """Read `qstat -f -F NAME -xml`: machine in use -> free amount of the consumable, for machines that have it."""
    found: dict[str, int] = {}
    for queue in _tree(xml).iter("Queue-List"):
        if _OUT_OF_USE & set(queue.findtext("state") or ""):
            continue
        for resource in queue.findall("resource"):
            if resource.get("name") == name:
                host = _text(queue, "name").partition("@")[2]
                found[host] = max(found.get(host, 0), int(float(resource.text or "0")))
    return found


@understood(WHO)
def declared(host: str, name: str) -> int:
    """Read from `qconf -se` the amount of the consumable that the machine has in all; 0 where it says nothing."""
    values = re.search(r"^complex_values\s+(.*)$", host.replace("\\\n", ""), re.MULTILINE)
    pairs = (pair.strip().partition("=") for pair in values[1].split(",")) if values else ()
    return sum(int(float(amount)) for known, _, amount in pairs if known == name)


@understood(WHO)
def consumed(complexes: str, name: str) -> str:
    """Read from `qconf -sc` who takes the consumable, YES (each slot), JOB or HOST; empty: nobody, or there is none."""
    for line in complexes.splitlines():
        fields = line.split()
        if len(fields) > 5 and name in fields[:2] and fields[5] != "NO":
            return fields[5]
    return ""


def _number(known: dict[str, str], key: str, default: int) -> int:
    return int(known[key]) if known.get(key, "").isdecimal() and known[key] != "0" else default


@understood(WHO)
def is_used_up(complexes: str, name: str) -> bool:
    """Tell whether, by `qconf -sc`, jobs take from it what they ask for, each slot as much."""
    row = re.search(rf"^{name}\s+(.*)$", complexes, re.MULTILINE)
    fields = row[1].split() if row else []
    return len(fields) > 4 and fields[4] == "YES"


def _bytes(text: str) -> int:
    """Read bytes such as `23.541G`; 0 where it says nothing."""
    match = re.fullmatch(r"([0-9.]+)([KMGT]?)", text.strip())
    return int(float(match[1]) * _UNITS.get(match[2], 1)) if match else 0


@understood(WHO)
def one_machine_environments(spelled: Iterable[tuple[str, str]]) -> list[str]:
    """Return, by what `qconf -sp` says of each, the parallel environments whose slots are all on one machine."""
    found = [name for name, text in spelled if re.search(r"^allocation_rule\s+\$pe_slots\s*$", text, re.MULTILINE)]
    return sorted(found, key=lambda name: (name not in ("smp", "threads", "openmp", "mp", "shm"), name))


@understood(WHO)
def past(qacct: str) -> list[Seen]:
    """Read `qacct -j`."""
    found = []
    for record in re.split(r"^=+$", qacct, flags=re.MULTILINE):
        known = dict(re.findall(r"^(\w+)[ \t]+(\S*(?:[ \t]+\S+)*)[ \t]*$", record, re.MULTILINE))
        if known.get("jobnumber", "").isdecimal() and known.get("taskid", "").isdecimal():
            failed, exit_status = known.get("failed", ""), known.get("exit_status", "")
            why = failed if failed not in ("", "0") else f"exit status {exit_status}"
            fate = Fate.LIMIT if failed.split(" ")[0] == _LIMIT else None
            tasks = IndexSet.of([int(known["taskid"]) - FIRST])
            found.append(Seen(known["jobnumber"], "", tasks, Stage.OVER, why, fate=fate))
    return found


def _tree(xml: str) -> ElementTree.Element:
    try:
        check_xml(xml.encode(errors="replace"))
        return ElementTree.fromstring(xml)
    except (ElementTree.ParseError, ValueError):
        raise BatchUnreachable(f"qstat says {xml[:100]!r}") from None


def _text(element: ElementTree.Element, name: str) -> str:
    found = element.findtext(name)
    if not found:
        raise BatchUnreachable(f"qstat tells no {name}")
    return found
