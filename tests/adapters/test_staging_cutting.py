"""Uploads that are divided into chunks, by bytes and by lines (SPEC K3)."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.adapters.staging.transfer import cutting
from tests.adapters.staging_grid import grid, sha


@given(st.integers(1, 10**12), st.integers(1, 1000))
def test_chunks_of_bytes_are_the_whole_and_differ_by_a_byte_at_most(size: int, chunks: int) -> None:
    if size < chunks:
        with pytest.raises(ValueError, match="leave split out"):
            cutting.by_bytes(size, chunks)
        return
    bounds = cutting.by_bytes(size, chunks)
    sizes = [end - begin for begin, end in pairwise(bounds)]
    assert (bounds[0], bounds[-1], len(sizes)) == (0, size, chunks) and max(sizes) - min(sizes) <= 1


LINES = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=30)


@given(LINES, st.booleans(), st.integers(1, 12), st.sampled_from([1, 3, 1 << 20]))
def test_chunks_of_lines_are_the_whole_and_differ_by_a_line_at_most(
    lines: list[bytes], ends: bool, chunks: int, read: int
) -> None:
    content = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    count = content.count(b"\n") + (content[-1:] not in (b"", b"\n"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "_READ", read)
        if count < chunks:
            with pytest.raises(ValueError, match=f"has {count} lines? for {chunks} component"):
                cutting.by_lines(io.BytesIO(content), chunks)
            return
        bounds = cutting.by_lines(io.BytesIO(content), chunks)
    some = [content[begin:end] for begin, end in pairwise(bounds)]
    assert b"".join(some) == content and len(some) == chunks
    assert all(each.endswith(b"\n") for each in some[:-1])
    counts = [each.count(b"\n") + (each[-1:] != b"\n") for each in some]
    assert sum(counts) == count and max(counts) - min(counts) <= 1


async def test_a_site_keeps_the_chunks_of_an_upload_as_uploads(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        content = b"".join(b"%d\n" % n for n in range(100_000))
        whole = alpha.stager.put_blob_bytes(content)
        for by_lines in (False, True):
            chunks = alpha.stager.cut_blob(whole, 7, by_lines)
            told = [alpha.stager.blob_path(sha256).read_bytes() for sha256, _ in chunks]
            assert b"".join(told) == content
            assert chunks == [(sha(each), len(each)) for each in told]
        assert alpha.stager.cut_blob(whole, 1, True) == [(whole, len(content))]
        with pytest.raises(ValueError, match="has 588,890 bytes for 588,891 components"):
            alpha.stager.cut_blob(whole, 588_891, False)
