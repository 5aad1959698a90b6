"""The embedded LRM: real processes of this machine within a number of slots.

`local.py` is the node's side. `spawner/` is a process of its own that outlives the node; this package therefore
imports nothing, so that the spawner starts with the standard library and msgspec alone.
"""
