"""Generated files are those that `proto/` gives."""

from __future__ import annotations

from diana.wire import generate


def test_the_generated_code_is_that_of_the_proto_files() -> None:
    assert generate.stale() == []
