"""A site whose node, spawner and jobs run under strace, all system calls that matter here written to a file."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from diana.errors import DianaError
from tests.e2e.grid import REPO, Grid, Site, until
from tests.real.durable.calls import Call, in_order, read
from tests.real.durable.disk import NAMES, OPENS, SYNCS, WRITES, Disk, look
from tests.real.durable.rules import SENDS, SiteRules

_CALLS = ",".join(sorted(OPENS | WRITES | SYNCS | NAMES | SENDS | {"execve"}))
_STRACE = ("strace", "-f", "--seccomp-bpf", "-ttt", "-T", "-yy", "-v", "-s", "4194304", "-e", f"trace={_CALLS}")
START_S = 110.0


class Recorded(Site):
    """`tree`: the source the node runs; another one than ours where something is to be wrong with it."""

    tree: Path = REPO

    def begin(self) -> None:
        """Content of the disk before the first start."""
        self._found = look(self.data)
        self._recordings: list[Path] = []

    def command(self, *more: str) -> list[str]:
        self._recordings.append(self.data.parent / f"{self.name}.strace{len(self._recordings)}")
        node = [sys.executable, "-P", "-m", "diana.cli", "node", "--data", str(self.data), "--no-zeroconf", *more]
        return [*_STRACE, "-o", str(self._recordings[-1]), *node]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": str(self.tree), "PYTHONSAFEPATH": "1"}

    def _answers(self) -> bool:
        self.assert_runs()
        try:
            with self.client() as client:
                self.pid = client.info().pid
                return True
        except DianaError:
            return False

    def ready(self) -> None:
        until(self._answers, lambda: f"{self.name} answers\n{self.story()}", START_S)

    def ask_to_end(self) -> None:
        """SIGTERM to node and spawner: their recorder passes none on, and ends with the last of them."""
        for pid in (getattr(self, "pid", 0), self.spawner_pid()):
            if pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)

    def kill_recorded(self) -> None:
        """kill -9 of the node; its recorder ends with the last of its spawner and jobs."""
        os.kill(self.pid, signal.SIGKILL)
        if spawner := self.spawner_pid():
            os.kill(spawner, signal.SIGKILL)
        assert self.process is not None
        self.process.wait(60)

    def calls(self, source: int = 0) -> list[Call]:
        """`source`: number of its first recording, where those of several sites are put in one order."""
        out: list[Call] = []
        for number, path in enumerate(self._recordings):
            with path.open(encoding="latin-1") as lines:
                out += read(lines, source + number)
        return out

    def rules(self) -> SiteRules:
        """A judge that has heard nothing yet."""
        return SiteRules(self.paths, Disk(self.data, self._found))

    def judged(self) -> SiteRules:
        """The verdict on all that was recorded so far."""
        rules = self.rules()
        for call, end in in_order(self.calls()):
            rules.feed(call, end)
        return rules


def recorded_too(site: Site, tree: Path = REPO) -> Recorded:
    """A site that was made otherwise, and is not started yet."""
    site.__class__ = Recorded
    assert isinstance(site, Recorded)
    site.tree = tree
    site.begin()
    return site


def recorded(grid: Grid, name: str, slots: int = 4, tree: Path = REPO) -> Recorded:
    """A site of the grid that will run under strace."""
    return recorded_too(grid.add(name, slots), tree)


def tree_with(folder: Path, changes: Mapping[str, tuple[str, ...]]) -> Path:
    """A copy of the source in `folder` with other texts in place of some: file below diana/ -> (old, new, old, ...)."""
    shutil.copytree(REPO / "diana", folder / "diana", ignore=shutil.ignore_patterns("__pycache__"))
    for name, texts in changes.items():
        path = folder / "diana" / name
        text = path.read_text()
        for old, new in zip(texts[::2], texts[1::2], strict=True):
            assert old in text, f"{name} has no {old!r} any more"
            text = text.replace(old, new)
        path.write_text(text)
    return folder


def stop(site: Recorded) -> None:
    """SIGTERM to the node, not to its recorder; returns when both are gone."""
    assert site.process is not None
    os.kill(site.pid, 15)
    site.process.wait(90)
