"""The `[faults]` table of a scenario: the rate of each kind of fault, and its length."""

from __future__ import annotations

import msgspec

LEAST_EVERY_S = 0.01
_CHANCES = ("loss", "duplicate", "delay", "crash", "stage_error", "retell")


class FaultsSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rates of faults. With `draw` each seed takes for every rate an even share of it between 0 and the value here."""

    draw: bool = False
    """True: each seed draws its rates, between 0 and the values here."""
    off: float = 0.0
    """Probability for each kind of fault that a seed goes without it; counts with `draw`."""
    until_s: float = 0.0
    """Time when faults end: all heals, and everything has to come to an end within `heal_s`."""
    heal_s: float = 600.0
    """Seconds after the last fault by which all must be over."""
    loss: float = 0.0
    """Probability per message."""
    duplicate: float = 0.0
    """Probability per message that it comes twice."""
    delay: float = 0.0
    """Probability per message that it comes late."""
    delay_s: float = 2.0
    """A delayed message arrives up to this much later, so that others overtake it."""
    crash: float = 0.0
    """Probability of a node's crash at each boundary: before a commit, after it, before each other effect."""
    restart_s: float = 5.0
    """Seconds within which a crashed node starts again."""
    spawner_crash_every_s: float = 0.0
    """Mean time between deaths of a site's spawner; 0: never."""
    machine_crash_every_s: float = 0.0
    """Mean time between power failures of a machine, a site's own one with its node; 0: never."""
    machine_away_every_s: float = 0.0
    """Mean time between losses of a member machine's link to its node; 0: never."""
    machine_removed_every_s: float = 0.0
    """Mean time between power failures of a member machine after which the operator gives it up; it comes back all
    the same. 0: never."""
    machine_away_s: float = 10.0
    """Seconds within which a member machine is back."""
    leader_kill_every_s: float = 0.0
    """Mean time between deaths of a replica of each site with a standby, mostly the leader; 0: never."""
    leader_stop_every_s: float = 0.0
    """Mean time between stops (5, 30 or 120 s) of one; 0: never."""
    replica_disk_every_s: float = 0.0
    """Mean time between losses of a disk whose other copy is in sync; 0: never."""
    replica_cut_every_s: float = 0.0
    """Mean time between cuts, up to 20 s, between replicas or of one from the witness; 0: never."""
    cut_every_s: float = 0.0
    """Mean time between cuts of a link; 0: never. One in three cuts one direction only."""
    cut_s: float = 10.0
    """Longest cut, in seconds."""
    stage_error: float = 0.0
    """Probability that a stage-in or a gathering fails for good."""
    retell: float = 0.0
    """Probability that the LRM tells the end of a job twice."""
    only: tuple[int, ...] = ()
    """Numbers of the single faults that strike, of those that a seed draws (from 1, in the order they are drawn);
    empty: all. A shrunk scenario says here which ones it takes."""
    clog_every_s: float = 0.0
    """Mean time between clogs of a link: nothing passes, then all that was sent meanwhile comes at once, in order."""
    clog_s: float = 6.0
    """Longest clog, in seconds; a stream that is clogged for 3 s is given up, and what it held is lost."""
    partition_every_s: float = 0.0
    """Mean time between partitions: some sites are cut from all others."""
    partition_s: float = 20.0
    """Longest partition, in seconds."""
    disk_slow_every_s: float = 0.0
    """Mean time between spells of a slow disk at a site; each commit takes from 0.1 s up to `disk_slow_commit_s`."""
    disk_slow_s: float = 15.0
    """Longest spell of a slow disk, in seconds."""
    disk_slow_commit_s: float = 3.0
    """Longest time that a commit takes on a slow disk, in seconds."""
    disk_full_every_s: float = 0.0
    """Mean time between full disks: the site refuses new work; in every other case its node stops at a commit."""
    disk_full_s: float = 15.0
    """Longest spell of a full disk, in seconds."""
    disk_error_every_s: float = 0.0
    """Mean time between I/O errors of a site's disk: its node stops. Nobody knows whether that commit is kept."""
    clock_jump_every_s: float = 0.0
    """Mean time between jumps of a site's wall clock, to any time within `clock_jump_s` of the right one."""
    clock_jump_s: float = 3600.0
    """Farthest jump from the right time, in seconds, either way."""
    stall_every_s: float = 0.0
    """Mean time between stops of a node (SIGSTOP) for 1 s up to `stall_s`; its jobs go on."""
    stall_s: float = 60.0
    """Longest stop of a node, in seconds."""
    database_lost_every_s: float = 0.0
    """Mean time between losses of a site's database: its node stops and comes back without it."""
    database_old_every_s: float = 0.0
    """Mean time between old copies put back in the place of a site's database, some so that nothing beside
    them tells, and only the other sites remember."""
    database_old_s: float = 20.0
    """Greatest age of the copy, in seconds."""
    backup_restored_every_s: float = 0.0
    """Mean time between restores of a backup of a site (`diana restore`)."""
    backup_restored_s: float = 20.0
    """Greatest age of the backup, in seconds."""
    site_loss_every_s: float = 0.0
    """Mean time between losses of a whole site, its machine and its node, for 5 s up to `site_loss_s`."""
    site_loss_s: float = 60.0
    """Longest loss of a site, in seconds."""


def check_faults(faults: FaultsSpec) -> None:
    for key in (*_CHANCES, "off"):
        value = getattr(faults, key)
        if not 0 <= value <= 1:
            raise ValueError(f"faults: {key} = {value}: want a probability, 0 to 1")
    for key in faults.__struct_fields__:
        value = getattr(faults, key)
        if key.endswith("_s") and not 0 <= value <= 1e9:
            raise ValueError(f"faults: {key} = {value}: want 0 to 1e9 seconds")
    if faults.loss >= 1:
        raise ValueError("faults: loss = 1: nothing would ever arrive; want less than 1")
    for key in faults.__struct_fields__:
        value = getattr(faults, key)
        if key.endswith("_every_s") and 0 < value < LEAST_EVERY_S:
            raise ValueError(f"faults: {key} = {value:g}: want 0 (never), or {LEAST_EVERY_S:g} to 1e9 seconds")
        if value and not faults.until_s and (key in _CHANCES or key.endswith("_every_s")):
            raise ValueError(f"faults: {key} = {value:g}, but until_s = 0: faults end there; set until_s")
