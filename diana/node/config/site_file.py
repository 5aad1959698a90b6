"""`site.toml`: what an operator sets for a node, read strictly and told back in one line when wrong.

Every error is `errors.UsageError`, `file:key: what; the mend`, and nothing is half taken: a file is good as a whole
or refused, so that a reload at SIGHUP with a bad file changes nothing.
"""

from __future__ import annotations

import difflib
import ipaddress
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from diana import errors
from diana.adapters.batch.allotment import check_together
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.lrm.kept_folders import KEEP_FAILED_S
from diana.adapters.lrm.runas.accounts import ANYBODY, PROGRAM
from diana.adapters.lrm.software import Software, check
from diana.adapters.lrm.spawner.protocol import MOST_PROCESSES
from diana.adapters.staging.limits import StagingLimits
from diana.bounds import MOST_TOML_BYTES, text_of, toml_of
from diana.model.ids import SiteId, site_id
from diana.model.job import declared, properties
from diana.model.job.grace import LEAST_GRACE_S, MOST_GRACE_S, SITE_GRACE_S
from diana.model.job.urls import DEFAULT_ALLOWED, check_allowed
from diana.model.layout import DataDir
from diana.model.settings import MOST_BYTES_PER_S, Settings, following
from diana.model.trust.identity import MACHINE
from diana.node.config import gpus
from diana.node.config.maintenance import Planned, planned
from diana.node.node_log import Format
from diana.node.web.config import OFF, Web

DEFAULT_LISTEN = "127.0.0.1:7400"
DIAL_OUT_ONLY = "none"
"""`advertise` of a site that others cannot dial."""
LEAST_VALID_DAYS, MOST_VALID_DAYS = 1e-4, 3650.0


class Staging(msgspec.Struct, frozen=True, kw_only=True):
    """Moving data: between sites, and from and to places that are no sites."""

    urls: tuple[str, ...] = DEFAULT_ALLOWED
    """Beginnings of the URLs this site may read, and write where their kind allows it."""
    rate_bytes_per_s: int = 0
    """Bytes per second fetched from other sites, and likewise served to them; 0: no limit."""
    cache_bytes: int = 0
    """Fetched data kept when no job needs them; 0: 10 GiB or half of the free space, whichever is less."""
    copy_bytes: int = 64 << 20
    """Most bytes of one job's inputs that are copied into its directory."""


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """Validity of the certificates this site signs; the nodes renew them when half of it is over."""

    leaf_days: float = 7.0
    """Days of a certificate of a site or machine."""
    user_days: float = 90.0

    def __post_init__(self) -> None:
        for key in ("leaf_days", "user_days"):
            value = getattr(self, key)
            if not LEAST_VALID_DAYS <= value <= MOST_VALID_DAYS:
                raise ValueError(f"{key} = {value}: want {LEAST_VALID_DAYS:g} to {MOST_VALID_DAYS:g}")


MOST_KEEP_S = 1e9


class Traces(msgspec.Struct, frozen=True, kw_only=True):
    """Groups as they went over the sites, for an OpenTelemetry collector."""

    endpoint: str = ""
    """host:port of the collector that takes OTLP over gRPC; empty: no traces are sent."""


class Notifying(msgspec.Struct, frozen=True, kw_only=True):
    """Ways in which users may be told that their groups are over."""

    sendmail: str = ""
    """Program that takes a mail on its standard input and its address as an argument; empty: no mail is sent."""
    sender: str = ""
    """Sender of mails; empty: as the program has it."""
    private_hosts: tuple[str, ...] = ()
    """Hosts of web addresses that may have loopback, link-local or private addresses."""
    certificates: str = ""
    """PEM file of authorities whose web addresses are trusted; empty: those of the machine."""


