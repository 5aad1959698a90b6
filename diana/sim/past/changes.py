"""Changes to a history's scenario, as `diana whatif` takes them: each a word, checked against what the history has."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import isfinite

import msgspec
from msgspec.structs import replace

from diana.errors import UsageError, one_line
from diana.model.settings import Settings
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.text import written
from diana.sim.scenario.variants import under
from diana.sim.specs.compare_spec import PolicySpec
from diana.sim.specs.link_spec import LinkSpec
from diana.sim.specs.names import known
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec

Change = tuple[str, str]
"""(option without its dashes, word)."""

SITE_KEYS = ("slots", "speed")
_SITE = re.compile(r"([a-z][a-z0-9-]*)\.([a-z_]+)([=+-])([0-9.]+)")
_NEW = re.compile(r"([a-z][a-z0-9-]*)(?::(.*))?")
_RATE = re.compile(r"([0-9.]+)\s*([kMGT]?)(bit|B)/s")
_FACTOR = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def changed(scenario: Scenario, changes: Sequence[Change]) -> Scenario:
    """The scenario under changes, in their order. UsageError names the word and the mend."""
    for option, word in changes:
        try:
            scenario = _CHANGES[option](scenario, word)
        except (ValueError, msgspec.ValidationError) as error:
            raise UsageError(f"whatif: --{option} {word}: {one_line(str(error))}") from None
    if not any(site.slots or any(machine.slots for machine in site.machines) for site in scenario.sites):
        raise UsageError("whatif: no site with slots is left; keep one, or add one with --add-site NAME:slots=N")
    # All else is checked as in any scenario.
    return sc.parse(written(scenario), "whatif")


def _site(scenario: Scenario, word: str) -> Scenario:
    match = _SITE.fullmatch(word)
    if match is None:
        raise ValueError("want SITE.slots+16, SITE.slots=32 or SITE.speed=2")
    name, key, sign, text = match.groups()
    site = _known_site(scenario, name)
    known(key, SITE_KEYS, "key")
    number = _number(text)
    value = number if sign == "=" else getattr(site, key) + (number if sign == "+" else -number)
    if key == "slots":
        if value != int(value) or value < 0:
            raise ValueError(f"slots = {value:g}: want a whole number of 0 or more")
        return _later_slots(
            _with(scenario, replace(site, slots=int(value))), name, 0 if sign == "=" else value - site.slots
        )
    if not value > 0:
        raise ValueError(f"speed = {value:g}: want more than 0")
    return _with(scenario, replace(site, speed=value))


def _later_slots(scenario: Scenario, name: str, more: float) -> Scenario:
    """Have changes of the site's slots in the history be as many more; 0: none of them is made."""
    mine = [event for event in scenario.events if event.kind == "slots" and name in event.sites]
    others = tuple(event for event in scenario.events if event not in mine)
    moved = tuple(replace(event, slots=max(0, event.slots + int(more))) for event in mine) if more else ()
    return replace(scenario, events=tuple(sorted((*others, *moved), key=lambda event: event.at_s)))


def _add_site(scenario: Scenario, word: str) -> Scenario:
    match = _NEW.fullmatch(word)
    if match is None:
        raise ValueError("want NAME:slots=32 or NAME:slots=32,speed=1.5")
    name, rest = match.groups()
    if any(site.name == name for site in scenario.sites):
        raise ValueError(f"{name} is in the history already; change it with --site {name}.slots=N")
    site = SiteSpec(name)
    for part in (rest or "").split(",") if rest else ():
        key, _, text = part.partition("=")
        known(key, SITE_KEYS, "key")
        number = _number(text)
        site = replace(site, slots=int(number)) if key == "slots" else replace(site, speed=number)
    return replace(scenario, sites=(*scenario.sites, site))


def _drop_site(scenario: Scenario, word: str) -> Scenario:
    """The site runs nothing any more. It stays as the place where its users submit and where its data lie."""
    site = _known_site(scenario, word)
    gone = replace(site, slots=0, machines=tuple(replace(one, slots=0) for one in site.machines))
    return _later_slots(_with(scenario, gone), word, 0)


