"""The words of `#SBATCH` lines as options and their values, read as sbatch does: short ones, names cut short, a value
behind an equals sign or in the next word.

An option that says nothing of what a job needs or of what it does (a partition, an account, mail) is passed over. One
is refused only where passing over it would change what comes out or lose what a job has: a job that would begin at
once, or without its standard input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches


def option_names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHORT = {
    "-a": "--array",
    "-J": "--job-name",
    "-D": "--chdir",
    "-c": "--cpus-per-task",
    "-n": "--ntasks",
    "-N": "--nodes",
    "-t": "--time",
    "-G": "--gpus",
    "-o": "--output",
    "-e": "--error",
    "-p": "--partition",
    "-A": "--account",
    "-q": "--qos",
    "-L": "--licenses",
    "-d": "--dependency",
    "-b": "--begin",
    "-i": "--input",
    "-C": "--constraint",
    "-w": "--nodelist",
    "-x": "--exclude",
    "-F": "--nodefile",
    "-M": "--clusters",
    "-m": "--distribution",
    "-B": "--extra-node-info",
    "-S": "--core-spec",
}
_SHORT_FLAGS = {
    "-H": "--hold",
    "-k": "--no-kill",
    "-O": "--overcommit",
    "-Q": "--quiet",
    "-s": "--oversubscribe",
    "-v": "--verbose",
    "-W": "--wait",
}
_PASSED_OVER = option_names(
    "--partition --account --qos --mail-type --mail-user --comment --wckey --constraint --cluster-constraint --prefer"
    " --nodelist --exclude --nodefile --reservation --clusters --priority --open-mode --distribution --hint --cpu-bind"
    " --mem-bind --cpu-freq --gpu-bind --gpu-freq --gres-flags --accel-bind --switches --sockets-per-node"
    " --cores-per-socket --threads-per-core --extra-node-info --ntasks-per-socket --ntasks-per-core --core-spec"
    " --thread-spec --power --profile --acctg-freq --delay-boot --deadline --time-min --mincpus --mcs-label --network"
    " --kill-on-invalid-dep --tres-bind"
)
"""Options of a cluster's own that change where and when a job runs, not what comes out."""
_FLAGS_PASSED_OVER = option_names(
    "--requeue --no-requeue --parsable --verbose --quiet --exclusive --oversubscribe --share --overcommit --no-kill"
    " --contiguous --spread-job --use-min-nodes --ignore-pbs --propagate --get-user-env --nice --reboot --wait"
)
"""The same, of options without a value, or with one only behind an equals sign."""
_REFUSED = {
    "--hold": "its jobs would begin at once; remove it, and submit when they may",
    "--test-only": "nothing would be run; say diana plan",
    "--export-file": "variables of a file do not travel; write --export=NAME=VALUE",
    "--input": "jobs have nothing on standard input; give the file with --input, and let the command read it: < FILE",
}
_LEAST_PREFIX = 5
"""Characters of an option's name that is cut short, with its dashes."""


class LineWords:
    """Reads the words of lines, by the options that are understood; all others known are passed over or refused."""

    def __init__(self, understood: Iterable[str]) -> None:
        self._understood = tuple(understood)
        self._with_value = frozenset({*self._understood, *_PASSED_OVER})
        self._known = frozenset({*self._with_value, *_FLAGS_PASSED_OVER, *_REFUSED})

    def options(self, words: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the options of a line by their whole names, each with its value. ValueError says what is wrong."""
        waiting = list(words)
        while waiting:
            word = waiting.pop(0)
            name, equals, value = word.partition("=")
            if word in _SHORT_FLAGS:
                name = _SHORT_FLAGS[word]
            elif word[:2] in _SHORT:
                name, equals, value = _SHORT[word[:2]], word[2:], word[2:]
            name = self._whole(name)
            if not name.startswith("-"):
                raise ValueError(f"#SBATCH: {name!r} belongs to no option; put quotes around a value of several words")
            if name in _REFUSED:
                raise ValueError(f"#SBATCH {name}: {_REFUSED[name]}")
            if name in self._with_value and not equals:
                if not waiting:
                    raise ValueError(f"#SBATCH {name}: has no value; write {name}=VALUE")
                value = waiting.pop(0)
            elif name not in self._known:
                raise ValueError(f"#SBATCH {name}: not understood; {self._mend(name)}")
            yield name, value

    def _whole(self, name: str) -> str:
        """Return the option that a name cut short means, as sbatch does; any other name as it is."""
        if not name.startswith("--") or len(name) < _LEAST_PREFIX:
            return name
        meant = [each for each in self._known if each.startswith(name)]
        return meant[0] if len(meant) == 1 else name

    def _mend(self, name: str) -> str:
        if near := get_close_matches(name, sorted(self._known), 1, cutoff=0.75):
            return f"did you mean {near[0]}?"
        return f"remove it or give a #DIANA line (understood: {', '.join(self._understood)})"
