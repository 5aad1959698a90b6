"""Names of software that a group's requirements ask about. A site may offer any number of modules, so it is asked about
these, and `site.software` has those of them that it offers."""

from __future__ import annotations

import re

from diana.model.job.software import MOST_TEXT
from diana.model.job.spec import GroupSpec
from diana.policy.requirements.swept import swept_values

MOST_NAMES = 64
"""Names that one group may ask about."""
_LIST = "site.software"
_ASKED = re.compile(
    r"""(?:'([^'\\]*)'|"([^"\\]*)"|\b([A-Za-z_]\w*)(?=[\s)]))[\s)]*\bin\b[\s(]*site\s*\.\s*software\b""", re.ASCII
)
"""A text or a name before it, in brackets or not."""


def names_of_software(spec: GroupSpec) -> tuple[str, ...]:
    """Return the texts and swept names that stand before `in site.software`, sorted, `MOST_NAMES` at most."""
    return asked(spec)[:MOST_NAMES]


def asked(spec: GroupSpec) -> tuple[str, ...]:
    """Return all of them."""
    found = [match for text in expressions_of(spec) if "software" in text for match in _ASKED.findall(text)]
    if not found:
        return ()
    swept = swept_values(spec.sweep) if any(name for _, _, name in found) else {}
    named = (one or other or str(swept.get(name, "")) for one, other, name in found)
    return tuple(sorted({name[: MOST_TEXT + len("module ")] for name in named if name}))


def expressions_of(spec: GroupSpec) -> tuple[str, ...]:
    """Return the texts of all expressions about sites: those of the components, of the group, and its rank last."""
    every = ((*each.requirements, *each.link_requirements, *each.set_requirements) for each in spec.components)
    own = (text for texts in every for text in texts)
    return (*own, *spec.requirements, *spec.link_requirements, *spec.set_requirements, spec.rank)
