"""Checks that a cluster's batch system answers this account, and tells what it has for it."""

from __future__ import annotations

import os
from pathlib import Path

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems import kinds
from diana.adapters.batch.systems.system import BatchRefused, BatchUnreachable
from diana.errors import UsageError
from diana.model.words import counted
from diana.node.doctor.bounded import Results, fail, ok, warn


def answers(name: str, settings: ClusterSettings, where: str, *, paired: bool = False) -> Results:
    """`where`: the site file, for the error line; `paired`: two machines may lead the site."""
    try:
        has = kinds.make(settings, f"{where}:clusters.{name}").capacity()
    except UsageError as error:
        found, _, mend = str(error).rpartition("; ")
        return [fail(name, found, mend)]
    except BatchRefused as refusal:
        return [fail(name, f"{settings.kind} refuses: {refusal}", f"mend [clusters.{name}] in {where}, or the cluster")]
    except BatchUnreachable as silence:
        mend = "see that its controller runs and that this machine may speak to it; jobs there run on meanwhile"
        return [fail(name, f"{settings.kind} does not answer: {silence}", mend)]
    found = f"{settings.kind} {has.version}, {counted(has.slots, 'processor')} up, {has.others} used by others"
    if settings.kind in kinds.EXPERIMENTAL:
        found += f"; experimental: {kinds.EXPERIMENTAL[settings.kind]}"
    if folder := settings.folder:
        if not Path(folder).is_dir():
            return [fail(name, f"{found}; its folder {folder} is not there", "make it, or mount its file system")]
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            return [fail(name, f"{found}; its folder {folder} is not ours to write", "give it to the node's account")]
    elif paired:
        mend = f"name a folder that both machines and the cluster's share as clusters.{name}.folder in {where} of both"
        return [warn(name, f"{found}; what runs there is not taken over when this machine dies", mend)]
    if not has.slots:
        return [warn(name, found, "wait, or see why its machines are down or drained")]
    return [ok(name, found)]
