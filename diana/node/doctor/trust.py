"""Checks that this machine's certificate holds, names it, and will be renewed in time."""

from __future__ import annotations

import time

from diana.adapters.trust import certificates
from diana.adapters.trust.reading import bytes_in
from diana.errors import DianaError
from diana.model.layout import DataDir
from diana.model.trust.identity import Identity
from diana.node.config.site_file import SiteConfig, come_in_anew, way_back
from diana.node.doctor.bounded import Results, fail, ok, warn
from diana.node.enrol.signers import SignerBook
from diana.node.enrol.signing import is_signer
from diana.wire.tls import load_credentials

LATE = 0.25
"""Share of a certificate's life: renewal begins with half of it left; with only this left it has failed for long."""
_DAY_S = 86_400.0


def certificate(paths: DataDir, config: SiteConfig, wall_s: float) -> Results:
    kind = "member" if config.role == "member" else "site"
    file = paths.keys / f"{kind}.pem"
    try:
        load_credentials(paths.keys, kind)
        chain = bytes_in(file)
        named = certificates.verify_chain(chain, bytes_in(paths.keys / "vo.pem"))
    except DianaError as error:
        return [fail("certificate", str(error).partition("; ")[0], way_back(config, paths.root))]
    wanted = Identity("member", f"{config.site}/{config.machine}", config.vo)
    if kind == "site":
        wanted = Identity("site", config.site, config.vo)
    if named != wanted:
        found = f"{file} is that of {named.said} of {named.vo}, site.toml says {wanted.said} of {wanted.vo}"
        return [fail("certificate", found, "put the right keys there, or mend site.toml")]
    return [*_dates(paths, config, chain, wall_s), *_signer(paths, config)]


def _dates(paths: DataDir, config: SiteConfig, chain: bytes, wall_s: float) -> Results:
    dates = certificates.dates_of_chain(chain)
    left_s, life_s = dates.until_s - wall_s, dates.until_s - dates.from_s
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(dates.until_s))
    alone = is_signer(paths.keys) and config.role != "member"
    if wall_s < dates.from_s:
        begins = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(dates.from_s))
        mend = "set this machine's clock: timedatectl set-ntp true"
        return [fail("certificate", f"it holds from {begins} only, which is yet to come here", mend)]
    if left_s <= 0:
        mend = (
            f"start the node, it renews its own: diana node --data {paths.root}"
            if alone
            else come_in_anew(config, paths.root)
        )
        return [fail("certificate", f"it ran out on {until}, {-left_s / _DAY_S:.1f} days ago", mend)]
    if left_s < LATE * life_s:
        signers = ", ".join(_signers(paths, config)) or "none is known"
        mend = f"have a signer in reach ({signers}); {paths.audit.name} says what failed; start the node if it is off"
        return [warn("certificate", f"it holds for {left_s / _DAY_S:.1f} days more and was not renewed in time", mend)]
    return [ok("certificate", f"it holds until {until}, {left_s / _DAY_S:.1f} days more, and names {_names(config)}")]


def _names(config: SiteConfig) -> str:
    return f"machine {config.machine} of {config.site}" if config.role == "member" else f"site {config.site}"


def _signers(paths: DataDir, config: SiteConfig) -> list[str]:
    if config.role in ("member", "standby"):
        return [config.site]
    return [site for site in SignerBook(paths.signers).all() if site != config.site]


def _signer(paths: DataDir, config: SiteConfig) -> Results:
    if config.role == "site" and is_signer(paths.keys):
        try:
            root = bytes_in(paths.keys / "vo.pem")
            certificates.verify_chain(bytes_in(paths.keys / "signer.pem"), root, signer=True)
        except DianaError as error:
            mend = "restore signer.pem and signer.key from a backup made with --keys"
            return [fail("signing", f"signer.pem: {error}", mend)]
        key = "; the VO's root key lies here too: keep a copy off line" if (paths.keys / "vo.key").exists() else ""
        return [ok("signing", f"this site signs for {config.vo}, and for itself{key}")]
    known = _signers(paths, config)
    if config.role == "site" and config.site in SignerBook(paths.signers).all():
        found = f"others count on this site as a signer, and it has no {paths.keys / 'signer.key'}"
        return [warn("signing", found, "restore signer.pem and signer.key from a backup made with --keys")]
    if known:
        return [ok("signing", f"{', '.join(known)} {'renews' if len(known) == 1 else 'renew'} its certificate")]
    found = "no site is known that could renew the certificate"
    return [warn("signing", found, "start the node: it learns them from the sites it meets")]
