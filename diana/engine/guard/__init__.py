"""The black-hole guard: it holds starts back at a site or machine that fails jobs fast, and keeps origins from placing
more work there. Ends of jobs come in from `handover`, at the executing site and at the origin, and fold into the
breakers of `diana.policy.breaker`. Out go the number of starts that a group is allowed now, the reason why a group is
stopped here, and the sites that a placement must leave out. Read `guard.py` first; `machine_guard.py` does the same for
a single bad machine, and `programs.py` remembers how users' programs fared."""
