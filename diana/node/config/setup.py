"""The work of `diana init`: the keys, the configuration and the directory of a site; the credential of a user.

Everything is checked first and written with `site.toml` last, so that an attempt that failed leaves nothing behind and
an initialised directory is never touched again.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from diana import errors
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems import kinds
from diana.adapters.lrm.cgroups import bounds
from diana.adapters.trust import certificates
from diana.model.ids import site_id
from diana.model.layout import DataDir
from diana.model.settings import Settings
from diana.model.words import counted
from diana.node.config import gpus as machine_gpus
from diana.node.config.site_file import DEFAULT_LISTEN, SiteConfig, load_config, parse_config
from diana.node.config.text import config_text, write_config
from diana.node.enrol.signers import SignerBook

ROOT_JOBS = "DIANA_ROOT_JOBS"
_HARMLESS = frozenset({"lost+found"})
"""Names that lie in a new file system."""


def init_site(
    data: Path,
    site: str,
    vo: str | None = None,
    vo_from: Path | None = None,
    slots: int | None = None,
    listen: str | None = None,
    peers: Sequence[str] = (),
    cluster: str | None = None,
    gpus: machine_gpus.Wanted = None,
    *,
    root_jobs: bool = False,
) -> SiteConfig:
    """Make a site's data directory: a VO of its own, or a member of the one made in the data directory `vo_from`.

    `slots` None: the processors this process may use by its affinity and its control groups' quotas, or none with a
    `cluster`: the batch system of this kind starts the site's jobs. `gpus`: of this machine, for jobs. `root_jobs`:
    they may run as root. `UsageError` for anything wrong, also a directory that is initialised already; then
    nothing has been made.
    """
    paths = DataDir(data)
    try:
        site_id(site)
    except ValueError as error:
        raise errors.UsageError(str(error)) from None
    refuse_initialised(paths)
    vo_name = _vo_name(site, vo, vo_from)
    listen = listen or DEFAULT_LISTEN
    _refuse_clashes(site, listen, vo_from, peers)
    clusters = _clusters(cluster)
    if clusters and slots is None:
        slots = 0
    own_gpus = machine_gpus.own(gpus)
    if own_gpus and slots == 0:
        raise errors.UsageError(_idle_gpus(len(own_gpus), cluster))
    config = SiteConfig(
        site=site_id(site),
        vo=vo_name,
        listen=listen,
        peers=tuple(peers),
        operators=(own_account(),),
        gpus=own_gpus,
        root_jobs=root_jobs or root_jobs_said(),
        settings=own_settings(slots),
        clusters=clusters,
    )
    # The same checks as at start, so that what is written can be read.
    config = parse_config(config_text(config), "init")
    with making(data):
        _write_site(paths, config, vo_from)
    return config


def _idle_gpus(count: int, cluster: str | None) -> str:
    beside = f"; those of {cluster} need no word, it hands them out itself" if cluster else ""
    return f"--gpus: no job could use {counted(count, 'GPU')} here without a slot; give --slots N too{beside}"


def _clusters(kind: str | None) -> dict[str, ClusterSettings]:
    if kind is None:
        return {}
    if kind not in kinds.known():
        raise errors.UsageError(f"--cluster {kind}: no batch system; known are {', '.join(kinds.known())}")
    return {kind: ClusterSettings(kind=kind)}


@contextmanager
def making(data: Path) -> Iterator[None]:
    """Around what fills a new data directory, which is made (0700): when it fails, nothing is left of it. UsageError
    for a directory that is initialised or cannot be written."""
    paths = DataDir(data)
    refuse_initialised(paths)
    made = _missing_parents(data)
    try:
        paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths.keys.mkdir(mode=0o700, exist_ok=True)
        yield
    except BaseException as error:
        _undo(paths, made)
        if isinstance(error, OSError):
            mend = "name a directory this account can write"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                mend = "make room there, or name a directory on another disk"
            raise errors.UsageError(f"{error.filename or data}: {error.strerror}; {mend}") from error
        raise


@contextmanager
def making_credential(out: Path) -> Iterator[None]:
    """The same around a user's credential folder. UsageError for one that is not empty or cannot be written."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise errors.UsageError(f"{out}: not empty; name a new folder for the credential")
    existed = out.exists()
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield
    except BaseException as error:
        shutil.rmtree(out, ignore_errors=True)
        if existed:
            out.mkdir(mode=0o700, exist_ok=True)
        if isinstance(error, OSError):
            raise errors.UsageError(
                f"{error.filename or out}: {error.strerror}; name a folder you can write"
            ) from error
        raise


