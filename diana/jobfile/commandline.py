"""`diana submit -- cmd {x} ::: 1 2 3`: words of the command line as a job file's data.

Imports nothing: the command line uses it to build a JSON job file and counts milliseconds.
"""

from __future__ import annotations

MARK = ":::"


def from_words(words: list[str]) -> dict[str, object]:
    """Return the job file (a dict to be written as JSON) for a command and its `:::` lists; several lists make the
    product.

    The lists belong to the placeholders `{name}` in the order of their first appearance; as in GNU parallel, `{}`
    and `{1}` stand for the first list, `{2}` for the second; with no placeholder the values follow the command.
    ValueError says what does not fit.
    """
    command: list[str] = []
    lists: list[list[str]] = []
    for word in words:
        if word == MARK:
            lists.append([])
        elif lists:
            lists[-1].append(word)
        else:
            command.append(word)
    if not command:
        raise ValueError("no command before :::; write: -- COMMAND {x} ::: VALUE ...")
    for number, values in enumerate(lists, 1):
        if not values:
            raise ValueError(f"list {number} after ::: is empty; write at least one value")
    if not lists:
        return {"group": {"command": command}}
    names, command = _names(command, len(lists))
    return {"group": {"command": command}, "sweep": dict(zip(names, lists, strict=True))}


def _names(command: list[str], count: int) -> tuple[list[str], list[str]]:
    """Return the swept names, one per list, and the command with its numbered placeholders turned into named ones."""
    found = list(dict.fromkeys(name for word in command for name in _placeholders(word)))
    if not found:
        names = [f"arg{number}" for number in range(1, count + 1)]
        return names, [*command, *(f"{{{name}}}" for name in names)]
    if any(name == "" or name.isdecimal() for name in found):
        return _numbered(command, found, count)
    swept = [name for name in found if name not in ("index", "group")]
    if len(swept) != count:
        shown = ", ".join(f"{{{name}}}" for name in swept) or "none"
        raise ValueError(f"{count} lists after ::: but {len(swept)} placeholders ({shown}); give each its list")
    return swept, command


def _numbered(command: list[str], found: list[str], count: int) -> tuple[list[str], list[str]]:
    names = [f"arg{number}" for number in range(1, count + 1)]
    for name in found:
        if name not in ("index", "group") and not (name == "" or (name.isdecimal() and 1 <= int(name) <= count)):
            raise ValueError(f"placeholder {{{name}}}: want {{}} or {{1}} to {{{count}}}, or names only")
    out = []
    for word in command:
        for name in found:
            if name == "":
                # As GNU parallel: all lists' values, separated by blanks; one list is the usual case.
                word = word.replace("{}", " ".join(f"{{{one}}}" for one in names))
            elif name.isdecimal():
                word = word.replace(f"{{{name}}}", f"{{arg{int(name)}}}")
        out.append(word)
    return names, out


def _placeholders(word: str) -> list[str]:
    """Names in braces, `{{` and `}}` skipped; anything else in braces is left for the check of the template."""
    out = []
    at = 0
    while (at := word.find("{", at)) >= 0:
        if word.startswith("{{", at):
            at += 2
            continue
        end = word.find("}", at)
        if end < 0:
            break
        name = word[at + 1 : end]
        if name == "" or name.replace("_", "a").isalnum():
            out.append(name)
        at = end + 1
    return out
