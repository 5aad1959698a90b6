"""Gangs on real nodes whose components write down when they begin, and whether an earlier attempt still lives then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SITES = ("alpha", "beta", "gamma")
APART_S = 1.0
"""Seconds within which all components of a gang begin."""
# Without what a test puts before the C library, `date` tells the machine's own wall clock.
_SCRIPT = """
now=$(LD_PRELOAD= date +%s.%N) beside=0
: >> "$BEGINS"
while read -r job _ _ _ _ token pid _; do
    [ "$job" = "$1" ] && [ "$token" != "$DIANA_GANG_TOKEN" ] && kill -0 "$pid" 2>/dev/null && beside=$pid
done < "$BEGINS"
echo "$1 $DIANA_GANG_RANK $DIANA_SITE $now $DIANA_GANG_HOSTS $DIANA_GANG_TOKEN $$ $beside" >> "$BEGINS"
exec sleep "$2"
"""


class Begin(NamedTuple):
    job: int
    rank: int
    site: str
    at_s: float
    hosts: str
    attempt: str
    """The same for all components of one attempt, and for no other."""
    pid: int
    beside: int
    """Process of an earlier attempt of its gang that lived when it began; 0: none did."""


def job_file(
    path: Path, count: int = 1, run_s: float = 0.5, sites: Sequence[str] = SITES, **more: object
) -> dict[str, object]:
    """Gangs of a component of one processor at each of these sites (empty: at any), which write to `path`."""
    return {
        "group": {
            "command": ["sh", "-c", _SCRIPT, "gang", "{job}", str(run_s)],
            "environment": {"BEGINS": str(path)},
            **more,
        },
        "sweep": {"job": f"1-{count}"},
        "components": [{"site": site, "cpus": 1} if site else {"cpus": 1} for site in sites],
    }


def begins(path: Path) -> list[Begin]:
    """In the order in which they were written."""
    if not path.exists():
        return []
    rows = [line.split() for line in path.read_text().splitlines()]
    return [
        Begin(int(job), int(rank), site, float(at_s), hosts, attempt, int(pid), int(beside))
        for job, rank, site, at_s, hosts, attempt, pid, beside in rows
    ]


def by_gang(path: Path) -> Mapping[int, list[list[Begin]]]:
    """The attempts of each gang that began anything, the first first. AssertionError where a component began twice in
    one attempt, or where a process of an attempt lived when a later one began."""
    out: dict[int, dict[str, list[Begin]]] = {}
    for begin in begins(path):
        assert not begin.beside, (begin, begins(path))
        some = out.setdefault(begin.job, {}).setdefault(begin.attempt, [])
        assert begin.rank not in {other.rank for other in some}, f"started twice: {begin}"
        some.append(begin)
    return {job: list(attempts.values()) for job, attempts in out.items()}


def whole(attempt: list[Begin], size: int = len(SITES)) -> bool:
    """True if each component began, together with the others."""
    moments = [begin.at_s for begin in attempt]
    print(f"started within {max(moments) - min(moments):.3f} s")
    return sorted(begin.rank for begin in attempt) == list(range(size)) and max(moments) - min(moments) < APART_S
