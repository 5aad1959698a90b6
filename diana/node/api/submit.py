"""From a job file's bytes to a durable group, or to one line that says what is wrong with it."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from diana.adapters.filling import way_out
from diana.adapters.staging.paths import Unlinked, folder
from diana.engine.journal.effects import DecisionMade, GroupAccepted, GroupsAccepted
from diana.engine.journal.events import Member, SubmitChain, SubmitGroup
from diana.engine.messages.messages import Authorisation
from diana.errors import Overloaded, UsageError
from diana.jobfile import ParsedFile, ParsedJob, parse_file
from diana.jobfile.check import missing_command, shell_command
from diana.jobfile.parsed import Waits
from diana.model.job.spec import GroupSpec
from diana.model.job.urls import check_folder_url, is_url
from diana.model.trust.principal import Principal, Role
from diana.node.api import permits, plug_ins
from diana.node.api.convert import to_decision
from diana.node.api.desk import Desk, raised
from diana.node.pair.uploads import blobs_in
from diana.wire.client import messages as wire
from diana.wire.client.decisions import Decision

FREE_BYTES = 512 << 20
"""Below this much room on the data directory's disk nothing new is taken, so that results still land."""
MOST_KEY_BYTES = 256
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_NODE_OPTIONS = frozenset({"check_command"})
"""Options for the checks here; the rest belong to the job file's reader."""


async def submit(desk: Desk, caller: Principal, request: wire.SubmitRequest) -> wire.SubmitResponse:
    if len(request.key.encode()) > MOST_KEY_BYTES:
        raise UsageError(f"submission key of {len(request.key)} characters: at most {MOST_KEY_BYTES} bytes are allowed")
    await check_room(desk, caller)
    parsed = await _parsed(desk, caller, request)
    if desk.notices is not None:
        for one in parsed.groups:
            if why := desk.notices.refusal(one.notify):
                raise UsageError(f"notify: {why}")
    if parsed.needs_files:
        return wire.SubmitResponse(needs_files=tuple(parsed.needs_files))
    if request.signs and not request.permits:
        return wire.SubmitResponse(to_sign=permits.to_sign(desk, caller, request, parsed))
    signed = permits.checked(caller, desk.about.vo, request, len(parsed.groups))
    accepted = await _accepted(desk, caller, request, parsed, signed)
    for group, blobs in zip(accepted, kept_blobs(parsed, request.files), strict=True):
        if blobs:
            await desk.stager.use_blobs(group.group, blobs)
    names = [group.group for group in accepted]
    return wire.SubmitResponse(
        notes=parsed.notes,
        group=names[0],
        jobs=sum(group.jobs for group in accepted),
        groups=tuple(
            wire.SubmittedGroup(
                group=group.group,
                name=one.spec.name,
                jobs=group.jobs,
                after=(*(names[at] for at in waits.members), *waits.groups),
                at_most=one.spec.flexible is not None,
            )
            for one, waits, group in zip(parsed.groups, parsed.waits, accepted, strict=True)
        ),
    )


async def _accepted(
    desk: Desk,
    caller: Principal,
    request: wire.SubmitRequest,
    parsed: ParsedFile,
    signed: Sequence[Authorisation | None],
) -> tuple[GroupAccepted, ...]:
    """The groups accepted, in the order of the job file."""
    if len(parsed.groups) == 1 and parsed.waits == (Waits(),):
        alone = parsed.groups[0]
        one = await desk.request(
            GroupAccepted,
            lambda number: msgspec.structs.replace(
                _event(desk, caller, request, alone, number, plan_only=False), permit=signed[0]
            ),
        )
        return (one,)
    members = tuple(
        Member(
            spec=one.spec,
            jobs=one.jobs,
            refs=tuple(one.refs),
            after=waits.members,
            after_groups=waits.groups,
            permit=permit,
            notify=one.notify,
        )
        for one, waits, permit in zip(parsed.groups, parsed.waits, signed, strict=True)
    )
    every = await desk.request(
        GroupsAccepted,
        lambda number: SubmitChain(
            request=number, principal=caller, key=request.key, members=members, wall_s=desk.wall_s()
        ),
    )
    return every.groups


