"""Requirements that a group has of its sites, as text: expressions over published names (SPEC G1; the set-extended
ClassAds of papers/grads-scheduling.txt, section 4.3.1). Texts and the plain values of a site, a link or a set of sites
come in; out goes each conjunct that does not hold, with its values and its near miss, or the rank of a site. Read
`names.py` first, the published list, then `expressions.py`, the one module that knows the expression library, and
`judge.py`."""
