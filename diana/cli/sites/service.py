"""`diana service install|status|uninstall`: the node as a service of systemd, of this very installation."""

from __future__ import annotations

import argparse
import os
import pwd
import re
import shlex
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_data, add_json
from diana.cli.sites.detached import answers
from diana.cli.sites.site import data_of
from diana.cli.sites.systemd import NodeUnit, Systemd, lingers
from diana.errors import DianaError, UsageError

if TYPE_CHECKING:
    from diana.node.config.site_file import SiteConfig

ORDERS = ("install", "status", "uninstall")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
_RUNS, _BEGINS = ("active", "reloading"), "activating"
_GOES_WITH_INSTALL = ("account", "print", "replace")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [options] ORDER"
    parser.add_argument("order", choices=ORDERS, metavar="ORDER", help=", ".join(ORDERS))
    add_data(parser)
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--user", action="store_true", help="of your own systemd (default, but for root)")
    whose.add_argument("--system", action="store_true", help="of the machine's systemd; only root changes that")
    parser.add_argument("--name", metavar="NAME", help="of the unit (default: diana-SITE)")
    parser.add_argument(
        "--account", metavar="NAME", help="with --system: whose process the node is (default: its directory's owner)"
    )
    parser.add_argument("--print", action="store_true", help="install: show the unit and change nothing")
    parser.add_argument("--replace", action="store_true", help="install: put it in the place of one that differs")
    add_json(parser, "keys unit, file, data, scope, enabled, active, current and linger")


def _run(args: argparse.Namespace) -> int:
    for option in _GOES_WITH_INSTALL if args.order != "install" else ():
        if getattr(args, option):
            raise UsageError(f"service {args.order}: --{option} goes with install; leave it out")
    if args.print and args.json:
        raise UsageError("service install: --print shows a unit, which is no JSON; leave --json out")
    service = _Service(args)
    return {"install": service.install, "status": service.status, "uninstall": service.uninstall}[args.order]()


