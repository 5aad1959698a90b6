"""A scenario on real nodes: the same file the simulator reads, on processes, network namespaces or docker-compose. A
scenario and the name of a ground come in; nodes are founded by init, invite and join, the workload is submitted as
job files, events happen at their times, and a report of the simulator's form goes out. Nothing is left behind on the
machine. Read `run.py` first, then `ground.py`, the interface of a ground, and `conduct.py`, which plays the
workload."""
