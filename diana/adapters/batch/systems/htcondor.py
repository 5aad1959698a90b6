"""HTCondor, by its commands, as a plain user of a submit host (SPEC U7)."""

from __future__ import annotations

import logging
import os
import re

from diana.adapters.batch.array.script import Dialect
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems import htcondor_job
from diana.adapters.batch.systems import htcondor_text as read
from diana.adapters.batch.systems.commands import Commands
from diana.adapters.batch.systems.htcondor_job import JOB_VARIABLE, TASK, TASK_VARIABLE, TOKEN
from diana.adapters.batch.systems.system import Array, BatchRefused, BatchUnreachable, ClusterCapacity, Seen
from diana.model.indexset import IndexSet

_TRANSIENT = (
    "Failed to connect",
    "communication error",
    "Can't find address",
    "Can't connect",
    "Can't send",
    "schedd is not running",
    "Connection closed",
    "CEDAR:",
    "SECMAN:2003",
    "SECMAN:2004",
    "SECMAN:2007",
    "SECMAN:2011",
    "Read failure",
    "timed out",
    "Failed to fetch ads",
    "Failed to end classad message",
    "Qmgmt",
)
"""Words of faults that may be over in a minute."""
_FULL = ("MAX_JOBS_PER_OWNER", "MAX_JOBS_SUBMITTED")
"""Words of a refusal to take more jobs of ours now."""
_EVERY = ("DENIED", "Failed to authenticate", "unknown host", "no record of", "not allowed", "Parse error")
"""Words of a refusal of every job of ours, with these settings."""
_NO = (
    *("does not exist", "Can't open", "Invalid", "would exceed", "Failed to create", "Failed to parse", "on Line"),
    *("Submission requirement", "into the queue. ERROR: "),
)
"""Words of a refusal of jobs as they are. The last: it was asked to commit them and gave a reason."""
_MOST_DOUBTS = 5
"""Most doubts about one array: it is refused then, and its gates keep what was taken after all from running."""
_GONE = ("Couldn't find/remove all jobs", "There are no jobs in the queue")
_MOST_CANCELLED = 200
"""Most ranges of tasks in one call: an expression has a length."""
_MOST_SCANNED = 200_000
"""Most jobs of its history that are looked at where nothing tells how far back ours are."""
_CLOCKS_S = 3600
"""Most seconds by which the clocks of the schedd, of the file system and of this machine may differ."""
_MOST_ARRAYS = 1000
"""Most arrays whose doubts are counted."""
_FIRST_VERSION = 10

_log = logging.getLogger("diana.batch")