def init_user(data_of_vo: Path, name: str, out: Path) -> None:
    """Make a user's credential folder `out` (0700): `user.pem`, `user.key`, `vo.pem`, and `credential.toml` with
    user, vo, site and address for a remote client. `data_of_vo` is the data directory of the site that made the VO.
    """
    certificates.user_name(name)
    config = load_config(DataDir(data_of_vo).config)
    with making_credential(out):
        certificates.issue_user(DataDir(data_of_vo).keys, name, out, valid_days=config.trust.user_days)
        write_credential(out / "credential.toml", name, config.vo, config.site, config.advertise or config.listen)


def refuse_initialised(paths: DataDir) -> None:
    for path in (paths.config, paths.journal, paths.keys / "site.key", paths.keys / "member.key"):
        if path.exists():
            raise errors.UsageError(
                f"{paths.root}: initialised already ({path.name} is there); name another directory with --data, or "
                f"start its node with: diana node --data {paths.root}"
            )
    if paths.root.exists() and not paths.root.is_dir():
        raise errors.UsageError(f"{paths.root}: not a directory; name another")
    try:
        foreign = min((path.name for path in paths.root.glob("*") if path.name not in _HARMLESS), default="")
    except OSError:
        # Whoever cannot look into it cannot write there either, and is told so.
        return
    if foreign:
        raise errors.UsageError(
            f"{paths.root}: not empty ({foreign} is there) and no site's; name a new directory with --data"
        )


def _refuse_clashes(site: str, listen: str, vo_from: Path | None, peers: Sequence[str]) -> None:
    """Refuse a clash that would only show when both nodes run: one name or one address for two sites."""
    if (
        vo_from is not None
        and (DataDir(vo_from).config).is_file()
        and load_config(DataDir(vo_from).config).site == site
    ):
        raise errors.UsageError(f"site {site}: that is the name of the site in {vo_from}; choose another")
    if listen in peers:
        raise errors.UsageError(
            f"peer {listen}: this site would bind that itself; give it another with --listen HOST:PORT"
        )


def _vo_name(site: str, vo: str | None, vo_from: Path | None) -> str:
    if vo_from is None:
        return certificates.vo_name(vo or f"{site[:37].rstrip('-')}-vo")
    keys = DataDir(vo_from).keys
    if not (keys / "vo.key").is_file():
        raise errors.UsageError(
            f"{vo_from}: holds no keys/vo.key; name the data directory of the site that made the VO"
        )
    found = certificates.vo_of(keys)
    if vo is not None and vo != found:
        raise errors.UsageError(f"{vo_from}: its VO is {found}, not {vo}; leave the VO's name out or name another site")
    return found


def root_jobs_said() -> bool:
    """True if this is root and the environment says that jobs may run as root, as one says it for containers."""
    return os.getuid() == 0 and os.environ.get(ROOT_JOBS, "") == "true"


def own_settings(slots: int | None) -> Settings:
    """The slots that are asked for, or of this machine what control groups leave to this process; so its memory."""
    try:
        own = bounds.processors().usable if slots is None else slots
        return Settings(slots=own, memory_bytes=bounds.memory_bytes())
    except ValueError as error:
        raise errors.UsageError(str(error)) from None


def own_account() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _write_site(paths: DataDir, config: SiteConfig, vo_from: Path | None) -> None:
    if vo_from is None:
        certificates.make_vo(config.vo, paths.keys, site=config.site)
    certificates.issue_site(DataDir(vo_from).keys if vo_from else paths.keys, config.site, paths.keys)
    if vo_from is not None:
        first = load_config(DataDir(vo_from).config)
        SignerBook(paths.signers).learn({first.site: first.advertise or first.listen})
    write_config(paths.config, config)


def _missing_parents(folder: Path) -> Path | None:
    """The topmost directory that has to be made; None: all are there."""
    missing = None
    for path in (folder, *folder.parents):
        if path.exists():
            break
        missing = path
    return missing


def _undo(paths: DataDir, made: Path | None) -> None:
    if made is not None:
        shutil.rmtree(made, ignore_errors=True)
        return
    shutil.rmtree(paths.keys, ignore_errors=True)
    for path in (paths.config, paths.signers):
        path.unlink(missing_ok=True)


def write_credential(path: Path, user: str, vo: str, site: str, address: str, others: Sequence[str] = ()) -> None:
    """`credential.toml` (0600). `address`: host:port of the site the client talks to; `others`: of its other machines
    that may come to lead it."""
    values = {"user": user, "vo": vo, "site": site, "address": address}
    text = "# Who you are in the VO, and the site your client talks to.\n" + "".join(
        f"{key} = {json.dumps(value)}\n" for key, value in values.items()
    )
    if others:
        text += f"addresses = {json.dumps([address, *others])}\n"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
