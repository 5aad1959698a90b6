"""The judges of a run: the invariants that must hold, kept apart from the code they judge. Durable records, real runs
of jobs and answers to users come in as they happen; violations go out as findings with the story of their group. A
check costs by its event, and full recounts are made at crashes, at heal and at the end. Coverage counts which fault
struck during which operation. Read `checkers.py` first, then `stories.py`, their memory, and `coverage.py`."""