class _Service:
    """The service of one data directory, as the words of a command mean it."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.data = Path(os.path.abspath(data_of(args)))
        self.words = f"--data {shlex.quote(str(self.data))}"
        """The option by which commands that are shown name the directory."""
        self.systemd = Systemd(user=not args.system and (args.user or os.getuid() != 0))
        self.scope = "user" if self.systemd.user else "system"
        # A unit whose directory is gone can still be taken away.
        units = self.systemd.units_of(self.data) if args.order == "uninstall" else []
        self.name = (args.name or (units[0].stem if units else self._usual_name())).removesuffix(".service")
        if not _NAME.match(self.name):
            raise UsageError(f"service: --name {self.name!r}: letters, digits, '.', '_' and '-' make a unit's name")
        self.unit = f"{self.name}.service"
        self.file = self.systemd.folder / self.unit

    def install(self) -> int:
        """Make, enable and start it. Done again it changes nothing; UsageError for what stands in its way."""
        text = self._text()
        if self.args.print:
            sys.stdout.write(text)
            return 0
        self._may_change()
        self._no_other()
        there = self._there()
        if there is not None and there != text and not self.args.replace:
            raise UsageError(
                f"{self.file} is there and differs; see what would be written with --print, --replace writes it"
            )
        state = self._state()
        if there == text and state in _RUNS and self._enabled():
            return self._told(f"{self.unit} is installed already and runs; nothing was changed")
        if state not in (*_RUNS, _BEGINS):
            self._nothing_in_the_way()
        if there != text:
            self._write(text)
        try:
            self.systemd.order("daemon-reload")
            self.systemd.order("enable", self.unit)
            self.systemd.order("restart" if there is not None else "start", self.unit)
        except DianaError as error:
            if there is None:
                self._take_back()
            why = f"{self._journal()} -n 20 says why"
            done = "nothing was left installed" if there is None else f"{self.file} stays"
            raise UsageError(f"{error}; {done}; {why}") from None
        done = "installed" if there is None else "replaced" if there != text else "started again"
        return self._told(f"{self.unit} {done}: it runs, and starts with {self._starts_with()}", told_all=True)

    def uninstall(self) -> int:
        """Stop it and take its unit away; the data directory stays."""
        units = self.systemd.units_of(self.data)
        if self.args.name:
            units = [file for file in units if file == self.file]
        if not units:
            return self._told(f"there is no service of {self.data} in {self.systemd.folder}; nothing was changed")
        self._may_change()
        for file in units:
            self.systemd.order("disable", "--now", file.name)
            file.unlink(missing_ok=True)
        self.systemd.order("daemon-reload")
        gone = " and ".join(file.name for file in units)
        return self._told(f"{gone} stopped and removed; running jobs run on, and {self.data} stays as it is")

    def status(self) -> int:
        """Show it; exit code 1 where there is none, or it does not run. UsageError where there is no site."""
        _ = self.config
        units = self.systemd.units_of(self.data)
        if self.file not in units and not self.args.name and units:
            self.file, self.unit, self.name = units[0], units[0].name, units[0].stem
        there = self.file.exists()
        state = self._state() if there else ""
        runs = state in _RUNS
        if self.args.json:
            self._print()
        elif not there:
            output.say(f"there is no service of {self.data} in {self.systemd.folder}")
            output.say(f"make one with: diana service install --{self.scope} {self.words}")
        else:
            does = "runs" if runs else "is being started, perhaps not for the first time" if state == _BEGINS else ""
            output.say(f"{self.unit} of {self.data}: {does or 'does not run'}")
            output.say(f"file: {self.file}, {'' if self._enabled() else 'not '}started with {self._starts_with()}")
            if not self._current():
                output.say("it is not as this installation would write it: diana service install --replace")
            output.say(f"log: {self.data / 'node.log'}; what it printed: {self._journal()}")
            self._say_linger()
        return 0 if runs else 1

    def _usual_name(self) -> str:
        machine = f"-{self.config.machine}" if self.config.machine not in ("", "main") else ""
        return f"diana-{self.config.site}{machine}"

    @cached_property
    def config(self) -> SiteConfig:
        from diana.node.config.site_file import load_config

        file = self.data / "site.toml"
        try:
            there = file.exists()
        except PermissionError as error:
            raise UsageError(f"{self.data}: {error.strerror}; ask as the account whose directory it is") from None
        if not there:
            raise UsageError(f"{self.data}: no site there; make one with: diana init NAME {self.words}")
        return load_config(file)

    def _text(self) -> str:
        account = self.args.account or ""
        if self.systemd.user and account:
            raise UsageError("service install: --account goes with --system; your own systemd runs as you")
        if not self.systemd.user:
            account = account or _owner(self.data)
            try:
                pwd.getpwnam(account)
            except KeyError:
                raise UsageError(f"service install: there is no account {account}; make it, or name another") from None
        return NodeUnit(self.config.site, self.data, (*_program(), "node"), account).text()

    def _there(self) -> str | None:
        """Return the unit's file as it is; None: there is none."""
        try:
            return self.file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"{self.file}: {error.strerror}; nothing was installed") from None

    def _may_change(self) -> None:
        if not self.systemd.user and os.getuid() != 0:
            raise UsageError(f"service {self.args.order} --system: only root may; say it with sudo, or --user")
        if self.systemd.runs():
            return
        if self.systemd.user:
            mend = f"log in as {_me()}, or let root say: loginctl enable-linger {_me()}"
            raise UsageError(
                f"service {self.args.order}: no systemd of yours runs here; {mend}; "
                f"without one: diana node --detach {self.words}"
            )
        raise UsageError(
            f"service {self.args.order}: systemd does not run here (a container?); start the node with: "
            f"diana node --detach {self.words}; --print shows the unit"
        )

    def _no_other(self) -> None:
        """Refuse a second service of one data directory, of whichever systemd."""
        for systemd in (Systemd(user=False), Systemd(user=True)):
            for file in systemd.units_of(self.data):
                if file != self.file:
                    scope = "user" if systemd.user else "system"
                    raise UsageError(
                        f"{file} serves {self.data} already; diana service uninstall --{scope} --name {file.stem} "
                        f"{self.words} removes it"
                    )

    def _nothing_in_the_way(self) -> None:
        from diana.adapters.grpc.server import TAKEN, cannot_bind, taken
        from diana.node.config.site_file import host_port

        if answers(self.data):
            raise UsageError(
                f"{self.data}: its node runs already, and not as this service; diana stop {self.words} ends it "
                "(running jobs run on)"
            )
        host, port = host_port(self.config.listen)
        if port and self.config.role != "member" and cannot_bind(host, port) == TAKEN:
            raise UsageError(taken(host, port, self.data))

    def _write(self, text: str) -> None:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            spare = self.file.with_name(f".{self.unit}.{os.getpid()}")
            spare.write_text(text, encoding="utf-8")
            os.replace(spare, self.file)
        except OSError as error:
            raise UsageError(f"{self.file}: {error.strerror}; nothing was installed") from None

    def _take_back(self) -> None:
        with suppress(DianaError):
            self.systemd.order("disable", "--now", self.unit)
        self.file.unlink(missing_ok=True)
        with suppress(DianaError):
            self.systemd.order("daemon-reload")

    def _state(self) -> str:
        """As systemd has it: a node that fails and is started again and again is `activating` most of the time."""
        return self._asked("is-active")

    def _enabled(self) -> bool:
        return self._asked("is-enabled") == "enabled"

    def _asked(self, order: str) -> str:
        with suppress(OSError, DianaError):
            return self.systemd.asked(order, self.unit)
        return ""

    def _current(self) -> bool:
        """True where the file is what `install` would write; of an account that was named at its installation too."""
        try:
            there = self.file.read_text(encoding="utf-8", errors="replace")
            account = re.search(r"^User=(.+)$", there, re.MULTILINE)
            if account and not self.systemd.user:
                self.args.account = account[1].replace("%%", "%")
            return there == self._text()
        except (OSError, UsageError):
            return False

    def _journal(self) -> str:
        return f"journalctl {'--user ' if self.systemd.user else ''}-u {self.name}"

    def _starts_with(self) -> str:
        return "your login" if self.systemd.user and not lingers(_me()) else "the machine"

    def _told(self, text: str, told_all: bool = False) -> int:
        if self.args.json:
            self._print()
            return 0
        output.say(text)
        if told_all:
            output.say(f"file: {self.file}; log: {self.data / 'node.log'}; diana service status shows it")
            self._say_linger()
        return 0

    def _say_linger(self) -> None:
        if self.systemd.user and not lingers(_me()):
            output.say("it ends when you log out, until you say: loginctl enable-linger")

    def _print(self) -> None:
        from diana.cli.shared.shapes import ServiceShown

        there = self.file.exists()
        output.print_json(
            ServiceShown(
                unit=self.unit,
                file=str(self.file) if there else "",
                data=str(self.data),
                scope=self.scope,
                enabled=there and self._enabled(),
                active=there and self._state() in _RUNS,
                current=there and self._current(),
                linger=bool(self.systemd.user and lingers(_me())),
            )
        )


def _program() -> tuple[str, ...]:
    """The words that run this installation's command, wherever they are run."""
    script = Path(sys.executable).parent / "diana"
    if os.access(script, os.X_OK):
        return (str(script),)
    return (sys.executable, "-P", "-m", "diana")


def _owner(folder: Path) -> str:
    uid = folder.stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise UsageError(f"{folder}: its owner, {uid}, has no account; name one with --account") from None


def _me() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


COMMANDS = {
    "service": Command(
        _options,
        _run,
        "install: writes the unit, enables and starts it; it has started when the node answers. Again it changes\n"
        "  nothing. --print shows the unit, also where there is no systemd. Each directory has a unit of its own.\n"
        "status: whether it runs and starts by itself; exit code 1 where it does not run.\n"
        "uninstall: stops it and removes the unit; running jobs run on, the data directory stays.",
        """
diana service install
diana service install --user --data /srv/beta
sudo diana service install --system --data /srv/beta
diana service install --print
diana service status
diana service uninstall
""",
    ),
}
