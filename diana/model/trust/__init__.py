"""Values about identity and trust: principals, names in certificates, invitations, the VO's ledger, and the register
that says which replica leads a site. Certificates and messages come in as text or bytes and are parsed here; the rules
that judge them are in `diana.policy.trust`, the keys in `diana.adapters.trust`. A statement of the ledger stays the
bytes that were signed, so that every site checks the same ones. Read `identity.py` first, then `ledger.py`."""
