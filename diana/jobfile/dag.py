"""Several groups in one job file (SPEC J4): `[[group]]` tables, the groups each waits for, and a check that each can
begin at all.

A group waits for the groups its `after` names and for those that make a dataset it reads. Each table is read exactly as
a file of one group; only its sections stand inside it (`[group.sweep]`, `[[group.inputs]]`, ...).
"""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from typing import Any

from diana.jobfile.options import INPUT, SHORT, apply
from diana.jobfile.parsed import ParsedJob, Waits
from diana.jobfile.problems import below, got, nearest
from diana.model.data import newest_of
from diana.model.ids import GroupId, is_group_id

MOST_GROUPS = 1000
_SECTIONS = ("sweep", "resources", "inputs", "outputs", "components", "flexible", "gang", "package")
_FOR_ALL = (
    *("group.after", "group.sites", "group.not_sites", "group.on_crash", "group.on_site_lost", "group.class"),
    "group.environment.",
)
"""Options that apply to every group of a file alike, besides those of `resources.`"""


def members(data: Mapping[str, Any], options: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the groups of a file with `[[group]]` tables: (name, the same as a file of one group). ValueError names
    the key; UsageError for an option that fits no file or not several groups."""
    for key in data:
        if key != "group":
            where = f"write [group.{key}] below the [[group]] it belongs to"
            mend = where if key in _SECTIONS else nearest(key, ["group"])
            raise ValueError(f"{key}: the file holds several groups; {mend}")
    tables = data["group"]
    if not 0 < len(tables) <= MOST_GROUPS:
        raise ValueError(f"group: {len(tables)} tables; want 1 to {MOST_GROUPS} [[group]] tables in a file")
    out: list[tuple[str, dict[str, Any]]] = []
    places: dict[str, int] = {}
    for at, table in enumerate(tables):
        if not isinstance(table, dict):
            raise ValueError(f"group[{at}]: want a table of keys and values, got {got(table)}")
        name = table.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"group[{at}].name: missing; each of several groups has a name of its own")
        if name in places:
            raise ValueError(f"group[{at}].name: {name!r} is that of group[{places[name]}] too; give it another")
        places[name] = at
        alone: dict[str, Any] = {"group": {key: value for key, value in table.items() if key not in _SECTIONS}}
        alone.update((key, table[key]) for key in _SECTIONS if key in table)
        out.append((name, _with_options(alone, options)))
    return out


def _with_options(alone: dict[str, Any], options: Mapping[str, str]) -> dict[str, Any]:
    for option in options:
        path = SHORT.get(option, option)
        if option == INPUT or ("." in path and not path.startswith((*_FOR_ALL, "resources."))):
            raise ValueError(f"option {option}: the file holds several groups; write it into the one that is meant")
    written = alone["group"].get("after")
    out = apply(alone, options)
    if "after" in options and isinstance(written, list):
        # The file's own value stays: the option only adds to it.
        out["group"]["after"] = [*written, *out["group"]["after"]]
    return out


def waits(jobs: Sequence[ParsedJob]) -> tuple[Waits, ...]:
    """Return the groups each group waits for, by `after` and by the datasets it reads. ValueError for an unknown name,
    two groups that make one dataset, and groups that wait for each other in a circle."""
    places = {job.spec.name: at for at, job in enumerate(jobs)} if len(jobs) > 1 else {}
    makers = _makers(jobs)
    out = []
    for at, job in enumerate(jobs):
        before: list[int] = []
        groups: list[GroupId] = []
        for word in job.after:
            if word in places:
                before.append(places[word])
            elif is_group_id(word):
                groups.append(GroupId(word))
            else:
                raise ValueError(f"{_key(jobs, at, 'after')}: {_unknown(word, list(places))}")
        before += [makers[name] for name in dict.fromkeys(newest_of(ref) for ref, _ in job.refs) if name in makers]
        out.append(Waits(tuple(dict.fromkeys(before)), tuple(dict.fromkeys(groups))))
    _check_circle(jobs, out)
    return tuple(out)


def _makers(jobs: Sequence[ParsedJob]) -> dict[str, int]:
    makers: dict[str, int] = {}
    for at, job in enumerate(jobs):
        name = job.spec.outputs.dataset
        if name in makers:
            other = jobs[makers[name]].spec.name
            raise ValueError(f"{_key(jobs, at, 'outputs.dataset')}: group {other} makes {name!r} too; use another name")
        if name:
            makers[name] = at
    return makers


def _key(jobs: Sequence[ParsedJob], at: int, key: str) -> str:
    if len(jobs) > 1:
        return f"group {jobs[at].spec.name}: {key if '.' in key else below('group', key)}"
    return key if "." in key else below("group", key)


def _unknown(word: str, names: list[str]) -> str:
    if not names:
        return f"{word!r} is no group's id; want SITE-NUMBER, such as alpha-12 (`diana status` lists yours)"
    return f"no group {word!r} in this file; {nearest(word, names)}"


def _check_circle(jobs: Sequence[ParsedJob], found: Sequence[Waits]) -> None:
    order = graphlib.TopologicalSorter({at: waits.members for at, waits in enumerate(found)})
    try:
        order.prepare()
    except graphlib.CycleError as error:
        circle = " -> ".join(jobs[at].spec.name for at in error.args[1])
        raise ValueError(f"groups wait for each other in a circle: {circle}; take one of these steps out") from None
