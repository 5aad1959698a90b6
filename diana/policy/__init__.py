"""Pure decisions of the scheduler: values in, values out, without state, clock, chance or IO. The engine calls them
with figures of its sites, queues and groups, and gets back a decision that keeps its reasons. Each sub-package is one
subject: `pricing` costs a group at every site, `allocation` deals its jobs out, `queueing` orders the jobs of a site,
`migration` moves them, `links` forecasts the network, `trust` says who may do it. Read `allocation/splitting.py` first,
the decision about a group from its demand and candidates to a plan; `breaker.py` is the guard against sites that fail
jobs fast, and `membership.py` has the numbers of the gossip protocol."""
