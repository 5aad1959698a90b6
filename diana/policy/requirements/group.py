"""All requirements of one group, read once for its many sites."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from msgspec import structs

from diana.model.job.spec import ComponentSpec, GroupSpec, Sweep
from diana.model.job.sweep import sweep_size
from diana.model.views.decision import FailedRequirement
from diana.policy.requirements.expressions import Constants
from diana.policy.requirements.judge import MOST_CHARACTERS, MOST_EXPRESSIONS, Rank, Requirements, Shortfall
from diana.policy.requirements.names import SET, Value, is_declared
from diana.policy.requirements.software import MOST_NAMES, asked, expressions_of
from diana.policy.requirements.swept import swept_values

MOST_JUDGED = 500_000
"""Characters of `set_requirements` that one search for a set of sites judges: half a second. A search for conditions of
300 characters comes to its own end before."""


class GroupRequirements:
    """The wishes of a group for a site, for the link to it, and for all its sites together; and its rank of them."""

    def __init__(self, spec: GroupSpec, *, unread: str = "") -> None:
        """ValueError: one line, with the key, on the first expression that is none."""
        self._unread = unread
        swept = swept_values(spec.sweep)
        constants = tuple((name, isinstance(value, str)) for name, value in sorted(swept.items()))
        _check_size(spec)
        self.own: dict[str, Value] = {**own_values(spec), **swept}
        """Values of the names that speak of the group itself."""
        try:
            self.site = _read(spec.requirements, "requirements", constants)
            self.link = _read(spec.link_requirements, "link_requirements", constants)
            self.sets = _read(spec.set_requirements, "set_requirements", constants)
            self.rank = _rank(spec.rank, constants) if spec.rank else None
        except ValueError as error:
            raise _of_sweep(error, spec.sweep, swept) from None

    def failed(self, values: Mapping[str, Value], *, home: bool) -> tuple[FailedRequirement, ...]:
        """Return what does not hold at a site, by its values and those of the link to it. `home`: there is no link."""
        if self._unread:
            return (FailedRequirement(text=self._unread),)
        given = {**self.own, **values}
        return self.site.failed(given) + (() if home else self.link.failed(given))

    def may_hold(self, site: Mapping[str, Value]) -> bool:
        """True unless the site surely fails by what is known of it without asking it."""
        return not self.first_lacking(site)

    def first_lacking(self, site: Mapping[str, Value]) -> str:
        """Return the first condition that the site surely fails by what is known of it without asking it; empty:
        none."""
        return self.site.first_lacking({**self.own, **site}) if self.site else ""

    def surely_failed(self, site: Mapping[str, Value]) -> tuple[FailedRequirement, ...]:
        """Return what a site surely does not meet by what is known of it without asking it."""
        return self.site.surely_failed({**self.own, **site}) if self.site else ()

    def surely_failed_by_set(self, sites: Mapping[str, Mapping[str, Value]]) -> tuple[FailedRequirement, ...]:
        """The same of these sites together."""
        return self.sets.surely_failed({**self.own, **over_set(sites, self.sets.names)})

    def most_sets(self) -> int:
        """Return how many sets of sites may be judged in one search: the fewer, the longer what is wanted of a set."""
        return MOST_JUDGED // max(1, self.sets.characters)

    def set_may_hold(self, sites: Mapping[str, Mapping[str, Value]]) -> bool:
        """True unless these sites together surely fail by what is known of them without asking them."""
        return self.sets.may_hold({**self.own, **over_set(sites, self.sets.names)})

    def shortfall(self, sites: Mapping[str, Mapping[str, Value]]) -> Shortfall:
        """Return how far these sites together are from what is wanted of a set."""
        return self.sets.shortfall({**self.own, **over_set(sites, self.sets.names)})

    def failed_by_set(self, sites: Mapping[str, Mapping[str, Value]]) -> tuple[FailedRequirement, ...]:
        """Return what does not hold of these sites together; `sites`: values of each by its id."""
        return self.sets.failed({**self.own, **over_set(sites, self.sets.names)}) if self.sets else ()

    def failed_between(self, values: Mapping[str, Value]) -> tuple[FailedRequirement, ...]:
        """Return what does not hold of the link between two sites of a gang; `values`: the link's, and those of one of
        them."""
        return self.link.failed({**self.own, **values})

    def shortfall_between(self, values: Mapping[str, Value]) -> Shortfall:
        """Return how far such a link is from what is wanted of it."""
        return self.link.shortfall({**self.own, **values})

    def fits_set(self, sites: Mapping[str, Mapping[str, Value]]) -> bool:
        """True if all of it holds of these sites together."""
        return self.sets.holds({**self.own, **over_set(sites, self.sets.names)})


def component_requirements(spec: GroupSpec, component: ComponentSpec) -> GroupRequirements:
    """Read what a component requires of its site beside its group. If this release cannot read it, no site meets it."""
    return read_kept(alone(spec, component))


def alone(spec: GroupSpec, component: ComponentSpec) -> GroupSpec:
    """Return the spec of a job that asks and requires what the component does by itself."""
    return structs.replace(
        spec,
        requirements=component.requirements,
        link_requirements=component.link_requirements,
        set_requirements=component.set_requirements,
        rank="",
        resources=spec.of_component(component),
        components=(),
    )


def read_kept(spec: GroupSpec) -> GroupRequirements:
    """Read the requirements of a group that was accepted once. If this release cannot read them, no site meets them,
    and each says why."""
    try:
        return GroupRequirements(spec)
    except ValueError as error:
        return GroupRequirements(GroupSpec(), unread=str(error))


def over_set(sites: Mapping[str, Mapping[str, Value]], names: AbstractSet[str]) -> dict[str, Value]:
    """Return the values of those names that are over a set: one that one of the sites does not tell is not told."""
    ids = sorted(sites)
    out: dict[str, Value] = {"set": tuple(ids)}
    for name in sites[ids[0]] if ids else ():
        if name.startswith("group."):
            out[name] = sites[ids[0]][name]
            continue
        over = name.replace("site.", "set.", 1)
        if over not in names:
            continue
        column = [values[name] for values in (sites[one] for one in ids) if name in values]
        if (over not in SET and not is_declared(over)) or len(column) < len(ids):
            continue
        numbers = tuple(value for value in column if isinstance(value, float))
        texts = tuple(value for value in column if isinstance(value, str))
        out[over] = numbers if len(numbers) == len(ids) else texts
    return out


def plain(spec: GroupSpec) -> bool:
    """True if the spec's expressions are few and short; a spec may come from anywhere."""
    try:
        _check_size(spec)
    except ValueError:
        return False
    return True


