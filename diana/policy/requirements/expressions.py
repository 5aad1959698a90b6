"""Expressions of a small, typed part of CEL (cel.dev), by Google's library; no other module knows it.

The part is chosen so that an expression costs no more than its length: no loops, no joining of texts or lists, no
patterns, no untyped values. All numbers are doubles: a whole number in the text is read as one. Types and names are
checked when the text is read, so that evaluating fails only where a site does not tell a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from diana.model.job.declared import may_be
from diana.model.job.properties import MOST_NAME, MOST_PROPERTIES, WORDS, number_of
from diana.policy.requirements import mends
from diana.policy.requirements.names import (
    SCOPES,
    Value,
    is_declared,
    is_over_set,
    is_resource,
)

if TYPE_CHECKING:
    from cel_expr_python import cel

MOST_CHARACTERS = 4096
"""Characters of one expression."""
_CONFIG = """
stdlib:
  disable_macros: true
  exclude_functions:
    - name: "_+_"
      overloads:
        - id: "add_string"
        - id: "add_list"
        - id: "add_bytes"
    - name: "dyn"
    - name: "matches"
    - name: "size"
"""
_SIZE = "SetSize"
"""The library's own name for `size`: its size() gives whole numbers, and cannot be replaced."""
_LOOPS = frozenset({"map", "filter", "all", "exists", "exists_one", "has"})
_PIECE = re.compile(
    r"""//[^\n]*|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*)*|\.?\d[\w.]*(?:(?<=[eE])[+-]\d+)?""",
    re.ASCII,
)
"""A comment, a quoted text, a name with its points, or a number."""
_CODE = re.compile(r"^[A-Z_]+: ")
"""Kind of a fault, as the library has it before its line."""
_FAULT = re.compile(r"ERROR: <input>:-?\d+:(-?\d+): ([^\n]*)")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")
_MISMATCH = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'")
_FIELD = "operand of a select operation"
_KINDS = {
    "double": "a number",
    "string": "a text",
    "bool": "true or false",
    "list(double)": "a list of numbers",
    "list(string)": "a list of texts",
}

Constants = tuple[tuple[str, bool], ...]
"""Swept names of one value, and whether it is a text; sorted by name."""


class Untold(NamedTuple):
    """There is no value, and why."""

    why: str


class Expression:
    """A text that was read without a fault."""

    def __init__(self, text: str, names: tuple[str, ...], program: cel.Expression, result: str) -> None:
        self.text = text
        self.names = names
        """Names that it holds outside of quotes and comments, sorted."""
        self.result = result
        """Type of its value: bool, double or string, or another that no requirement has."""
        self._program = program

    def value(self, values: Mapping[str, Value]) -> bool | float | str | Untold:
        """Evaluate by the values of its names; those that are missing are not told."""
        cel = _library()
        data = {name: _given(values[name]) for name in self.names if name in values}
        try:
            found = self._program.eval(data=data)
        except RuntimeError as error:
            return Untold(_first_line(str(error)))
        if found.type() == cel.Type.ERROR:
            missing = [name for name in self.names if name not in values]
            if missing:
                return Untold(f"{', '.join(missing)} not told{_nearest_declared(missing, values)}")
            return Untold(_first_line(_CODE.sub("", str(found.plain_value()))))
        plain: bool | float | str = found.plain_value()
        return plain


