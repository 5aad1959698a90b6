"""What the signers of a VO have decided for all of it: who is trusted no more, who is again, and the VO's policy.

A statement is bytes that a signer signed; it is kept and passed on as those bytes, so that every site checks the very
same. Of two about the same thing the later one counts.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any, Literal

import msgspec

from diana.model.ids import SiteId
from diana.model.settings import Settings

FORM = "diana-ledger-1"
"""Begins each statement, so that a signature means nothing elsewhere."""
POLICY = "policy"
"""What a policy statement is about."""
MOST_BYTES = 64 << 10

POLICY_KEYS = frozenset(
    (
        "priority_mode",
        "quotas",
        "default_quota",
        "time_threshold_s",
        "job_threshold",
        "site_job_threshold",
        "service_half_life",
        "user_max_queued",
        "user_max_running",
        "max_subgroup",
        "division",
        "cost_model",
        "cost_raw",
        "cost_weights",
    )
)
"""Settings a VO may set for all its sites (SPEC D4-D6, D11)."""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    form: str = FORM
    kind: Literal["revoke", "lift", "policy"]
    about: str
    """`site:NAME`, `signer:NAME`, `member:SITE/MACHINE`, `user:NAME@VO`, `serial:HEX`; `policy` for the policy."""
    reason: str = ""
    values: dict[str, Any] = {}
    """Of a policy: settings by name, of `POLICY_KEYS`."""
    wall_s: float
    """When, seconds since 1970: never before the one it replaces."""
    signer: SiteId


class Signed(msgspec.Struct, frozen=True, array_like=True, dict=True):
    payload: bytes
    chain: bytes
    """PEM, the signer's certificate first."""
    signature: bytes

    @cached_property
    def ident(self) -> str:
        """Names the statement: 16 hexadecimal digits."""
        return hashlib.sha256(self.payload).hexdigest()[:16]

    @cached_property
    def statement(self) -> Statement:
        """ValueError for bytes that are none. Whether the signature fits is a keyring's to say."""
        if len(self.payload) > MOST_BYTES:
            raise ValueError(f"{len(self.payload):,} bytes are more than a statement has")
        try:
            said = msgspec.json.decode(self.payload, type=Statement)
        except msgspec.MsgspecError as error:
            raise ValueError(f"no statement: {error}") from None
        if said.form != FORM or (said.kind == "policy") != (said.about == POLICY):
            raise ValueError("a statement of another form")
        if said.kind == "policy":
            under(Settings(), said.values)
        return said

    def after(self, other: Signed) -> bool:
        """Whether it replaces `other`, which is about the same: a total order."""
        mine, its = self.statement, other.statement
        return (mine.wall_s, mine.signer, self.payload) > (its.wall_s, its.signer, other.payload)


def payload_of(statement: Statement) -> bytes:
    return msgspec.json.encode(statement, order="sorted")


def digest(idents: list[str]) -> str:
    """Equal where the same statements are known."""
    return hashlib.sha256(",".join(sorted(idents)).encode()).hexdigest()[:16]


def under(own: Settings, values: dict[str, Any]) -> Settings:
    """A site's settings under the VO's policy: the policy gives what the site's operator left at its default.

    ValueError names the key that is no policy, or whose value is out of range.
    """
    default = Settings()
    for key in values:
        if key not in POLICY_KEYS:
            raise ValueError(f"{key}: no setting a VO sets; want one of {', '.join(sorted(POLICY_KEYS))}")
    free = {key: value for key, value in values.items() if getattr(own, key) == getattr(default, key)}
    whole = {**msgspec.to_builtins(own), **free}
    try:
        return msgspec.convert(whole, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
