"""Frozen values that every layer shares: ids, index sets, specs, facts, settings. Each value checks itself when it is
made, and none of them does IO. The sub-packages hold the values of one subject: `job` the spec of a group, `trust`
identities and statements, `views` the answers to reads. Read `ids.py` and `indexset.py` first, since jobs are always
named by a group and a set of indices; then `facts.py`, the ends of jobs in columns."""
