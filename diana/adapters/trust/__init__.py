"""Certificates and keys, made and checked. Operators' orders come in and become a VO's root, signers, and certificates
of sites, members and users; statements to sign and chains to judge come in from the engine and the server, and a
signature or a refusal in one line goes out. `making.py` and `authority.py` issue, `invites.py` lets newcomers ask,
`chains.py` judges, `revocations.py` knows who is trusted no more. Read `certificates.py` first, the files on disk, then
`keyring.py`, the engine's port."""
