"""The work of `diana join`: one talk with the inviter, then the directory of a site or machine, or a user's credential.

As `diana init`: everything is checked first, and an attempt that failed leaves nothing behind.
"""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import msgspec

from diana import __version__
from diana.adapters.grpc.server import TAKEN, cannot_bind
from diana.adapters.listeners import who_listens
from diana.adapters.trust import certificates
from diana.bounds import MOST_KEY_BYTES, content_of
from diana.errors import Denied, UsageError
from diana.model.ids import site_id
from diana.model.layout import DataDir
from diana.model.trust.identity import Identity
from diana.node.config import gpus as machine_gpus
from diana.node.config import setup
from diana.node.config.site_file import DEFAULT_LISTEN, SiteConfig, host_port, load_config, parse_config
from diana.node.config.text import config_text, write_config
from diana.node.enrol import asking, tokens
from diana.node.enrol.addresses import joined, reached_at
from diana.node.enrol.ports import free_port
from diana.node.enrol.signers import SignerBook
from diana.wire.pb import enrol_pb2


class JoinOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a join."""

    kind: str
    vo: str
    site: str
    name: str
    """Name of the machine or user."""
    inviter: str
    folder: Path
    """The data directory, or a user's credential."""
    config: SiteConfig | None
    """None for a user."""
    signer: bool
    again: bool = False
    """True if the directory was there already and only its certificate is new."""


def join(
    text: str,
    name: str = "",
    *,
    data: Path,
    listen: str | None = None,
    advertise: str = "",
    slots: int | None = None,
    gpus: machine_gpus.Wanted = None,
    root_jobs: bool = False,
    out: Path | None = None,
) -> JoinOutcome:
    """Join with the token `text`. `data`: the directory to make (for a user, `out`). `listen` None: this machine's
    address on the way to the inviter, at the first free port from 7400.

    UsageError, Denied or Unreachable for anything wrong; then nothing was made. What can be seen here is looked at
    before the inviter is asked, so that a slip costs no invitation.
    """
    token = _token(text, name)
    _refuse_strange_options(token.kind, listen=listen, advertise=advertise, slots=slots, gpus=gpus, out=out)
    if token.kind == "user":
        made = _join_user(token, name, out or Path.cwd() / f"{name or 'diana'}-credential")
        return made if name or out else _called(made)
    if DataDir(data).config.is_file():
        return _come_back(token, name, data)
    config = _planned(token, name, listen, advertise, slots, gpus, root_jobs)
    setup.refuse_initialised(DataDir(data))
    if listen is not None:
        _refuse_unbindable(config.listen)
    inviter = asking.find_inviter(token)
    config = _placed(config, inviter, listen, data)
    with setup.making(data):
        keys = _Keys(token, name or token.site)
        request = enrol_pb2.JoinRequest(
            name=name,
            address=_address_of(config),
            leaf_request=keys.leaf_request,
            signer_request=keys.signer_request,
            release=__version__,
            suggestion=_machine_here() if token.kind != "site" else "",
        )
        answer = asking.ask(token, inviter, request)
        config = _completed(config, inviter, answer)
        keys.install(data, answer)
        write_config(DataDir(data).config, config)
    return _joined(answer, token, data, config)


class _Keys:
    """New keys for what is joined as, and the requests for their certificates."""

    def __init__(self, token: tokens.Token, name: str) -> None:
        self.kind = {"member": "member", "user": "user"}.get(token.kind, "site")
        # Names in a request are for people to read; the inviter decides.
        self._key, self.leaf_request = certificates.new_key_and_request(Identity("site", name, token.vo))
        self._signer_key, self.signer_request = b"", b""
        if self.kind == "site":
            self._signer_key, self.signer_request = certificates.new_key_and_request(Identity("signer", name, token.vo))

    def install(self, data: Path, answer: enrol_pb2.JoinResponse) -> None:
        paths = DataDir(data)
        certificates.install(paths.keys, self.kind, answer.leaf, self._key, answer.root)
        if answer.signer:
            certificates.install_signer(paths.keys, answer.signer, self._signer_key, answer.root)
        SignerBook(paths.signers).learn((one.site, one.address) for one in answer.signers)

    def install_credential(self, folder: Path, answer: enrol_pb2.JoinResponse) -> None:
        certificates.install(folder, "user", answer.leaf, self._key, answer.root)


