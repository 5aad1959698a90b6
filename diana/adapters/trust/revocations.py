"""The identities that are trusted no more, by the operator's own file and by the VO's ledger, and what follows from it.

    site:NAME            the site, its machines, statements by its signer, and signers its signer made; certificates of
                         others that its signer signed hold on for `GRACE_S`, to be renewed by another signer meanwhile
    signer:NAME          all that this site's signer ever signed, at once: for a signing key that was stolen
    member:SITE/MACHINE  one machine of a site
    user:NAME@VO         a user
    serial:HEX           one certificate, and what stands below it

A banned site does not at once take with it the sites it invited: mostly those are all, and one ban would end the VO. In
time it does: whoever holds the signing key can make certificates of any name and date, so there must be a moment after
which none of them counts. Nodes renew at half of seven days and no banned signer signs, so honest sites
are below another signer by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from diana import errors
from diana.adapters.trust.chains import CertificateChain
from diana.bounds import MOST_TOML_BYTES, text_of
from diana.model.trust.ledger import checked_entry

GRACE_S = 7 * 86400.0
"""Seconds that leaves below a revoked site's signer hold after the revocation: a whole life of a site's leaf."""


def read_file(path: Path) -> frozenset[str]:
    """Read entries, one a line; `#` starts a comment; no file, no entries. UsageError names the line that is none."""
    try:
        text = text_of(path, MOST_TOML_BYTES)
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError) as error:
        raise errors.UsageError(f"{path}: {error}; make it readable text") from None
    found = set()
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.partition("#")[0].strip()
        try:
            found |= {checked_entry(entry)} if entry else set()
        except ValueError as error:
            raise errors.UsageError(f"{path}: line {number}: {error}") from None
    return frozenset(found)


class Revocations:
    """Two lists of what is revoked, and one question to both. Times are seconds since 1970."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._local: frozenset[str] = frozenset()
        self._ledger: frozenset[str] = frozenset()
        self._since: dict[str, float] = {}
        self._reasons: dict[str, str] = {}

    def reload(self, now_s: float) -> None:
        """Read the operator's file. UsageError for a bad line; then what was read before stays."""
        self._local = found = read_file(self._file)
        # The file's own date, so that a restart does not begin the grace anew.
        changed_s = self._file.stat().st_mtime if found else now_s
        self._date(found, dict.fromkeys(found, changed_s), now_s)

    def set_ledger(
        self,
        revoked: Iterable[str],
        since: Mapping[str, float],
        now_s: float,
        reasons: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Take the VO's list, whole. Entries that are none revoke nobody. `since`: when each was revoked; those not
        named are dated when they are first heard of. `reasons` go to whoever is refused."""
        good = set()
        for entry in revoked:
            try:
                good.add(checked_entry(entry))
            except ValueError:
                continue
        self._ledger, self._reasons = frozenset(good), dict(reasons)
        self._date(good, since, now_s)

    def _date(self, entries: Iterable[str], since: Mapping[str, float], now_s: float) -> None:
        for entry in entries:
            first = min(since.get(entry, now_s), now_s)
            self._since[entry] = min(self._since.get(entry, first), first)
        for gone in self._since.keys() - (self._local | self._ledger):
            del self._since[gone]

    def names(self, entry: str) -> str:
        """Return where an entry is revoked, on one line; empty: it is not."""
        if entry in self._local:
            return f"revoked at this site ({self._file})"
        if entry not in self._ledger:
            return ""
        return f"revoked by the VO ({why})" if (why := self._reasons.get(entry)) else "revoked by the VO"

    def why_not(self, chain: CertificateChain, now_s: float) -> str:
        """Return why the chain is revoked; empty: nothing in it is. The chain may be a signer's own."""
        for link in chain.links:
            if why := self.names(f"serial:{link.serial}"):
                return why
        first, *above = chain.links[:-1]
        why = self.names(first.identity.said)
        if not why and first.identity.site:
            why = self.names(f"site:{first.identity.site}")
        if why:
            return why
        signer_made_signer = first.identity.kind == "signer"
        for link in above:
            if why := self._why_not_signed_by(link.identity.name, now_s, at_once=signer_made_signer):
                return why
            signer_made_signer = True
        return ""

    def _why_not_signed_by(self, site: str, now_s: float, *, at_once: bool) -> str:
        if why := self.names(f"signer:{site}"):
            return f"its signer {site} is {why}"
        why = self.names(f"site:{site}")
        if why and (at_once or now_s >= self._since.get(f"site:{site}", 0.0) + GRACE_S):
            return f"its signer {site} is {why}; have another signer issue a new one"
        return ""
