"""The hand-over: the protocol that gives part of a group to another site, such that each job has one owner and one
result, whatever is lost, repeated or crashes on the way. At the origin, `placement` brings an offer and users' orders;
at the destination, orders of the origin come in (`destination.py`), inputs are brought and runs that ended become
batches of results. Out go records of both sides, messages to the other side, orders to machines, and accepted results
(`results.py`). The origin arbitrates: the other side's copy is inert until the commit is durable at the origin. Read
`origin.py` first, then `destination.py` and `execution.py`; `leases.py` places work of a silent site anew."""