def _joined(
    answer: enrol_pb2.JoinResponse, token: tokens.Token, folder: Path, config: SiteConfig | None
) -> JoinOutcome:
    return JoinOutcome(
        kind=answer.kind,
        vo=answer.vo,
        site=answer.site,
        name=answer.name,
        inviter=token.site,
        folder=folder,
        config=config,
        signer=bool(answer.signer),
    )


def _planned(
    token: tokens.Token,
    name: str,
    listen: str | None,
    advertise: str,
    slots: int | None,
    gpus: machine_gpus.Wanted,
    root_jobs: bool,
) -> SiteConfig:
    """Everything the command line says, checked before anybody is asked."""
    site = name if token.kind == "site" and name else token.site
    try:
        checked = site_id(site)
    except ValueError as error:
        raise UsageError(str(error)) from None
    config = SiteConfig(
        site=checked,
        vo=token.vo,
        listen=listen or DEFAULT_LISTEN,
        advertise=advertise,
        operators=(setup.own_account(),),
        gpus=machine_gpus.own(gpus),
        root_jobs=root_jobs or setup.root_jobs_said(),
        settings=setup.own_settings(slots),
    )
    if token.kind != "site":
        machine = certificates.machine_name(name) if name else "main"
        config = msgspec.structs.replace(config, role=token.kind, machine=machine, root=token.addresses)
    return parse_config(config_text(config), "join")


def _token(text: str, name: str) -> tokens.Token:
    try:
        return tokens.decode(text)
    except UsageError as wrong:
        try:
            tokens.decode(name)
        except UsageError:
            raise wrong from None
        raise UsageError(
            "join: the token comes first, or - to be asked for it, then the name: diana join - NAME"
        ) from None


def _refuse_strange_options(kind: str, **given: object) -> None:
    """Options that mean nothing for what the token invites: whoever gave them expects something else."""
    only = {"user": ("listen", "advertise", "slots", "gpus"), "member": ("listen", "advertise", "out")}
    wrong = only.get(kind, ("out",))
    for option in wrong:
        if given[option] in (None, ""):
            continue
        mend = "name its data directory with --data" if option == "out" else f"leave --{option} out"
        what = {"user": "a user's credential", "member": "a member machine, which dials its site"}.get(
            kind, f"a {kind}"
        )
        raise UsageError(f"join: --{option} does not go with this invitation, which is for {what}; {mend}")


def _refuse_unbindable(listen: str) -> None:
    host, port = host_port(listen)
    why = cannot_bind(host, port)
    if why == TAKEN:
        raise UsageError(
            f"--listen {listen}: {who_listens(port)} listens there; choose another port; the invitation is still good"
        )
    if why:
        raise UsageError(f"--listen {listen}: {why}; choose an address of this machine and a port this account may use")


def _placed(config: SiteConfig, inviter: asking.InviterContact, listen: str | None, data: Path) -> SiteConfig:
    """A member is dialled by nobody; all others listen where their inviter can reach them."""
    if listen is not None or config.role == "member":
        return config
    return msgspec.structs.replace(config, listen=joined(inviter.here, free_port(inviter.here, data)))


def _address_of(config: SiteConfig) -> str:
    """host:port where others reach it; empty: it only dials out, or the address is not known yet."""
    if config.role == "member" or not host_port(config.listen)[1]:
        return ""
    return next(iter(reached_at(config.listen, host_port(config.listen)[1], config.advertise)), "")


def _machine_here() -> str:
    """This machine's name, as far as it can be a machine's within a site."""
    text = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().partition(".")[0].lower()).strip("-")
    return text[:40].rstrip("-")