def _check_size(spec: GroupSpec) -> None:
    texts = expressions_of(spec)
    if len(texts) - 1 > MOST_EXPRESSIONS:
        raise ValueError(f"group.requirements: {len(texts) - 1} expressions; a group has at most {MOST_EXPRESSIONS}")
    if (total := sum(map(len, texts))) > MOST_CHARACTERS:
        raise ValueError(f"group.requirements: {total:,} characters; a group has at most {MOST_CHARACTERS:,}")
    if (named := len(asked(spec))) > MOST_NAMES:
        raise ValueError(f"group.requirements: {named} names in site.software; a group asks about {MOST_NAMES} at most")


def _read(texts: tuple[str, ...], scope: str, constants: Constants) -> Requirements:
    for at, text in enumerate(texts):
        try:
            Requirements([text], scope, constants)
        except ValueError as error:
            raise ValueError(f"group.{scope}[{at}]: {error}") from None
    try:
        return Requirements(texts, scope, constants)
    except ValueError as error:
        raise ValueError(f"group.{scope}: {error}") from None


def _of_sweep(error: ValueError, sweep: Sweep, known: Mapping[str, Value]) -> ValueError:
    """Return the error, in other words where it is about a swept name that has several values."""
    where, _, why = str(error).partition(": ")
    name = next((axis.name for axis in sweep.axes if why.startswith(f"'{axis.name}' is no name here")), "")
    if not name or name in known:
        return error
    mend = "it is judged once for all jobs; write a group for each value, or [package.model], which takes the mean"
    return ValueError(f"{where}: {name!r} has several values in this group, and {mend}")


def _rank(text: str, constants: Constants) -> Rank:
    try:
        return Rank(text, constants)
    except ValueError as error:
        raise ValueError(f"group.rank: {error}") from None


def own_values(spec: GroupSpec) -> dict[str, Value]:
    """Return the values of the names that speak of the group."""
    need = spec.resources
    return {
        "job.processors": float(need.processors),
        "job.memory_bytes": float(need.memory_bytes),
        "job.gpus": float(need.gpus),
        "job.scratch_bytes": float(need.scratch_bytes),
        "job.work_s": need.work_s,
        "job.time_limit_s": need.time_limit_s,
        "group.jobs": float(sweep_size(spec.sweep)),
    }
