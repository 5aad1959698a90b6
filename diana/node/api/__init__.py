"""The client service, one implementation for both ways in (local socket and gRPC). A call comes in with its caller;
it is checked against the caller's role, asked of the engine, the store or the stager, and answered with messages of
`diana.wire.client`. Long answers (results, logs, outputs) are streams in bounded pages. Each family of calls has a
module, and all of them work at one `Desk`. Read `service.py` first, the table of calls, then `desk.py` and
`submit.py`."""
