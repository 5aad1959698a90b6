"""The embedded LRM: real processes of this machine within a number of slots. Orders of the engine to start, kill or
recall jobs come in; job directories are prepared, the spawner is told, outputs are collected, and the ends go out as
`Facts`. `spawner/` is a process of its own that outlives the node; this package therefore imports nothing, so that the
spawner starts with the standard library and msgspec alone. Read `local.py` first, the node's side, then `prepare.py`
and `collect.py`, before and after a job."""
