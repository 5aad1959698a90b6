"""The process that starts jobs, keeps the claim log and outlives the node. Orders come in over a unix socket, a claim
is durable before its job is executed, and ends are told until the node says forget. It is one poll loop (a second
thread only waits in fsync), never forks once it runs, and never imports grpc: spawning from the node itself would block
it, copy its threads and die with it. Imports are limited to the standard library, msgspec and `diana.model`. Read
`loop.py` first, one turn of the loop, then `table.py`, the runs it answers for, and `protocol.py`, the messages."""