class SiteConfig(msgspec.Struct, frozen=True, kw_only=True):
    site: SiteId
    vo: str
    listen: str = DEFAULT_LISTEN
    """host:port the node binds; port 0: any free one."""
    advertise: str = ""
    """host:port told to others; empty: `listen`; "none": others cannot dial this site, it dials them."""
    peers: tuple[str, ...] = ()
    """host:port of other sites; always dialled."""
    zeroconf: bool = True
    """Find peers of the VO on the local network too."""
    role: Literal["site", "member", "standby"] = "site"
    """This machine's part in its site: the site's own node, a machine that only runs jobs, or the standby."""
    machine: str = "main"
    """Name of this machine within its site."""
    root: tuple[str, ...] = ()
    """host:port of the site's machines that may lead it; a member or standby dials them."""
    witness: str = ""
    """The site that arbitrates between the leading machine and the standby; empty: chosen by itself."""
    gpus: tuple[str, ...] = ()
    """GPUs of this machine, as CUDA names them: each is one job's at a time. The file may say how many there are."""
    resources: dict[str, int] = {}
    """Other things of this machine that jobs ask for, by names of the operator's (`model/job/declared.py`): so many
    there are, each one job's at a time."""
    pin_cpus: bool = False
    """Jobs run on the processors of their slots alone."""
    max_processes: int = MOST_PROCESSES
    """Most processes that one job may have at once, with all that it left."""
    keep_failed_s: float = KEEP_FAILED_S
    """Seconds that directories of jobs stay of which an output is missing; 0: none stays."""
    max_grace_s: float = SITE_GRACE_S
    """Most seconds that a job has between SIGTERM and SIGKILL, whatever its job file asks for."""
    operators: tuple[str, ...] = ()
    """Local accounts that may act on every group here."""
    users: dict[str, str] = {}
    """Local account name or uid -> VO principal; empty text: that account may not submit."""
    run_as: dict[str, str] = {}
    """VO principal, or "*" for all others -> local account their jobs run as; empty: all run as the node's account."""
    run_as_program: str = PROGRAM
    """The root program that becomes those accounts."""
    log_format: Format = "text"
    """Format of node.log."""
    root_jobs: bool = False
    """Jobs may run as root, where the node does and no `run_as` says otherwise."""
    settings: Settings = Settings()
    staging: Staging = Staging()
    software: Software = Software()
    """Software that jobs may ask for."""
    trust: Trust = Trust()
    web: Web = Web()
    """The dashboard."""
    traces: Traces = Traces()
    notify: Notifying = Notifying()
    """Ways in which users may be told that their groups are over."""
    clusters: dict[str, ClusterSettings] = {}
    """Name within the site -> a cluster whose batch system starts jobs of this site."""
    maintenance: tuple[Planned, ...] = ()
    """Windows in which the site or some of its machines take no work."""

    def owner_of(self, uid: int, account: str) -> str:
        """The VO principal of a local caller; empty: none. `account` is the uid's name, empty if it has none."""
        for name in (account, str(uid)):
            if name and name in self.users:
                return self.users[name]
        return f"{account}@{self.vo}" if account else ""


def load_config(path: Path, *, keys: bool = True) -> SiteConfig:
    """Read and check. `path` lies in the data directory, whose `keys` a node that others can reach must have; unless
    `keys` is false, for who is to mend just that."""
    config = parse_config(_text(path), str(path))
    if keys and not is_loopback(config.listen):
        want_keys(config, DataDir(path.parent))
    return config


def want_keys(config: SiteConfig, paths: DataDir) -> None:
    """UsageError naming the first file of this machine's keys that is not there, and the two ways to have it again."""
    kind = "member" if config.role == "member" else "site"
    for file in (paths.keys / f"{kind}.key", paths.keys / f"{kind}.pem", paths.keys / "vo.pem"):
        if not file.is_file():
            raise errors.UsageError(f"{file}: no such file; {way_back(config, paths.root)}")


def way_back(config: SiteConfig, root: Path) -> str:
    """The way back for a machine that lost its keys or certificate, as an error line says it."""
    return f"put its keys back from a backup made with --keys; or {come_in_anew(config, root)}"


def come_in_anew(config: SiteConfig, root: Path) -> str:
    """The commands that give this machine a new certificate and keep its directory."""
    who = f"--site {config.site}" if config.role == "site" else f"--{config.role} {config.machine}"
    where = "another site of the VO that is a signer" if config.role == "site" else config.site
    return f"at {where}: diana invite {who} --again, then here: diana join - --data {root}"


