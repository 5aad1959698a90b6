"""A site's other machines: the RootGrid's LRM over all of them, and the member's side of the same streams. Orders of
the engine come in and go to the machine they name; a member stages inputs, runs jobs with its own embedded LRM, and
delivers ends, logs and outputs, which are durable here before the engine hears of them. It is not a port's adapter of
its own: it composes the embedded LRM and the data side, over machines. Read `lrm.py` first, the RootGrid's side, then
`member.py`; `protocol.py` has the messages between them."""
