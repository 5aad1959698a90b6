"""Check that outputs of different jobs have different names, or one would silently replace another in the gathered
folder.

It is proved from the templates where their form allows it, else by rendering them all, up to a limit.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from diana.model.job.spec import Sweep
from diana.model.job.sweep import Parameters, axis_size
from diana.model.job.template import Template, compile_template

MOST_RENDERED = 200_000

_PIECE = re.compile(r"\{\{|\}\}|\{(\w+)\}|([^{}]+)")


def as_kept(template: Template) -> Template:
    """Return the template of the name that an output is kept by: one that all jobs share lies in a folder of each."""
    return template if template.names - {"group"} else compile_template(f"{{index}}/{template.text}")


def clash(templates: list[Template], sweep: Sweep, parameters: Parameters) -> str | None:
    """Return one line when two outputs would have the same name; None when that cannot be. Placeholders must be
    known."""
    alone = all(_apart(a, b) for a, b in itertools.combinations(templates, 2))
    unproved = [t for t in templates if not _distinct(t, sweep, parameters.size)]
    if alone and not unproved:
        return None
    chosen = templates if not alone else unproved
    if parameters.size * len(chosen) > MOST_RENDERED:
        return f"{chosen[0].text!r} may be the same file for several jobs; end its name in '-{{index}}'"
    return _rendered_clash(chosen, parameters)


def meets_found(templates: list[Template], found: str, parameters: Parameters) -> str | None:
    """Return one line when an output may have the name of one that the pattern or folder `found` finds, which lies in a
    folder named by the job's index; None when that cannot be."""
    unproved = [template for template in templates if template.names - {"group"} and not _begins_apart(template)]
    mend = f"in the folder of a job, where {found!r} puts what it finds; begin its name with a letter"
    if unproved and parameters.size * len(unproved) > MOST_RENDERED:
        return f"{unproved[0].text!r} may lie {mend}"
    for index in range(parameters.size if unproved else 0):
        values = {**parameters.of(index), "index": str(index), "group": "g-0"}
        for template in unproved:
            name = template.render(values)
            if name.removeprefix("./").partition("/")[0].isdecimal():
                return f"{template.text!r} lies ({name}) {mend}"
    return None


def _begins_apart(template: Template) -> bool:
    """True if the first component surely is no number."""
    for name, text in _pieces(template):
        first, slash, _ = text.partition("/")
        if first.strip("0123456789."):
            return True
        if slash or (name and name != "index"):
            return False
    return False


def _rendered_clash(templates: Iterable[Template], parameters: Parameters) -> str | None:
    seen: dict[str, int] = {}
    # The group's name is not known yet; NUL stands for it, which no value holds.
    for index in range(parameters.size):
        values = {**parameters.of(index), "index": str(index), "group": "\0"}
        for template in templates:
            name = template.render(values)
            if name in seen:
                who = (
                    "twice the same file" if seen[name] == index else f"the same file for jobs {seen[name]} and {index}"
                )
                return f"{template.text!r} is {who} ({name.replace(chr(0), '{group}')}); put {{index}} into its name"
            seen[name] = index
    return None


def _pieces(template: Template) -> list[tuple[str, str]]:
    """Pieces of a template, each (placeholder, "") or ("", literal); neighbouring literals are joined."""
    out: list[tuple[str, str]] = []
    for found in _PIECE.finditer(template.text):
        name = found[1] or ""
        literal = "" if name else found[0].replace("{{", "{").replace("}}", "}")
        if literal and out and not out[-1][0]:
            out[-1] = ("", out[-1][1] + literal)
        elif name == "group":
            # The same for all jobs of a group; it ends in a digit.
            out.append(("", "0"))
        else:
            out.append((name, literal))
    return out


def _distinct(template: Template, sweep: Sweep, jobs: int) -> bool:
    """True if the template surely differs between jobs."""
    if jobs <= 1:
        return True
    pieces = _pieces(template)
    numbers = {"index"}
    deciding = set()
    for axis in sweep.axes:
        if axis_size(axis) > 1:
            deciding.add(axis.name)
        if not axis.values or (all(map(str.isdecimal, axis.values)) and len(set(axis.values)) == len(axis.values)):
            numbers.add(axis.name)
    names = [name for name, _ in pieces if name]
    if names == ["index"]:
        return True
    complete = "index" in names or (not sweep.table and deciding <= set(names))
    return complete and (_digits_apart(pieces, numbers) or _ends_in_index(pieces))


def _digits_apart(pieces: list[tuple[str, str]], numbers: set[str]) -> bool:
    """True if all placeholders are numbers and no digit follows one: the numbers can be read back, so the texts
    differ."""
    for here, after in itertools.pairwise(pieces):
        if here[0] and (after[0] or after[1][0].isdecimal()):
            return False
    return all(not name or name in numbers for name, _ in pieces)


def _ends_in_index(pieces: list[tuple[str, str]]) -> bool:
    """True if the last placeholder is the index, behind text that ends in no digit."""
    last = max(at for at, piece in enumerate(pieces) if piece[0])
    before = pieces[last - 1] if last else ("", "-")
    return pieces[last][0] == "index" and not before[0] and not before[1][-1].isdecimal()


def _apart(a: Template, b: Template) -> bool:
    """True if the fixed beginnings or ends of two templates differ."""
    one, two = _pieces(a), _pieces(b)
    if not one or not two:
        return False
    heads = [p[0][1] if not p[0][0] else "" for p in (one, two)]
    tails = [p[-1][1] if not p[-1][0] else "" for p in (one, two)]
    if not a.names and not b.names:
        return heads != tails and one != two
    return not (heads[0].startswith(heads[1]) or heads[1].startswith(heads[0])) or not (
        tails[0].endswith(tails[1]) or tails[1].endswith(tails[0])
    )
