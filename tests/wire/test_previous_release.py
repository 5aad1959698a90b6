"""A node of the previous release is understood and understands, and so are those before and after it (SPEC U10, N /
N-1 on the wire): messages made from stored definitions against today's codec."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from diana.engine.messages.messages import Hello, Summary
from diana.wire import BadMessage, peer_codec
from tests.wire import releases
from tests.wire.releases import NEW_FIELD, Release
from tests.wire.test_codec import PEER_CLASSES, struct_of

RELEASES = {"previous": releases.previous(), "spare": releases.spare(), "future": releases.future()}
EVERY = pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES.keys())
CLASSES = pytest.mark.parametrize("cls", PEER_CLASSES, ids=lambda cls: cls.__name__)


def drawn(data: st.DataObject, cls: type) -> tuple[Any, bytes]:
    """A message that today's codec reads, and what it is on the wire: columns of equal length, and so on."""
    message = data.draw(struct_of(cls))
    said = peer_codec.encode_message(message)
    try:
        peer_codec.decode_message(said)
    except BadMessage:
        reject()
    return message, said


@EVERY
@CLASSES
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_what_this_release_says_is_read_and_passed_on_by_another(
    release: Release, cls: type, data: st.DataObject
) -> None:
    message, said = drawn(data, cls)
    theirs = release.cls("PeerMessage").FromString(said)
    kind = theirs.WhichOneof("body")
    if kind is None:
        # A kind that is new to them is no garbage: an empty body, to be ignored.
        assert cls.__name__ not in release.kinds().values()
    else:
        read = {field.name for field, _ in getattr(theirs, kind).ListFields()}
        assert read <= set(cls.__struct_fields__)  # type: ignore[attr-defined]
    # What their release lacks they keep: whoever passes a message on harms nothing.
    assert peer_codec.decode_message(theirs.SerializeToString()) == message


@CLASSES
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_fields_of_a_release_to_come_change_nothing(cls: type, data: st.DataObject) -> None:
    message, said = drawn(data, cls)
    theirs = RELEASES["future"].cls("PeerMessage").FromString(said)
    body = getattr(theirs, theirs.WhichOneof("body"))
    body.more = "x" * 1000
    body.many.extend(range(-5, 5))
    assert {field.number for field, _ in body.ListFields()} >= {NEW_FIELD, NEW_FIELD + 1}
    assert peer_codec.decode_message(theirs.SerializeToString()) == message


def test_a_kind_of_message_of_a_release_to_come_is_named_as_such() -> None:
    release = RELEASES["future"]
    said = release.payload("news", text="hear")
    with pytest.raises(BadMessage, match="no body this release knows"):
        peer_codec.decode_message(said)


def test_a_hello_and_a_summary_of_the_first_fields_alone_are_enough() -> None:
    release = RELEASES["spare"]
    hello = peer_codec.decode_message(release.payload("hello", site="old", protocol=1, release="0.0.9", generation=1))
    assert isinstance(hello, Hello) and (hello.site, hello.data_address, hello.seq) == ("old", "", 0)
    told = peer_codec.decode_message(
        release.payload("summary", site="old", generation=1, counter=7, slots=4, speed=1.0)
    )
    assert isinstance(told, Summary) and told.address == "" and not told.left and told.machines == 0