def _link(scenario: Scenario, word: str) -> Scenario:
    ends, equals, text = word.partition("=")
    names = [site.name for site in scenario.sites]
    pair = next(((a, b) for a in names for b in names if a != b and ends == f"{a}-{b}"), None)
    if not equals or pair is None:
        raise ValueError(f"want SITE-SITE=RATE, as alpha-beta=1Gbit/s, of the sites {', '.join(names)}")
    rate = _rate(text)
    old = next((link for link in scenario.links if set(link.between) == set(pair)), None)
    new = replace(old, bytes_per_s=rate) if old is not None else LinkSpec(pair, bytes_per_s=rate)
    return replace(scenario, links=(*(link for link in scenario.links if link is not old), new))


def _replica(scenario: Scenario, word: str) -> Scenario:
    name, _, at = word.partition("@")
    known(name, tuple(one.name for one in scenario.datasets), "dataset")
    _known_site(scenario, at)
    datasets = tuple(
        replace(one, replicas=tuple(sorted({*one.replicas, at} - {one.site}))) if one.name == name else one
        for one in scenario.datasets
    )
    return replace(scenario, datasets=datasets)


def _setting(scenario: Scenario, word: str) -> Scenario:
    key, equals, text = word.partition("=")
    known(key, tuple(Settings.__struct_fields__), "setting")
    if not equals:
        raise ValueError("want KEY=VALUE, with a key of [settings] in site.toml")
    if key in SITE_KEYS:
        raise ValueError(f"it is each site's own; use --site SITE.{key}={text}")
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = text
    if not isinstance(value, float | int | bool | str):
        raise ValueError("want one number, word, true or false")
    return under(scenario, PolicySpec("changed", settings={key: value}))


def _policy(scenario: Scenario, word: str) -> Scenario:
    return under(scenario, PolicySpec("changed", settings={"placement": word}))


def _quota(scenario: Scenario, word: str) -> Scenario:
    user, _, text = word.partition("=")
    known(user, tuple(one.name for one in scenario.users), "user")
    number = _number(text)
    users = tuple(replace(one, quota=number) if one.name == user else one for one in scenario.users)
    # A site's own table would win.
    sites = tuple(
        replace(site, settings={key: value for key, value in site.settings.items() if key != "quotas"})
        for site in scenario.sites
    )
    return replace(scenario, users=users, sites=sites)


def _load(scenario: Scenario, word: str) -> Scenario:
    factor = _number(word)
    if not 0.001 <= factor <= 1000:
        raise ValueError("want a factor of 0.001 to 1000, as 1.2")
    return under(scenario, PolicySpec("changed"), factor)


def _arrivals(scenario: Scenario, word: str) -> Scenario:
    known(word, ("shuffle-days",), "arrivals")
    work = tuple(
        replace(one, history=replace(one.history, shuffle_days=True)) if one.history else one
        for one in scenario.workload
    )
    return replace(scenario, workload=work)


_CHANGES: dict[str, Callable[[Scenario, str], Scenario]] = {
    "site": _site,
    "add-site": _add_site,
    "drop-site": _drop_site,
    "link": _link,
    "replica": _replica,
    "setting": _setting,
    "policy": _policy,
    "quota": _quota,
    "load": _load,
    "arrivals": _arrivals,
}


def _known_site(scenario: Scenario, name: str) -> SiteSpec:
    known(name, tuple(site.name for site in scenario.sites), "site")
    return next(site for site in scenario.sites if site.name == name)


def _with(scenario: Scenario, site: SiteSpec) -> Scenario:
    return replace(scenario, sites=tuple(site if one.name == site.name else one for one in scenario.sites))


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise ValueError(f"{text!r}: want a number")
    return value


def _rate(text: str) -> float:
    """Bytes per second."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r}: want a rate, as 100Mbit/s or 10MB/s")
    number, factor, unit = match.groups()
    rate = _number(number) * _FACTOR[factor] / (8 if unit == "bit" else 1)
    if not rate > 0:
        raise ValueError(f"{text!r}: want more than 0")
    return rate
