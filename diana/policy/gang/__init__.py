"""Decisions about gangs: parallel jobs whose components run at several sites at one time, all of them or none (KOALA).
A request and the idle processors of the sites come in, and out goes a place for each component, or the reason why there
is none and what would do. The room has the placement policies of the papers (`worst_fit.py`, `close_to_files.py`,
`cluster_min.py`, `flexible_min.py`), the earliest time at which one of them finds a place (`soonest.py`), the order in
which waiting gangs are tried (`queues.py`), the times at which a placed gang claims its processors (`claim_times.py`),
how long it waits and holds (`holding.py`), and the choice of what a try claims (`incremental.py`). Read `requests.py`
first, the values that all of them share, then `policies.py`, which names them."""
