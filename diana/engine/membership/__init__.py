"""Membership of the VO and the state of each site: entries spread by gossip, suspicions that newer words refute, and
the few streams a site holds (SPEC D9; PERFORMANCE P9).

`table.py` holds what is known beside the view, `merge.py` takes in what others say, `suspicion.py` judges silence,
`active.py` chooses whom streams are held to, `spreading.py` decides what is told at each turn and to whom.
"""
