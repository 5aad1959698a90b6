"""Components of a gang as one word: `3x8`, `2x16+1x8`, `flexible 24`; and the checks that a word and a job file share
(SPEC K1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from diana.model.job.spec import MOST_BY_ITSELF, ComponentSpec, FlexibleSpec

MOST_COMPONENTS = 1_000
"""Components of one gang: each is a claim of its own."""

MOST_PROCESSORS = 10_000_000
MOST_FACTORS, MOST_FACTOR = 64, 1_000_000
"""Factors of a slowdown, and the largest."""

_ALIKE = re.compile(r"(?:(\d{1,18})\s*[xX]\s*)?(\d{1,18})(?:@([a-z][a-z0-9-]{0,39}))?")


def components_of(text: str) -> tuple[ComponentSpec, ...]:
    """Return the components that `3x8`, `2x16+1x8` or `1x8@vu` asks for. ValueError is one line with the mend."""
    found: list[ComponentSpec] = []
    for word in text.split("+"):
        word = word.strip()
        match = _ALIKE.fullmatch(word)
        if match is None and (small := word.replace("X", "x").lower()) != word and _ALIKE.fullmatch(small):
            raise ValueError(f"{word!r}: names of sites have small letters; write {small}")
        if match is None:
            raise ValueError(f"{text!r}: want COUNTxPROCESSORS, more of them joined by +, as 3x8 or 2x16+1x8@SITE")
        count, processors, site = match.groups()
        if count is None:
            raise ValueError(_two_ways(processors, word))
        found.append(ComponentSpec(count=int(count), processors=int(processors), site=site or ""))
    check_components(found)
    return tuple(found)


def _two_ways(number: str, word: str) -> str:
    """Return the line on a number alone, which some read as components and some as processors."""
    if int(number) < 2:
        return f"{word!r}: want COUNTxPROCESSORS; 1x{word} is one component"
    return f"{word!r}: {number}x1 is {number} components of one processor, 1x{number} one of {number}; write which"


def components_text(components: Sequence[ComponentSpec]) -> str:
    """Inverse of `components_of`; names, GPUs, inputs and commands of single components are not in the word."""
    return "+".join(f"{one.count}x{one.processors}" + (f"@{one.site}" if one.site else "") for one in components)


def request_of(text: str) -> tuple[ComponentSpec, ...] | FlexibleSpec:
    """Return what `flexible 24`, or a word of `components_of`, asks for. ValueError is one line with the mend."""
    word, _, rest = text.strip().partition(" ")
    if word != "flexible":
        return components_of(text)
    if not rest.strip().isdigit() or len(rest) > 9:
        raise ValueError(f"{text!r}: want a number of processors, as flexible 24")
    flexible = FlexibleSpec(processors=int(rest))
    check_flexible(flexible)
    return flexible


def check_components(components: Sequence[ComponentSpec]) -> None:
    """Check sizes and counts. ValueError is one line with the mend."""
    for number, each in enumerate(components, 1):
        which = each.name or f"component {number}"
        if not 1 <= each.count <= MOST_COMPONENTS:
            raise ValueError(f"{which}: count = {each.count}: want 1 to {MOST_COMPONENTS:,}")
        if not 1 <= each.processors <= MOST_PROCESSORS:
            raise ValueError(f"{which}: {each.processors} processors: want 1 to {MOST_PROCESSORS:,}")
        if not 0 <= each.gpus <= MOST_PROCESSORS:
            raise ValueError(f"{which}: gpus = {each.gpus}: want 0 to {MOST_PROCESSORS:,}")
        if min(each.memory_bytes, each.scratch_bytes) < 0:
            raise ValueError(f"{which}: memory and scratch: want 0 or more")
    total = sum(each.count for each in components)
    if total > MOST_COMPONENTS:
        raise ValueError(f"{total:,} components: a gang has at most {MOST_COMPONENTS:,}")


def check_slowdown(factors: Sequence[float]) -> None:
    """Check factors of a run over 1, 2, 3.. sites. ValueError is one line with the mend."""
    if len(factors) > MOST_FACTORS:
        raise ValueError(f"{len(factors)} factors: want at most {MOST_FACTORS}; the last goes on")
    for factor in factors:
        if not 1 <= factor <= MOST_FACTOR:
            raise ValueError(f"{factor:g}: want factors of 1 to {MOST_FACTOR:,}")
    if factors and factors[0] != 1:
        raise ValueError(f"begins with {factors[0]:g}: want 1 first, for one site")
    for before, after in pairwise(factors):
        if after < before:
            raise ValueError(f"falls from {before:g} to {after:g}: want none below the one before it")


def check_flexible(flexible: FlexibleSpec) -> None:
    """Check a flexible request against itself. ValueError is one line with the mend."""
    whole, least, most = flexible.processors, flexible.min_processors, flexible.max_components
    if not 1 <= whole <= MOST_PROCESSORS:
        raise ValueError(f"{whole} processors: want 1 to {MOST_PROCESSORS:,}")
    if not 1 <= least <= whole:
        raise ValueError(f"min_cpus = {least}: want 1 to the {whole} processors of the whole")
    if not 0 <= most <= MOST_COMPONENTS:
        raise ValueError(f"max_components = {most}: want 1 to {MOST_COMPONENTS:,}, or 0 for {MOST_BY_ITSELF}")
    if flexible.splits and (least != 1 or most):
        raise ValueError("splits name every division that is allowed; leave out min_cpus and max_components")
    if sum(map(len, flexible.splits)) > MOST_COMPONENTS:
        raise ValueError(f"splits: more than {MOST_COMPONENTS:,} sizes in all; list fewer")
    for split in flexible.splits:
        told = "+".join(str(size) for size in split)
        if not 1 <= len(split) <= MOST_COMPONENTS or min(split) < 1:
            raise ValueError(f"splits: {told or 'an empty one'}: want 1 to {MOST_COMPONENTS:,} sizes of at least 1")
        if sum(split) != whole:
            raise ValueError(f"splits: {told} is {sum(split)}, and the request is for {whole}; they must be equal")
