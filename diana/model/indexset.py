"""Sets of job indices whose cost is that of their ranges, never of their members.

`IndexSet` is for work that is queued, split and handed over: sorted disjoint half-open ranges.
`FinishedSet` is for finished work, which ends in random order: bitmaps in chunks of 65,536.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

LARGEST = 1 << 53
"""Largest index accepted from outside, so that counts stay exact integers everywhere."""
_MOST_DIGITS = 100
"""Most digits of a number, with zeros in front."""
_SHOWN = 200
CHUNK = 1 << 16
_CHUNK_BYTES = CHUNK // 8
_ONES = re.compile("1+")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class IndexSet(msgspec.Struct, frozen=True, array_like=True):
    """An immutable set of indices >= 0.

    `bounds` is (start0, stop0, start1, stop1, ...), strictly rising, so equal sets are equal values.
    """

    bounds: tuple[int, ...] = ()

    @staticmethod
    def span(start: int, stop: int) -> IndexSet:
        return IndexSet((start, stop)) if stop > start else IndexSet()

    @staticmethod
    def of(indices: Iterable[int]) -> IndexSet:
        """Make a set from indices in any order, repeats allowed."""
        out: list[int] = []
        for i in sorted(set(indices)):
            if out and out[-1] == i:
                out[-1] = i + 1
            else:
                out += (i, i + 1)
        return IndexSet(tuple(out))

    @staticmethod
    def union(sets: Iterable[IndexSet]) -> IndexSet:
        """Unite many sets at once, in O(R log R) for R ranges."""
        out: list[int] = []
        for start, stop in sorted(r for s in sets for r in s.ranges()):
            if out and start <= out[-1]:
                out[-1] = max(out[-1], stop)
            else:
                out += (start, stop)
        return IndexSet(tuple(out))

    @staticmethod
    def checked(bounds: Iterable[int]) -> IndexSet:
        """Make a set from bounds a peer or a user sent; ValueError when they are no index set."""
        b = tuple(bounds)
        if len(b) % 2 or (b and not 0 <= b[0] <= b[-1] <= LARGEST) or any(x >= y for x, y in pairwise(b)):
            raise ValueError(f"index set bounds must be an even number of strictly rising integers, 0 to {LARGEST}")
        return IndexSet(b)

    @staticmethod
    def parse(text: str) -> IndexSet:
        """Make a set from `3`, `3-9`, `1,4-6`; ranges include both ends. O(R log R) for R ranges. ValueError names the
        bad part."""
        spans = []
        for part in text.split(","):
            first, dash, last = part.strip().partition("-")
            if not first.isdecimal() or (dash and not last.isdecimal()):
                raise ValueError(f"index set {_short(text)!r}: {_short(part)!r} is neither N nor N-M")
            if max(len(first), len(last)) > _MOST_DIGITS or (end := int(last or first)) >= LARGEST:
                raise ValueError(f"index set {_short(text)!r}: {_short(part)!r} is beyond all jobs")
            if end < int(first):
                raise ValueError(f"index set {_short(text)!r}: {part!r} runs backwards")
            spans.append(IndexSet((int(first), end + 1)))
        return IndexSet.union(spans)

    def ranges(self) -> Iterator[tuple[int, int]]:
        b = self.bounds
        return zip(b[::2], b[1::2], strict=True)

    def __len__(self) -> int:
        b = self.bounds
        if len(b) <= 2:
            # Most are one range.
            return b[1] - b[0] if b else 0
        return sum(b[1::2]) - sum(b[::2])

    def __bool__(self) -> bool:
        return bool(self.bounds)

    def __iter__(self) -> Iterator[int]:
        for start, stop in self.ranges():
            yield from range(start, stop)

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and bisect_right(self.bounds, index) % 2 == 1

    def __or__(self, other: IndexSet) -> IndexSet:
        if not other.bounds:
            return self
        if not self.bounds:
            return other
        return IndexSet.union((self, other))

    def __and__(self, other: IndexSet) -> IndexSet:
        if not self.bounds or not other.bounds:
            return IndexSet()
        return IndexSet(_common(self.bounds, other.bounds))

    def __sub__(self, other: IndexSet) -> IndexSet:
        if not self.bounds or not other.bounds:
            return self
        return IndexSet(_less(self.bounds, other.bounds))

    def isdisjoint(self, other: IndexSet) -> bool:
        return not (self & other)

    def issubset(self, other: IndexSet) -> bool:
        return not (self - other)

    def take(self, count: int) -> tuple[IndexSet, IndexSet]:
        """The `count` lowest indices (all, if there are fewer) and the rest."""
        left = count
        b = self.bounds
        for at in range(0, len(b), 2):
            size = b[at + 1] - b[at]
            if size > left:
                cut = b[at] + left
                head = b[:at] + ((b[at], cut) if left else ())
                return IndexSet(head), IndexSet((cut, *b[at + 1 :]))
            left -= size
        return self, IndexSet()

    def __str__(self) -> str:
        return ",".join(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in self.ranges())


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Bounds of the intersection."""
    if len(a) < len(b):
        a, b = b, a
    if len(b) == 2:
        return _within(a, *b)
    if a == b:
        return a
    out: list[int] = []
    i = j = 0
    na, nb = len(a), len(b)
    while i < na and j < nb:
        start = a[i] if a[i] > b[j] else b[j]
        if a[i + 1] < b[j + 1]:
            stop = a[i + 1]
            i += 2
        else:
            stop = b[j + 1]
            j += 2
        if start < stop:
            out += (start, stop)
    return tuple(out)


