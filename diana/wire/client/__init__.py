"""The messages of the client service, as values whose JSON is the proto3 JSON mapping. A client fills in a request and
the node answers with the response that `METHODS` names for the call, over frames of the local socket or over gRPC.
Nothing here imports grpc or protobuf, so that the command line starts fast. Each module has the messages of one family
of calls. Read `messages.py` first, with the table of all calls."""
