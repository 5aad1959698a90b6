"""The data directory that release 0.1.0 left (`0.1.0/site`), put up again."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from diana.adapters.lrm.spawner import identity
from diana.adapters.lrm.spawner.claims import claimlog
from diana.adapters.lrm.spawner.claims.records import LogOpened
from tests.release.kept import FOLDER
from tests.release.make_site import DATA, LISTEN

ACCOUNT = pwd.getpwuid(os.getuid()).pw_name


def put_up(data: Path, listen: str = LISTEN) -> None:
    """Into `data`, which may have keys already."""
    for path in sorted((FOLDER / "site").rglob("*")):
        to = data / path.relative_to(FOLDER / "site")
        if path.is_dir():
            to.mkdir(parents=True, exist_ok=True)
        elif path.suffix == ".sql":
            with closing(sqlite3.connect(to.with_suffix(".db"))) as connection:
                connection.executescript(path.read_text().replace(DATA, str(data)))
        else:
            shutil.copyfile(path, to)
    config = data / "site.toml"
    text = config.read_text().replace(LISTEN, listen).replace('operators = ["root"]', f'operators = ["{ACCOUNT}"]')
    # Whoever runs the tests is the owner of what was submitted there.
    config.write_text(text.replace("[users]", f'[users]\n{ACCOUNT} = "root@alpha-vo"'))
    _same_mark(data / "journal.mark")
    _same_machine(data / "spawner" / "claims.log")


def _same_machine(path: Path) -> None:
    """The machine runs on, as when a node is upgraded: after a reboot each claim may have begun, and would be held."""
    opened, *others = claimlog.read(path)
    assert isinstance(opened, LogOpened)
    opened.machine = identity.machine()
    log = claimlog.ClaimLog(path, [opened, *others])
    log.close()


def _same_mark(path: Path) -> None:
    """A mark that is a copy vouches for nothing; this one is to be the file that the release left."""
    mark = json.loads(path.read_text())
    path.write_text(json.dumps({**mark, "ino": path.stat().st_ino}).ljust(255) + "\n")
