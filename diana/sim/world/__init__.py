"""A scenario put together and run: simulated sites, their users, faults and checkers, and the loop that drives them. A
scenario and a seed come in; a safety phase with faults is followed by healing, after which everything must come to a
visible end. A report goes out, with all that the checkers found. Grids of members without work are built here too. Read
`runner.py` first, one simulation, then `world.py`."""
