"""Permits: the bytes a remote user signs for a submission, and the signatures that come back (PROMISES 5.6).

The node reads the job file, so it says what the canonical bytes of each group's spec are; the user's client hashes and
signs them. The engine checks the signature before anything is durable, and every site that is to execute it again.
"""

from __future__ import annotations

from diana.engine.messages.messages import Authorisation
from diana.errors import UsageError
from diana.jobfile import ParsedFile
from diana.model.ids import GroupId
from diana.model.job.spec import encode_spec
from diana.model.trust.principal import Principal
from diana.node.api.desk import Desk
from diana.policy.trust.statement import submission_of, user_signer
from diana.wire.client import messages as wire
from diana.wire.client.permits import ToSign


def to_sign(desk: Desk, caller: Principal, request: wire.SubmitRequest, parsed: ParsedFile) -> tuple[ToSign, ...]:
    return tuple(
        ToSign(
            spec=encode_spec(one.spec),
            submission=submission_of(request.key, at),
            owner=caller.name,
            audience=desk.about.site,
        )
        for at, one in enumerate(parsed.groups)
    )


def checked(caller: Principal, vo: str, request: wire.SubmitRequest, groups: int) -> list[Authorisation | None]:
    """Check the permits: one per group, None where this site is to vouch. UsageError for permits of another submission
    or too few; the rest, signatures above all, is the engine's to check."""
    if not request.permits:
        return [None] * groups
    if len(request.permits) != groups:
        raise UsageError(f"{len(request.permits)} of {groups} groups are signed; submit again")
    for at, permit in enumerate(request.permits):
        if permit.submission != submission_of(request.key, at):
            raise UsageError(f"what was signed is for submission {permit.submission!r}, not this one; submit again")
    name = caller.name.removesuffix(f"@{vo}")
    return [
        Authorisation(
            owner=caller.name,
            spec_sha256=permit.spec_sha256,
            group=GroupId(""),
            expires_wall_s=permit.expires_wall_s,
            signer=user_signer(name, vo),
            certificate=permit.certificate,
            signature=permit.signature,
            signed_wall_s=permit.signed_wall_s,
            audience=permit.audience,
            submission=permit.submission,
        )
        for permit in request.permits
    ]
