"""Faults that strike sites and links, planned or drawn, and the work that a seed draws."""
