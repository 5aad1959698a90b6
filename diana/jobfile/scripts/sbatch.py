"""`#SBATCH` lines: what each option means here, alone and beside others. What would change results is refused.

A line `#SBATCH hetjob` begins the next component of a job of several: each runs the script, with processors and GPUs of
its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from diana.jobfile.scripts.variables import SlurmLines
from diana.jobfile.scripts.words import LineWords, option_names
from diana.jobfile.units import duration_s, size_bytes, slurm_time_s
from diana.model.job import declared

_SEPARATORS = frozenset({"hetjob", "packjob"})
"""Lines between the components of a job; the latter is Slurm's older word."""
_OF_COMPONENTS = option_names(
    "--ntasks --ntasks-per-node --cpus-per-task --cpus-per-gpu --nodes --gpus --gpus-per-node --gpus-per-task --gres"
    " --mem --mem-per-cpu --mem-per-gpu"
)
"""Options that each component of a job says for itself; all others are above the first separator."""
_PATTERN = {
    "%j": "{group}.{index}",
    "%J": "{group}.{index}",
    "%A": "{group}",
    "%a": "{array}",
    "%n": "0",
    "%t": "0",
    "%%": "%",
}
_UNKNOWN_YET = {"%N": "node", "%u": "user"}
"""Patterns for what is not known when a job is submitted, and the words that stand for it."""
_NULL = "/dev/null"
_MAIL = {"--mail-type", "--mail-user"}
_GROUP = re.compile(r"[A-Za-z0-9][\w.-]*-\d+\Z", re.ASCII)


