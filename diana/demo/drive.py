"""`diana demo`: makes a grid of real processes, gives it one bulk group, checks every result, leaves the evidence."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from diana.client import Client
from diana.demo.generate import EVENTS_PER_FILE, count_directly
from diana.demo.grid import DemoGrid, fresh_folder
from diana.demo.job import Sample, make_samples, write_job
from diana.demo.show import DemoProgress
from diana.demo.sums import ResultTally, spread
from diana.errors import DianaError, UsageError, of_extra
from diana.model.views.group import GroupStatus
from diana.model.words import counted
from diana.wire.client.decisions import Decision

MOST_S = 600.0
"""A group that has not ended by then never will."""


def run_demo(out: Path, sites: int, jobs: int, keep: bool, json_output: bool) -> int:
    """The whole demo below the folder `out`: `result.json`, `histogram.png`, `job.toml` and the gathered outputs.

    0 only when every job is done exactly once and the merged histogram equals the one computed directly. With `keep`
    the nodes run on and their data directories stay. UsageError for a folder that cannot be used.
    """
    folder = fresh_folder(out)
    grid = DemoGrid(folder / "sites", sites)
    progress = DemoProgress(json_output, {site.name: site.slots for site in grid.sites})
    ended = False
    with _terminated_as_interrupt():
        try:
            result = _run(grid, folder, jobs, progress)
            ended = True
        finally:
            progress.end()
            if not (ended and keep):
                _clear(grid, folder, keep_logs=not (ended and _good(result)))
    _report(result, folder, progress)
    if keep:
        progress.line(grid.hint())
    if json_output:
        print(json.dumps(result, indent=2))
    return 0 if _good(result) else 1


@contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does, so that no node is left behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _clear(grid: DemoGrid, folder: Path, keep_logs: bool) -> None:
    """Everything but the evidence, to which what the nodes wrote belongs when something went wrong. A second Ctrl-C
    must not leave nodes behind, so it waits."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        grid.stop()
        if keep_logs:
            grid.save_logs(folder / "logs")
        shutil.rmtree(folder / "sites", ignore_errors=True)
        shutil.rmtree(folder / "input", ignore_errors=True)
    finally:
        signal.signal(signal.SIGINT, before)


def _run(grid: DemoGrid, folder: Path, jobs: int, progress: DemoProgress) -> dict[str, Any]:
    grid.folder.mkdir()
    grid.start()
    having = ", ".join(f"{site.name} {counted(site.slots, 'slot')}" for site in grid.sites)
    progress.tell(f"{counted(len(grid.sites), 'node')} started, {having}")
    samples = make_samples(folder / "input", [site.name for site in grid.sites], jobs)
    progress.tell(f"{counted(jobs, 'file')} of {EVENTS_PER_FILE:,} events made, a dataset for each site")
    grid.wait_until_met(progress.tell)
    _register(grid, samples)
    progress.tell(f"datasets registered where they live: {', '.join(sample.name for sample in samples)}")
    job = write_job(folder, samples, folder / "outputs")
    client = grid.client(grid.home)
    group = client.submit(job).group
    progress.tell(f"submitted {job.name} at {grid.home.name}: group {group}, {counted(jobs, 'job')}")
    status = _follow(client, group, progress)
    return _result(client, grid.home.name, status, samples, folder)


def _register(grid: DemoGrid, samples: list[Sample]) -> None:
    by_name = {site.name: site for site in grid.sites}
    for sample in samples:
        site = by_name[sample.site]
        grid.client(site).add_dataset(sample.name, sample.files)
    grid.wait_until_known({sample.name for sample in samples})


def _follow(client: Client, group: str, progress: DemoProgress) -> GroupStatus:
    last: GroupStatus | None = None
    for status in client.watch(group, MOST_S):
        progress.show(status)
        last = status
    progress.end()
    if last is None or not last.final:
        raise DianaError(f"group {group}: not ended after {MOST_S:g} s")
    return last


