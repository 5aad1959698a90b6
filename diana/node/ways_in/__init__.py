"""The two ways by which clients reach the node: the local unix socket and gRPC over TLS. A call comes in with its
caller, whose uid or certificate is turned into a principal with a role; size and rate are bounded, and each decision is
written to the audit trail. The call then goes to `node/api`, and its answers leave in frames or messages. Read
`control.py` first, the local socket, then `client_service.py`, the remote one; `door.py` has the interfaces that the
API needs of the rest of the node."""
