"""Python functions as jobs: `GridExecutor`, a `concurrent.futures.Executor` whose workers are the sites of a VO. Calls
come in by `submit` and `map`, wait a moment for company (`gathering.py`), leave as one file per group (`packing.py`),
and are run in each job by `remote.py`, which travels along; outcomes come back as futures. One thread sends groups and
follows them (`driving.py`). No node ever unpickles anything: a user's calls are unpacked in her own jobs, and their
outcomes at her own client, which trusts the sites she lets them run at (docs/python.md). Read `executor.py` first,
which a user calls."""
