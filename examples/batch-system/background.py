"""A batch system for diana in one file: jobs in the background of this machine, a few at a time.

A site uses it with a table in its site.toml,

    [clusters.desk]
    kind = "background"
    slots = 4

once a package is installed beside diana whose pyproject.toml says

    [project.entry-points."diana.batch_systems"]
    background = "background:Background"

The port is `diana.adapters.batch.systems.system.BatchSystem`. Only what the batch system itself does is to be written:
a job's exactly-once start, its end, log and outputs are the business of the script that diana gives to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from diana.adapters.batch.array.script import Dialect
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.system import Array, BatchRefused, ClusterCapacity, Seen, Stage
from diana.model.indexset import IndexSet

_RUN = 'echo $$ > "$1/pid.$2"; export TASK=$2; exec setsid sh "$3"'
"""One task: it leads a session of its own, so that all of it can be ended."""
_RUN_ALL = 'echo $$ > "$0/runner"; exec xargs -P "$1" -I@ sh -c "$2" sh "$0" @ "$3" < "$0/tasks" > /dev/null 2>&1'


class Background:
    """Remembers what it was given in a folder (`config`, else one of the account's in /tmp), as a batch system does."""

    kind = "background"
    dialect = Dialect(task="TASK", first=0, job="ARRAY", machine="HOST")

    def __init__(self, settings: ClusterSettings) -> None:
        self._slots = os.cpu_count() or 1
        place = settings.config or f"{tempfile.gettempdir()}/background-{os.getuid()}"
        self._root = Path(place)
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def capacity(self) -> ClusterCapacity:
        """All the machine's processors: how many of them may be ours (`slots`) is diana's business."""
        return ClusterCapacity(version="1", slots=self._slots, widest=self._slots, throttles=True)

    def starts_in_s(self) -> float | None:
        return None

    def submit(self, array: Array) -> str:
        if array.processors > self._slots:
            raise BatchRefused(f"background: {array.processors} processors wanted, {self._slots} here")
        job = str(len(os.listdir(self._root)) + 1)
        folder = self._root / job
        folder.mkdir()
        (folder / "token").write_text(array.token)
        (folder / "tasks").write_text("".join(f"{task}\n" for task in array.tasks))
        at_once = array.at_once or max(1, self._slots // array.processors)
        subprocess.run(
            ["setsid", "--fork", "sh", "-c", _RUN_ALL, str(folder), str(at_once), _RUN, array.script],
            check=True,
            env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "ARRAY": job, "HOST": "here"},
        )
        return job

    def listing(self) -> list[Seen]:
        found = []
        for folder in self._folders():
            tasks = IndexSet.of(int(line) for line in (folder / "tasks").read_text().split())
            begun = {int(path.suffix[1:]): path for path in folder.glob("pid.*")}
            lives = not (folder / "runner").exists() or _lives(folder / "runner")
            running = IndexSet.of(task for task, path in begun.items() if _lives(path))
            waiting = tasks - IndexSet.of(begun) if lives else IndexSet()
            token = (folder / "token").read_text()
            for stage, some in ((Stage.RUNNING, running), (Stage.WAITING, waiting)):
                if some:
                    found.append(Seen(folder.name, token, some, stage))
        return found

    def past(self, jobs: list[str], since_s: float) -> list[Seen]:
        return []

    def cancel(self, job: str, tasks: IndexSet) -> None:
        """What has not begun finds its gate closed when its turn comes."""
        for task in tasks:
            with suppress(OSError, ValueError):
                os.killpg(int((self._root / job / f"pid.{task}").read_text()), signal.SIGTERM)

    def _folders(self) -> list[Path]:
        return sorted(path for path in self._root.iterdir() if (path / "tasks").exists())


def _lives(path: Path) -> bool:
    try:
        state = Path(f"/proc/{int(path.read_text())}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return False
    return state not in ("Z", "X")
