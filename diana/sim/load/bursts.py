"""Columns of jobs as groups: which came in one burst, what a user could know of them before. Pure; times in seconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from diana.sim.load import swf

Mask = NDArray[np.bool_]


def grouped(
    submit_s: swf.Real, alike: Sequence[swf.Whole], gap_s: float, span_s: float = 0.0, most: int = 0
) -> tuple[swf.Whole, swf.Whole]:
    """(order, begin): `order` puts the jobs of a group together, groups by their first job; `begin[k]` is where the
    k-th group begins in it, with the end as one entry more.

    `submit_s` rises. Successive jobs of the first column of `alike` (the user) that agree in all of them are one group
    as long as each comes at most `gap_s` after the one before, at most `span_s` after the first (0: no matter) and
    there are at most `most` (0: no matter). A gap of 0: every job is a group."""
    count = len(submit_s)
    if gap_s <= 0:
        return np.arange(count), np.arange(count + 1)
    by_user = np.argsort(alike[0], kind="stable")
    times_s = submit_s[by_user]
    starts = np.ones(count, np.bool_)
    starts[1:] = np.diff(times_s) > gap_s
    for column in alike:
        starts[1:] |= np.diff(column[by_user]) != 0
    heads = _limited(np.flatnonzero(starts), times_s, span_s, most)
    sizes = np.diff(np.append(heads, count))
    # A job's place in the log parts what came at one time.
    ranked = np.argsort(by_user[heads], kind="stable")
    begin = np.concatenate([[0], np.cumsum(sizes[ranked])])
    within = np.arange(count) - np.repeat(begin[:-1], sizes[ranked])
    return by_user[np.repeat(heads[ranked], sizes[ranked]) + within], begin


def _limited(heads: swf.Whole, times_s: swf.Real, span_s: float, most: int) -> swf.Whole:
    """Bursts that are too long or too large, cut from their beginning on."""
    if not span_s and not most:
        return heads
    out: list[int] = []
    count = len(times_s)
    for head, end in zip(heads.tolist(), [*heads[1:].tolist(), count], strict=True):
        while head < end:
            out.append(head)
            upto = min(end, head + most) if most else end
            if span_s and times_s[upto - 1] > times_s[head] + span_s:
                upto = head + int(np.searchsorted(times_s[head:upto], times_s[head] + span_s, side="right"))
            head = upto
    return np.array(out, np.int64)


def most_used(user: swf.Whole, place: swf.Whole, counts: Mask, users: int) -> swf.Whole:
    """For each user the place that most of its jobs name, ties to the lower one. Places that do not count come last: a
    user without another place gets one of them."""
    pairs, jobs = np.unique(np.stack((user, place)), axis=1, return_counts=True)
    order = np.lexsort((pairs[1], -jobs, ~counts[pairs[1]], pairs[0]))
    whose = pairs[0][order]
    first = np.searchsorted(whose, np.arange(users))
    best: swf.Whole = pairs[1][order][first]
    return best


def means(values: swf.Real, weights: swf.Real, begin: swf.Whole) -> tuple[swf.Real, swf.Real]:
    """The weighted mean of each group (0 where nothing weighs) and its sum of weights."""
    weight = np.add.reduceat(weights, begin[:-1])
    total = np.add.reduceat(values * weights, begin[:-1])
    return np.divide(total, weight, out=np.zeros_like(total), where=weight > 0), weight


def history(jobs: swf.SwfColumns, rows: swf.Whole, user: swf.Whole, at_s: swf.Real) -> swf.Real:
    """Run time that each `user` can expect at `at_s`: the mean of those of its jobs among `rows` that would have ended
    by then had they started at once; the mean over everybody's such jobs if it has none, and nan if nobody has."""
    ends_s, run_s, whose = jobs.submit_s[rows] + jobs.run_s[rows], jobs.run_s[rows], jobs.user[rows]
    found = _mean_before(ends_s, run_s, at_s)
    order, asked = np.argsort(whose, kind="stable"), np.argsort(user, kind="stable")
    people = np.unique(user)
    its_begin, its_end = (np.searchsorted(whose[order], people, side=side) for side in ("left", "right"))
    ask_begin, ask_end = (np.searchsorted(user[asked], people, side=side) for side in ("left", "right"))
    for k in range(len(people)):
        its, theirs = order[its_begin[k] : its_end[k]], asked[ask_begin[k] : ask_end[k]]
        known_s = _mean_before(ends_s[its], run_s[its], at_s[theirs])
        found[theirs] = np.where(np.isnan(known_s), found[theirs], known_s)
    return found


def _mean_before(ends_s: swf.Real, run_s: swf.Real, at_s: swf.Real) -> swf.Real:
    order = np.argsort(ends_s, kind="stable")
    upto = np.searchsorted(ends_s[order], at_s, side="right")
    total = np.concatenate([[0.0], np.cumsum(run_s[order])])[upto]
    mean_s: swf.Real = np.divide(total, upto, out=np.full(len(at_s), np.nan), where=upto > 0)
    return mean_s
