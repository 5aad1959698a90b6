"""The process that starts jobs, keeps the claim log and outlives the node (PROMISES section 2, "Claim").

It is one poll loop (a second thread only waits in fsync), never forks once it runs, and never imports grpc: spawning
from the node itself would block it, copy its threads and die with it. Import rule: standard library, msgspec and
`diana.model` only.
"""