def _within(a: tuple[int, ...], low: int, high: int) -> tuple[int, ...]:
    """Bounds of the part of `a` within low..high: a look-up and a slice."""
    first, last = bisect_right(a, low), bisect_left(a, high)
    head = (low,) if first % 2 else ()
    tail = (high,) if last % 2 else ()
    return head + a[first:last] + tail


def _less(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Bounds of `a` without `b`."""
    if a == b or (len(b) == 2 and b[0] <= a[0] and a[-1] <= b[1]):
        return ()
    if a[-1] <= b[0] or b[-1] <= a[0]:
        return a
    out: list[int] = []
    j, nb = 0, len(b)
    for i in range(0, len(a), 2):
        start, stop = a[i], a[i + 1]
        while j < nb and b[j + 1] <= start:
            j += 2
        while j < nb and b[j] < stop:
            if b[j] > start:
                out += (start, b[j])
            start = b[j + 1]
            if start >= stop:
                break
            j += 2
        if start < stop:
            out += (start, stop)
    return tuple(out)


class FinishedSet:
    """A growing set of indices in any order: at most one bit each, counted as it grows."""

    __slots__ = ("_chunks", "_count")

    def __init__(self) -> None:
        self._chunks: dict[int, bytearray] = {}
        self._count = 0

    def add(self, index: int) -> bool:
        """Put `index` in; False if it was there."""
        key, bit = divmod(index, CHUNK)
        at, mask = bit >> 3, 1 << (bit & 7)
        chunk = self._chunk(key, at + 1)
        if chunk[at] & mask:
            return False
        chunk[at] |= mask
        self._count += 1
        return True

    def _chunk(self, key: int, size_bytes: int) -> bytearray:
        """Return the chunk, grown to at least `size_bytes`; a small group thus needs less memory than a large one."""
        chunk = self._chunks.get(key)
        if chunk is None:
            chunk = self._chunks[key] = bytearray(size_bytes)
        elif len(chunk) < size_bytes:
            chunk.extend(bytes(min(_CHUNK_BYTES, max(size_bytes, 2 * len(chunk))) - len(chunk)))
        return chunk

    def add_set(self, indices: IndexSet) -> None:
        bounds = indices.bounds
        for at in range(0, len(bounds), 2):
            start, left = bounds[at], bounds[at + 1] - bounds[at]
            while left:
                key, low = divmod(start, CHUNK)
                count = left if left <= CHUNK - low else CHUNK - low
                first = low >> 3
                chunk = self._chunk(key, (low + count + 7) >> 3)
                if count == 1:
                    mask = 1 << (low & 7)
                    if not chunk[first] & mask:
                        chunk[first] |= mask
                        self._count += 1
                else:
                    last = (low + count + 7) >> 3
                    had = int.from_bytes(chunk[first:last], "little")
                    new = had | (((1 << count) - 1) << (low & 7))
                    self._count += (new ^ had).bit_count()
                    chunk[first:last] = new.to_bytes(last - first, "little")
                start, left = start + count, left - count

    def discard_set(self, indices: IndexSet) -> None:
        """Remove the members that are in `indices`."""
        for key, low, high in self._stretches(indices):
            chunk, first, last = self._chunks[key], low >> 3, (high + 7) >> 3
            had = int.from_bytes(chunk[first:last], "little")
            new = had & ~(((1 << (high - low)) - 1) << (low & 7))
            self._count -= (new ^ had).bit_count()
            chunk[first:last] = new.to_bytes(last - first, "little")

    def _stretches(self, indices: IndexSet) -> Iterator[tuple[int, int, int]]:
        """Yield (key of an existing chunk, first bit, bit after the last) for each stretch of `indices`, as far as the
        chunk goes."""
        if not self._chunks:
            return
        for start, stop in indices.ranges():
            for key in range(start // CHUNK, (stop - 1) // CHUNK + 1):
                chunk = self._chunks.get(key, b"")
                low, high = max(start - key * CHUNK, 0), min(stop - key * CHUNK, 8 * len(chunk))
                if low < high:
                    yield key, low, high

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            return False
        key, bit = divmod(index, CHUNK)
        chunk = self._chunks.get(key)
        return chunk is not None and bit >> 3 < len(chunk) and bool(chunk[bit >> 3] & (1 << (bit & 7)))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        """Members in rising order."""
        for key in sorted(self._chunks):
            base = key * CHUNK
            for at, byte in enumerate(self._chunks[key]):
                while byte:
                    low = byte & -byte
                    yield base + at * 8 + low.bit_length() - 1
                    byte ^= low

    def overlaps(self, indices: IndexSet) -> bool:
        """True if any of `indices` is a member; costs chunks, not indices."""
        return any(self._bits(*stretch) for stretch in self._stretches(indices))

    def _bits(self, key: int, low: int, high: int) -> int:
        some = self._chunks[key][low >> 3 : (high + 7) >> 3]
        return (int.from_bytes(some, "little") >> (low & 7)) & ((1 << (high - low)) - 1)

    def within(self, indices: IndexSet) -> IndexSet:
        """The members that lie in `indices`, as ranges; costs chunks and ranges, not indices."""
        out: list[int] = []
        for key, low, high in self._stretches(indices):
            base = key * CHUNK + low
            for run in _ONES.finditer(bin(self._bits(key, low, high))[:1:-1]):
                start, stop = base + run.start(), base + run.end()
                if out and out[-1] == start:
                    out[-1] = stop
                else:
                    out += (start, stop)
        return IndexSet(tuple(out))

    def dump(self) -> dict[int, bytes]:
        """Return a plain value for snapshots, which `load` takes back: chunks without the zeros at their ends."""
        return {key: bytes(some) for key, chunk in sorted(self._chunks.items()) if (some := chunk.rstrip(b"\0"))}

    @staticmethod
    def load(dumped: dict[int, bytes]) -> FinishedSet:
        out = FinishedSet()
        for key, some in dumped.items():
            out._chunks[key] = bytearray(some)
            out._count += int.from_bytes(some, "little").bit_count()
        return out
