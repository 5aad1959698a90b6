"""Names that expressions may hold, by what they speak of. docs/requirements.md publishes this list."""

from __future__ import annotations

from typing import NamedTuple

from diana.model.job.properties import WORDS

Value = float | str | tuple[float, ...] | tuple[str, ...]
"""Value of a name; a name over a set has one value for each site of it, in order of the sites' ids."""


class PublishedName(NamedTuple):
    text: bool
    """True: it is a text; False: a number."""
    meaning: str
    many: bool = False
    """True: it is a list of them at one site."""


_NUMBER, _TEXT = False, True

SITE = {
    "site.name": PublishedName(_TEXT, "id of the site"),
    "site.domain": PublishedName(_TEXT, "`domain` of its site file, such as cs.example.edu"),
    "site.slots": PublishedName(_NUMBER, "processors that jobs may hold there"),
    "site.free_slots": PublishedName(_NUMBER, "processors that nobody holds or was promised"),
    "site.widest": PublishedName(_NUMBER, "most processors of one job"),
    "site.speed": PublishedName(_NUMBER, "speed of a processor relative to the reference"),
    "site.memory_bytes": PublishedName(_NUMBER, "most memory of one job, bytes"),
    "site.total_memory_bytes": PublishedName(_NUMBER, "memory of all its machines together, bytes"),
    "site.platforms": PublishedName(_TEXT, "platforms of its machines, as `uname -m` names them", many=True),
    "site.software": PublishedName(
        _TEXT, "names in the group's expressions of what it offers, such as `module gcc/12`", many=True
    ),
    "site.gpus": PublishedName(_NUMBER, "GPUs of all its machines"),
    "site.free_gpus": PublishedName(_NUMBER, "GPUs that nobody has asked for"),
    "site.queued_jobs": PublishedName(_NUMBER, "jobs that wait there"),
    "site.jobs_ahead": PublishedName(_NUMBER, "jobs that would start before these"),
    "site.busy_fraction": PublishedName(_NUMBER, "share of its processors that is in use, 0 to 1"),
    "site.data_bytes": PublishedName(_NUMBER, "bytes of the inputs of the group that are there already"),
    "site.wait_s": PublishedName(_NUMBER, "seconds until one of these jobs would start"),
    "site.run_s": PublishedName(_NUMBER, "seconds one of these jobs would run there, as learned, else as declared"),
}
"""A site, as its quote about this group tells it."""

PROPERTY = PublishedName(_TEXT, "NAME under `[properties]` of its site file, such as site.properties.tier")
RESOURCE = PublishedName(
    _NUMBER, "most that one job may have of NAME under `[resources]` of its machines, such as site.resources.fpga"
)
SITE_PROPERTY, SET_PROPERTY = "site.properties.", "set.properties."
SITE_RESOURCE, SET_RESOURCE = "site.resources.", "set.resources."
"""Beginnings of the names of what operators declare. These are no list: an expression may name any, and a site that
does not declare it does not tell it."""
ALL_DECLARED = SITE_PROPERTY[:-1]
"""Key among the values of a site that told all that it declares: what is not among these it has not."""

LINK = {
    "link.rtt_s": PublishedName(_NUMBER, "round trip, seconds"),
    "link.bytes_per_s": PublishedName(_NUMBER, "throughput, bytes per second"),
    "link.loss": PublishedName(_NUMBER, "share of pings that went unanswered, 0 to 1"),
}
"""The link between the site of submission and a site, as measured."""

JOB = {
    "job.processors": PublishedName(_NUMBER, "processors of each job"),
    "job.memory_bytes": PublishedName(_NUMBER, "memory of each job, bytes; 0: not asked for"),
    "job.gpus": PublishedName(_NUMBER, "GPUs of each job"),
    "job.scratch_bytes": PublishedName(_NUMBER, "local disk of each job, bytes; 0: not asked for"),
    "job.work_s": PublishedName(_NUMBER, "declared run time at speed 1, seconds; 0: not declared"),
    "job.time_limit_s": PublishedName(_NUMBER, "time limit of each job, seconds; 0: none"),
    "group.jobs": PublishedName(_NUMBER, "jobs of the group"),
}
_DATA = {"group.data_bytes": PublishedName(_NUMBER, "bytes of all inputs of the group, each counted once")}
"""Values of the group that are known once sites have said which of its inputs they hold."""
GROUP = {**JOB, **_DATA}
"""The group itself. Swept names of one value are numbers or texts beside these."""

SET = {
    "set": PublishedName(_TEXT, "ids of the sites that the group's jobs are at, or are placed at"),
    **{name.replace("site.", "set."): known for name, known in SITE.items() if name != "site.name" and not known.many},
}
"""A set of sites: each name stands for the list of its sites' values."""

COMPONENT = {
    "component.share": PublishedName(_NUMBER, "part of the data that a component of a gang has, 0 to 1"),
    "component.items": PublishedName(_NUMBER, "the same in items of `package.mapper`"),
    "component.processors": PublishedName(_NUMBER, "processors of the component"),
    "component.speed": PublishedName(_NUMBER, "speed of one of them relative to the reference"),
    "component.memory_bytes": PublishedName(_NUMBER, "memory of its machine, bytes; 0: not told"),
    "gang.components": PublishedName(_NUMBER, "components of the gang"),
    "gang.processors": PublishedName(_NUMBER, "processors of all of them"),
    "gang.sites": PublishedName(_NUMBER, "sites that they are at"),
}
"""A component of a gang, in the model of its run; `link.*` is the worst link from its site to another of the gang's."""

_MODEL = {
    **{name: known for name, known in SITE.items() if name != "site.run_s" and not known.many},
    **LINK,
    **GROUP,
}

SCOPES = {
    "requirements": {**SITE, **GROUP},
    "link_requirements": {**LINK, **SITE, **GROUP},
    "set_requirements": {**SET, **GROUP},
    "rank": {**SITE, **LINK, **GROUP},
    "model": _MODEL,
    "gang_model": {**_MODEL, **COMPONENT},
    "mapper": JOB,
}
"""Names that the expressions under each key may hold."""

RESERVED = WORDS
"""Words of the language that no swept name can be."""


def is_declared(name: str, scope: str = "") -> bool:
    """True for a name of a property or resource that operators declare, where the scope is one of sites or sets.
    `scope` empty: any."""
    of_sets = not scope or "set" in SCOPES[scope]
    of_sites = not scope or "site.name" in SCOPES[scope]
    begins = (SET_PROPERTY, SET_RESOURCE) * of_sets + (SITE_PROPERTY, SITE_RESOURCE) * of_sites
    return name.startswith(begins) and name.count(".") == 2


def is_resource(name: str) -> bool:
    """True for the name of a declared resource, which is a number."""
    return name.startswith((SITE_RESOURCE, SET_RESOURCE))


def is_over_set(name: str) -> bool:
    """True for a name that stands for a list."""
    return name == "set" or name.startswith("set.")
