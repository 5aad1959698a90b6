"""The price of a group at every site, by the turnaround model or by the paper's model. A `Demand` (jobs, run times,
data needs) and a table of candidate sites come in; out go costs as arrays over the sites, their order, and the rows
of terms that explain a decision. Sites that cannot run the jobs are left out with a reason. Ten thousand sites cost
a few array operations. Read `demand.py` first, the input, then `cost.py`, the entry, and `turnaround.py`, the
default model."""
