"""Peer streams over gRPC: one long-lived stream of envelopes per pair of sites, whichever side can dial. Messages of
the engine come in by `send`, with orders to hold or drop a stream to a site; out go events of peers that came, went or
said something. Queues are bounded both ways, and a message that finds a queue full is dropped, since the engine says
again what matters. Addresses are trusted only after a handshake with the site's own certificate. Read `transport.py`
first, then `link.py`, one stream, and `dialling.py`, which finds the way to a site."""
