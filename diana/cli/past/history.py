"""`diana history`: what was submitted at a site, and how it ran, as a log and a scenario; several of them as one."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node, client, duration_s
from diana.cli.shared.progress import StatusLine
from diana.errors import UsageError

if TYPE_CHECKING:
    from diana.client import Client
    from diana.model.views.past import PastSite
    from diana.sim.past.recording import Recorded, Recorder
    from diana.sim.specs.compare_spec import SettingsTable
    from diana.wire.client.history import HistoryChunk

DEFAULT_OUT = Path("history")
_TOLD_EVERY = 2000
"""Groups between two looks at the line of progress."""


def _options(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [options] export | merge DIR DIR..."
    parser.add_argument("order", metavar="ORDER", choices=("export", "merge"), help="export or merge")
    parser.add_argument("folders", nargs="*", metavar="DIR", type=Path, help="of merge: histories of other sites")
    parser.add_argument(
        "--out", type=Path, default=DEFAULT_OUT, metavar="DIR", help="the folder to write (default: history)"
    )
    span = parser.add_argument_group("export")
    span.add_argument("--last", type=duration_s, metavar="TIME", help="only groups submitted in the last TIME, as 7d")
    span.add_argument("--from", dest="begin", type=_wall_s, metavar="DATE", help="only groups submitted from then on")
    span.add_argument("--to", dest="end", type=_wall_s, metavar="DATE", help="only groups submitted before then")
    span.add_argument(
        "--grid", action="store_true", help="also what other sites tell of theirs, as their operators allow"
    )
    span.add_argument(
        "--places", choices=("keep", "hash"), default="keep", help="names of sites and datasets: as they are, or hashes"
    )
    span.add_argument(
        "--owners",
        choices=("keep", "hash", "drop"),
        default="keep",
        help="names of users: as they are (default), as hashes that are alike in one VO, or one for all",
    )
    add_json(
        parser, "groups, jobs, going_on, without_jobs, clock_back, size_bytes, missing, restored, folder, sites, untold"
    )
    add_node(parser)


def _wall_s(text: str) -> float:
    """Seconds since 1970 of a date or a date and time, UTC unless it says otherwise."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date; write 2026-11-30 or 2026-11-30T12:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _history(args: argparse.Namespace) -> int:
    if args.order == "merge":
        return _merge(args)
    if args.folders:
        raise UsageError(f"history export: takes no folder; name the one to write with --out {args.folders[0]}")
    if args.last is not None and args.begin is not None:
        raise UsageError("history export: --last and --from both say where the span begins; give one of them")
    _check_out(args)
    begin = time.time() - args.last if args.last is not None else args.begin or 0.0
    if args.end is not None and args.end <= begin:
        raise UsageError("history export: the span ends before it begins; give a later --to")
    with client(args) as node:
        grid = _Grid(node, args)
        account = grid.export(begin, args.end or 0.0)
    if args.json:
        from diana.cli.shared.shapes import Exported

        told = tuple(sorted(grid.told)) if args.grid else ()
        untold = tuple(f"{site}: {why}" for site, why in sorted(grid.untold.items()))
        output.print_json(Exported(folder=str(args.out), sites=told, untold=untold, **account._asdict()))
        return 0
    print(
        f"{args.out}: {output.counted(account.groups, 'group')} with {output.counted(account.jobs, 'job')} that ended, "
        f"{account.size_bytes / 1e6:,.2f} MB; replay them: diana whatif {args.out} --check"
    )
    for count, text in (
        (account.going_on, "not over yet: their jobs that ended are in it"),
        (account.without_jobs, "without a job that ended: they are not replayed"),
        (account.missing, "forgotten already: the grid looks emptier than it was"),
    ):
        if count:
            print(f"  {output.counted(count, 'group')} {text}")
    if account.clock_back:
        print(f"  {output.counted(account.clock_back, 'job')} began before they came, by their sites' clocks: no wait")
    if account.restored:
        print("  a journal was put back: groups submitted after its copy, and before, are missing")
    for site, why in sorted(grid.untold.items()):
        print(f"  {site} is as its summaries showed it: {why}")
    return 0


