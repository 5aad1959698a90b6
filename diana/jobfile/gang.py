"""Components of a job file: jobs of several parts that run at one time or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs

from diana.jobfile.raw import RawComponent, RawFlexible, RawInput, RawJob, raw_input
from diana.jobfile.units import memory_bytes, size_bytes, split_command
from diana.model.ids import site_id
from diana.model.job.checkpoint import MOST_PATHS
from diana.model.job.components import check_components, check_flexible, check_slowdown, components_of
from diana.model.job.counts import Counts
from diana.model.job.gang import COMPONENT
from diana.model.job.licences import check as check_licences
from diana.model.job.software import OWN_RUNNERS, is_runner
from diana.model.job.spec import ComponentSpec, FlexibleSpec, GangLevelName, GroupSpec, MapperSpec, SearchKind
from diana.model.job.template import compile_template


def expressions(written: str | list[str]) -> tuple[str, ...]:
    """Return requirements as a list, however they were written."""
    return tuple(text.strip() for text in ([written] if isinstance(written, str) else written))


def components(raw: RawJob, others: Sequence[Counts] = ()) -> tuple[ComponentSpec, ...]:
    """Return the components without their inputs, the spares last. `others`: declared resources that each names, in
    their order. ValueError names the key."""
    if not raw.components:
        _check_spares(raw, ())
        return ()
    if raw.flexible is not None:
        raise ValueError("flexible: written beside components; keep one of them")
    written = () if isinstance(raw.components, str) else _written(raw, raw.components, others)
    try:
        found = components_of(raw.components) if isinstance(raw.components, str) else written
        check_components(found)
        for each in found:
            if each.site:
                site_id(each.site)
    except ValueError as error:
        raise ValueError(f"components: {error}") from None
    names = [each.name for each in found if each.name]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise ValueError(f"components: {twice!r} is the name of two; give each its own")
    _without_resources(raw, "components")
    _check_spares(raw, found)
    return _with_spares(found, raw.gang.spares)


def _written(raw: RawJob, tables: Sequence[RawComponent], others: Sequence[Counts]) -> tuple[ComponentSpec, ...]:
    return tuple(
        ComponentSpec(
            name=each.name,
            count=each.count,
            processors=each.cpus,
            gpus=each.gpus,
            site=each.site,
            memory_bytes=_size(memory_bytes, each.memory, f"components[{at}].memory"),
            scratch_bytes=_size(size_bytes, each.scratch, f"components[{at}].scratch"),
            licences=check_licences(each.licences, f"components[{at}].licences"),
            others=others[at] if at < len(others) else (),
            requirements=expressions(each.requirements),
            link_requirements=expressions(each.link_requirements),
            set_requirements=expressions(each.set_requirements),
            argv=_own_command(raw, at, each),
        )
        for at, each in enumerate(tables)
    )


def _size(read: Callable[[str | int], int], written: str | int, key: str) -> int:
    try:
        return read(written)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def own_inputs(raw: RawJob) -> list[tuple[str, list[str | RawInput]]]:
    """Return the inputs that components read alone, with the key of each list."""
    tables = raw.components if isinstance(raw.components, list) else []
    return [(f"components[{at}].inputs", each.inputs) for at, each in enumerate(tables)]


def _own_command(raw: RawJob, at: int, component: RawComponent) -> tuple[str, ...]:
    """Return the words that the component runs in place of the group's; empty: it has none of its own."""
    given = component.command
    if not given:
        return ()
    if not raw.group.command:
        raise ValueError(f"components[{at}].command: it replaces group.command, which is not there; write that")
    if raw.gang.runner == "mpi":
        raise ValueError(f'components[{at}].command: runner = "mpi" runs one program everywhere; leave it out')
    words = split_command(given, f"components[{at}].command") if isinstance(given, str) else tuple(given)
    if not words or not words[0]:
        raise ValueError(f"components[{at}].command: empty; write a program and its arguments")
    return words


