"""Ids of sites, groups, subgroups and jobs: text a person can read, type and paste."""

from __future__ import annotations

import re
from typing import NewType

SiteId = NewType("SiteId", str)
"""A site's name: lower-case letters, digits and inner hyphens, at most 40 characters."""

GroupId = NewType("GroupId", str)
"""`SITE-NUMBER`, the number counted by the origin site: `alpha-12`. A job is `alpha-12.3`."""

SubgroupId = NewType("SubgroupId", str)
"""`GROUP/NUMBER`, the number counted within its group by the origin: `alpha-12/0`."""

MAIN_MACHINE = "main"
"""Name of a site's machine unless somebody gave another; a site of one machine has only this one."""

_SITE = re.compile(r"[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?\Z")
_GROUP = re.compile(r"(?P<site>[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?)-(?P<number>[1-9][0-9]{0,17})\Z")


def site_id(text: str) -> SiteId:
    """Check `text` as a site id; ValueError shows the form of a site id."""
    if not _SITE.match(text):
        raise ValueError(f"site id {text!r}: want 1 to 40 lower-case letters, digits and inner hyphens, a letter first")
    return SiteId(text)


def group_id(origin: SiteId, number: int) -> GroupId:
    return GroupId(f"{origin}-{number}")


def is_group_id(text: str) -> bool:
    return _GROUP.match(text) is not None


def origin_of(group: GroupId) -> SiteId:
    """The site that accepted the group and arbitrates over it."""
    return SiteId(group.rpartition("-")[0])


def no_group(group: GroupId, site: SiteId) -> str:
    """The words of a site to a user of a group that it does not have, or that the user may not see."""
    origin = origin_of(group)
    hint = f"; ask {origin}, where it was submitted" if origin and origin != site else ""
    return f"no group {group} of yours at {site}{hint}; diana status lists yours"


def subgroup_id(group: GroupId, number: int) -> SubgroupId:
    return SubgroupId(f"{group}/{number}")


def group_of(subgroup: SubgroupId) -> GroupId:
    return GroupId(subgroup.partition("/")[0])


def job_id(group: GroupId, index: int) -> str:
    return f"{group}.{index}"
