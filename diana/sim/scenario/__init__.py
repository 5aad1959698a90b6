"""Scenario files: one versioned TOML names sites, links, datasets, users, work, faults, what must hold and what to
report. A path comes in, with tables of sites or network topologies it refers to; a checked `Scenario` goes out, or one
line that names the file, the key and the mend. Variants for a comparison and the written form of a scenario made small
are made here too. Read `scenario.py` first; `topology.py` works out the links between two sites."""