def read(text: str, scope: str, constants: Constants = ()) -> Expression:
    """Read an expression that may hold the names of this scope (`names.SCOPES`). ValueError: one line that says why it
    is none."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"{len(text):,} characters; an expression has at most {MOST_CHARACTERS:,}")
    if not text.strip():
        raise ValueError("it is empty; write a comparison, such as site.memory_bytes >= 8e9")
    if not all(c.isprintable() or c in "\n\t" for c in text):
        raise ValueError("it holds a character that cannot be printed; remove it")
    return _read(text, scope, constants)


@lru_cache(maxsize=1024)
def _read(text: str, scope: str, constants: Constants) -> Expression:
    pieces = _pieces(text)
    declared = _declared(pieces, scope)
    environment = _environment(scope, constants, declared)
    known = {*SCOPES[scope], *(name for name, _ in constants), *declared}
    try:
        program = environment.compile(_PIECE.sub(_in_doubles, text))
        kind: str = program.return_type().name().lower()
    except (RuntimeError, UnicodeError) as error:
        raise ValueError(_told(str(error), text, known)) from None
    longest = (next((found for found in _begins(piece) if found in known), "") for piece in pieces)
    names = tuple(sorted(set(longest) - {""}))
    return Expression(text, names, program, kind)


def _pieces(text: str) -> tuple[str, ...]:
    """Return the names of a text and the numbers, without its quotes and comments; each with its points. ValueError: a
    text in it is not in plain quotes, so that nobody knows where it ends."""
    if "`" in _PIECE.sub("", text):
        raise ValueError("not understood near '`'; names stand without quotes")
    # A comment may stand within a name: at one of its points.
    text = _PIECE.sub(lambda found: " " if found[0][0] == "/" else found[0], text)
    kept, ended = [], -1
    for found in _PIECE.finditer(text):
        piece, at = found[0], found.start()
        if piece[0] not in "'\"":
            kept.append("".join(piece.split()))
        elif at == ended or text.startswith(piece[0], found.end()):
            # A letter or a quote stands at its quotes: r'...', b'...', '''...'''.
            raise ValueError(
                f"not understood near {text[max(0, at - 1) : at + 20]!r}; write a text in plain quotes: 'text'"
            )
        ended = found.end()
    return tuple(kept)


def _begins(piece: str) -> tuple[str, ...]:
    """Return the names that a piece may be, the longest first; a function of a text may follow it."""
    parts = piece.split(".", 3)
    return tuple(".".join(parts[:n]) for n in (3, 2, 1))


def _declared(pieces: tuple[str, ...], scope: str) -> tuple[str, ...]:
    """Return the declared properties and resources that these name, sorted. ValueError: they are too many, or one
    cannot be."""
    named = sorted({name for piece in pieces if is_declared(name := _begins(piece)[0], scope)})
    if len(named) > MOST_PROPERTIES:
        kinds = "resources" if all(map(is_resource, named)) else "properties"
        raise ValueError(f"it names {len(named)} {kinds}; an expression names at most {MOST_PROPERTIES}")
    for name in named:
        own = name.rpartition(".")[2]
        if own in WORDS or len(own) > MOST_NAME or (is_resource(name) and not may_be(own)):
            kind = "resource" if is_resource(name) else "property"
            raise ValueError(f"{name[:80]!r} is no {kind}: no site may declare that name (docs/site-file.md)")
    return tuple(named)


def _in_doubles(found: re.Match[str]) -> str:
    piece = found[0]
    if piece == "size":
        return _SIZE
    return f"{piece}.0" if piece.isdecimal() else piece


@cache
def _library() -> Any:
    from cel_expr_python import cel

    return cel


@lru_cache(maxsize=256)
def _environment(scope: str, constants: Constants, declared: tuple[str, ...]) -> cel.Env:
    cel = _library()
    of = cel.Type
    number, text, numbers, texts = of.DOUBLE, of.STRING, of.List(of.DOUBLE), of.List(of.STRING)
    variables = {}
    for name, known in SCOPES[scope].items():
        one, some = (text, texts) if known.text else (number, numbers)
        variables[name] = some if known.many or is_over_set(name) else one
    variables.update((name, text if is_text else number) for name, is_text in constants)
    for name in declared:
        one, some = (number, numbers) if is_resource(name) else (text, texts)
        variables[name] = some if is_over_set(name) else one

    def function(name: str, *overloads: tuple[Any, Any, list[Any]]) -> Any:
        made = [
            cel.Overload(f"{name}_{at}", result, taken, False, act) for at, (act, result, taken) in enumerate(overloads)
        ]
        return cel.FunctionDecl(name, made)

    functions = [
        function("sum", (lambda some: float(sum(some)), number, [numbers])),
        function("min", (_least, number, [numbers]), (min, number, [number, number])),
        function("max", (_most, number, [numbers]), (max, number, [number, number])),
        function(_SIZE, (_size, number, [of.List(of.DYN)]), (_size, number, [text])),
        function("number", (number_of, number, [text]), (_numbers, numbers, [texts])),
        function("suffix", (_suffix, of.BOOL, [text, texts]), (_suffixes, of.BOOL, [texts, texts])),
    ]
    return cel.NewEnv(config=cel.NewEnvConfigFromYaml(_CONFIG), variables=variables, functions=functions)


def _least(some: Sequence[float]) -> float:
    return float(min(some, default=0.0))


def _most(some: Sequence[float]) -> float:
    return float(max(some, default=0.0))


def _size(some: Sequence[object]) -> float:
    return float(len(some))


def _numbers(some: Sequence[str]) -> list[float]:
    return [number_of(one) for one in some]


def _suffix(value: str, ends: Sequence[str]) -> bool:
    """True if a member of the list is the suffix of the value (papers/grads-scheduling.txt, section 4.3.1)."""
    return any(value.endswith(end) for end in ends)


def _suffixes(values: Sequence[str], ends: Sequence[str]) -> bool:
    """The same of each member of a set."""
    return all(_suffix(value, ends) for value in values)


def _given(value: Value) -> Any:
    return list(value) if isinstance(value, tuple) else value


# --- words for faults ----------------------------------------------------------------------------------------


def _told(error: str, text: str, known: set[str]) -> str:
    """Return one line for the author of a text that the library refused."""
    faults = _FAULT.findall(error)
    undeclared = [name for _, fault in faults for name in _UNDECLARED.findall(fault)]
    if loop := next((name for name in undeclared if name in _LOOPS), ""):
        return f"{loop}() is a loop; expressions have none, write sum, min, max or size of a name of the set"
    if _SIZE in undeclared:
        return "size() has its list or text in brackets, such as size(set)"
    if undeclared:
        return mends.unknown(undeclared[0], known)
    if not faults:
        return "nested too deeply" if "recursion" in error else _first_line(error)
    column, fault = int(faults[0][0]), faults[0][1]
    if mismatch := _MISMATCH.search(fault):
        operator, given = mismatch[1].strip("_@").replace("_", " "), mismatch[2].split(", ")
        line = f"{operator} is not for {' and '.join(_KINDS.get(one, one) for one in given)}"
        names = [name for piece in _pieces(text) for name in _begins(piece) if name in known]
        return f"{line}{mends.mismatched(operator, given, names)}"
    if "recursion" in fault:
        return "nested too deeply"
    if _FIELD in fault and (piece := next((one for one in _pieces(text) if _is_of_set(one, known)), "")):
        return mends.unknown(piece, known)
    at = _own_column(text, column)
    return f"not understood near {text[max(0, at - 15) : at + 15]!r}{mends.foreign(text)}"


def _is_of_set(piece: str, known: set[str]) -> bool:
    """True for a name over a set that is not known."""
    return "set" in known and piece.startswith("set.") and not known.intersection(_begins(piece)[:-1])


def _own_column(text: str, column: int) -> int:
    """Return the place in a text that its author wrote of a column in what the library was given of it."""
    longer = 0
    for found in _PIECE.finditer(text):
        if found.start() + longer >= column:
            break
        longer += len(_in_doubles(found)) - len(found[0])
    return max(0, column - longer)


def _nearest_declared(missing: Sequence[str], values: Mapping[str, Value]) -> str:
    """Return what was meant by the first property or resource that is missing, if the site declares one so named; else
    empty."""
    begin, _, name = next(filter(is_declared, missing), "").rpartition(".")
    own = [one.rpartition(".")[2] for one in sorted(values) if begin and one.startswith(f"{begin}.")]
    near = get_close_matches(name, own, 1)
    return f"; did you mean {begin}.{near[0]}?" if near else ""


def _first_line(error: str) -> str:
    return " ".join(error.partition("\n")[0].split())[:200]
