"""The batch systems, each behind the interface `BatchSystem`, used by their commands as a plain user. Arrays to submit,
tasks to cancel and questions come in; capacities, listings and past ends go out as the same values for all systems.
A parser of printed text is a module of its own and pure. Orders that will never be taken raise `BatchRefused`, and
unclear answers raise `BatchUnreachable`. Read `system.py` first, then `slurm.py`; `kinds.py` finds a system by the
name in a site file, plug-ins included."""
