"""Read-only mounts in the place of links to inputs that are too large to be copied, in namespaces of the job's own.

They are plain files then, which nobody can write to by that path. Done on the machine where the job starts, by words
before its command and with its own rights: a user namespace lets it mount, and a second one within takes that away
again, so that the job has its own user and cannot undo it. Where the machine allows no such thing the links stay.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from diana.adapters.lrm.folders import parent
from diana.adapters.lrm.spawner.jobs import WISH
from diana.model.job.output_names import parts_below
from diana.model.job.spec import GroupSpec

_TRY_S = 10.0
"""Seconds that a trial of mounts may take; orders wait for it."""
_LIST = "../links/$DIANA_INDEX.paths"
# A folder is never removed with what is in it: it may be the mount.
_MOUNTS = r"""
diana_tab=$(printf '\t')
while IFS=$diana_tab read -r diana_path diana_target; do
  rm -f -- "./$diana_path" || continue
  if [ -d "$diana_target" ]; then mkdir -m 700 -- "./$diana_path"
  else : > "./$diana_path"; chmod 0 -- "./$diana_path"; fi
  mount --bind -- "$diana_target" "./$diana_path" && mount -o remount,bind,ro -- "./$diana_path" && continue
  umount -- "./$diana_path"
  if [ -d "$diana_target" ]; then rmdir -- "./$diana_path"; else rm -f -- "./$diana_path"; fi
  ln -s -- "$diana_target" "./$diana_path"
done < "$0" 2>/dev/null
"""
_AS_ROOT = _MOUNTS + 'exec "$@"'
_AS_USER = (
    _MOUNTS
    + "diana_user=$1 diana_group=$2; shift 2\n"
    + 'exec unshare --user --map-user="$diana_user" --map-group="$diana_group" -- "$@"'
)
_MOUNTING = "--mount --propagation private"
_WORDS = f"""\
diana_script=$1 diana_list={_LIST}
shift
if [ -s "$diana_list" ]; then
  diana_user=$(id -u) diana_group=$(id -g)
  if [ "$diana_user" = 0 ]; then
    unshare {_MOUNTING} true 2>/dev/null && exec unshare {_MOUNTING} -- /bin/sh -c "$0" "$diana_list" "$@"
  elif unshare --user --map-root-user {_MOUNTING} unshare --user --map-user="$diana_user" true 2>/dev/null; then
    exec unshare --user --map-root-user {_MOUNTING} -- \\
      /bin/sh -c "$diana_script" "$diana_list" "$diana_user" "$diana_group" "$@"
  fi
fi
exec "$@"
"""


def before(spec: GroupSpec) -> list[str]:
    """Return the words that stand before the command of jobs with such links; empty: they keep the links. A container
    has its own mounts, and the processes of an MPI job run elsewhere."""
    if spec.container or spec.mpi or spec.runner == "mpi" or (WISH, "1") in spec.environment:
        return []
    return ["/bin/sh", "-c", _WORDS, _AS_ROOT, _AS_USER]


def possible(user: int | None) -> bool:
    """Return whether such mounts can be made on this machine with the rights of a user (None: ours). Another machine of
    the site may be another in this."""
    own = os.geteuid() if user is None else user
    mounting = _MOUNTING.split()
    words = ["unshare", *mounting, "true"]
    if own:
        words = ["unshare", "--user", "--map-root-user", *mounting]
        words += ["unshare", "--user", f"--map-user={own}", "true"]
    # Only root can try it as somebody else.
    other = own != os.geteuid() == 0
    try:
        tried = subprocess.run(
            words,
            env={"PATH": os.environ.get("PATH", os.defpath)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=own if other else None,
            extra_groups=[] if other else None,
            check=False,
            timeout=_TRY_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0


def listed(rows: Iterable[tuple[str, str]]) -> str:
    """Return the list that the words read, of (path in the job's directory, target); names that it cannot hold are left
    out."""
    return "".join(f"{path}\t{target}\n" for path, target in rows if not {"\t", "\n"} & {*path, *target})


def clear(directory: Path, paths: Sequence[str]) -> None:
    """Remove what the mounts stood on, once the job has ended: it is none of its outputs."""
    for path in paths:
        parts = parts_below(path)
        with suppress(OSError), parent(directory, parts, create=False) as at:
            status = os.lstat(parts[-1], dir_fd=at)
            if stat.S_ISDIR(status.st_mode):
                os.rmdir(parts[-1], dir_fd=at)
            elif stat.S_ISREG(status.st_mode) and not status.st_size and not status.st_mode & 0o777:
                os.unlink(parts[-1], dir_fd=at)