def parse_config(text: str, name: str = "site.toml") -> SiteConfig:
    """`name` is what error lines call the file."""
    try:
        table = toml_of(text)
    except ValueError as error:
        raise errors.UsageError(f"{name}: not TOML: {error}; mend that line") from None
    maintenance = planned(table.pop("maintenance", []), name)
    resources = _resources(table.pop("resources", {}), name)
    own = _properties(table.pop("properties", {}), name)
    if "gpus" in table:
        table["gpus"] = gpus.declared(table["gpus"], name)
    values = _checked(SiteConfig, table, name, "")
    for key in ("site", "vo"):
        if key not in values:
            raise errors.UsageError(f'{name}:{key}: missing; add {key} = "NAME"')
    _check_names(values, name)
    _check_addresses(values, name)
    try:
        told = values.pop("settings", {})
        if "properties" in told:
            raise errors.UsageError(f"{name}:settings.properties: unknown key; write [properties], a table of its own")
        settings = Settings(**following(_checked(Settings, told, name, "settings.")), properties=own)
    except ValueError as error:
        raise errors.UsageError(f"{name}:settings.{_range_line(str(error))}") from None
    if wrong := settings.contradiction():
        raise errors.UsageError(f"{name}:settings.{wrong}")
    _check_gang_placement(settings.gang_placement, name)
    staging = _staging(values.pop("staging", {}), name)
    software = _software(values.pop("software", {}), name)
    trust = _trust(values.pop("trust", {}), name)
    web = _web(values.pop("web", {}), name)
    traces = _traces(values.pop("traces", {}), name)
    notify = _notify(values.pop("notify", {}), name)
    clusters = _clusters(values.pop("clusters", {}), values, name)
    settings = _within_rate(settings, staging)
    return SiteConfig(
        settings=settings,
        staging=staging,
        software=software,
        trust=trust,
        web=web,
        traces=traces,
        notify=notify,
        clusters=clusters,
        maintenance=maintenance,
        resources=resources,
        **values,
    )


def _check_gang_placement(placement: str, name: str) -> None:
    if not placement:
        return
    # Plug-ins are looked for by those alone who name one.
    from diana import gang_plug_ins

    try:
        gang_plug_ins.check(placement, f"{name}:settings.gang_placement")
    except ValueError as error:
        raise errors.UsageError(str(error)) from None


def _within_rate(settings: Settings, staging: Staging) -> Settings:
    """Planners must not count on more than the stager serves."""
    rate, uplink = float(staging.rate_bytes_per_s), settings.uplink_bytes_per_s
    if not rate or 0 < uplink <= rate or rate > MOST_BYTES_PER_S:
        return settings
    return msgspec.structs.replace(settings, uplink_bytes_per_s=rate)


def _staging(table: dict[str, Any], name: str) -> Staging:
    staging = Staging(**_checked(Staging, table, name, "staging."))
    for prefix in staging.urls:
        try:
            check_allowed(prefix)
        except ValueError as error:
            raise errors.UsageError(f"{name}:staging.urls: {error}") from None
    try:
        limits_of(staging)
    except ValueError as error:
        raise errors.UsageError(f"{name}:staging.{_range_line(str(error))}") from None
    return staging


def _software(table: dict[str, Any], name: str, at: str = "") -> Software:
    software = Software(**_checked(Software, table, name, f"{at}software."))
    try:
        check(software)
    except ValueError as error:
        raise errors.UsageError(f"{name}:{at}software.{error}") from None
    return software


_HOMES = {
    "gpus": "write gpus above the first [heading] of the file",
    "processors": "the processors of a site are its settings.slots",
    "cpus": "the processors of a site are its settings.slots",
    "memory": "the memory that a job may have is settings.memory_bytes",
    "memory_bytes": "the memory that a job may have is settings.memory_bytes",
    "licences": "the licences of a site are its settings.licences",
    "scratch": "machines tell their disks by themselves",
    "scratch_bytes": "machines tell their disks by themselves",
}
"""Names that jobs ask for and that no machine declares here, with where they come from."""


def _resources(table: Any, name: str) -> dict[str, int]:
    if not isinstance(table, dict):
        raise errors.UsageError(f"{name}:resources: {_shown(table)} is not a table; write [resources]")
    for key, value in table.items():
        where = f"{name}:resources.{key[:60]}"
        if key in _HOMES:
            raise errors.UsageError(f"{where}: not declared here; {_HOMES[key]}")
        if _of_the_top(key):
            raise errors.UsageError(f"{where}: unknown key; {_TOP}")
        if key in (field.name for field in msgspec.structs.fields(Settings)):
            raise errors.UsageError(f"{where}: unknown key; it belongs under [settings] as settings.{key}")
        if type(value) is not int and declared.may_be(key):
            raise errors.UsageError(f"{where}: {_shown(value)} is not {_KINDS[int]}")
    try:
        # A wrong value of a wrong key: the key is told.
        counts = {key: value if type(value) is int else 0 for key, value in table.items()}
        declared.check(counts, "resources", least=0)
    except ValueError as error:
        raise errors.UsageError(errors.one_line(f"{name}:{error}")) from None
    return dict(sorted(counts.items()))


