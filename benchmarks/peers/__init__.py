"""diana beside what people use today, on the same work and in turns: peers installed by name, cells, and the table.

`installs.py` gets the peers, `programs.py` runs in their interpreters, `cells.py` has the work, `table.py` the page.
`benchmarks/bench_peers.py` is the door.
"""
