"""Long tables in answers of bounded size: one answer on the local socket, or by gRPC, takes four megabytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from diana.wire.client.messages import MAX_FRAME_BYTES

PAGE_BYTES = MAX_FRAME_BYTES - (64 << 10)
"""The rows of one answer, as JSON, which is no shorter than the same rows by gRPC."""
LEAST_BYTES = 1 << 20
"""Left for rows whatever else the answer holds."""

Row = TypeVar("Row", bound=msgspec.Struct)

_encode = msgspec.json.Encoder().encode


def pages(rows: Sequence[Row], besides: msgspec.Struct | None = None) -> Iterator[tuple[Row, ...]]:
    """Yield the rows in as many parts as they need, in their order; always at least one part. `besides`: the answer
    without them, of which each part is a part."""
    most = PAGE_BYTES if besides is None else max(LEAST_BYTES, PAGE_BYTES - len(_encode(besides)))
    page: list[Row] = []
    left = most
    for row in rows:
        size = len(_encode(row)) + 1
        if page and size > left:
            yield tuple(page)
            page, left = [], most
        page.append(row)
        left -= size
    yield tuple(page)


def first_page(rows: Sequence[Row], besides: msgspec.Struct | None = None) -> tuple[tuple[Row, ...], bool]:
    """Return the rows that one answer holds, and whether there are more."""
    page = next(pages(rows, besides))
    return page, len(page) < len(rows)
