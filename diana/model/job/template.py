"""Templates: `{name}` stands for a value per job, `{{` and `}}` for braces.

The rule is small on purpose (no formats, no attributes), so that a template is checked once at submission and
rendering it a million times costs about a third of a microsecond and cannot fail.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

GIVEN = frozenset({"index", "group"})
"""Names that every job has besides those of its sweep."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_BRACE = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")


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
        name = token[1:-1]
        if len(token) < 2 or not _NAME.match(name):
            what = f"a lone {token!r}" if len(token) < 2 else f"{_short(token)} is no placeholder"
            raise ValueError(
                f"{what} at character {found.start() + 1}; write {{{{ and }}}} for braces, {{name}} for a value"
            )
        names.add(name)
    return Template(text, frozenset(names))


def unknown_name(template: Template, known: frozenset[str]) -> str | None:
    """Describe the first placeholder that is not in `known`, in one line; None when all are known."""
    for name in sorted(template.names - known):
        near = get_close_matches(name, sorted(known), 1)
        hint = f"did you mean {{{near[0]}}}? " if near else ""
        names = ", ".join(f"{{{one}}}" for one in sorted(known))
        return f"unknown placeholder {{{name}}}; {hint}known: {names}; write {{{{{name}}}}} for the text itself"
    return None


def _short(token: str) -> str:
    return ascii(token if len(token) <= 40 else token[:37] + "...")
