"""A scenario put together and run: simulated sites, their users, and the loop that drives them. A scenario and a seed
come in; each site is the engine the node runs with twins around it, one transaction per event, and a crash may fall
before it, after it and before each effect. A report goes out, with everything that the checkers found. Sites with a
standby and grids of members without work are built here too. Read `runner.py` first, one simulation, then `world.py`,
`site.py` and `workload.py`."""
