"""Simulated sites: the engine the node runs, over the twins of store, LRM, stager and network, alone or as a pair of
replicas. Events come in from the twins and the users; each is one transaction, and a crash may fall before it, after it
and before each effect. Effects go out to the twins, and every durable record to the checkers. Read `site.py` first,
then `replicas.py`, a site with a standby."""