class _Grid:
    """Histories as a node tells them: one site's, or each site's of the grid into a folder of its own, then merged."""

    def __init__(self, node: Client, args: argparse.Namespace) -> None:
        from diana.sim.past.recording import KnownSite

        self._node, self._args, self._line = node, args, StatusLine()
        self._sites = [KnownSite(row.site, row.slots, row.speed) for row in node.sites()]
        self._vo = node.info().vo
        self._groups = 0
        self.told: dict[str, Recorded] = {}
        self.untold: dict[str, str] = {}
        """Site -> why it told nothing."""
        self._idle: dict[str, PastSite] = {}
        """Sites that told of themselves, and of no job."""

    def export(self, begin: float, end: float) -> Recorded:
        args, home = self._args, ""
        chunks = iter(self._node.history_chunks(begin, end, grid=args.grid))
        told = next(chunks).site
        if told is None:
            raise UsageError("history export: the node tells no history; upgrade it")
        home = str(told.site)
        with tempfile.TemporaryDirectory(prefix=".history-", dir=_parent(args.out)) as made:
            while told is not None:
                told = self._one(told, chunks, Path(made) / told.site if args.grid else args.out)
            self._line.end()
            if self.told and args.grid:
                self._without_jobs(Path(made))
                self._together([Path(made) / site for site in self.told])
        if not self.told:
            why = self.untold.get(home) or f"no job of that span has ended at {', '.join(sorted(self._idle))}"
            raise UsageError(f"history export: {why}")
        return _sum(self.told.values())

    def _without_jobs(self, made: Path) -> None:
        """Sites without a job of their own tell of themselves too: their drains, machines and windows."""
        from diana.sim.past.merging import begins_wall_s

        first_wall_s = min(begins_wall_s(made / site) for site in self.told)
        for site, told in self._idle.items():
            with self._recorder(told, made / site) as recorder:
                self.told[site] = self._closed(recorder, told, first_wall_s)

    def _together(self, folders: list[Path]) -> None:
        from diana.sim.past.merging import merged

        if len(folders) > 1:
            merged(folders, self._args.out)
            return
        self._args.out.mkdir(parents=True, exist_ok=True)
        for file in folders[0].iterdir():
            shutil.move(file, self._args.out / file.name)

    def _recorder(self, told: PastSite, folder: Path) -> Recorder:
        from diana.sim.past.recording import Recorder

        args = self._args
        return Recorder(folder, told, self._sites, self._vo, args.owners, hash_places=args.places == "hash")

    def _closed(self, recorder: Recorder, told: PastSite, from_wall_s: float | None = None) -> Recorded:
        return _closed(self._node, recorder, told, hidden=self._args.places == "hash", from_wall_s=from_wall_s)

    def _one(self, told: PastSite, chunks: Iterator[HistoryChunk], folder: Path) -> PastSite | None:
        """Record a site; the site that is told next, None: none is."""
        site = str(told.site)
        with self._recorder(told, folder) as recorder:
            after, broken = None, False
            for chunk in chunks:
                if chunk.site is not None:
                    after = chunk.site
                    break
                if chunk.untold:
                    self.untold[chunk.untold] = chunk.why
                    broken = broken or chunk.untold == site
                elif chunk.group is not None:
                    recorder.group(chunk.group)
                    self._groups += 1
                    if self._groups % _TOLD_EVERY == 0:
                        self._line.show(f"{site}: {self._groups:,} groups")
                elif chunk.rows is not None:
                    recorder.rows(chunk.rows)
            if not broken:
                try:
                    self.told[site] = self._closed(recorder, told)
                except UsageError:
                    if not self._args.grid or recorder.has_jobs():
                        raise
                    self._idle[site] = told
        return after


def _parent(out: Path) -> Path:
    """The nearest folder above `out` that is there."""
    return next((one for one in out.absolute().parents if one.is_dir()), Path("/"))