def _properties(table: Any, name: str) -> dict[str, str]:
    if not isinstance(table, dict):
        raise errors.UsageError(f"{name}:properties: {_shown(table)} is not a table; write [properties]")
    for key in table:
        # A line that was added at the end of the file.
        if _of_the_top(key):
            raise errors.UsageError(f"{name}:properties.{key}: unknown key; {_TOP}")
        if key == "properties":
            raise errors.UsageError(f"{name}:properties.{key}: a table within itself; write each property on a line")
        if key in (field.name for field in msgspec.structs.fields(Settings)):
            raise errors.UsageError(
                f"{name}:properties.{key}: unknown key; it belongs under [settings] as settings.{key}"
            )
    try:
        return properties.declared(table)
    except ValueError as error:
        raise errors.UsageError(errors.one_line(f"{name}:{error}")) from None


def _clusters(tables: dict[str, Any], values: dict[str, Any], name: str) -> dict[str, ClusterSettings]:
    found: dict[str, ClusterSettings] = {}
    for cluster, table in tables.items():
        where = f"{name}:clusters.{cluster}"
        if not MACHINE.fullmatch(cluster) or cluster == values.get("machine", "main"):
            raise errors.UsageError(
                f"{where}: no name for a cluster; write a-z, 0-9 and inner hyphens, unlike a machine's"
            )
        if not isinstance(table, dict):
            raise errors.UsageError(f"{where}: {_shown(table)} is not a table; write [clusters.{cluster}]")
        values_of = _checked(ClusterSettings, table, name, f"clusters.{cluster}.")
        if "software" in values_of:
            values_of["software"] = _software(values_of["software"], name, f"clusters.{cluster}.")
        try:
            found[cluster] = ClusterSettings(**values_of)
        except ValueError as error:
            raise errors.UsageError(f"{where}.{_range_line(str(error))}") from None
    try:
        check_together(found.items())
    except ValueError as error:
        raise errors.UsageError(f"{name}:clusters.{error}") from None
    if found and values.get("role") == "member":
        raise errors.UsageError(f"{name}:clusters: a member has none; write them at the machine that leads its site")
    if found and values.get("run_as"):
        raise errors.UsageError(
            f"{name}:run_as: a batch system runs all jobs as the node's account; leave run_as or clusters out"
        )
    return found


def _trust(table: dict[str, Any], name: str) -> Trust:
    try:
        return Trust(**_checked(Trust, table, name, "trust."))
    except ValueError as error:
        raise errors.UsageError(f"{name}:trust.{_range_line(str(error))}") from None


def _web(table: dict[str, Any], name: str) -> Web:
    try:
        web = Web(**_checked(Web, table, name, "web."))
    except ValueError as error:
        raise errors.UsageError(f"{name}:web.{_range_line(str(error))}") from None
    if web.listen != OFF:
        _check_address(name, "web.listen", web.listen, lambda port: port >= 0)
    if bool(web.certificate) != bool(web.key):
        lacks = "key" if web.certificate else "certificate"
        raise errors.UsageError(f"{name}:web.{lacks}: missing; name both files, or neither")
    return web


def _traces(table: dict[str, Any], name: str) -> Traces:
    traces = Traces(**_checked(Traces, table, name, "traces."))
    scheme, _, address = traces.endpoint.partition("://")
    try:
        fine = not traces.endpoint or (scheme in ("http", "https") and host_port(address)[1] > 0)
    except ValueError:
        fine = False
    if not fine:
        raise errors.UsageError(
            f'{name}:traces.endpoint: {traces.endpoint!r} is no address of a collector; write "http://HOST:PORT"'
        )
    return traces


def _notify(table: dict[str, Any], name: str) -> Notifying:
    notify = Notifying(**_checked(Notifying, table, name, "notify."))
    for key in ("sendmail", "certificates"):
        if (path := getattr(notify, key)) and not path.startswith("/"):
            raise errors.UsageError(f"{name}:notify.{key}: {path!r} is no absolute path; write one")
    if not notify.sender.isprintable() or not notify.sender.isascii():
        raise errors.UsageError(f"{name}:notify.sender: {notify.sender!r} is no mail address; write NAME@HOST")
    return notify


def limits_of(staging: Staging) -> StagingLimits:
    """ValueError names the key that is out of range."""
    if not 0 <= staging.copy_bytes <= 1 << 60:
        raise ValueError(f"copy_bytes = {staging.copy_bytes}: want 0 to {1 << 60:g}")
    return StagingLimits(rate_bytes_per_s=staging.rate_bytes_per_s, cache_bytes=staging.cache_bytes)


