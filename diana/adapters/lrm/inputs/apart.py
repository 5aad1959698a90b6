"""Copies of what the site keeps, one for all jobs of a subgroup that have it as a link or as a program.

A job may write through a link as long as it runs, and other groups are given the same content meanwhile; of an upload
the site may have the only one there is. So a link leads to the site's own content only where a copy has no room or is
too large. What was changed and is thrown away then (`links.py`) is the copy; the next job or attempt gets a new one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from diana.adapters.lrm.inputs import links
from diana.adapters.lrm.inputs.placing import Placer
from diana.adapters.lrm.runas.accounts import Ways
from diana.adapters.lrm.spawner.processes import remove
from diana.model.layout import DataDir

MOST_BYTES = 4 << 30
"""Bytes of a subgroup's inputs that are copied so, in each order: other orders wait for it."""
_FOLDER = "apart"
_MADE = "made"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Apart(NamedTuple):
    path: str
    mark: str
    """`links.mark_of` the copy when it was made."""


class _Made(msgspec.Struct, frozen=True, array_like=True):
    """Record of a copy, written once that is whole."""

    number: int
    mark: str
    boot: str
    """A copy is not synced: one of before the machine started anew is not trusted."""


_decoder = msgspec.msgpack.Decoder(_Made)


class CopiesApart:
    """Serves one order. Not safe for several threads; nor are two of one subgroup."""

    def __init__(self, data: DataDir, staged: Path) -> None:
        """`staged`: the subgroup's links to its inputs, below which the copies lie and with which they go."""
        self._tops = (data.root, data.root.resolve())
        self._root = data.root
        self._staged = staged
        self._placer: Placer | None = None
        self._found: dict[tuple[Path, bool], Apart | None] = {}

    def linked(self, target: Path, ways: Ways | None) -> Apart | None:
        """Return the copy of a staged input that is the site's own, or holds files that are; None: it is a user's, is
        too much (`MOST_BYTES`, `links.MOST_FILES`), or the disk has no room for it. OSError, InputChanged."""
        return self._once(target, ways, program=False)

    def program(self, target: Path, ways: Ways | None) -> Apart:
        """Return the copy of a staged program, which may be executed. OSError, InputChanged."""
        found = self._once(target, ways, program=True)
        assert found is not None
        return found

    def _once(self, target: Path, ways: Ways | None, *, program: bool) -> Apart | None:
        key = target, program
        if key not in self._found:
            self._found[key] = self._copy(target, ways, program)
        return self._found[key]

    def _copy(self, target: Path, ways: Ways | None, program: bool) -> Apart | None:
        if self._placer is None:
            self._placer = Placer(self._root, self._staged, MOST_BYTES, links.MOST_FILES)
            self._placer.begin()
        placer = self._placer
        if not program and not self._ours(placer, target):
            return None
        name = hashlib.sha256(os.fsencode(f"{program:d} {target.relative_to(self._staged)}")).hexdigest()[:32]
        folder, boot = self._staged / _FOLDER / name, _BOOT_ID.read_text().strip()
        made = _made(folder)
        if made.boot == boot and made.mark:
            path = str(folder / str(made.number))
            if links.same(made.mark, links.mark_of(path)):
                return Apart(path, made.mark)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A job that changed the last copy may still run: its link leads there, and its watch takes that one away.
        path = str(folder / str(made.number + 1))
        remove(path)
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            content = placer.copies(at, target) or (placer.content(target) if program else None)
            if content is None:
                return None
            placer.put(content, at, str(made.number + 1), program, None)
        except OSError as fault:
            with suppress(OSError):
                remove(path)
            if fault.errno in _FULL and not program:
                return None
            raise OSError(fault.errno, fault.strerror, fault.filename if _absolute(fault.filename) else path) from None
        finally:
            os.close(at)
        _guard(path)
        if ways is not None:
            ways.through(folder, self._staged)
        out = Apart(path, links.mark_of(path))
        spare = folder / f"{_MADE}.new"
        spare.write_bytes(msgspec.msgpack.encode(_Made(made.number + 1, out.mark, boot)))
        os.replace(spare, folder / _MADE)
        return out

    def _ours(self, placer: Placer, target: Path) -> bool:
        lead = placer.lead(target)
        if lead != target:
            return self._within(lead)
        # A folder of links, of which some may lead to users' files.
        content = placer.content(target)
        return content is not None and any(self._within(Path(item.path)) for item in content.items)

    def _within(self, path: Path) -> bool:
        return any(path.is_relative_to(top) for top in self._tops)


def _made(folder: Path) -> _Made:
    try:
        return _decoder.decode((folder / _MADE).read_bytes())
    except (FileNotFoundError, msgspec.MsgspecError):
        return _Made(0, "", "")


def _absolute(name: object) -> bool:
    return isinstance(name, str) and name.startswith("/")


def _guard(path: str) -> None:
    """Let all read it, as what the site keeps, and nobody write to it by mistake."""
    for at, _, names in os.walk(path):
        os.chmod(at, 0o755)
        for each in (f"{at}/{name}" for name in names):
            if not os.path.islink(each):
                _read_only(each)
    if not os.path.isdir(path):
        _read_only(path)


def _read_only(path: str) -> None:
    os.chmod(path, 0o555 if os.stat(path).st_mode & stat.S_IXUSR else 0o444)
