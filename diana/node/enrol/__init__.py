"""How machines, sites and users come into the VO, and how certificates are renewed (SPEC U1)."""