def kept_blobs(parsed: ParsedFile, sent: Iterable[wire.UploadedFile]) -> list[list[str]]:
    """Return the hashes of uploaded content that is kept as long as each group is. What was sent and is read by none as
    it is, a script or a file that was divided, goes with the first."""
    used = [blobs_in(one.spec, [ref for ref, _ in one.refs]) for one in parsed.groups]
    rest = {file.sha256 for file in sent}.difference(*used)
    return [sorted({*used[0], *rest}), *used[1:]]


async def plan(desk: Desk, caller: Principal, request: wire.SubmitRequest) -> wire.PlanResponse:
    parsed = await _parsed(desk, caller, request)
    if parsed.needs_files:
        return wire.PlanResponse(needs_files=tuple(parsed.needs_files))
    for named in dict.fromkeys(group for waits in parsed.waits for group in waits.groups):
        try:
            await desk.group(caller, named)
        except UsageError as fault:
            raise UsageError(f"after: {fault}") from None
    if len(parsed.groups) == 1:
        alone = await _decision(desk, caller, request, parsed.groups[0])
        return wire.PlanResponse(decision=alone, notes=parsed.notes)
    planned = []
    for one, waits in zip(parsed.groups, parsed.waits, strict=True):
        before = (*(parsed.groups[at].spec.name for at in waits.members), *waits.groups)
        decision = None if before else await _decision(desk, caller, request, one)
        planned.append(wire.PlannedGroup(name=one.spec.name, jobs=one.jobs, decision=decision, waits_for=before))
    return wire.PlanResponse(groups=tuple(planned), notes=parsed.notes)


async def _decision(desk: Desk, caller: Principal, request: wire.SubmitRequest, one: ParsedJob) -> Decision:
    made = await desk.answer(DecisionMade, lambda number: _event(desk, caller, request, one, number, plan_only=True))
    processors = one.spec.resources.processors
    if isinstance(made, DecisionMade):
        return to_decision(made.decision, processors=processors, waits=made.waits)
    if made.decision is None or not request.tells_refused:
        raise raised(made)
    return to_decision(made.decision, processors=processors, refused=made.text)


async def upload(desk: Desk, caller: Principal, requests: AsyncIterator[wire.UploadRequest]) -> wire.Empty:
    await check_room(desk, caller)
    first = await anext(requests, None)
    if first is None or not _SHA256.match(first.sha256):
        raise UsageError("upload: the first message must hold the content's SHA-256, 64 lower-case hex digits")

    async def content() -> AsyncIterator[bytes]:
        yield first.data
        async for request in requests:
            yield request.data

    await desk.stager.write_blob(first.sha256, content())
    return wire.Empty()


async def check_room(desk: Desk, caller: Principal) -> None:
    free = await asyncio.to_thread(desk.door.store.free_bytes)
    if free < FREE_BYTES:
        took = await asyncio.to_thread(desk.filling.said, caller.role is Role.OPERATOR)
        raise Overloaded(
            f"{desk.data.root}: {free >> 20} MiB free, new work takes {FREE_BYTES >> 20} MiB{took}; {way_out(free)}",
            60.0,
        )


def _event(
    desk: Desk, caller: Principal, request: wire.SubmitRequest, parsed: ParsedJob, number: int, *, plan_only: bool
) -> SubmitGroup:
    return SubmitGroup(
        request=number,
        principal=caller,
        key="" if plan_only else request.key,
        spec=parsed.spec,
        jobs=parsed.jobs,
        refs=tuple(parsed.refs),
        wall_s=desk.wall_s(),
        plan_only=plan_only,
        notify=parsed.notify,
    )


async def _parsed(desk: Desk, caller: Principal, request: wire.SubmitRequest) -> ParsedFile:
    """Parse the job file in a thread: a small file may stand for a large sweep whose inputs must be rendered."""
    return await asyncio.to_thread(_parse_and_check, desk, caller, request)


