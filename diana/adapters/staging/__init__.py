"""Datasets, blobs, the cache and the data streams of one site. The engine's orders come in: look data up, bring a
subgroup's inputs, gather outputs, register or delete; events with sizes or errors go out, and files appear under their
names only whole and verified. All disk and network work runs off the event loop on data threads. Read `stager.py`
first, the facade behind the engine's port, then `inputs.py`; `catalogue`, `transfer`, `outputs` and `urls` are its
parts."""
