"""The messages between the engines of two sites, as frozen values. A peer's message comes in as an event `Received` and
an answer goes out as an effect `Send`; `diana.wire.peer_codec` maps each class to the protobuf message of the same
name. Every handler is idempotent, since a message may be lost, repeated or late. Read `messages.py` first: summaries
and gossip, quotes, and the messages of the hand-over. `orders.py` has the base of an origin's orders, `migration.py`,
`leases.py` and `recovery.py` the messages of those packages, `exchange.py` the word to gangs with spares."""