def host_port(address: str) -> tuple[str, int]:
    """`127.0.0.1:7400`, `[::1]:7400`, `host:7400` -> its parts. ValueError otherwise."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = str(ipaddress.IPv6Address(host[1:-1]))
    elif ":" in host:
        raise ValueError(f"{address!r}: an IPv6 address wants brackets")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535 or " " in host:
        raise ValueError(f"{address!r}: want host:port")
    return host, int(port)


def is_loopback(address: str) -> bool:
    """True if a `host:port` bound so is reached from this machine only."""
    host, _ = host_port(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# --- checks --------------------------------------------------------------------------------------------


def _text(path: Path) -> str:
    try:
        return text_of(path, MOST_TOML_BYTES)
    except FileNotFoundError:
        raise errors.UsageError(
            f"{path}: no such file; make a site with diana init, or name the node's data directory with --data"
        ) from None
    except UnicodeDecodeError as error:
        raise errors.UsageError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None
    except OSError as error:
        raise errors.UsageError(f"{path}: {error.strerror}; make it readable for the node's account") from None
    except ValueError as error:
        raise errors.UsageError(f"{path}: {error}; no settings are that long") from None


def _checked(kind: type[msgspec.Struct], table: dict[str, Any], name: str, prefix: str) -> dict[str, Any]:
    """The table's values, converted; unknown keys and wrong types refused. Rules of a value come later."""
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in fields:
            raise errors.UsageError(f"{name}:{prefix}{key}: unknown key; {_nearest(key, fields, prefix)}")
        tables = (
            Settings,
            Staging,
            Software,
            Software | None,
            Trust,
            Web,
            Traces,
            Notifying,
            dict[str, ClusterSettings],
        )
        wanted = dict[str, Any] if fields[key] in tables else fields[key]
        try:
            values[key] = msgspec.convert(value, wanted)
        except msgspec.ValidationError:
            # A line that was added at the end of the file is one of its last table.
            stray = next(filter(_of_the_top, value), "") if isinstance(value, dict) else ""
            if stray:
                raise errors.UsageError(f"{name}:{key}.{stray}: unknown key; {_TOP}") from None
            raise errors.UsageError(f"{name}:{prefix}{key}: {_shown(value)} is not {_kind_of(wanted)}") from None
    return values


_TOP = "it belongs above the first [heading] of the file"


def _of_the_top(key: str) -> bool:
    return key in (field.name for field in msgspec.structs.fields(SiteConfig))


def _nearest(key: str, known: Iterable[str], prefix: str) -> str:
    names = sorted(known)
    if prefix and _of_the_top(key):
        return _TOP
    close = difflib.get_close_matches(key, names, 1, 0.6)
    if close:
        return f"did you mean {prefix}{close[0]}?"
    if not prefix and key in (field.name for field in msgspec.structs.fields(Settings)):
        return f"it belongs under [settings] as settings.{key}"
    inner = [] if prefix else difflib.get_close_matches(key, [f.name for f in msgspec.structs.fields(Settings)], 1, 0.6)
    return f"did you mean settings.{inner[0]}?" if inner else f"known are {', '.join(names)}"


def _check_names(values: dict[str, Any], name: str) -> None:
    for key in ("site", "vo"):
        try:
            site_id(values[key])
        except ValueError as error:
            text = str(error).removeprefix("site id ")
            raise errors.UsageError(f"{name}:{key}: {text.replace(': want', ' is no name; want')}") from None
    if not MACHINE.match(values.get("machine", "main")):
        raise errors.UsageError(
            f"{name}:machine: {values['machine']!r} is no name; "
            "want 1 to 40 lower-case letters, digits and inner hyphens"
        )
    for account, owner in values.get("users", {}).items():
        user, _, vo = owner.rpartition("@")
        if owner and (not user or vo != values["vo"]):
            raise errors.UsageError(
                f'{name}:users.{account}: {owner!r} is no principal of this VO; write "NAME@{values["vo"]}" '
                'or "" for nobody'
            )
    keep_s = values.get("keep_failed_s", KEEP_FAILED_S)
    if not 0 <= keep_s <= MOST_KEEP_S:
        raise errors.UsageError(f"{name}:keep_failed_s: {keep_s:g} is out of range; want 0 to {MOST_KEEP_S:g}")
    grace_s = values.get("max_grace_s", SITE_GRACE_S)
    if not LEAST_GRACE_S <= grace_s <= MOST_GRACE_S:
        want = f"{LEAST_GRACE_S:g} to {MOST_GRACE_S:g}"
        raise errors.UsageError(f"{name}:max_grace_s: {grace_s:g} is out of range; want {want}")
    most = values.get("max_processes", MOST_PROCESSES)
    if not 16 <= most <= 1 << 22:
        raise errors.UsageError(f"{name}:max_processes: {most} is out of range; want 16 to {1 << 22}")
    _check_run_as(values, name)


