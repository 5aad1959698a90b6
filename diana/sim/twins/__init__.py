"""The simulated twins of the node's adapters: network, transport, store, LRM, stager, keyring, and batch systems with
jobs of others. They take the engine's effects and answer with events as the real adapters do, under virtual time; a
port's twin passes the conformance suite of that port. Faults are ordered from outside, so that the seed decides them
and no twin does. Read `network.py` first, the streams between sites, then `lrm.py` and `store.py`."""