def _parse_and_check(desk: Desk, caller: Principal, request: wire.SubmitRequest) -> ParsedFile:
    options = {option.name: option.value for option in request.options}
    files: dict[str, wire.UploadedFile] = {}
    for file in request.files:
        if not _SHA256.match(file.sha256) or not desk.stager.has_blob(file.sha256):
            raise UsageError(f"file {file.path}: its content is not here; upload it before the job file")
        # What is read of them is bounded by the size that they have, whatever the caller says.
        size_bytes = desk.stager.blob_path(file.sha256).stat().st_size
        files[file.path] = msgspec.structs.replace(file, size_bytes=size_bytes)
    parsed = parse_file(
        request.content,
        request.format,
        request.source_name or "job file",
        {name: value for name, value in options.items() if name not in _NODE_OPTIONS},
        files,
        desk.stager.put_blob_bytes,
        lambda sha256: desk.stager.blob_path(sha256).read_bytes(),
        plug_ins.equations,
        request.submitted_in,
        desk.stager.cut_blob,
    )
    groups = []
    for one in parsed.groups:
        groups.append(msgspec.structs.replace(one, spec=with_output_folder(desk, one.spec, caller.name)))
        if options.get("check_command", "true").lower() not in ("false", "no", "0"):
            check_command(desk, one.spec)
    return msgspec.structs.replace(parsed, groups=tuple(groups))


def check_command(desk: Desk, spec: GroupSpec) -> None:
    """Check the command; whether it exists only where the group may run here, as elsewhere it may well do."""
    path = dict(spec.environment).get("PATH") or os.environ.get("PATH", os.defpath)
    fault = shell_command(spec, path)
    if not fault and (not spec.sites or desk.about.site in spec.sites) and desk.about.site not in spec.not_sites:
        fault = missing_command(spec, path)
    if fault:
        raise UsageError(fault)


def with_output_folder(desk: Desk, spec: GroupSpec, owner: str) -> GroupSpec:
    """The spec with the real path of its output folder: a link that a job puts in its way later is not followed. The
    folder, or the nearest one above it that exists, must take files from the account that writes, which is the node's
    or, where accounts are mapped, the owner's; a URL must be one this site may write to."""
    if not spec.outputs.to:
        return spec
    to = spec.outputs.to
    if is_url(to):
        desk.stager.check_url(f"{to.rstrip('/')}/NAME")
        to = check_folder_url(to).path if to.startswith("file:") else ""
    if not to:
        return spec
    real = os.path.realpath(to)
    own = os.path.realpath(desk.data.root)
    if os.path.commonpath((real, own)) == own:
        raise UsageError(f"outputs.to = {spec.outputs.to}: lies in the node's data directory; choose a folder outside")
    above = real
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise UsageError(f"outputs.to = {spec.outputs.to}: {above} is no folder; choose another")
    if desk.stager.delivery is not None:
        if why := desk.stager.delivery.trouble(owner, real):
            raise UsageError(f"outputs.to = {spec.outputs.to}: {why}; choose another folder or change its mode")
    elif not _takes_files(above):
        account = pwd.getpwuid(os.getuid()).pw_name if _has_account() else str(os.getuid())
        raise UsageError(
            f"outputs.to = {spec.outputs.to}: the node (account {account}) may not write in {above};"
            " choose another folder or change its mode"
        )
    if is_url(spec.outputs.to):
        return spec
    return msgspec.structs.replace(spec, outputs=msgspec.structs.replace(spec.outputs, to=real))


def _takes_files(where: str) -> bool:
    """Tried, not asked: modes say nothing of read-only and virtual file systems, nor to root."""
    name = f".diana-{secrets.token_hex(8)}"
    try:
        with folder(Unlinked(where), ()) as at:
            os.mkdir(name, 0o700, dir_fd=at)
            os.rmdir(name, dir_fd=at)
    except OSError:
        return False
    return True


def _has_account() -> bool:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True
