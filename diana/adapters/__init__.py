"""The real world behind the engine's ports (`diana.ports`): stores, streams, job runners, data movers, keys. Effects of
the engine come in through the node's loop, and adapters answer with events; none of their methods blocks the loop. Each
sub-package is one adapter, and the modules here are small ones used by several. Every port has one conformance suite,
which the real adapter and its simulated twin both pass. Read `sqlite_store/store.py` first, the journal, then
`lrm/local.py`, which runs jobs, and `datadir.py`, the directory that all share."""
