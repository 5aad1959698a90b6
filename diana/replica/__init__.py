"""Two replicas of one site's journal and a witness: who leads, and what is durable at both. Events come in with the
time (entries written, messages of the other replica, words of the witness), and effects go out in order; there is no
clock, disk or network in it. `node/pair` drives it over real ones, `sim/world` over simulated ones. A leader's effects
may leave only under a lease and once the copies that count have their entries. Read `machine.py` first, the entry, then
`messages.py`, its inputs and outputs, and `leading.py` and `following.py`, the two roles."""