def flexible(raw: RawJob) -> FlexibleSpec | None:
    """Return the flexible request. ValueError names the key."""
    if raw.flexible is None:
        return None
    asked = RawFlexible(cpus=raw.flexible) if isinstance(raw.flexible, int) else raw.flexible
    found = FlexibleSpec(
        processors=asked.cpus,
        min_processors=asked.min_cpus,
        max_components=asked.max_components,
        splits=tuple(tuple(split) for split in asked.splits),
    )
    try:
        check_flexible(found)
    except ValueError as error:
        raise ValueError(f"flexible: {error}") from None
    _without_resources(raw, "flexible")
    return found


def _check_spares(raw: RawJob, given: Sequence[ComponentSpec]) -> None:
    """Refuse spares that there cannot be. ValueError names the key."""
    count = raw.gang.spares
    if not count:
        return
    if count < 0:
        raise ValueError(f"gang.spares: {count}: want 0 or more")
    if raw.flexible is not None:
        raise ValueError("gang.spares: a flexible job has as many components as it is divided into; name them instead")
    if not given:
        raise ValueError("gang.spares: the job has no components; name them, or leave it out")
    size = sum(each.count for each in given)
    if count > size:
        raise ValueError(f"gang.spares: {count}: want at most {size}, one for each component")
    if len({each.anywhere() for each in given}) > 1:
        raise ValueError(
            "gang.spares: a spare takes any component's place; give all the same cpus, gpus, other resources and"
            " command"
        )
    if len({(each.requirements, each.link_requirements) for each in given}) > 1:
        raise ValueError(
            "gang.spares: a spare takes any component's place; give all the same requirements, or write them in [group]"
        )
    if any(each.set_requirements for each in given):
        raise ValueError(
            "gang.spares: a spare takes any component's place; write set_requirements in [group] and not in components"
        )
    if any(inputs for _, inputs in own_inputs(raw)) or any(raw_input(each).split for each in raw.inputs):
        raise ValueError("gang.spares: a spare takes any component's place; let all read the same inputs, whole")
    if raw.gang.runner != "env":
        raise ValueError(f'gang.spares: not with gang.runner = "{raw.gang.runner}"; only "env" tells who computes')
    others = (
        ("checkpoint", raw.checkpoint is not None),
        ("package.mapper", raw.package.mapper is not None),
        ("group.container", bool(raw.group.container)),
    )
    if beside := next((key for key, there in others if there), ""):
        raise ValueError(f"gang.spares: not beside {beside} yet; leave one of them out")


def _with_spares(given: tuple[ComponentSpec, ...], count: int) -> tuple[ComponentSpec, ...]:
    """Return the components and, behind them, those that stand by: at any site where a component may be."""
    if not count:
        return given
    spare = structs.replace(given[0], name="", count=count, site="")
    found = (*given, spare)
    try:
        check_components(found)
    except ValueError as error:
        raise ValueError(f"gang.spares: {error}") from None
    return found


def search(raw: RawJob) -> SearchKind:
    """Return the search for the machines of a gang. ValueError names the key."""
    found = raw.package.search
    if found and not (raw.components or raw.flexible is not None):
        raise ValueError("package.search: the job has no components; name them, or leave it out")
    if found and not raw.package.model:
        raise ValueError("package.search: there is no package.model to search by; write one, or leave it out")
    return found


def mapper(raw: RawJob) -> MapperSpec | None:
    """Return the division of the job's data. ValueError names the key."""
    found = raw.package.mapper
    if found is None:
        return None
    if not raw.components and raw.flexible is None:
        raise ValueError("package.mapper: the job has no components; name them, or leave it out")
    if not raw.package.model:
        raise ValueError("package.mapper: there is no package.model that it serves; write one, or leave it out")
    return MapperSpec(kind=found.kind, items=str(found.items).strip(), item_bytes=str(found.item_bytes).strip())


