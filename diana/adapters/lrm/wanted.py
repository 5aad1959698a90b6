"""Outputs that are wanted of a job, as they travel with its order and come back with its end.

Spawners and clusters of an older release hand the texts through as they are, so what is new stands in the texts: a path
behind `./` is kept whatever became of the job, a name that ends in a slash is the folder of files that are found, and
no name stands for an input, which is not found as long as it is what was given.
"""

from __future__ import annotations

from typing import NamedTuple

from diana.adapters.lrm.spawner.protocol import Collected
from diana.model.job.output_names import LeftFile

_KEPT = "./"
_FROM = "\0"
"""Stands between the path of an input and its source, which neither can hold."""


class WantedOutput(NamedTuple):
    path: str
    name: str
    always: bool
    """True if it is kept whatever the exit, and may be lacking."""
    kept: bool
    """True if it is kept whatever the exit, and may be a folder."""

    @property
    def found(self) -> bool:
        """True if `path` is a pattern, and `name` the folder that what it finds comes below."""
        return self.name.endswith("/")

    @property
    def given(self) -> bool:
        """True if it is no output, but an input, which no pattern finds."""
        return not self.name

    @property
    def source(self) -> str:
        """Where an input comes from; empty: it is made by its machine."""
        return self.path.partition(_FROM)[2]

    @property
    def place(self) -> str:
        """Path of an input, a job's own file or an output."""
        return self.path.partition(_FROM)[0]


def told(left: LeftFile) -> Collected:
    return f"{_KEPT}{left.path}" if left.kept else left.path, left.name, left.always


def given(path: str, source: str = "") -> Collected:
    return f"{path}{_FROM}{source}" if source else path, "", True


def wanted(told: Collected) -> WantedOutput:
    path, name, always = told
    return WantedOutput(path.removeprefix(_KEPT), name, always, path.startswith(_KEPT))