class HTCondor:
    """`system.BatchSystem`. `ClusterSettings.config` is what CONDOR_CONFIG names, `partition` the name of a schedd that
    is not this machine's own, `options` are lines of the submit description. ValueError for those that cannot be."""

    kind = "htcondor"
    dialect = Dialect(task=TASK_VARIABLE, first=0, job=JOB_VARIABLE, machine="(uname -n)")

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        htcondor_job.check(settings.options, settings.account)
        if settings.config and not os.path.isfile(settings.config):
            raise ValueError(f"config: {settings.config}: no such file; give the path CONDOR_CONFIG would have")
        environment = {"CONDOR_CONFIG": settings.config} if settings.config else {}
        self.commands = Commands(environment, keeps=("CONDOR_CONFIG",))
        self._schedd = ["-name", settings.partition] if settings.partition else []
        self._holding = 0
        self._doubts: dict[str, int] = {}
        """Token -> number of times nobody could say whether its array was taken; the last of them."""
        self._odd = ""
        """The first oddity seen of jobs that carry a token and are none of ours."""
        self._version = self._limits = self._domain = ""

    def capacity(self) -> ClusterCapacity:
        if not self._version:
            version, domain = read.version(self._run("condor_version")), ""
            if int(version.partition(".")[0]) < _FIRST_VERSION:
                raise BatchRefused(f"HTCondor {version} is too old; diana speaks to {_FIRST_VERSION}.0 and later")
            limits = self._run("condor_config_val", "-schedd", *self._schedd, *read.LIMITS)
            if not htcondor_job.transfers(self._settings.options):
                domain = self._run("condor_config_val", "FILESYSTEM_DOMAIN").strip()
            # Last, so that what raises is asked again.
            self._limits, self._domain, self._version = limits, domain, version
        slots = self._run("condor_status", "-json", *_attributes(read.SLOT_ATTRIBUTES), "-constraint", read.NOT_DYNAMIC)
        has = read.capacity(slots, self._version, self._limits, self._domain, self._holding)
        if not has.slots and read.strangers(slots, self._domain):
            raise BatchRefused(
                f"no machine of the pool is of this one's FILESYSTEM_DOMAIN, {self._domain}; set it alike on all that "
                'share the data directory, or say options = ["should_transfer_files = IF_NEEDED"]'
            )
        return has

    def starts_in_s(self) -> float | None:
        return None

    def submit(self, array: Array) -> str:
        told = htcondor_job.description(array, self._settings, self.commands.environment)
        argv = ["condor_submit", "-terse", *self._schedd, "-"]
        try:
            said = self.commands.run(argv, (*_TRANSIENT, *_FULL), told=told)
        except BatchRefused as refusal:
            words = str(refusal)
            if refusal.every or any(each in words for each in _EVERY):
                raise BatchRefused(words, every=True) from None
            if not any(each in words for each in _NO):
                self._doubt(array.token, words)
            raise BatchRefused(words) from None
        # First and last of its jobs.
        job = re.search(r"^(\d+)\.0 - \1\.\d+\s*$", said, re.MULTILINE)
        if job is None:
            raise BatchUnreachable(f"condor_submit says {said.strip()!r}")
        return job[1]

    def _doubt(self, token: str, words: str) -> None:
        """Raise Unreachable: the schedd may have the array, and its token tells at the next listing. Return, for a
        refusal, where that was so too often."""
        doubts = self._doubts[token] = self._doubts.pop(token, 0) + 1
        for old in list(self._doubts)[:-_MOST_ARRAYS]:
            del self._doubts[old]
        if doubts < _MOST_DOUBTS:
            raise BatchUnreachable(words)
        del self._doubts[token]

    def listing(self) -> list[Seen]:
        said = self._run(
            "condor_q",
            *self._schedd,
            "-json",
            *_attributes(read.JOB_ATTRIBUTES),
            "-constraint",
            f"{TOKEN} =!= undefined",
        )
        found, self._holding, odd = read.listing(said)
        if odd and not self._odd:
            _log.warning("%s; such jobs are none of ours and are left alone", odd)
        self._odd = self._odd or odd
        return found

    def past(self, jobs: list[str], since_s: float) -> list[Seen]:
        """Read the history from its end back to `since_s`."""
        bound = ["-scanlimit", str(_MOST_SCANNED)]
        if since_s > _CLOCKS_S:
            bound = ["-since", f"EnteredCurrentStatus < {int(since_s) - _CLOCKS_S}"]
        wanted = " || ".join(f"ClusterId == {job}" for job in jobs)
        said = self._run(
            "condor_history",
            *self._schedd,
            "-json",
            *_attributes(read.PAST_ATTRIBUTES),
            *bound,
            "-constraint",
            f"({wanted}) && {TOKEN} =!= undefined",
        )
        return read.past(said)

    def cancel(self, job: str, tasks: IndexSet) -> None:
        ranges = list(tasks.ranges())
        for at in range(0, len(ranges), _MOST_CANCELLED):
            some = " || ".join(f"{TASK} >= {a} && {TASK} < {b}" for a, b in ranges[at : at + _MOST_CANCELLED])
            try:
                self._run("condor_rm", *self._schedd, "-constraint", f"ClusterId == {job} && ({some})")
            except BatchRefused as refusal:
                if not any(each in str(refusal) for each in _GONE):
                    raise

    def _run(self, *argv: str) -> str:
        return self.commands.run(argv, _TRANSIENT)


def _attributes(names: tuple[str, ...]) -> list[str]:
    return ["-attributes", ",".join(names)]
