"""A site of several machines: the node of a machine that only runs jobs, and the leading node's part towards such
machines. A member gets orders over a stream to the machine that leads its site, runs them with its own spawner and
cache, and tells their ends; it keeps no journal and serves nobody else. At the leading node the same streams appear
as one LRM over all machines. Read `member.py` first, the member's composition root, then `subgrid.py`, the leader's
side."""
