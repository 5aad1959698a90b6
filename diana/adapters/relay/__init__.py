"""Tunnels through a neighbour to sites that can only dial out. Such a site keeps an offer open at its neighbours and
answers each ticket with a connection to its own port; a site that wants to reach it dials a local socket, which is
joined with the other end. TLS runs inside from end to end, so a relay sees only bytes, and it joins sites of the VO
only. Read `service.py` first, the relay's side, then `offering.py` and `doors.py`, the two ends."""
