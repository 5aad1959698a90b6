"""Sites matched with the requirements of a group (SPEC G1). Quotes, summaries and measured links come in, as values of
the published names (`diana.policy.requirements`); out goes what each site lacks. `placement` asks before it prices a
site, and before it asks a site of a large grid at all. Read `facts.py`, which says where each value comes from."""