def _completed(config: SiteConfig, inviter: asking.InviterContact, answer: enrol_pb2.JoinResponse) -> SiteConfig:
    """The configuration completed with the inviter's answer. It passes the same checks as at start, so that what is
    written can be read."""
    # The way that worked comes first: the inviter may not know all names it is reached by.
    others = [a for a in dict.fromkeys((inviter.address, *answer.addresses)) if a != config.listen and _good(a)]
    if config.role == "site":
        config = msgspec.structs.replace(config, site=site_id(answer.site), peers=tuple(others))
    else:
        config = msgspec.structs.replace(config, machine=answer.name, root=tuple(others))
    return parse_config(config_text(config), "join")


def _good(address: str) -> bool:
    try:
        return host_port(address)[1] > 0
    except ValueError:
        return False


def _come_back(token: tokens.Token, name: str, data: Path) -> JoinOutcome:
    """A directory whose certificate ran out or was lost gets a new one; nothing else in it changes."""
    paths = DataDir(data)
    old = load_config(paths.config, keys=False)
    own = old.site if token.kind == "site" else old.machine
    if (
        old.vo != token.vo
        or old.role != token.kind
        or (token.kind != "site" and old.site != token.site)
        or name not in ("", own)
    ):
        what = f"{old.role} {own} of {old.vo}"
        raise UsageError(f"{data}: initialised already, as {what}; name another directory with --data")
    if paths.keys.joinpath("vo.pem").is_file() and (
        certificates.fingerprint(_root_in(paths))[: tokens.FINGERPRINT_BYTES] != token.fingerprint
    ):
        raise UsageError(f"{data}: belongs to another VO called {old.vo}; name another directory with --data")
    inviter = asking.find_inviter(token)
    keys = _Keys(token, own)
    request = enrol_pb2.JoinRequest(
        name=own, address=_address_of(old), leaf_request=keys.leaf_request, release=__version__
    )
    try:
        answer = asking.ask(token, inviter, request)
    except (UsageError, Denied) as refusal:
        # Whoever asked twice by a slip, or for an option that was forgotten, is not to look for another name.
        if not _holds(paths, keys.kind):
            raise
        raise type(refusal)(
            f"{data}: {old.role} {own} of {old.vo} is here already, and its certificate holds; start its node with: "
            f"diana node --data {data}, or name another directory with --data ({refusal})"
        ) from None
    keys.install(data, answer)
    return msgspec.structs.replace(_joined(answer, token, data, old), again=True)


def _root_in(paths: DataDir) -> bytes:
    """The VO's root that is there. UsageError."""
    root = paths.keys / "vo.pem"
    try:
        return content_of(root, MOST_KEY_BYTES)
    except ValueError as error:
        raise UsageError(f"{root}: {error}; name another directory with --data") from None


def _holds(paths: DataDir, kind: str) -> bool:
    """True if the certificate that is there, with its key, is in date and ends at the root that is there."""
    leaf, key = certificates.VoFiles.leaf(paths.keys, kind)
    try:
        root = _root_in(paths)
        certificates.verify_chain(content_of(leaf, MOST_KEY_BYTES), root, at_s=time.time())
        return key.is_file()
    except (OSError, ValueError, UsageError, Denied):
        return False


def _called(made: JoinOutcome) -> JoinOutcome:
    """A credential whose user only the inviter could name, under the name it would have had; as it is, where that is
    taken."""
    folder = made.folder.with_name(f"{made.name}-credential")
    if folder.exists():
        return made
    made.folder.rename(folder)
    return msgspec.structs.replace(made, folder=folder)


def _join_user(token: tokens.Token, name: str, out: Path) -> JoinOutcome:
    if name:
        certificates.user_name(name)
    with setup.making_credential(out):
        inviter = asking.find_inviter(token)
        keys = _Keys(token, name or "user")
        answer = asking.ask(
            token, inviter, enrol_pb2.JoinRequest(name=name, leaf_request=keys.leaf_request, release=__version__)
        )
        keys.install_credential(out, answer)
        others = [a for a in dict.fromkeys(answer.addresses) if a != inviter.address and _good(a)]
        setup.write_credential(out / "credential.toml", answer.name, answer.vo, answer.site, inviter.address, others)
    return _joined(answer, token, out, None)