class _Component:
    """The needs of a component, or of the only one; 0: not said."""

    def __init__(self) -> None:
        self.tasks = 0
        self.tasks_per_node = 0
        self.cpus_per_task = 0
        self.cpus_per_gpu = 0
        self.all_gpus = 0
        self.others: dict[str, int] = {}
        """Declared resources."""
        self.gpus_per_task = 0
        self.all_memory = 0
        self.memory_per_cpu = 0
        self.memory_per_gpu = 0

    @property
    def ntasks(self) -> int:
        return self.tasks or self.tasks_per_node or 1

    @property
    def gpus(self) -> int:
        return self.all_gpus or self.gpus_per_task * self.ntasks

    @property
    def cpus(self) -> int:
        """Processors per task."""
        return self.cpus_per_task or -(-self.cpus_per_gpu * self.gpus // self.ntasks) or 1

    def beside(self) -> dict[str, int]:
        """Return what it asks beside processors and GPUs, by the keys of a job file."""
        return {**({"memory": self.memory} if self.memory else {}), **self.others}

    @property
    def memory(self) -> int:
        return self.all_memory or self.memory_per_cpu * self.ntasks * self.cpus or self.memory_per_gpu * self.gpus


class _Written(NamedTuple):
    """A value and the line where it stands."""

    value: str
    line: int


class Sbatch:
    """Collects `#SBATCH` options as they come; `finish` says what they mean together."""

    def __init__(self) -> None:
        self.group: dict[str, Any] = {}
        self.resources: dict[str, Any] = {}
        self.options: dict[str, str] = {}
        self.notes: list[str] = []
        self.there = False
        self._passed_over: dict[str, int] = {}
        self._files: dict[str, _Written] = {}
        """Key (`stdout`, `stderr`) -> its file."""
        self._signal: _Written | None = None
        self._line = 0
        self._now = _Component()
        self._before: list[_Component] = []
        """Components above the last separator."""

    def take(self, words: list[str], line: int) -> None:
        """Take one line's words. ValueError says what is wrong with them."""
        self.there, self._line = True, line
        if words and words[0] in _SEPARATORS:
            if len(words) > 1:
                raise ValueError(f"#SBATCH {words[0]}: stands on a line of its own; write {words[1]} on the next one")
            self._before.append(self._now)
            self._now = _Component()
            return
        for name, value in _READ.options(words):
            if (act := _ACTS.get(name)) is None:
                self._passed_over[name] = line
                continue
            if self._before and name not in _OF_COMPONENTS:
                raise ValueError(f"#SBATCH {name}: is of the whole job; move it above the first #SBATCH hetjob")
            try:
                act(self, value)
            except ValueError as error:
                raise ValueError(f"#SBATCH {name}: {error}") from None

    def finish(self, options: Mapping[str, str], file_name: str) -> SlurmLines:
        """Complete `group`, `resources` and `notes`, under the options that go over the lines, by their full names.
        ValueError as `take`."""
        name = options.get("group.name") or self.group.get("name", file_name)
        if self._files:
            self._own_files(options, name)
        if self._signal is not None:
            if self._limited(options):
                raise ValueError(
                    f"line {self._signal.line}: #SBATCH --signal: no job is told before its time limit; have it save"
                    " when it gets TERM, which comes at the limit, and remove this, or leave the limit out"
                )
            self._passed_over["--signal"] = self._signal.line
        if self._passed_over:
            passed = ", ".join(f"{option} (line {line})" for option, line in self._passed_over.items())
            told = "; diana submit --notify mail:NAME@HOST tells of its end" if _MAIL & self._passed_over.keys() else ""
            self.notes.append(f"passed over, as it means nothing here: #SBATCH {passed}{told}")
        self._complete_resources()
        now = self._now
        return SlurmLines(name, now.ntasks, now.cpus, now.memory_per_cpu, self.there)

    def components(self) -> list[dict[str, Any]]:
        """Return the components that separators made; none: it is an ordinary job."""
        every = [*self._before, self._now] if self._before else []
        alike = self._alike()
        return [
            {
                "cpus": each.ntasks * each.cpus,
                "gpus": each.gpus,
                **{name: count for name, count in each.beside().items() if name not in alike},
            }
            for each in every
        ]

    def _alike(self) -> dict[str, int]:
        """Return what all components ask for alike beside processors and GPUs."""
        every = [each.beside() for each in (*self._before, self._now)]
        return {name: count for name, count in every[0].items() if all(each.get(name) == count for each in every)}

    def _limited(self, options: Mapping[str, str]) -> bool:
        if (text := options.get("resources.time")) is None:
            return bool(self.resources.get("time"))
        try:
            return duration_s(text) > 0
        except ValueError:
            # It is refused by its key, later.
            return False

    def _complete_resources(self) -> None:
        """Add the needs of all tasks; of several components, those that are alike."""
        self.resources |= self._alike()
        if self._before:
            return
        if (cpus := self._now.ntasks * self._now.cpus) > 1:
            self.resources["cpus"] = cpus
        if self._now.gpus:
            self.resources["gpus"] = self._now.gpus

    def _own_files(self, options: Mapping[str, str], name: str) -> None:
        """Without `--error` both go to one file, as there. What goes to /dev/null is kept in no file, and no log has
        room for it, unless an option gives it some. Jobs in a folder of the sites' have no files of their own."""
        in_log = self._files if options.get("group.cwd", self.group.get("cwd")) else {}
        if in_log := {key: each for key, each in in_log.items() if each.value != _NULL}:
            files = ", ".join(f"{each.value} (line {each.line})" for each in in_log.values())
            self.notes.append(f"jobs that begin in a folder of the sites' write their log, not {files}; see diana logs")
        for key, written in self._files.items():
            if key in in_log:
                continue
            try:
                self.group[key] = self._file(written, options, name)
            except ValueError as error:
                option = "--output" if key == "stdout" else "--error"
                raise ValueError(f"line {written.line}: #SBATCH {option}: {error}") from None
        if "stderr" not in self._files and not in_log:
            self.group["stderr"] = options.get("group.stdout", self.group["stdout"])
        null = [key for key in ("stdout", "stderr") if self.group.get(key) == _NULL]
        for key in null:
            del self.group[key]
        if in_log:
            return
        if null:
            self.group["log_limit"] = 0
        if null and "group.log_limit" not in options:
            lines = sorted({each.line for each in self._files.values() if each.value == _NULL})
            where = f"line {', '.join(map(str, lines))}"
            self.notes.append(f"what goes to {_NULL} ({where}) is not kept; --log-limit 1M keeps it for diana logs")

    def _file(self, written: _Written, options: Mapping[str, str], name: str) -> str:
        """Return Slurm's file name pattern as a template. The file comes home by itself, also when the job failed."""
        value = written.value
        if value == _NULL:
            return value
        if value.startswith("/") or ".." in value.split("/"):
            below = value.rpartition("/")[2] or "out.txt"
            raise ValueError(f"{value!r}: jobs have directories of their own; write a path below, such as {below}")
        has_array = "sweep.array" in options

        def one(found: re.Match[str]) -> str:
            pattern = found[0]
            if pattern == "%x":
                return _escaped(name)
            if pattern == "%a" and not has_array:
                raise ValueError(f"{value!r}: %a is the number in an array, which this is not; add --array or write %j")
            if word := _UNKNOWN_YET.get(pattern):
                what = "machine" if pattern == "%N" else "account"
                self.notes.append(
                    f"{pattern} (line {written.line}) is {word!r}: a job's {what} is not known beforehand"
                )
                return word
            if pattern not in _PATTERN:
                raise ValueError(f"{value!r}: {pattern} is not understood; want %A, %a, %j or %x")
            return _PATTERN[pattern]

        return re.sub(r"%\d*.?", one, _escaped(value))

    # Options, each by its value.

    def _array(self, value: str) -> None:
        # Slurm counts by numbers: `01-10` is 1 to 10 there.
        self.options["array"] = re.sub(r"\b0+(?=\d)", "", value)

    def _name(self, value: str) -> None:
        self.group["name"] = value

    def _cpus_per_task(self, value: str) -> None:
        self._now.cpus_per_task = _count(value)

    def _cpus_per_gpu(self, value: str) -> None:
        self._now.cpus_per_gpu = _count(value)

    def _ntasks(self, value: str) -> None:
        self._now.tasks = _count(value)

    def _ntasks_per_node(self, value: str) -> None:
        self._now.tasks_per_node = _count(value)

    def _nodes(self, value: str) -> None:
        if not re.fullmatch(r"1(-\d+)?", value):
            raise ValueError(f"{value!r}: a job runs on one machine; write 1 or remove it")

    def _mem(self, value: str) -> None:
        self._now.all_memory = size_bytes(value, bare="M")

    def _mem_per_cpu(self, value: str) -> None:
        self._now.memory_per_cpu = size_bytes(value, bare="M")

    def _mem_per_gpu(self, value: str) -> None:
        self._now.memory_per_gpu = size_bytes(value, bare="M")

    def _tmp(self, value: str) -> None:
        self.resources["scratch"] = size_bytes(value, bare="M")

    def _time(self, value: str) -> None:
        self.resources["time"] = slurm_time_s(value)

    def _gpus(self, value: str) -> None:
        self._now.all_gpus = sum(self._of_type(each.rpartition(":")) for each in value.split(","))

    def _gpus_per_task(self, value: str) -> None:
        self._now.gpus_per_task = sum(self._of_type(each.rpartition(":")) for each in value.split(","))

    def _gres(self, value: str) -> None:
        """GPUs and what a site may declare by the same name; other things that a cluster counts are its own."""
        gpus: int | None = None
        others: dict[str, int] = {}
        for each in value.split(","):
            kind, _, rest = each.removeprefix("gres/").partition(":")
            if kind == "none":
                continue
            of_type, colon, count = rest.rpartition(":")
            if not colon and rest and not rest[0].isdecimal():
                of_type, colon, count = rest, ":", "1"
            if kind == "gpu":
                gpus = (gpus or 0) + self._of_type((of_type, colon, count or "1"))
            elif (count or "1").isdecimal() and declared.may_be(kind):
                others[kind] = others.get(kind, 0) + self._of_type((of_type, colon, count or "1"), kind)
            else:
                self._passed_over[f"--gres={each}"] = self._line
        self._now.others |= others
        if gpus is not None:
            self._now.all_gpus = gpus

    def _of_type(self, parts: tuple[str, str, str], what: str = "GPU") -> int:
        of_type, _, count = parts
        if of_type:
            told = f"{of_type} (line {self._line}) is no kind of {what} that is told apart here: any is taken"
            self.notes.append(told)
        return _count(count, 0)

    def _licences(self, value: str) -> None:
        wanted = {}
        for each in value.split(","):
            name, _, count = each.replace("=", ":").partition(":")
            if "|" in each:
                raise ValueError(f"{value!r}: one or another licence cannot be wanted; name the one")
            wanted[name] = _count(count or "1")
        self.resources["licences"] = wanted

    def _dependency(self, value: str) -> None:
        """Groups of diana's may be waited for; a job of Slurm's is none of them."""
        kind, _, names = value.partition(":")
        after = names.split(":")
        if kind != "afterok" or not all(map(_GROUP.match, after)):
            raise ValueError(
                f"{value!r}: its jobs would not wait for that; name groups as submit tells them, such as"
                " --dependency=afterok:alpha-12, or remove it and say submit --after alpha-12"
            )
        self.group["after"] = after

    def _begin(self, value: str) -> None:
        if value != "now":
            raise ValueError(
                f"{value!r}: its jobs would begin at once; remove it and submit them then, with at or cron"
            )

    def _at_signal(self, value: str) -> None:
        self._signal = _Written(value, self._line)

    def _export(self, value: str) -> None:
        """Keep assignments; ALL and NONE mean nothing here, since a job never inherits the submitter's variables."""
        for part in value.split(","):
            name, equals, text = part.partition("=")
            if equals:
                self.group.setdefault("environment", {})[name] = _escaped(text)
            elif part not in ("ALL", "NONE", "NIL"):
                raise ValueError(f"{part!r}: the submitter's variables do not travel; write {part}=VALUE")

    def _output(self, value: str) -> None:
        self._files["stdout"] = _Written(value, self._line)

    def _error(self, value: str) -> None:
        self._files["stderr"] = _Written(value, self._line)

    def _chdir(self, value: str) -> None:
        self.group["cwd"] = value


_ACTS: dict[str, Callable[[Sbatch, str], None]] = {
    "--array": Sbatch._array,
    "--begin": Sbatch._begin,
    "--chdir": Sbatch._chdir,
    "--cpus-per-gpu": Sbatch._cpus_per_gpu,
    "--cpus-per-task": Sbatch._cpus_per_task,
    "--dependency": Sbatch._dependency,
    "--error": Sbatch._error,
    "--export": Sbatch._export,
    "--gpus": Sbatch._gpus,
    "--gpus-per-node": Sbatch._gpus,
    "--gpus-per-task": Sbatch._gpus_per_task,
    "--gres": Sbatch._gres,
    "--job-name": Sbatch._name,
    "--licenses": Sbatch._licences,
    "--mem": Sbatch._mem,
    "--mem-per-cpu": Sbatch._mem_per_cpu,
    "--mem-per-gpu": Sbatch._mem_per_gpu,
    "--nodes": Sbatch._nodes,
    "--ntasks": Sbatch._ntasks,
    "--ntasks-per-node": Sbatch._ntasks_per_node,
    "--output": Sbatch._output,
    "--signal": Sbatch._at_signal,
    "--time": Sbatch._time,
    "--tmp": Sbatch._tmp,
}
_READ = LineWords(_ACTS)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _count(value: str, least: int = 1) -> int:
    if not (value.isascii() and value.isdecimal()) or len(value) > 18 or int(value) < least:
        raise ValueError(f"{value[:40]!r}: want a whole number of at least {least}")
    return int(value)
