"""Pages of the groups that were submitted here, in order of submission: a page costs what it looks through."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from diana.engine.journal.events import Ask
from diana.engine.journal.state import Group, Machine
from diana.engine.site.context import Context
from diana.engine.site.dependencies import is_final
from diana.model.ids import GroupId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.components import components_text
from diana.model.job.spec import GroupSpec, InputFile
from diana.model.settings import Settings
from diana.model.trust.principal import Role
from diana.model.views.past import PastGroup, PastGroups, PastMachine, PastMoment, PastOrder, PastSite, PastWindow
from diana.policy.trust.authorise import Action, authorise

MOST_GROUPS = 500
"""Groups looked at for one page."""
_DATASET = "dataset:"


def page(core: Context, event: Ask) -> PastGroups:
    """Return those of the next groups that were submitted in the span asked for and that the principal may read.

    `event.first` is the place where the page begins and `event.group` the group before it: where older ones were
    forgotten meanwhile, the place is looked for anew."""
    found: list[PastGroup] = []
    superseded: list[tuple[tuple[SubgroupId, IndexSet], ...]] = []
    some = list(islice(_from(core, event.first, event.group), MOST_GROUPS))
    for _, group in some:
        if group.wall_s < event.from_wall_s or (event.to_wall_s and group.wall_s >= event.to_wall_s):
            continue
        if not authorise(event.principal, Action.READ_GROUP, group.owner):
            found.append(_told(core, group))
            superseded.append(_superseded(group))
    if not some or some[-1][0] + 1 == len(core.state.groups):
        return PastGroups(groups=tuple(found), superseded=tuple(superseded))
    place, last = some[-1]
    return PastGroups(groups=tuple(found), superseded=tuple(superseded), next=place + 1, last=last.group)


def site(core: Context, event: Ask) -> PastSite:
    """Return this site as it stands; its settings to operators alone, since they name users and paths."""
    state, settings = core.state, core.state.settings
    operator = event.principal.role is Role.OPERATOR
    own = state.machines.get(core.workers.own, Machine(0))
    return PastSite(
        site=core.site,
        wall_s=core.now + core.calendar.ahead_s,
        keep_s=settings.keep_s,
        slots=settings.slots,
        speed=settings.speed,
        settings=_differing(settings) if operator else "",
        machines=tuple(
            PastMachine(name=name, slots=one.slots, gpus=one.gpus[1], gone=one.gone, resources=dict(one.resources))
            for name, one in sorted(state.machines.items())
            if name != core.workers.own
        ),
        maintenance=tuple(
            PastWindow(from_wall_s=one.from_wall_s, to_wall_s=one.to_wall_s, machines=one.machines, reason=one.reason)
            for one in (*core.calendar.configured, *state.maintenance)
        ),
        moments=tuple(
            PastMoment(wall_s=one.at_s + core.calendar.ahead_s, slots=one.slots, speed=one.speed, drained=one.drained)
            for one in state.moments
        ),
        gpus=own.gpus[1],
        resources=dict(own.resources),
    )


def _differing(settings: Settings) -> str:
    usual = Settings()
    names = (name for name in settings.__struct_fields__ if name not in ("slots", "speed"))
    return msgspec.json.encode(
        {name: value for name in names if (value := getattr(settings, name)) != getattr(usual, name)}
    ).decode()


def _from(core: Context, first: int, before: GroupId | None) -> Iterator[tuple[int, Group]]:
    """Places and groups from `first` on."""
    groups = core.state.groups
    if before is not None and next(islice(groups, first - 1, first), None) != before:
        number = _number(before)
        return ((at, group) for at, group in enumerate(groups.values()) if _number(group.group) > number)
    return zip(range(first, len(groups)), islice(groups.values(), first, None), strict=False)


def _number(group: GroupId) -> int:
    return int(group.rpartition("-")[2])


def _superseded(group: Group) -> tuple[tuple[SubgroupId, IndexSet], ...]:
    return tuple((part, its.superseded) for part, its in group.subgroups.items() if its.superseded)


def _told(core: Context, group: Group) -> PastGroup:
    spec, said = group.spec, group.foretold
    inputs = [one for one in spec.every_input() if one.source.startswith(_DATASET)]
    return PastGroup(
        group=group.group,
        owner=group.owner,
        jobs=group.jobs,
        submitted_wall_s=group.wall_s,
        submitted_s=group.submitted_s,
        final=is_final(core, group),
        cancelled=len(group.cancelled),
        retried=len(group.retried),
        work_s=spec.resources.work_s,
        processors=spec.resources.processors,
        components=components_text(spec.components),
        gpus=spec.resources.gpus,
        memory_bytes=spec.resources.memory_bytes,
        datasets=_names(spec),
        file_per_job=any("{" in one.source for one in inputs),
        output_bytes=spec.outputs.size_bytes,
        bytes_in=sum(part.bytes_in for part in group.subgroups.values()),
        sites=spec.sites,
        max_subgroup=spec.max_subgroup,
        max_parallel=spec.max_parallel,
        on_crash=spec.on_crash,
        on_site_lost=spec.on_site_lost,
        after=group.after,
        orders=tuple(
            PastOrder(
                after_s=one.at_s - group.submitted_s,
                kind=one.kind,
                whole=one.indices is None,
                indices="" if one.indices is None else str(one.indices),
                to=one.to,
            )
            for one in group.orders
        ),
        foretold_after_s=said.at_s - group.submitted_s if said is not None else 0.0,
        foretold_end_s=said.end_s if said is not None else 0.0,
        foretold_low_s=said.low_s if said is not None else 0.0,
        foretold_high_s=said.high_s if said is not None else 0.0,
        resources=dict(spec.resources.others),
    )


def _names(spec: GroupSpec) -> tuple[str, ...]:
    """Names of its datasets; one whose name differs from job to job is left out."""

    def name(one: InputFile) -> str:
        return one.source.removeprefix(_DATASET).partition("/")[0]

    names = (name(one) for one in spec.every_input() if one.source.startswith(_DATASET))
    return tuple(dict.fromkeys(each for each in names if "{" not in each))
