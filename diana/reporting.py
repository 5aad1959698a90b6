"""A job's word on how far it is, for the contract of its job file (SPEC G5). It needs the standard library alone."""

from __future__ import annotations

import os


def report(done: float, total: float, own_s: float = 0.0, roster: int = 0) -> bool:
    """Say that `done` of `total` steps are done. False: nobody wants to know, since the job file has no `[contract]`
    and no `gang.spares`, or the report could not be written. As often as one likes: the newest counts, and one a second
    is read.

    A component of a gang with spares says more. `own_s`: seconds that it took for its own part of the step, without
    waiting for others; one that stands by: that it takes for such a part. `roster`: number of the roster that it
    computes by (the first word of the file that DIANA_GANG_ROSTER names); 0: there was none yet.
    """
    path = os.environ.get("DIANA_REPORT")
    if not path:
        return False
    more = f" {own_s} {roster}" if own_s or roster else ""
    spare = f"{path}.{os.getpid()}"
    try:
        with open(spare, "w", encoding="ascii") as file:
            file.write(f"{done}/{total}{more}\n")
        os.replace(spare, path)
    except OSError:
        return False
    return True
