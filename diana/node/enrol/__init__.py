"""Enrolment: machines, sites and users come into the VO, and certificates are renewed (SPEC U1)."""
