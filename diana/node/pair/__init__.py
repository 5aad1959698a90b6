"""A site kept by two machines: the machine that follows, the replication between the two, and the step from following
to leading. The leader's transactions come in over the replica link and are entered in the follower's journal; orders of
`diana.replica`, the pure rules of leadership, are carried out on a real store, link and witness. A follower serves only
its other half, and its control socket says who leads. Read `follower.py` first, the composition root of a follower,
then `replication.py`, which drives the rules at both machines."""
