"""The gRPC server of a node, which all its services share, and gRPC's failures in words. Keys, an address and limits
come in; out goes one server that demands a certificate of the VO from every caller and leaves each service to decide
what a caller may do. Nothing else opens a port for gRPC. Read `server.py` first; `words.py` turns failed calls into
lines for an operator."""
