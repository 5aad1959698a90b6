"""The script each task of an array runs: plain POSIX shell, so that a cluster's machines need nothing of diana.

Before anything else it makes the run's gate, a file that can be made once. A script that finds it there does
nothing: its task was started again by the batch system, or its array was submitted twice because nobody could tell
whether it had been taken, or the node took its run back meanwhile. Its last act is the file that tells the end;
times are those files' own, so that a task costs no process but the job's.
"""

from __future__ import annotations

import shlex
import string
from collections.abc import Iterable, Sequence

import msgspec

from diana.adapters.batch.array import barrier, memory, saving
from diana.adapters.lrm.spawner.processes import MARKER
from diana.adapters.lrm.spawner.protocol import UNREADY_FILE, Order
from diana.model.indexset import IndexSet
from diana.model.job.grace import GRACE_S
from diana.model.job.own_folder import DATA, HERE, SUBMIT_DIR, may_set

LEASE_LOOK_S = 2
_OWN_WORDS = frozenset(
    f"SLURM_{name}"
    for name in (
        *("JOB_ID", "JOBID", "JOB_NUM_NODES", "NNODES", "NODEID", "PROCID", "LOCALID"),
        *("CPUS_ON_NODE", "JOB_CPUS_PER_NODE", "GPUS", "GPUS_ON_NODE"),
    )
)
"""Variables that `jobfile/scripts/variables.py` sets for scripts that know Slurm, and of which Slurm knows better."""
_OF_MEMORY = frozenset({"SLURM_MEM_PER_CPU", "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_GPU"})
"""Variables among these, too; and its programs refuse to start where two of them are set."""
_OF_TASKS = frozenset({"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE", "SLURM_CPUS_PER_TASK"})
"""Variables among these where it was told that a job is one of MPI; else a task of ours is a whole job to it."""
_SHELLS = frozenset(
    {
        *(*string.ascii_letters, "gone", "out", "err"),
        *("IFS", "OPTIND", "LINENO", "PPID", "UID", "EUID", "RANDOM", "SECONDS"),
        *("BASHOPTS", "SHELLOPTS", "BASH_VERSINFO"),
    }
)
"""Variables that the script, also those of other modules here, or a shell has for itself: a job that has one of these
gets it when its command begins."""
END_OF_FILE = "."
"""Last line of an end: a file without it is still being written."""


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """Environment variables by which a batch system tells a task who it is."""

    task: str
    """The variable of the task's number, counted from `first`."""
    first: int
    job: str
    """The variable of the array's id."""
    machine: str
    """The variable of the machine where the task runs."""
    reserved: tuple[int, ...] = ()
    """Exit codes by which a task would order it to do something: only the node is told them."""
    memory_group: str = ""
    """Pattern, in words of a shell, of cgroups that belong to the job alone; empty: it makes none."""
    too_much: str = ""
    """Pattern of its words in `said` on a job that it ended for its memory, with groups `used` and `limit`, in the same
    unit, where it tells these; empty: it says nothing there."""
    warns: bool = False
    """True if it sends all processes of a task TERM, and KILL once the script has ended, or some time later."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The things that jobs find on this cluster besides what their group asks for."""

    site: str
    cluster: str
    dialect: Dialect
    setup: tuple[str, ...] = ()
    """Shell lines of the operator's, before each job."""
    data: str = ""
    """The node's data directory; empty: nobody is told of it."""
    boot_id: str = ""
    """The boot id of the node's machine, where alone its socket can be reached."""
    path: str = ""
    """The folder of the node's own `diana`."""
    address: str = "hostname -f"
    """Shell words that print the address of the machine where the job runs, as other sites reach it."""


def script(order: Order, folder: str, jobs_folder: str, around: Surroundings, wait_s: float = 0.0) -> str:
    """Return the script; task k runs `order.indices[k]`. `folder` is the array's, `jobs_folder` holds the jobs' own
    directories by index. Where the order says a barrier, tasks wait at it for `wait_s` seconds from now."""
    said = around.dialect
    lines = [
        "#!/bin/sh",
        f"# diana: {order.subgroup} at site {around.site}",
        f"D={_word(folder)}",
        f"k=$((${said.task} - {said.first}))",
        "set -C",
        f'{{ echo "${said.job} ${said.machine}" > "$D/run/$k"; }} 2>/dev/null || exit 0',
        "set +C",
        f'told() {{ {{ echo "$1 $2"; times; echo {END_OF_FILE}; }} > "$D/end/$k"; {_exit(said)}; }}',
        *_index(order.indices),
        *_attempt(order),
        *_environment(order, around),
        *around.setup,
        f"set -- {_words(order.argv)}",
        *(['. "$D/cases"'] if varies(order) else []),
        *([f'set -- {_words(order.before)} "$@"'] if order.before else []),
        *_folder(order, jobs_folder, folder),
        *(barrier.lines(order, wait_s, around.address) if order.barrier_s else []),
        *_run(order, folder, around.dialect),
    ]
    return "\n".join(lines) + "\n"


