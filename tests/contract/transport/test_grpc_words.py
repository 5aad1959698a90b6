"""Lines that operators read of calls that failed."""

from __future__ import annotations

import grpc
import pytest

from diana.adapters.grpc.words import MOST, told


def failed(details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ("Stream removed (Socket closed (GOAWAY received; Error code: 0; Debug Text: shut))", "Stream removed"),
        ("GOAWAY received; Error code: 2", "GOAWAY received; Error code: 2"),
        ("site alpha (of VO x) is banned", "site alpha (of VO x) is banned"),
        ("two\nlines", "two lines"),
        ("(Socket closed)", "UNAVAILABLE"),
        ("", "UNAVAILABLE"),
        ("x" * 1_000, "x" * MOST),
    ],
)
def test_a_failed_call_is_told_in_one_line_without_the_innards_of_http2(details: str, said: str) -> None:
    assert told(failed(details)) == said
