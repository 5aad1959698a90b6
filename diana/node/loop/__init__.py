"""The node's loop around the engine: waiting events, `Engine.handle`, one transaction, then the effects in order.
Events of clients, peers and adapters come in through a bounded queue; records go to the store thread and, once durable,
the other effects go to the adapters and to whoever waits for an answer. Events that wait are committed together, and
nothing leaves before the records it rests on. Read `runner.py` first, then `release.py`, which gives each effect to its
adapter."""