def _exit(said: Dialect) -> str:
    plain = 'exit "$1"'
    return f"case $1 in {'|'.join(map(str, said.reserved))}) exit 1;; esac; {plain}" if said.reserved else plain


def longer_grace_s(grace_s: float) -> float:
    """Return the seconds by which a grace is longer than what the limits of a batch system always leave room for."""
    return max(0.0, grace_s - GRACE_S)


def varies(order: Order) -> bool:
    """True if runs differ by more than their index, so that `cases` says how."""
    return bool(order.argvs or order.environments or order.stdouts or order.stderrs or any(order.checkpoints))


def cases(order: Order) -> str:
    """Return the part particular to each run, which its script reads."""
    lines = ["case $i in"]
    for at, index in enumerate(order.indices):
        part = [f"set -- {_words(order.argvs[at])}"] if order.argvs else []
        if order.environments:
            part += _variables(order.environments[at], order)
            part += _last([*order.environment, *order.environments[at]], order)
        if any(order.checkpoints) and order.checkpoints[at]:
            part.append(_export("DIANA_CHECKPOINT", order.checkpoints[at]))
        if order.stdouts:
            part.append(f"out={_word(order.stdouts[at])}")
        if order.stderrs:
            part.append(f"err={_word(order.stderrs[at])}")
        lines.append(f"{index}) {'; '.join(part)};;")
    return "\n".join([*lines, "esac"]) + "\n"


def _index(indices: Sequence[int]) -> Iterable[str]:
    """Yield the lines that set the index; by runs of neighbours, so that the text grows with the number of runs and
    not with that of the tasks."""
    task = 0
    ranges = list(IndexSet.of(indices).ranges())
    assert [i for start, stop in ranges for i in range(start, stop)] == list(indices)
    for start, stop in ranges:
        task += stop - start
        yield f"{'if' if start == ranges[0][0] else 'elif'} [ $k -lt {task} ]; then i=$((k + {stop - task}))"
    yield "else exit 1; fi"


def _attempt(order: Order) -> Iterable[str]:
    yield "a=1"
    again = [(index, attempt) for index, attempt in zip(order.indices, order.attempts, strict=False) if attempt != 1]
    if again:
        yield "case $i in"
        yield from (f"{index}) a={attempt};;" for index, attempt in again)
        yield "esac"


def _environment(order: Order, around: Surroundings) -> Iterable[str]:
    """Yield the environment; diana's variables come last: a spec cannot forge them. But what it says of the node that
    its jobs speak to holds."""
    yield from _own_node(order, around)
    yield from _variables(order.environment, order)
    # `exec`, for a command that is called like one of the shell's own is none.
    yield f'begin() {{ exec {_beginning(order)}"$@"; }}'
    yield from _last(order.environment, order)
    for name, value in (
        ("GROUP", order.group),
        ("SITE", around.site),
        ("MACHINE", around.cluster),
        ("EPOCH", str(order.epoch)),
        ("PROCESSORS", str(order.processors)),
    ):
        yield _export(f"DIANA_{name}", value)
    yield f"export DIANA_INDEX=$i DIANA_JOB={_word(order.group)}.$i DIANA_ATTEMPT=$a DIANA_SLOT=$k"
    yield f"export {MARKER.decode()}{_word(f'{order.subgroup}:{order.epoch}')}:$i:$a"
    yield from saving.environment(order)


def _own_node(order: Order, around: Surroundings) -> Iterable[str]:
    """Yield the lines that tell a task on the node's own machine of the node."""
    if around.data and around.boot_id and not order.contained:
        yield f'if read -r b </proc/sys/kernel/random/boot_id && [ "$b" = {_word(around.boot_id)} ]; then'
        yield _export(DATA, around.data)
        if around.path:
            yield f'command -v diana >/dev/null || export PATH="$PATH":{_word(around.path)}'
        yield "fi 2>/dev/null"