def _result(client: Client, home: str, status: GroupStatus, samples: list[Sample], folder: Path) -> dict[str, Any]:
    """The content of `result.json`, which is written; the picture too."""
    started_s = time.monotonic()
    tally = ResultTally(status.jobs, status.submitted_wall_s)
    for chunk in client.result_chunks(status.group):
        tally.add(chunk)
    explained = client.explain(status.group)
    merged = _merged(folder / "outputs" / "histogram.json")
    counts, events = count_directly([path for sample in samples for path in sample.files])
    inputs = [(sample.site, path.stat().st_size) for sample in samples for path in sample.files]
    matches = merged.get("counts") == counts and merged.get("events") == events
    result: dict[str, Any] = {
        "jobs": status.jobs,
        "done": tally.done(),
        "sites": dict(sorted(tally.jobs_at().items())),
        "bytes_moved": tally.bytes_moved(home, inputs, (folder / "histogram.py").stat().st_size),
        "histogram_matches": matches,
        "makespan_s": round(status.last_end_s, 3),
        "wait_s": spread(tally.wait_s),
        "run_s": spread(tally.run_s),
        "turnaround_s": spread(tally.turnaround_s),
        "decision": _plain(explained.decisions[0]) if explained.decisions else None,
        "group": status.group,
        "state": status.state,
        "note": status.note,
        "started_more_than_once": tally.repeated(),
        "events": events,
        "pairs_in_histogram": sum(counts),
        "by_site": tally.by_site(),
        "check_s": round(time.monotonic() - started_s, 3),
    }
    (folder / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="ascii")
    if "counts" in merged:
        _draw(folder, merged, result, status)
    return result


def _draw(folder: Path, merged: Mapping[str, Any], result: dict[str, Any], status: GroupStatus) -> None:
    """Draw the picture; where the package for it is not installed the result says so, and all else is shown."""
    note = f"{counted(status.done, 'job')} at {counted(len(result['sites']), 'site')} in {status.last_end_s:.1f} s"
    try:
        with of_extra("charts", "the picture"):
            from diana.demo.plot import draw

            draw(folder / "histogram.png", merged["low"], merged["high"], merged["counts"], result["sites"], note)
    except UsageError as missing:
        result["no_picture"] = str(missing)


def _merged(path: Path) -> dict[str, Any]:
    """The merge command's output; empty when it wrote none."""
    try:
        merged = json.loads(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return {}
    return merged if isinstance(merged, dict) else {}


def _plain(decision: Decision) -> dict[str, Any]:
    """The decision with the names of our Python and JSON output, not the wire's."""

    def plain(value: Any) -> Any:
        if isinstance(value, msgspec.Struct):
            return {field: plain(getattr(value, field)) for field in value.__struct_fields__}
        return [plain(item) for item in value] if isinstance(value, tuple) else value

    return {field: plain(getattr(decision, field)) for field in decision.__struct_fields__}


def _good(result: dict[str, Any]) -> bool:
    return bool(result["done"] == result["jobs"] and result["histogram_matches"] and result["state"] == "done")


def _report(result: dict[str, Any], folder: Path, progress: DemoProgress) -> None:
    rows = [
        (
            site,
            one["jobs"],
            f"{one['mean_run_s'] * 1000:.0f} ms",
            f"{one['first_start_s']:.2f} s",
            f"{one['last_end_s']:.2f} s",
        )
        for site, one in result["by_site"].items()
    ]
    footer = (
        "total",
        str(result["done"]),
        f"{result['run_s']['mean'] * 1000:.0f} ms",
        "",
        f"{result['makespan_s']:.2f} s",
    )
    progress.table(("site", "jobs done", "mean run", "first start", "last end"), rows, footer)
    if result["decision"]:
        progress.line(f"decision: {result['decision']['reason']}")
    moved = result["bytes_moved"] / 1e6
    verdict = "equals" if result["histogram_matches"] else "DIFFERS from"
    progress.line(
        f"{result['done']} of {counted(result['jobs'], 'job')} done, {moved:.1f} MB moved;"
        f" the merged histogram {verdict} the one computed directly ({result['pairs_in_histogram']:,} pairs)"
    )
    if result["note"] and not _good(result):
        progress.line(f"group {result['group']} {result['state']}: {result['note']}")
    if "no_picture" in result:
        progress.line(f"see {folder / 'result.json'} and job.toml beside it; {result['no_picture']}")
    else:
        progress.line(f"see {folder / 'histogram.png'}, result.json and job.toml beside it")