def _check_out(args: argparse.Namespace) -> None:
    """Raise UsageError unless the folder to write is there, or can be made: before anything is read."""
    out = args.out.absolute()
    there = next(one for one in (out, *out.parents) if os.path.lexists(one))
    if not there.is_dir():
        raise UsageError(f"history {args.order}: --out {args.out}: {there} is no folder; name another")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"history {args.order}: --out {args.out}: you may not write in {there}; name another")


def _sum(some: Iterable[Recorded]) -> Recorded:
    from diana.sim.past.recording import Recorded

    return Recorded(*(sum(column) for column in zip(*some, strict=True)))


def _closed(node: Client, recorder: Recorder, told: PastSite, *, hidden: bool, from_wall_s: float | None) -> Recorded:
    import msgspec

    from diana.sim.specs.data_spec import DatasetSpec
    from diana.sim.specs.link_spec import LinkSpec

    ways: dict[frozenset[str], list[Any]] = {}
    for row in node.links().links:
        ways.setdefault(frozenset((row.source, row.target)), []).append(row)
    usual = LinkSpec(("a", "b"))
    links = []
    for pair, rows in ways.items():
        rates = [row.bytes_per_s for row in rows if row.bytes_per_s > 0]
        trips = [row.rtt_s for row in rows if row.rtt_s > 0]
        if len(pair) == 2 and (rates or trips):
            a, b = sorted(pair)
            rate = sum(rates) / len(rates) if rates else usual.bytes_per_s
            latency_s = min(trips) / 2 if trips else usual.latency_s
            links.append(LinkSpec((a, b), latency_s=latency_s, bytes_per_s=rate))
    held: dict[str, list[Any]] = {}
    for one in node.datasets():
        if one.files > 0:
            held.setdefault(one.name, []).append(one)
    datasets = [
        DatasetSpec(
            name,
            rows[0].site,
            files=rows[0].files,
            file_bytes=max(1, rows[0].size_bytes // rows[0].files),
            replicas=tuple(sorted({row.site for row in rows} - {rows[0].site})),
        )
        for name, rows in held.items()
    ]
    settings: dict[str, Any] = msgspec.json.decode(told.settings) if told.settings else {}
    quotas = settings.pop("quotas", {})
    if hidden:
        # They may name machines, paths and users.
        settings = {key: value for key, value in settings.items() if isinstance(value, bool | int | float)}
    return recorder.close(links, datasets, _plain(settings), quotas, from_wall_s=from_wall_s)


def _plain(settings: dict[str, Any]) -> SettingsTable:
    """Those that a scenario can say: numbers, words, and tables of numbers."""

    def sayable(value: Any) -> bool:
        if isinstance(value, dict):
            return bool(value) and all(isinstance(one, float | int) for one in value.values())
        return isinstance(value, bool | int | float | str)

    return {key: value for key, value in settings.items() if sayable(value)}


def _merge(args: argparse.Namespace) -> int:
    if len(args.folders) < 2:
        raise UsageError("history merge: name two folders or more: diana history merge alpha beta --out all")
    for option in ("last", "begin", "end"):
        if getattr(args, option) is not None:
            raise UsageError("history merge: spans are chosen when a history is exported; leave them out")
    _check_out(args)
    from diana.sim.past.merging import merged

    scenario = merged(args.folders, args.out)
    if args.json:
        from diana.cli.shared.shapes import Merged

        output.print_json(Merged(folder=str(args.out), sites=tuple(site.name for site in scenario.sites)))
    else:
        print(f"{args.out}: {scenario.name}; replay it: diana whatif {args.out} --check")
    return 0


COMMANDS = {
    "history": Command(
        _options,
        _history,
        "export writes DIR/SITE.swf.gz, a log in the Standard Workload Format, and DIR/scenario.toml that replays it\n"
        "(docs/history.md). An operator gets everybody's groups, a user their own; commands and environments are not\n"
        "in it. merge makes one history of several sites' folders.",
        """
diana history export --last 30d --out alpha
diana history export --from 2026-11-01 --to 2026-12-01 --owners hash
diana history export --last 30d --grid --out all
diana history merge alpha beta gamma --out all
""",
    ),
}
