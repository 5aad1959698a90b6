"""The ledger of a VO: its signers' decisions for all sites. They ban and lift bans, set the VO's policy, and list the
names of sites given out.

A statement is bytes that a signer signed; it is kept and passed on as those bytes, so that every site checks the same
ones. Between two about the same thing the later one counts; between two pages of names, the one that has more.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any, Literal

import msgspec

from diana.model.ids import SiteId, site_id
from diana.model.settings import Settings
from diana.model.trust.identity import NOBODY, parse_uri

FORM = "diana-ledger-1"
"""Form of a statement, part of the signed bytes, so that a signature means nothing elsewhere."""
POLICY = "policy"
"""The `about` of a policy statement."""
NAMED = "named:"
"""Prefix of the `about` of a page of names, `named:SIGNER/NUMBER`; only that signer may state it."""
MOST_PAGES = 128
"""Pages of names that one signer may have."""
MOST_ON_PAGE = 1024
MOST_BYTES = 64 << 10
"""Largest policy or page of names, in bytes. A statement about somebody has at most `MOST_WORD_BYTES`, since thousands
of them stand."""
MOST_WORD_BYTES = 4 << 10
MOST_REASON = 300
MOST_AHEAD_S = 86_400.0
"""Seconds a statement may be dated ahead of a site's clock; one further ahead is refused, since nobody could replace it
by a later one."""

POLICY_KEYS = frozenset(
    (
        "priority_mode",
        "quotas",
        "default_quota",
        "time_threshold_s",
        "job_threshold",
        "site_job_threshold",
        "work_threshold_s",
        "bytes_threshold",
        "service_half_life",
        "user_max_queued",
        "user_max_running",
        "max_subgroup",
        "division",
        "placement",
        "split",
        "cost_model",
        "cost_raw",
        "cost_weights",
        "binding",
    )
)
"""Settings a VO may set for all its sites (SPEC D4-D6, D11)."""


ENTRY_KINDS = ("site", "signer", "member", "user", "serial")


def checked_entry(text: str) -> str:
    """Return the name of a ban's target in canonical form: `site:NAME`, `signer:NAME`, `member:SITE/MACHINE`,
    `user:NAME@VO` or `serial:HEX`. ValueError for a text that names nobody."""
    kind, _, name = text.partition(":")
    if kind == "serial":
        digits = name.lower().lstrip("0")
        if 0 < len(digits) <= 40 and not set(digits) - set("0123456789abcdef"):
            return f"serial:{digits}"
    elif kind in ENTRY_KINDS:
        user, at, vo = name.partition("@")
        if (kind == "user") == bool(at) and parse_uri(f"spiffe://{vo or 'vo'}/{kind}/{user}") != NOBODY:
            return text
    raise ValueError(
        f"{text[:80]!r} names nobody; write site:NAME, signer:NAME, member:SITE/MACHINE, user:NAME@VO or serial:HEX"
    )


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    form: str = FORM
    kind: Literal["revoke", "lift", "policy", "named"]
    about: str
    """`site:NAME`, `signer:NAME`, `member:SITE/MACHINE`, `user:NAME@VO`, `serial:HEX`; `policy` for the policy,
    `named:SIGNER/NUMBER` for a page of names."""
    reason: str = ""
    values: dict[str, Any] = {}
    """A policy's settings by name, of `POLICY_KEYS`. A page's `names` given out, and `signers` among them."""
    wall_s: float
    """Date of the statement, seconds since 1970; never before that of the one it replaces."""
    signer: SiteId


def page_about(signer: str, number: int) -> str:
    return f"{NAMED}{signer}/{number}"


def names_in(page: Statement) -> frozenset[str]:
    """Names of sites that the page says were given out."""
    return frozenset(page.values["names"])


def signers_in(page: Statement) -> frozenset[str]:
    """Those names in the page whose sites were made signers."""
    return frozenset(page.values["signers"])


def _check_page(said: Statement) -> None:
    """Raise ValueError for a page of another form."""
    signer, _, number = said.about.removeprefix(NAMED).rpartition("/")
    good = signer == said.signer and number.isascii() and number.isdecimal() and int(number) < MOST_PAGES
    if not good or said.about != page_about(signer, int(number)) or said.values.keys() != {"names", "signers"}:
        raise ValueError("a page of names of another form")
    for rows in said.values.values():
        if not isinstance(rows, list) or len(rows) > MOST_ON_PAGE or not all(isinstance(one, str) for one in rows):
            raise ValueError("a page of names of another form")
        if rows != sorted({site_id(one) for one in rows}):
            raise ValueError("a page whose names are not in order")
    if not signers_in(said) <= names_in(said):
        raise ValueError("a page of names that makes others signers")


def of_itself(about: str, signer: str) -> bool:
    """True if a signer states something about its own trust; by a later date it could undo any ban."""
    return about in (f"site:{signer}", f"signer:{signer}")


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
        """The statement these bytes hold; ValueError for bytes that hold none. A keyring checks the signature."""
        if len(self.payload) > MOST_BYTES:
            raise ValueError(f"{len(self.payload):,} bytes are more than a statement has")
        try:
            said = msgspec.json.decode(self.payload, type=Statement)
        except msgspec.MsgspecError as error:
            raise ValueError(f"no statement: {error}") from None
        except RecursionError:
            raise ValueError("no statement: it is nested too deeply") from None
        if said.form != FORM or (said.kind == "policy") != (said.about == POLICY):
            raise ValueError("a statement of another form")
        if said.kind == "policy":
            under(Settings(), said.values)
        elif said.kind == "named":
            _check_page(said)
        elif checked_entry(said.about) != said.about or said.values or len(self.payload) > MOST_WORD_BYTES:
            raise ValueError("a statement of another form")
        if of_itself(said.about, said.signer):
            raise ValueError(f"{said.signer} may not say whether {said.signer} is trusted")
        if len(said.reason) > MOST_REASON or not said.reason.isprintable():
            raise ValueError(f"its reason is not one line of at most {MOST_REASON} characters")
        return said

    def after(self, other: Signed) -> bool:
        """True if it replaces `other`, which is about the same thing. A total order, except for pages of names: there a
        page must have all names of the other, so that an older copy of a signer's journal loses no name."""
        mine, its = self.statement, other.statement
        if mine.kind == its.kind == "named" and mine.values != its.values:
            return names_in(mine) >= names_in(its) and signers_in(mine) >= signers_in(its)
        return (mine.wall_s, mine.signer, self.payload) > (its.wall_s, its.signer, other.payload)


def payload_of(statement: Statement) -> bytes:
    return msgspec.json.encode(statement, order="sorted")


def dated_ahead(said_s: float, now_s: float) -> str:
    """One line where a statement is dated too far ahead of this clock (both seconds since 1970); else empty."""
    if said_s <= now_s + MOST_AHEAD_S:
        return ""
    return f"dated {(said_s - now_s) / 86_400.0:.3g} days ahead of this site's clock; one of the two clocks is wrong"


def digest(idents: list[str]) -> str:
    """Digest of the known statements: equal at sites that know the same ones."""
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
        said, at, key = str(error).rpartition(" - at `$.")
        raise ValueError(f"{key.rstrip('`')}: {said[:1].lower()}{said[1:]}" if at else str(error)) from None
