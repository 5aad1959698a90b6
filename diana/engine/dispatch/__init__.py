"""The executing site's choice of the jobs to start and the machines to start them on, with the promises that it makes
about them. The engine calls `dispatch` at the end of each event: it takes waiting jobs in the order of the queues,
within free slots, licences, limits, guard and maintenance, and `start.py` turns the choice into records and `Start`
effects. The same figures answer other sites: quotes, forecasts of starts, and capacity promised to work that is to
move here. Work that waits at its origin is called for as its turn comes (`turns.py`). Work under a lease starts only
while its origin renews. Read `dispatch.py` first, then `capacity.py`, the work that stands here and why no more is
taken."""