def _check_run_as(values: dict[str, Any], name: str) -> None:
    for owner, account in values.get("run_as", {}).items():
        user, _, vo = owner.rpartition("@")
        if owner != ANYBODY and (not user or vo != values["vo"]):
            raise errors.UsageError(
                f'{name}:run_as.{owner}: no principal of this VO; write "NAME@{values["vo"]}", or "*" for all others'
            )
        if account in ("", "root", "0"):
            raise errors.UsageError(f"{name}:run_as.{owner}: {account!r} never runs jobs; name an account of a person")
    if not values.get("run_as_program", PROGRAM).startswith("/"):
        raise errors.UsageError(f"{name}:run_as_program: {values['run_as_program']!r}: want an absolute path")


def _check_address(name: str, key: str, address: str, good: Callable[[int], bool]) -> None:
    try:
        fine = good(host_port(address)[1])
    except ValueError:
        fine = False
    if not fine:
        raise errors.UsageError(f'{name}:{key}: {address!r} is no address; write "HOST:PORT"')


def _check_addresses(values: dict[str, Any], name: str) -> None:
    if "listen" in values:
        _check_address(name, "listen", values["listen"], lambda port: port >= 0)
    if values.get("advertise", "") not in ("", DIAL_OUT_ONLY):
        _check_address(name, "advertise", values["advertise"], lambda port: port > 0)
    for key in ("peers", "root"):
        for address in values.get(key, ()):
            _check_address(name, key, address, lambda port: port > 0)
    role, looks = values.get("role", "site"), values.get("zeroconf", True)
    if role != "site" and not values.get("root") and not (role == "member" and looks):
        mend = 'add root = ["HOST:PORT"]' + (
            ", or zeroconf = true to look for it on the LAN" if role == "member" else ""
        )
        raise errors.UsageError(f"{name}:root: missing; a {role} dials its site: {mend}")


def overridden(config: SiteConfig, overrides: Mapping[str, Any]) -> SiteConfig:
    """`overrides`: fields of `SiteConfig` or of its settings. errors.UsageError for what is out of range."""
    fields = {f.name for f in msgspec.structs.fields(SiteConfig)}
    own = {k: v for k, v in overrides.items() if k in fields}
    rest = {k: v for k, v in overrides.items() if k not in fields}
    try:
        settings = msgspec.structs.replace(config.settings, **rest)
    except ValueError as error:
        raise errors.UsageError(str(error)) from None
    return msgspec.structs.replace(config, settings=settings, **own)


def _shown(value: object) -> str:
    """The value as it stands in the file, in at most 60 characters."""
    text = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else repr(value)
    return text if text is not None and len(text) <= 60 else f"{str(text)[:57]}..."


_KINDS = {
    int: "a whole number; write it without quotes and point",
    float: "a number; write it without quotes",
    bool: "true or false; write it without quotes",
    str: "a text; write it in quotes",
}


def _kind_of(wanted: Any) -> str:
    """The kind of value wanted for this type, and how to write it."""
    if get_origin(wanted) is tuple:
        return 'a list of texts; write ["...", "..."]'
    if get_origin(wanted) is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(wanted))
    if get_origin(wanted) is dict and get_args(wanted)[1] is float:
        return "a table of numbers; write NAME = 1.0 under a [heading]"
    if get_origin(wanted) is dict:
        return (
            "a table; write it under a [heading]"
            if get_args(wanted)[1] is Any
            else ('a table of texts; write NAME = "..." under a [heading]')
        )
    if isinstance(wanted, types.UnionType):
        wanted = get_args(wanted)[0]
    return _KINDS.get(getattr(wanted, "__supertype__", wanted), f"{wanted}")


def _range_line(text: str) -> str:
    """`slots = -1: want 0 to 1e+06` -> `slots: -1 is out of range; want 0 to 1e+06`."""
    key, _, rest = text.partition(" = ")
    value, _, wish = rest.partition(": ")
    return f"{key}: {value} is out of range; {wish}"
