"""Latest words on how users' programs fared here, group after group (`guard.py`). Volatile, bounded."""

from __future__ import annotations

from typing import NamedTuple

from diana.model.ids import GroupId

MOST_USERS = 1000
MOST_OF_A_USER = 100
"""Programs remembered per user. Users and programs of which nothing was noted for longest are forgotten first. A user's
programs make room for each other only: nobody's are forgotten for those of another who has many."""


class Program(NamedTuple):
    user: str
    key: str
    """`model/history.program_key`."""


class Word(NamedTuple):
    """The latest word on a program. It says nothing where good and failing jobs were told together."""

    well: GroupId | None = None
    """The latest group of it that did well or ran for long, with no job that failed fast since."""
    fast: int = 0
    """Jobs that failed fast, one after the other, since any did well."""
    stopped: bool = False
    """True if a group of it was stopped since."""


NOTHING = Word()


class Programs:
    def __init__(self) -> None:
        self._of: dict[str, dict[str, Word]] = {}
        """User -> key -> word; what was noted last stands last."""

    def word(self, program: Program) -> Word:
        return self._of.get(program.user, {}).get(program.key, NOTHING)

    def went_well(self, program: Program, group: GroupId) -> None:
        self._note(program, Word(well=group))

    def ended(self, program: Program, group: GroupId, good: int, fast: int, *, stopped: bool) -> None:
        """Note that `good` jobs did well and `fast` jobs failed fast, in any order. `stopped`: the group is stopped,
        by these or before."""
        if good and not stopped:
            self._note(program, NOTHING if fast else Word(well=group))
        elif fast:
            had = self.word(program)
            self._note(program, Word(fast=had.fast + fast, stopped=had.stopped or stopped))

    def _note(self, program: Program, word: Word) -> None:
        mine = self._of.pop(program.user, {})
        mine.pop(program.key, None)
        mine[program.key] = word
        self._of[program.user] = mine
        if len(mine) > MOST_OF_A_USER:
            del mine[next(iter(mine))]
        if len(self._of) > MOST_USERS:
            del self._of[next(iter(self._of))]
