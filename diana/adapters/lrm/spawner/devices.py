"""GPUs of this machine: each is one job's, from before it starts until nothing is left of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Devices:
    """Free ones are handed out in the order in which they were declared. One that is declared no more stays with the
    job that has it, and goes to none after it."""

    def __init__(self) -> None:
        self._all: tuple[str, ...] = ()
        self._busy: set[str] = set()

    @property
    def total(self) -> int:
        return len(self._all)

    def declare(self, devices: Sequence[str]) -> None:
        """These are all there are."""
        self._all = tuple(dict.fromkeys(devices))

    def enough(self, count: int) -> bool:
        return not count or len(self._free()) >= count

    def take(self, count: int) -> list[str]:
        """So many, of which there are `enough`."""
        taken = self._free()[:count]
        assert len(taken) == count
        self._busy.update(taken)
        return taken

    def hold(self, devices: Iterable[str]) -> None:
        """They are in the hands of a job that was running before this spawner."""
        self._busy.update(devices)

    def release(self, devices: Iterable[str]) -> None:
        self._busy.difference_update(devices)

    def _free(self) -> list[str]:
        return [device for device in self._all if device not in self._busy]
