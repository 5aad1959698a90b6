"""The virtual-clock driver: the engine the node runs, thousands of sites at a time, one seed, no real time."""
