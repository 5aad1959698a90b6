"""What `condor_submit` is told: a submit description of one array. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.system import Array

TOKEN, TASK = "DianaToken", "DianaTask"
"""Attributes of a job: its array's token, its number in it."""
TASK_VARIABLE, JOB_VARIABLE = "DIANA_TASK", "DIANA_CLUSTER"
"""In its environment; HTCondor itself tells a job neither."""
NAME_PREFIX = "diana."
_OURS = (
    *("universe", "executable", "transfer_executable", "arguments", "initialdir", "input", "output", "error", "hold"),
    *("environment", "env", "getenv", "request_cpus", "allowed_job_duration", "periodic_remove", "queue"),
    *("max_materialize", "max_idle", "materialize_max_idle", f"+{TOKEN}", f"+{TASK}", f"my.{TOKEN}", f"my.{TASK}"),
)
_KEY = re.compile(r"[+\w.]+", re.ASCII)
_ACCOUNT = re.compile(r"[\w.@+-]*", re.ASCII)
_PLAIN = re.compile(r"[\w./:,+@%=~ -]*", re.ASCII)
_EXTRA_S = 60
"""For what happens around the command: the limit is never shorter than the script's own."""
PERIODIC_REMOVE = (
    "JobStatus == 1 && NumJobStarts > 0 || JobStatus == 5 && "
    "(NumJobStarts > 0 || HoldReasonCode =!= 1 && HoldReasonCode =!= 15 && HoldReasonCode =!= 16)"
)
"""What was evicted would begin anew, what is held for a fault would stand there for ever: neither may come to anything.
What somebody holds before it began is theirs to release."""


def check(options: tuple[str, ...], account: str = "") -> None:
    """The operator's lines and account. ValueError for what is none, or would take from us what we follow jobs by."""
    if not _ACCOUNT.fullmatch(account):
        raise ValueError(f"account: {account!r} is no accounting group; write letters, digits and . _ @ + - alone")
    for line in options:
        key, equals, _ = line.partition("=")
        key = key.strip()
        # One that ends in a backslash goes on in the next, which is ours.
        whole = line.isprintable() and not line.rstrip().endswith("\\")
        if not equals or not whole or not _KEY.fullmatch(key) or key.lower() in {word.lower() for word in _OURS}:
            raise ValueError(
                f"options: {line!r} is no line of a submit description, or one diana writes itself; "
                "write KEY = VALUE, of another key than executable, environment, queue and the like"
            )


def transfers(options: tuple[str, ...]) -> bool:
    """Whether jobs may run on machines of another FILESYSTEM_DOMAIN."""
    said = dict(line.lower().replace(" ", "").split("=", 1) for line in options if "=" in line)
    return said.get("should_transfer_files", "no") != "no"


def description(array: Array, settings: ClusterSettings, environment: Mapping[str, str]) -> str:
    """`environment`: what jobs find there, as far as it is plain; what it says of diana is ours."""
    here = {name: value for name, value in environment.items() if not name.startswith(("CONDOR_", "_CONDOR_"))}
    pairs = [f"'{name}={value}'" for name, value in here.items() if _PLAIN.fullmatch(value)]
    pairs += [f"{TASK_VARIABLE}=$({TASK})", f"{JOB_VARIABLE}=$(ClusterId)"]
    lines = [
        "should_transfer_files = NO",
        f"batch_name = {NAME_PREFIX}{array.token}",
        "notification = Never",
        *settings.options,
        "universe = vanilla",
        f"executable = {_literal(array.script)}",
        "transfer_executable = False",
        f"initialdir = {_literal(str(Path(array.script).parent))}",
        *(f"{stream} = /dev/null" for stream in ("input", "output", "error")),
        f'environment = "{" ".join(pairs)}"',
        f"request_cpus = {array.processors}",
        *([f"request_memory = {-(-array.memory_bytes // 2**20)}"] if array.memory_bytes else []),
        *([f"request_gpus = {array.gpus}"] if array.gpus else []),
        *([f"allowed_job_duration = {int(array.time_limit_s) + _EXTRA_S}"] if array.time_limit_s else []),
        *([f"accounting_group = {settings.account}"] if settings.account else []),
        f"periodic_remove = {PERIODIC_REMOVE}",
        f'+{TOKEN} = "{array.token}"',
        f"+{TASK} = $({TASK})",
        f"queue {TASK} from (",
        *map(str, array.tasks),
        ")",
    ]
    return "\n".join(lines) + "\n"


def _literal(path: str) -> str:
    """`$(NAME)` in it is no macro."""
    return path.replace("$(", "$(DOLLAR)(")
