"""Templates: `{name}` stands for a value per job, `{{` and `}}` for braces.

The rule is small on purpose (no formats, no attributes), so that a template is checked once at submission and
rendering it a million times costs about a third of a microsecond and cannot fail.

Authors write one thing more: a brace after `$` is their shell's. Groups and sites do not know that, old ones neither:
what they keep and send each other has such braces doubled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

GIVEN = frozenset({"index", "group"})
"""Names that every job has besides those of its sweep."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_BRACE = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
_WRITTEN = re.compile(r"\$\{(?!\{)|\{\{|\}\}|\{[^{}]*\}|[{}]")
_LONGEST_SHOWN = 200
"""Characters of a word that is written out for its author."""


def is_name(text: str) -> bool:
    """True if `text` may be the name of a swept value."""
    return _NAME.match(text) is not None


class Template:
    """A compiled template; made by `compile_template`."""

    __slots__ = ("_format", "_plain", "names", "text")

    def __init__(self, text: str, names: frozenset[str]) -> None:
        self.text = text
        self.names = names
        # Every field is a bare name here, so str.format_map does exactly what the rule above says.
        self._format = text.format_map if names else None
        self._plain = text if names else text.replace("{{", "{").replace("}}", "}")

    def render(self, params: Mapping[str, str]) -> str:
        """The text for one job. `params` must hold all of `names`, which submission has checked."""
        return self._plain if self._format is None else self._format(params)


def compile_template(text: str) -> Template:
    """Check `text` and prepare it. ValueError names the position (from 1) and the mend."""
    if "{" not in text and "}" not in text:
        return Template(text, frozenset())
    names: set[str] = set()
    for found in _BRACE.finditer(text):
        token = found.group()
        if token in ("{{", "}}"):
            continue
        names.add(_name_in(token, found.start()))
    return Template(text, frozenset(names))


def settled(text: str, params: Mapping[str, str]) -> str | None:
    """The template `text` with these values in it for good; None: it has names beyond them. ValueError as
    `compile_template`."""
    template = compile_template(text)
    if not template.names.issubset(params):
        return None
    return template.render(params).replace("{", "{{").replace("}", "}}")


def written_template(text: str) -> Template:
    """The same for a text as its author wrote it, in which a brace after `$` is the shell's."""
    if "{" not in text and "}" not in text:
        return Template(text, frozenset())
    names: set[str] = set()
    out: list[str] = []
    end = 0
    for start, token, is_shells in braces(text):
        out.append(text[end:start])
        end = start + len(token)
        if is_shells:
            out.append(token.replace("{", "{{").replace("}", "}}"))
            continue
        out.append(token)
        if token not in ("{{", "}}"):
            names.add(_name_in(token, start, text))
    out.append(text[end:])
    return Template("".join(out), frozenset(names))


def braces(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield what a text as written holds of braces, as (place, token, whether it is the shell's): `${` and the `}` that
    ends it, `{{`, `}}`, `{...}`, and braces that stand alone."""
    # The ends that are still to come, of `${` and of `{{`.
    ends: list[str] = []
    at = 0
    while found := _WRITTEN.search(text, at):
        token = found.group()
        if token == "}}" and ends and ends[-1] == "}":
            token = "}"
        is_shells = token == "${" or (token == "}" and "}" in ends)
        if token in ("${", "{{"):
            ends.append("}" if token == "${" else "}}")
        elif is_shells:
            while ends.pop() != "}":
                pass
        elif token == "}}" and ends:
            ends.pop()
        yield found.start(), token, is_shells
        at = found.start() + len(token)


def unknown_name(template: Template, known: frozenset[str], written: str | None = None) -> str | None:
    """Describe the first placeholder that is not in `known`, in one line; None when all are known. `written`: the text
    as its author wrote it."""
    for name in sorted(template.names - known):
        from difflib import get_close_matches

        near = get_close_matches(name, sorted(known), 1)
        hint = f"did you mean {{{near[0]}}}? " if near else ""
        names = ", ".join(f"{{{one}}}" for one in sorted(known))
        mend = _plainly(template.text if written is None else written, known) or f"{{{{{name}}}}}"
        return f"unknown placeholder {{{name}}}; {hint}known: {names}; write {mend} for the text itself"
    return None


def quoted(word: str) -> str:
    """A word as a shell, TOML and YAML take it alike, as far as it lets them."""
    if "'" not in word:
        return f"'{word}'"
    if not any(one in word for one in '"$`\\!'):
        return f'"{word}"'
    return "'" + word.replace("'", "'\"'\"'") + "'"


def _name_in(token: str, start: int, written: str = "") -> str:
    name = token[1:-1]
    if len(token) >= 2 and _NAME.match(name):
        return name
    what = f"a lone {token!r}" if len(token) < 2 else f"{_short(token)} is no placeholder"
    whole = _plainly(written, None)
    mend = f"{whole} for the text itself" if whole else "{{ and }} for braces, {name} for a value"
    raise ValueError(f"{what} at character {start + 1}; write {mend}")


def _plainly(text: str, known: frozenset[str] | None) -> str:
    """The word to be written where the braces of `text` are to stay, but for placeholders (`known` None: all that may
    be some); empty: it is none that can be shown and copied."""
    if not 0 < len(text) <= _LONGEST_SHOWN or text != " ".join(text.split()) or not text.isprintable():
        return ""
    out: list[str] = []
    end = 0
    for start, token, is_shells in braces(text):
        stays = is_shells or token in ("{{", "}}")
        if not stays and len(token) > 2:
            stays = is_name(token[1:-1]) if known is None else token[1:-1] in known
        out += (text[end:start], token if stays else token.replace("{", "{{").replace("}", "}}"))
        end = start + len(token)
    return quoted("".join((*out, text[end:])))


def _short(token: str) -> str:
    return ascii(token if len(token) <= 40 else token[:37] + "...")
