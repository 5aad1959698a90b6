"""The world of a run: clock, network, sites, users, faults and judges together, and the runner."""
