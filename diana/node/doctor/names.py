"""Checks between sites: two nodes that show one name, and sites that turn this one away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from diana.node.doctor.bounded import Results, fail

TWO_NODES = "two nodes"
"""Beginning of every note on a name that two nodes show, here and by the engine."""
_ELSEWHERE = "an address not told"


class TwoNodes(Protocol):
    """Two nodes of one name (`grpc_transport/noticed.py`)."""

    @property
    def linked(self) -> str: ...
    @property
    def other(self) -> str: ...


def clashes(own: str, twins: Mapping[str, TwoNodes]) -> Results:
    """Names are given out once; two signers that do so in the same seconds, or a copied data directory, make two."""
    rows: Results = []
    for site, twin in twins.items():
        mend = (
            f"stop one of them, at {twin.linked or _ELSEWHERE} or {twin.other or _ELSEWHERE}; to come back, it joins "
            "under another name: diana invite at a signer, diana join - NAME --data DIR there"
        )
        rows.append(fail(f"name {site}", f"two nodes are called {site}: {told_apart(own, site, twin)}", mend))
    return rows


def rumoured(twins: Mapping[str, TwoNodes], heard: Sequence[tuple[str, str]]) -> Results:
    """Report the names with two nodes that this node heard of and did not meet itself. `heard`: (site, what its engine
    says)."""
    mend = "stop one of them; to come back, it joins under another name: diana invite, then diana join - NAME there"
    begin = f"{TWO_NODES}: "
    found = [(site, said.removeprefix(begin).rpartition("; ")[0]) for site, said in heard if site not in twins]
    return [fail(f"name {site}", f"two nodes are called {site}: {where}", mend) for site, where in found]


def both(engine: str, links: str) -> str:
    """A note of the engine and one of the links in one; of two nodes of a name, who met both says more."""
    if engine.startswith(TWO_NODES) and links.startswith(TWO_NODES):
        return links
    return "; ".join(filter(None, (engine, links)))


def told_apart(own: str, site: str, twin: TwoNodes) -> str:
    here = "this one" if site == own else "one is linked"
    return f"{here} at {twin.linked or _ELSEWHERE}, the other is refused at {twin.other or _ELSEWHERE}"


def refused(own: str, refusals: Mapping[str, str]) -> Results:
    """Report the sites that refuse this one. It learns of that here alone: it hears nothing of the VO any more."""
    rows: Results = []
    for why, sites in by_reason(refusals).items():
        mend = f"look at what is wrong between the two: diana doctor at {sites[0]}"
        if "revoked" in why:
            mend = f"a signer's operator lifts a ban: diana site unban {own}"
        elif "two nodes" in why:
            mend = "stop this node or the other; to come back, it joins under another name: diana join - NAME"
        who = f"{', '.join(sites[:3])}{' and others' if len(sites) > 3 else ''}"
        rows.append(fail("trust", f"{who} {'refuses' if len(sites) == 1 else 'refuse'} this site: {why}", mend))
    return rows


def by_reason(refusals: Mapping[str, str]) -> dict[str, list[str]]:
    """Reason -> who gives it, both in order."""
    found: dict[str, list[str]] = {}
    for site, why in sorted(refusals.items(), key=lambda one: (one[1], one[0])):
        found.setdefault(why, []).append(site)
    return found
