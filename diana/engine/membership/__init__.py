"""Membership of the VO and the state of each site: entries spread by gossip, suspicions that newer words refute, and
the few streams a site holds. Peers' summaries, gossip and ledger statements come in, with the coming and going of
streams; out go this site's own summary, others' entries and the orders to hold or drop a stream. `table.py` holds what
is known beside the view, `merge.py` takes in what others say, `suspicion.py` judges silence, `active.py` chooses whom
streams are held to, `spreading.py` decides what is told at each turn and to whom. `trust_ledger.py` keeps the VO's
statements, and `witness.py` keeps the leadership registers of other sites. Read `gossip.py` first, which the engine's
timer calls once per turn."""
