"""The messages that two machines of one site, leader and standby, exchange over gRPC with each other and their witness.
Whole messages of `diana.replica` go in and come out in order over one stream; a copy of the whole journal and clients'
uploads travel beside it in checked chunks. The witness at another site keeps one register that says who leads. Read
`link.py` first, the stream, then `seeds.py` and `witness.py`; `saved.py` keeps the few facts that a machine must never
forget."""
