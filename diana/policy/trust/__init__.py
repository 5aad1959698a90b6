"""Rules of authorisation and naming in a VO, default deny. A principal with its role and an action come in, and a
refusal in one line goes out, empty if it may; every client call and peer message asks here. The same rules say who may
have a certificate signed, which names of sites are given out, and which bytes a statement of authorisation consists of,
so that real and simulated keyrings share them. Read `authorise.py` first, the one table of actions."""