def gang_placement(raw: RawJob) -> str:
    if raw.gang.placement == "grads" and not raw.package.model:
        raise ValueError("gang.placement: grads places by the model of the run; write package.model")
    if raw.gang.placement and not raw.components and raw.flexible is None:
        raise ValueError("gang.placement: the job has no components; name them, or leave it out")
    return raw.gang.placement


def slowdown(raw: RawJob) -> tuple[float, ...]:
    """Return the factors by the number of sites. ValueError names the key."""
    if raw.gang.slowdown and not raw.components and raw.flexible is None:
        raise ValueError("gang.slowdown: the job has no components; name them, or leave it out")
    try:
        check_slowdown(raw.gang.slowdown)
    except ValueError as error:
        raise ValueError(f"gang.slowdown: {error}") from None
    return tuple(raw.gang.slowdown)


def runner(raw: RawJob) -> str:
    """Return the name of the runner, empty for `env`. Whether sites have an installed one is theirs to say. ValueError
    names the key."""
    name = raw.gang.runner
    if name == "env":
        return ""
    if not is_runner(name):
        raise ValueError(
            f"gang.runner: {name[:60]!r}: want {', '.join(OWN_RUNNERS)}, or the name of an installed one: letters a to"
            " z, digits, _ . -"
        )
    if name == "mpi" and not raw.components:
        raise ValueError('gang.runner: "mpi" starts one job over several components; name them')
    if not raw.components and raw.flexible is None:
        raise ValueError("gang.runner: the job has no components; name them, or leave it out")
    for other in ("mpi", "container") if name == "mpi" else ("mpi",) if name != "none" else ():
        if getattr(raw.group, other):
            raise ValueError(
                f'group.{other}: not beside gang.runner = "{name}", which starts all processes itself; leave it out'
            )
    return name


def gang_level(raw: RawJob) -> GangLevelName:
    if raw.gang.level and not raw.components and raw.flexible is None:
        raise ValueError("gang.level: the job has no components; name them, or leave it out")
    return raw.gang.level


def _without_resources(raw: RawJob, key: str) -> None:
    """Refuse what each component says of itself, or what gangs cannot have."""
    for name in ("cpus", "processors", "gpus"):
        if getattr(raw.resources, name):
            raise ValueError(f"resources.{name}: each component says its own; write it into {key}")
    if raw.group.rank and raw.gang.placement == "grads":
        raise ValueError("group.rank: written beside gang.placement = 'grads', which ranks by the model; keep one")
    if not isinstance(raw.group.retries, int) and raw.group.retries.out_of_memory:
        raise ValueError(f"group.retries.out_of_memory: it is for ordinary jobs; leave it out beside {key}")
    if raw.group.preemptible:
        raise ValueError(f"group.preemptible: gangs are not ended for others; leave it out beside {key}")
    if raw.group.max_parallel:
        raise ValueError(f"group.max_parallel: it counts ordinary jobs; leave it out beside {key}")


def check_component_sites(spec: GroupSpec) -> None:
    """Hold the sites that components name to those that the group may use."""
    for number, each in enumerate(spec.components, 1):
        key = "group.sites" if spec.sites and each.site not in spec.sites else ""
        key = "group.not_sites" if each.site in spec.not_sites else key
        if each.site and key:
            which = each.name or f"component {number}"
            raise ValueError(
                f"components: {which} has to run at {each.site}, which {key} leaves out; change one of them"
            )


def check_gang_saves(spec: GroupSpec) -> None:
    """Hold a gang's checkpoint to what its components can write side by side, and read all of."""
    if spec.checkpoint is None or not spec.is_gang:
        return
    paths = spec.checkpoint.paths
    if alike := next((path for path in paths if COMPONENT not in compile_template(path).names), None):
        raise ValueError(f"checkpoint.paths: {alike!r}: each component saves files of its own; put {{component}} in it")
    if (files := len(paths) * spec.gang_size) > MOST_PATHS:
        raise ValueError(f"checkpoint.paths: {files} files of all components together: want at most {MOST_PATHS}")
