"""`snakemake --executor diana`: the jobs Snakemake has ready become bulk groups, one per rule and wants."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from snakemake_interface_common.exceptions import ApiError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.logging import LoggerExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings
from snakemake_interface_executor_plugins.workflow import WorkflowExecutorInterface

from diana.client import Client
from diana.errors import Denied, DianaError, Overloaded, Unplaceable, Unreachable, UsageError
from diana.workflows.rule_jobs import TABLE, JobBatch, RuleJob, gather, job_file, options, rule_job, table
from diana.workflows.under_way import JobEnd, UnderWay

common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=True,
    # They go with the group: nobody sees them among the words of a running command.
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
)

FIRST_PAUSE_S = 0.5
"""Seconds between two looks; grows to Snakemake's --seconds-between-status-checks while nothing happens."""
STEP_S = 0.1
AGAIN_S = 2.0
"""Seconds after which a node that did not answer is called again."""
MOST_LOGS = 20
"""Logs brought per look; of further failures the line says how to read them."""
LOGS = Path(".snakemake", "diana_log")

T = TypeVar("T")


class Executor(RemoteExecutor):  # type: ignore[misc]
    """Called by two threads: Snakemake's scheduler submits and cancels, a thread of the base class looks."""

    def __init__(self, workflow: WorkflowExecutorInterface, logger: LoggerExecutorInterface) -> None:
        """ApiError when the node does not answer."""
        settings = workflow.executor_settings
        self._sites: str = settings.sites or ""
        self._patience_s: float = settings.patience
        self._pause_s = FIRST_PAUSE_S
        self._stirred = False
        self._silent_since: float | None = None
        self._in_doubt: Callable[[], str] | None = None
        """Sends a submission again whose answer did not come."""
        with _plain():
            self._client = Client(settings.data, settings.address, settings.credential)
            self._client.info()
        self._under_way = UnderWay(self._client, lambda line: logger.warning(f"diana: {line}"))
        # Starts the thread that looks: all it needs has to be there.
        super().__init__(workflow, logger)

    # --- submitting, in the scheduler's thread -----------------------------------------------------------

    def run_job(self, job: JobExecutorInterface) -> None:
        self.run_jobs([job])

    def run_jobs(self, jobs: Sequence[JobExecutorInterface]) -> None:
        told: list[RuleJob] = []
        those: list[JobExecutorInterface] = []
        wrong: dict[tuple[str, str], list[JobExecutorInterface]] = {}
        for job in jobs:
            self.run_job_pre(job)
            try:
                told.append(rule_job(job.name, self.format_job_exec(job), job.threads, job.resources, self._sites))
                those.append(job)
            except UsageError as error:
                wrong.setdefault((job.name, str(error)), []).append(job)
        for (_, line), some in wrong.items():
            self._refused(some, line)
        for batch in gather(told):
            self._submit(batch, those)
        self._stirred = True

    def _submit(self, batch: JobBatch, jobs: Sequence[JobExecutorInterface]) -> None:
        mine = [jobs[member] for member in batch.members]
        try:
            group = self._sent(batch)
        except (Unplaceable, UsageError, Denied) as error:
            if isinstance(error, Unplaceable) and not batch.alike():
                for part in batch.apart():
                    self._submit(part, jobs)
                return
            self._refused(mine, str(error))
            return
        self.logger.info(f"diana: {group}: {_counted(mine)}")
        for index, job in enumerate(mine):
            self.report_job_submission(SubmittedJobInfo(job, external_jobid=f"{group}.{index}"))

    def _sent(self, batch: JobBatch) -> str:
        """The group's id, which is under way then. Unplaceable, UsageError and Denied say that it was not taken,
        ApiError that nobody knows."""
        folder = Path(self.tmpdir)
        shared = self.workflow.storage_settings.assume_common_workdir
        if len(batch.jobs) > 1:
            (folder / TABLE).write_text(table(batch), encoding="utf-8", newline="")
        job = job_file(batch, self.envvars(), directory=not shared)
        key = f"snakemake-{os.urandom(12).hex()}"

        def send() -> str:
            return self._client.submit(job, key=key, options=options(batch), folder=folder).group

        self._in_doubt = send
        try:
            group = self._patiently(send)
        except (Unplaceable, UsageError, Denied):
            self._in_doubt = None
            raise
        except DianaError as error:
            raise ApiError(f"diana: {error}") from None
        self._under_way.add(group, len(batch.members))
        self._in_doubt = None
        return group

    def _patiently(self, call: Callable[[], T]) -> T:
        end = time.monotonic() + self._patience_s
        told = False
        while True:
            try:
                return call()
            except (Unreachable, Overloaded) as error:
                pause_s = error.retry_after_s if isinstance(error, Overloaded) else AGAIN_S
                if time.monotonic() + pause_s > end:
                    raise ApiError(f"diana: {error}") from None
                if not told:
                    self.logger.warning(f"diana: {error}; trying for {self._patience_s:g} s")
                    told = True
                time.sleep(pause_s)

    def _refused(self, jobs: Sequence[JobExecutorInterface], line: str) -> None:
        """Log the refusal in one line, however many jobs; each is failed for Snakemake."""
        self.logger.error(f"diana: {_counted(jobs)} not taken: {line}")
        for job in jobs:
            self.report_job_error(SubmittedJobInfo(job), msg=f"diana: {line}")

    # --- looking, in a thread of its own -----------------------------------------------------------------

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncIterator[SubmittedJobInfo]:
        """Blocks: nothing else runs in its loop."""
        self._look()
        logs = 0
        for info in active_jobs:
            end = self._under_way.take(info.external_jobid)
            if end is None:
                yield info
            elif end.done:
                self.report_job_success(info)
            else:
                logs += 1
                self._failed(info, end, with_log=logs <= MOST_LOGS)

    def _look(self) -> None:
        try:
            self._stirred |= self._under_way.look() > 0
        except (Unreachable, Overloaded) as error:
            now = time.monotonic()
            if self._silent_since is None:
                self._silent_since = now
                self.logger.warning(f"diana: {error}; jobs go on there, looking again")
            elif now - self._silent_since > self._patience_s:
                groups = ", ".join(self._under_way.groups())
                raise ApiError(f"diana: {error}; what was submitted goes on there: {groups}") from None
            return
        except DianaError as error:
            raise ApiError(f"diana: {error}") from None
        if self._silent_since is not None:
            self._silent_since = None
            self.logger.warning("diana: the node answers again")

    def _failed(self, info: SubmittedJobInfo, end: JobEnd, *, with_log: bool) -> None:
        logs = [path] if with_log and (path := self._log_of(end.job)) else []
        more = "" if logs else f"; its log: diana logs {end.job}"
        if info.job.is_group():
            # Snakemake shows of a group of its own what its jobs are, not the message.
            self.logger.error(f"diana: {end.why()}{more}{''.join(f'; its log: {log}' for log in logs)}")
        self.report_job_error(info, msg=f"{end.why()}{more}", aux_logs=logs)

    def print_job_error(self, job_info: SubmittedJobInfo, msg: str | None = None, **more: object) -> None:
        """Log the error without the base's advice to look for a cluster's log: ours is named."""
        if job_info.external_jobid is not None:
            more["external_jobid"] = job_info.external_jobid
        job_info.job.log_error(msg, **more)

    def _log_of(self, job: str) -> str:
        """Write the job's log to a file; returns its path. Empty: the log cannot be had now, or holds nothing."""
        text = b""
        with suppress(DianaError, OSError):
            for chunk in self._client.logs(job):
                text += chunk.data
            if text:
                LOGS.mkdir(parents=True, exist_ok=True)
                path = LOGS.absolute() / f"{job}.log"
                path.write_bytes(text)
                return str(path)
        return ""

    async def sleep(self) -> None:
        """Pause between two looks: short while jobs come or end; a shutdown ends it."""
        longest_s = max(STEP_S, self.workflow.remote_execution_settings.seconds_between_status_checks)
        self._pause_s = min(FIRST_PAUSE_S if self._stirred else 1.5 * self._pause_s, longest_s)
        self._stirred = False
        end = time.monotonic() + self._pause_s
        while self.wait and time.monotonic() < end and not self._stirred:
            await asyncio.sleep(STEP_S)

    # --- ending ------------------------------------------------------------------------------------------

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel by group, and all that are under way: those being looked at are not among `active_jobs`."""
        send, self._in_doubt = self._in_doubt, None
        if send is not None:
            # Broken off while the node was asked: whether it has the group is learned by asking once more.
            with suppress(DianaError):
                self._under_way.add(send(), 0)
        for group in self._under_way.cancel():
            self.logger.info(f"diana: {group} cancelled")

    def shutdown(self) -> None:
        super().shutdown()
        with suppress(DianaError):
            self._client.close()

    # --- the command of a job ----------------------------------------------------------------------------

    def get_job_exec_prefix(self, job: JobExecutorInterface) -> str:
        if not self.workflow.storage_settings.assume_common_workdir:
            return ""
        return f"cd {shlex.quote(self.workflow.workdir_init)}"


def _counted(jobs: Sequence[JobExecutorInterface]) -> str:
    """Words for the jobs of one rule, or of one of Snakemake's groups."""
    return f"{len(jobs)} job{'s' * (len(jobs) > 1)} of {jobs[0].name}"


@contextmanager
def _plain() -> Iterator[None]:
    """Raise an error as one line: Snakemake shows where a WorkflowError was raised, but only the text of an
    ApiError."""
    try:
        yield
    except DianaError as error:
        # The mend names an option of `diana`; here it is called otherwise.
        text = str(error)
        raise ApiError(f"diana: {text.removesuffix('--data')}{'--diana-data' * text.endswith('--data')}") from None
