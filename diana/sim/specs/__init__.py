"""The tables of a scenario file, as values that check themselves: work, demand, links, machines, faults, events, data,
traces, comparisons. Decoded TOML comes in through `sim/scenario`, and a wrong key or value leaves as one line with its
mend. The rest of the simulator reads these values and never the file. Read `work_spec.py` first, one entry of the
workload, then `link_spec.py` and `fault_spec.py`."""
