"""The placement policy of a group's gangs, by its name."""

from __future__ import annotations

from diana.engine.site.context import Context
from diana.model.job.spec import GroupSpec
from diana.policy.gang import policies
from diana.policy.gang.policies import GRADS


def unknown(core: Context, name: str) -> str:
    """Return the line that refuses a name; empty: it is known here, or none is given."""
    known = {*policies.OWN_NAMES, *core.gang_policies}
    return f"gang.placement: {policies.unknown(name, known)}" if name and name not in known else ""


def chosen(core: Context, spec: GroupSpec, reads: bool) -> str:
    """Return the policy's name: the group's own, else its site's default, else what the request suggests. `reads`: its
    components have files that some site holds."""
    default = core.state.settings.gang_placement
    if default == GRADS and (spec.rank or not spec.model):
        default = ""
    if default in policies.UNDIVIDING and spec.flexible is not None and not spec.flexible.splits:
        # What its site says of gangs is no wish of this one for one component.
        default = ""
    name = spec.gang_placement or default or _suggested(spec, reads)
    # A learned model is none before some runs have taught it.
    return _suggested(spec, reads) if name == GRADS and spec.learned and not spec.model else name


def _suggested(spec: GroupSpec, reads: bool) -> str:
    if spec.model and not spec.rank:
        return GRADS
    if spec.flexible is not None:
        return "flexible-min"
    return "close-to-files" if reads else "worst-fit"
