"""Run times fitted over processors and sites (SPEC G2): a program's seconds are c0 + c1 x + c2 y, with x its work over
processors times their speed, and y the sites beyond the first. Kept are the sums of a least-squares fit, however many
jobs ran, in which older ones fade."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import combinations

import msgspec

from diana.model.job.spec import GroupSpec
from diana.model.sketch import HALF_LIFE

MOST_FITS = 1000
"""(program, user) pairs remembered; those that ended longest ago are forgotten."""
LEAST_RUNS = 5
"""Fewer past runs foretell nothing."""
_TERMS = 3
_SUBSETS = ((1,), (0, 1), (1, 2), (0, 1, 2), (0,), (0, 2), (2,))
"""Terms that may have a part in a fit; where several explain the runs as well, the first: by itself a run is taken to
be as much shorter as there is more power for it."""
_SINGULAR = 1e-9


class RunSample(msgspec.Struct, frozen=True, array_like=True):
    """Runs that were alike."""

    work: float
    """Work over processors times speed, x."""
    more_sites: int
    """Sites beyond the first, y."""
    mean_s: float
    runs: int


class RunFit(msgspec.Struct, array_like=True):
    """Sums over the runs of one program; each run counts by its relative error."""

    gram: tuple[float, ...] = (0.0,) * 9
    moment: tuple[float, ...] = (0.0,) * _TERMS
    weight: float = 0.0
    seen: int = 0

    def add(self, sample: RunSample) -> None:
        if not (sample.mean_s > 0 and sample.runs > 0):
            return
        fade = 0.5 ** (sample.runs / HALF_LIFE)
        row = [one / sample.mean_s for one in (1.0, sample.work, float(sample.more_sites))]
        self.gram = tuple(
            fade * self.gram[3 * i + j] + sample.runs * row[i] * row[j] for i in range(_TERMS) for j in range(_TERMS)
        )
        self.moment = tuple(fade * self.moment[i] + sample.runs * row[i] for i in range(_TERMS))
        self.weight = fade * self.weight + sample.runs
        self.seen += sample.runs

    def terms(self) -> tuple[float, float, float] | None:
        """Return (c0, c1, c2), none below 0; None: too few runs."""
        if self.seen < LEAST_RUNS:
            return None
        best: tuple[float, tuple[float, float, float]] | None = None
        for subset in _SUBSETS:
            found = self._solved(subset)
            if found is None or min(found) < 0 or not max(found) > 0:
                continue
            error = max(0.0, self._error(found))
            # An error that is no smaller to speak of does not pay for another term.
            if best is None or error < 0.98 * best[0] - 1e-9 * self.weight:
                best = (error, found)
        return best[1] if best is not None else None

    def _error(self, terms: Sequence[float]) -> float:
        """Return the sum of the squares of relative errors."""
        square = sum(terms[i] * terms[j] * self.gram[3 * i + j] for i in range(_TERMS) for j in range(_TERMS))
        return self.weight - 2 * sum(c * m for c, m in zip(terms, self.moment, strict=True)) + square

    def _solved(self, subset: Sequence[int]) -> tuple[float, float, float] | None:
        """Solve the normal equations of these terms; None: the runs do not tell them apart."""
        scale = [self.gram[4 * i] ** 0.5 for i in subset]
        if min(scale) <= 0:
            return None
        rows = [
            [self.gram[3 * i + j] / (a * b) for j, b in zip(subset, scale, strict=True)] + [self.moment[i] / a]
            for i, a in zip(subset, scale, strict=True)
        ]
        size = len(subset)
        for at in range(size):
            pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
            if abs(rows[pivot][at]) < _SINGULAR:
                return None
            rows[at], rows[pivot] = rows[pivot], rows[at]
            for row in range(size):
                if row != at:
                    factor = rows[row][at] / rows[at][at]
                    rows[row] = [a - factor * b for a, b in zip(rows[row], rows[at], strict=True)]
        out = [0.0] * _TERMS
        for at, (i, a) in enumerate(zip(subset, scale, strict=True)):
            out[i] = rows[at][size] / rows[at][at] / a
        return out[0], out[1], out[2]


assert all(subset in _SUBSETS for count in range(1, _TERMS + 1) for subset in combinations(range(_TERMS), count))


class RunFits(msgspec.Struct):
    """Fits by program and user."""

    fits: dict[str, RunFit] = {}
    """`PROGRAM USER` -> its fit, the latest updated last."""

    def add(self, program: str, user: str, sample: RunSample) -> None:
        name = f"{program} {user}"
        fit = self.fits.pop(name, None) or RunFit()
        fit.add(sample)
        self.fits[name] = fit
        if len(self.fits) > MOST_FITS:
            del self.fits[next(iter(self.fits))]

    def terms(self, program: str, user: str) -> tuple[float, float, float] | None:
        fit = self.fits.get(f"{program} {user}")
        return fit.terms() if fit is not None else None


def fit_key(spec: GroupSpec) -> str:
    """Return the key shared by groups that run the same program, on however many processors and however long."""
    what = (spec.argv, spec.script, spec.environment, spec.container, spec.modules, spec.mpi, spec.runner, spec.is_gang)
    return sha256(msgspec.msgpack.encode(what)).hexdigest()[:16]


def work_of(spec: GroupSpec) -> float:
    """Return the work of a run as its author declares it, 1 where there is no word of it: the fit is over processors
    and sites then."""
    return spec.resources.work_s or 1.0


def equations(spec: GroupSpec, terms: tuple[float, float, float]) -> tuple[tuple[str, str], ...]:
    """Return a fit as the model of a group: of a job at a site, or of a component with its share of the data."""
    alone, scaling, per_site = terms
    scaling *= work_of(spec)
    if spec.is_gang:
        power = "(component.speed * component.processors)"
        text = f"{alone!r} + {scaling!r} * component.share / {power} + {per_site!r} * (gang.sites - 1.0)"
    else:
        text = f"{alone!r} + {scaling!r} / (site.speed * job.processors)"
    return (("time_s", text),)
