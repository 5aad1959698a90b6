"""The machines of one site that run jobs, as the engine counts with them. Reports of machines come in (ready, sized,
lost) with their slots, memory, GPUs and software; out go answers to which machine has free capacity for a kind of job
and which kind fits nowhere. `running.py` holds the runs that each machine was given and tells those on slots from those
that wait there. Costs go by the machines that changed, never by all of them. Read `machines.py` first, then
`requirements.py`, what jobs ask of them and the kinds by which they are told apart."""
