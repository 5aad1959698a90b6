"""Stories in which a sentence of the protocol is what stands between a machine and harm."""

from __future__ import annotations

Story = list[tuple[str, ...]]

LEASED: Story = [("0 hears Ack",), ("1 hears Beat", "to='0'"), ("0 hears Ack", "granted_s=0.0")]
ON_BOTH: Story = [("0 appends x",), ("1 hears Append",), ("0 fsyncs",), ("1 fsyncs",), ("0 hears Ack", "fsynced=1")]
WAITED: Story = [("time passes",), ("time passes",)]
TAKES_OVER: Story = [
    ("1 ticks",),
    ("1 reads Register(term=1",),
    ("records Register(term=2, leader='b'",),
    ("1 reads Register(term=2",),
]
LATE: Story = [("0 acknowledges x",)]

TAKEN_OVER_AND_LOST: Story = [("witness loses",), ("0 reads None",), ("time passes",), ("0 ticks",)]

STORIES: dict[str, Story] = {
    "lease": LEASED + ON_BOTH + WAITED + TAKES_OVER + LATE,
    "made_again_leased": LEASED
    + WAITED
    + TAKES_OVER
    + TAKEN_OVER_AND_LOST
    + [("records Register(term=2, leader='a'",), ("0 reads Register(term=2, leader='a'",)],
    "made_again_with_both": [
        ("0 hears Ack",),
        ("1 hears Beat", "to='0'"),
        ("0 appends x",),
        ("1 hears Append",),
        ("1 fsyncs",),
        ("the link is lost",),
        *WAITED,
        ("1 is forced",),
        *TAKES_OVER[1:],
        *TAKEN_OVER_AND_LOST,
        ("records Register(term=2, leader='a'",),
        ("0 reads Register(term=2, leader='a'",),
    ],
    "granted_outlives_crash": LEASED + ON_BOTH + [("1 crashes",)] + TAKES_OVER + LATE,
    "promise": LEASED
    + ON_BOTH
    + WAITED
    + TAKES_OVER[:2]
    + [("0 ticks",), ("1 hears Beat", "sent_s=0.0"), ("0 hears Ack", "granted_s=0.0"), *TAKES_OVER[2:]]
    + LATE,
    "follower_refuses_old": LEASED
    + ON_BOTH
    + WAITED
    + TAKES_OVER
    + [
        ("1 crashes",),
        ("the link is up",),
        ("1 hears Beat(term=1", "sent_s=0.0"),
        ("0 hears Ack(term=1", "granted_s=None"),
    ]
    + [("1 hears Beat(term=1", "to='0'", "sent_s=0.0"), ("0 hears Ack(term=1", "granted_s=0.0")]
    + LATE,
}
