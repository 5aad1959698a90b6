"""Mends for a refused expression: its author may have meant words of other languages, names that are nearly right."""

from __future__ import annotations

import re
from collections.abc import Set
from difflib import get_close_matches

from diana.policy.requirements.names import (
    LINK,
    RESERVED,
    SET,
    SET_PROPERTY,
    SITE,
    SITE_PROPERTY,
    is_declared,
    is_resource,
)

_QUOTED = re.compile(r"""//[^\n]*|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.ASCII)
_FOREIGN: tuple[tuple[str, str], ...] = (
    (r"=[?]=", "write == for =?="),
    (r"=!=", "write != for =!="),
    (r"<>", "write != for <>"),
    (r"=>", "write >= for =>"),
    (r"=<", "write <= for =<"),
    (r"(?<![=!<>])=(?!=)", "write == for ="),
    (r"\b[nN][oO][tT]\s+[iI][nN]\b", "write !(A in B) for A not in B"),
    (r"\b[aA][nN][dD]\b", "write && for and"),
    (r"\b[oO][rR]\b", "write || for or"),
    (r"\b[nN][oO][tT]\b", "write !(...) for not"),
    (r"(?<!&)&(?!&)", "write && for &"),
    (r"(?<!\|)\|(?!\|)", "write || for |"),
    (r"≥", "write >= for ≥"),
    (r"≤", "write <= for ≤"),
    (r"≠", "write != for ≠"),
    (r"\b\d[\d.]*\s*(?:[kKMGTP]i?[bB]?|[mMuUn]?s|[bB])\b", "a number has no unit; write bytes or seconds, such as 8e9"),
    (r"\b\d+_\d", "write a number without _"),
)
"""Signs and words of other languages, and what stands for them here; the first that is found is told."""
_ELSEWHERE = {
    "float": "number(text)",
    "int": "number(text)",
    "real": "number(text)",
    "len": "size(list)",
    "count": "size(list)",
    "regexp": "t.startsWith(text), t.endsWith(text) or t.contains(text)",
    "matches": "t.startsWith(text), t.endsWith(text) or t.contains(text)",
    "True": "true",
    "TRUE": "true",
    "False": "false",
    "FALSE": "false",
}
"""Functions and words of other languages, and what does the same here."""
_SAME = {"cpu": "slots", "cpus": "slots", "cores": "slots", "ram": "memory_bytes", "arch": "platforms"}
"""Word of other schedulers for a value of a site -> its name here."""
_PROPERTY = re.compile(r"(?:site|set)\.[a-z][a-z0-9_]*", re.ASCII)


def foreign(text: str) -> str:
    """Return how to mend a text that cannot be read, as the end of a line; empty if nothing in it is known."""
    bare = _QUOTED.sub("''", text)
    return next((f"; {mend}" for pattern, mend in _FOREIGN if re.search(pattern, bare)), "")


def unknown(name: str, known: Set[str]) -> str:
    """Return the line about a name that is none of the known ones."""
    shown = f"{name[:60]!r} is no name here"
    if is_declared(f"{name}.x"):
        return f"{shown}; write {name}.NAME, such as {name}.{'fpga' if is_resource(f'{name}.x') else 'tier'}"
    if name in _ELSEWHERE:
        return f"{shown}; write {_ELSEWHERE[name]}"
    first, point, own = name.partition(".")
    if first == "properties" and "site.name" in known:
        return f"{shown}; write {SITE_PROPERTY}{own[:60]}"
    if name in LINK and "site.name" in known:
        return f"{shown}; write it under link_requirements (--require-link)"
    if name in SET and "site.name" in known:
        return f"{shown}; write it under set_requirements (--require-set)"
    measured = next((one for one in LINK if first == "site" and len(own) > 2 and one.startswith(f"link.{own}")), "")
    if measured:
        return f"{shown}; write {measured}" + ("" if measured in known else " under link_requirements (--require-link)")
    if name in ("set.size", "set.name"):
        return f"{shown}; write {'size(set)' if name == 'set.size' else 'set, which is the list of their names'}"
    if near := _near(name, known):
        return f"{shown}; did you mean {near}?"
    if _PROPERTY.fullmatch(name) and ("set" if first == "set" else "site.name") in known:
        return f"{shown}; did you mean a property, {first}.properties.{own[:60]}?"
    if name in RESERVED:
        return f"{name!r} is not understood here; the names are in docs/requirements.md"
    kinds = ", ".join(sorted({one.partition(".")[0] + ".*" for one in known if "." in one}))
    quotes = "" if point else "; a text stands in quotes"
    return f"{shown}; want {kinds} (docs/requirements.md), or a swept name of one value{quotes}"


def _near(name: str, known: Set[str]) -> str:
    """Return the known name that was meant; empty if none is like it."""
    first, _, own = name.rpartition(".")
    own = _SAME.get(own.lower(), own.lower())
    # Names that speak of the same come first: those of the site, where nothing is said.
    of = first.lower() if any(one.startswith(f"{first.lower()}.") for one in known) else ""
    ends = {one.rpartition(".")[2]: one for one in sorted(known) if not of or one.startswith(f"{of}.")}
    if not of:
        ends |= {one.rpartition(".")[2]: one for one in SITE if one in known}
    if begun := [end for end in sorted(ends) if len(own) > 2 and end.startswith(own)]:
        return ends[begun[0]]
    if near := get_close_matches(own, sorted(ends), 1, 0.65):
        return ends[near[0]]
    return "" if of in ("site", "set") else next(iter(get_close_matches(name, sorted(known), 1)), "")


def mismatched(operator: str, given: list[str], names: list[str]) -> str:
    """Return how to mend an operator that is not for these types, as the end of a line; empty if nothing is known.

    `names` are the names of the text, those of properties first."""
    compares = operator in ("==", "!=", "<", "<=", ">", ">=")
    property_ = next((name for name in names if name.startswith((SITE_PROPERTY, SET_PROPERTY))), "")
    if property_ and ("double" in given or given == ["list(string)"]):
        return f"; write number({property_})"
    if compares and "list(double)" in given:
        of = next((name for name in names if name.startswith("set.")), "list")
        return f"; write sum({of}), min({of}) or max({of})"
    if operator in ("==", "!=") and "list(string)" in given and "string" in given:
        of = next((name for name in names if name in SITE and SITE[name].many), "list")
        return f"; write 'text' in {of}"
    if compares and given == ["double", "string"]:
        return "; a number stands without quotes and unit, such as 8e9"
    if operator == "in" and given == ["string", "string"]:
        return "; write a list, such as ['a', 'b']"
    if compares and given[0] == "bool" and given[-1] != "bool":
        return "; compare two at a time, and join by &&"
    return ""