def _folder(order: Order, jobs_folder: str, folder: str) -> Iterable[str]:
    """Yield the lines that enter the working folder; a scratch directory goes with the run."""
    yield 'gone=""'
    if order.directory:
        yield f"w={_word(order.directory)}"
    elif order.own_directory:
        yield f"w={_word(jobs_folder)}/$i"
    else:
        # Its name is no other task's, whatever killed jobs have left there.
        name = ".".join(folder.split("/")[-2:])
        yield f"w=${{TMPDIR:-/tmp}}/diana-{_word(name)}-$k; gone=$w"
        yield 'mkdir -m 700 "$w" || told 127 s; export TMPDIR="$w"'
    yield 'cd "$w" || told 127 w'
    rows = [order.environment, *order.environments[:1]]
    if any(name == SUBMIT_DIR for row in rows for name, _ in row):
        # A job's variables come before its folder is known.
        yield f'[ "${SUBMIT_DIR}" != {HERE} ] || export {SUBMIT_DIR}="$PWD"'


def _run(order: Order, folder: str, said: Dialect) -> Iterable[str]:
    yield 'L="$D/out/$k"'
    if order.stdouts or order.stderrs:
        yield 'for f in "$out" "$err"; do case $f in */*) mkdir -p "${f%/*}";; esac; done'
    streams = '</dev/null >>"${out:-$L}" 2>>"${err:-$L}"'
    yield from saving.watched(order)
    if said.warns:
        # A script that died of it would take from the command the time to write what it has.
        yield "t=; trap t=1 TERM"
    if order.lease:
        yield from _leased(f'(begin "$@") {streams}', f"{folder}/../lease.{order.lease}", said)
    else:
        yield f'(begin "$@") {streams}'
        yield "c=$?"
    yield 'case $c in 126|127) command -v -- "$1" >/dev/null || n=n;; esac'
    yield from saving.unwatched(order)
    if order.before:
        yield f'rm "${{TMPDIR:-$PWD}}/{UNREADY_FILE}.$DIANA_JOB.$a" 2>/dev/null && n=u'
    yield from memory.lines(said.memory_group)
    yield '[ -z "$gone" ] || { cd /; rm -rf "$gone"; }'
    if said.warns:
        # How it ended is the batch system's to say, which ended it.
        yield '[ -z "$t" ] || { trap - TERM; kill -TERM $$; }'
    yield 'told "$c" "${n:--}${m:+ $m}"'


def _leased(command: str, lease: str, said: Dialect) -> Iterable[str]:
    """Yield the lines that run the command in a session of its own, so that all of it can be ended from here,
    whatever became of the node."""
    over = f'[ "$(date +%s)" -ge "$(cat {_word(lease)} 2>/dev/null || echo 0)" ]'
    yield f"over() {{ {over}; }}"
    yield "over && told 0 l"
    yield f"{command} &"
    yield "p=$!"
    ends = f"kill -TERM -$p; sleep {GRACE_S:g}; kill -KILL -$p"
    yield f'(while sleep {LEASE_LOOK_S}; do over && {{ : > "$D/run/$k.over"; {ends}; exit; }}; done) 2>/dev/null &'
    yield "q=$!; wait $p; c=$?"
    if said.warns:
        # TERM ends the waiting alone.
        yield 'until [ -z "$t" ] || ! kill -0 $p 2>/dev/null; do wait $p; c=$?; done'
    yield "kill $q"
    yield '[ ! -e "$D/run/$k.over" ] || n=l'


def _variables(rows: Iterable[tuple[str, str]], order: Order) -> list[str]:
    """Return the words that set a job's variables, but for those that come last."""
    return [_set(name, value, order) for name, value in rows if may_set(name) and name not in _SHELLS]


def _last(rows: Iterable[tuple[str, str]], order: Order) -> list[str]:
    """Return the words that make `begin` start the command with those variables that come last."""
    there = [_word(f"{name}={value}") for name, value in rows if name in _SHELLS]
    return [f'begin() {{ exec {_beginning(order)}env {" ".join(there)} "$@"; }}'] if there else []


def _beginning(order: Order) -> str:
    """Return the words before the command that serve its time limit and its end."""
    limit = f"timeout -k {order.grace_s:g} {order.time_limit_s:g} " if order.time_limit_s else ""
    return ("setsid " if order.lease else "") + limit + saving.before(order)


def _export(name: str, value: str) -> str:
    return f"export {name}={_word(value)}"


def _set(name: str, value: str, order: Order) -> str:
    """Return the words that set a variable of the job's; a batch system's own word on the job it started stands."""
    known = name in _OWN_WORDS or (order.mpi and name in _OF_TASKS)
    own = sorted(_OF_MEMORY) if name in _OF_MEMORY else [name] if known else []
    there = "".join(f"${{{each}+x}}" for each in own)
    return (f'[ -n "{there}" ] || ' if own else "") + _export(name, value)


def _words(argv: Sequence[str]) -> str:
    return " ".join(map(_word, argv))


def _word(text: str) -> str:
    return shlex.quote(text)
