"""Results as one value per job, made from the columns only as they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec
from msgspec.structs import replace

from diana.errors import UsageError
from diana.wire.client.messages import ExplainResponse, OutputFile, ResultsChunk


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """One finished job. Times are seconds of its site's clock; `outcome` is done, failed, timed_out, ..."""

    job: str
    index: int
    site: str
    attempt: int
    outcome: str
    exit_code: int
    started_s: float
    ended_s: float
    cpu_s: float
    max_rss_bytes: int
    outputs: tuple[OutputFile, ...] = ()
    error: str = ""
    signal: int = 0
    """Number of the signal that ended its process (9 is SIGKILL); 0: none did, or nobody knows. Where one did,
    `exit_code` is 128 and its number."""

    @property
    def done(self) -> bool:
        return self.outcome == "done"

    @property
    def began(self) -> bool:
        """True if a process was made for it: not for one that was given to no site, nor for one that was cancelled, or
        refused, while it waited at a machine."""
        return bool(self.site) and (self.outcome not in _MAY_NOT_BEGIN or self.ended_s > self.started_s)


_MAY_NOT_BEGIN = frozenset({"cancelled", "not_started", "staging_failed"})
"""Outcomes of jobs that may never have begun; one that did not has one time for both its start and its end."""


def spelled(chunk: ResultsChunk) -> ResultsChunk:
    """The chunk with its outcomes as users read them: `timed_out`, where nodes of every release send TIMED_OUT."""
    return replace(chunk, outcomes=tuple(map(str.lower, chunk.outcomes)))


def story_spelled(found: ExplainResponse) -> ExplainResponse:
    """The same of the job that is explained."""
    return replace(found, job=replace(found.job, state=found.job.state.lower())) if found.job is not None else found


def rows(group: str, chunk: ResultsChunk) -> Iterator[JobResult]:
    """`group`: as its results were asked for, of some of its jobs, too."""
    group = group.partition(".")[0]
    errors = {error.index: error.text for error in chunk.errors}
    outputs: dict[int, list[OutputFile]] = {}
    for output in chunk.outputs:
        outputs.setdefault(output.index, []).append(output)
    for k, index in enumerate(chunk.indices):
        yield JobResult(
            job=f"{group}.{index}",
            index=index,
            site=chunk.site,
            attempt=chunk.attempts[k],
            outcome=chunk.outcomes[k],
            exit_code=chunk.exit_codes[k],
            started_s=chunk.started_s[k],
            ended_s=chunk.ended_s[k],
            cpu_s=chunk.cpu_s[k],
            max_rss_bytes=chunk.max_rss_bytes[k],
            outputs=tuple(outputs.get(index, ())),
            error=errors.get(index, ""),
            signal=chunk.signals[k] if chunk.signals else 0,
        )


def as_asked(chunk: ResultsChunk) -> ResultsChunk:
    """A chunk of results asked for by outcome. UsageError where the node is of a release that does not choose, and
    would have everything taken for what was asked for."""
    if not chunk.chosen:
        raise UsageError(
            "this node is of an older release and tells no results by outcome; upgrade it (docs/upgrade.md)"
        )
    return chunk


def by_index(group: str, chunks: Iterable[ResultsChunk]) -> Iterator[JobResult]:
    """Job results in order of their index, from chunks asked for by outcome: the chunks of one page bear one number."""
    for _, page in groupby(chunks, key=lambda chunk: chunk.chunk):
        yield from sorted((row for chunk in page for row in rows(group, chunk)), key=lambda row: row.index)
