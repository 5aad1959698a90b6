"""Paths below a node's data directory. Names only; nothing here touches the disk."""

from __future__ import annotations

from pathlib import Path

from diana.model.ids import GroupId, SubgroupId


def flat(subgroup: SubgroupId) -> str:
    """`alpha-12/0` as one path component: `alpha-12_0`."""
    return subgroup.replace("/", "_")


class DataDir:
    """Paths of one node's data directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "site.toml"
        self.lock = root / "lock"
        self.journal = root / "journal.db"
        self.mark = root / "journal.mark"
        """Mark of how far the journal was; no part of any copy of the journal."""
        self.catalogue = root / "catalogue.db"
        self.keys = root / "keys"
        """0700: site.key, site.pem (leaf and its signers), vo.pem (trust root); at a signer signer.key and signer.pem;
        vo.key where the VO was made; `revoked`, the list of those this site trusts no more. A member has member.key,
        member.pem."""
        self.web_key = self.keys / "web.key"
        """Key with which the dashboard signs its sessions; without it all sessions end."""
        self.inputs_secret = self.keys / "inputs.key"
        """0600: secret from which the cache's names for what accounts of users read are made."""
        self.control = root / "control"
        """0750, with `diana.sock` 0660."""
        self.socket = self.control / "diana.sock"
        self.signers = root / "signers.json"
        """0600: the sites that can sign for the VO, as far as this one was told."""
        self.spawner = root / "spawner"
        self.mark_twin = self.spawner / "journal.mark"
        """The journal's mark a second time, apart from the journal's files."""
        self.node_log = root / "node.log"
        self.node_out = root / "node.out"
        """0600: what a detached node prints."""
        self.notices = root / "notices"
        """0700: a mark for each group whose end was told to those it names."""
        self.audit = root / "audit.log"
        """0600: each request, its caller and the decision on it (`node/ways_in/audit.py`)."""

        self.changed_inputs = root / "changed-inputs"
        """Its time of change is the last time that a job changed an input it shared with others."""

    def slot(self, number: int) -> Path:
        """A slot's scratch directory, emptied after each job that used it."""
        return self.root / "slots" / str(number)

    @property
    def kept(self) -> Path:
        """0700: directories of jobs that stay for a while, since an output was missing."""
        return self.root / "kept"

    def job(self, subgroup: SubgroupId, epoch: int, index: int) -> Path:
        """A job's own directory."""
        return self.root / "jobs" / flat(subgroup) / f"e{epoch}" / str(index)

    def jobs(self, subgroup: SubgroupId) -> Path:
        return self.root / "jobs" / flat(subgroup)

    def logs(self, group: GroupId) -> Path:
        """Log segments; `Facts.log_segments` are relative to `logs_root`."""
        return self.logs_root / group

    @property
    def logs_root(self) -> Path:
        return self.root / "logs"

    def staged(self, subgroup: SubgroupId) -> Path:
        """Links to a subgroup's inputs: `dataset/NAME/FILE`, `blob/SHA256` and `url/KEY` below it."""
        return self.root / "staged" / flat(subgroup)

    def cached(self, sha256: str) -> Path:
        """Verified content fetched from elsewhere, mode 0444."""
        return self.root / "cache" / sha256[:2] / sha256

    def replica(self, digest: str) -> Path:
        """The files of a whole dataset fetched from elsewhere, mode 0444, under their own names."""
        return self.root / "cache" / "sets" / digest[:2] / digest

    def manifest(self, digest: str) -> Path:
        """The list of a fetched dataset's files."""
        return self.root / "cache" / "sets" / digest[:2] / f"{digest}.manifest"

    def blob(self, sha256: str) -> Path:
        """Content a client uploaded here, mode 0444."""
        return self.root / "blobs" / sha256[:2] / sha256

    def collected(self, subgroup: SubgroupId, epoch: int) -> Path:
        """Outputs kept at the executing site until the origin has them, by output name."""
        return self.root / "collected" / flat(subgroup) / f"e{epoch}"

    def gathered(self, group: GroupId) -> Path:
        """A group's outputs at its origin when the user named no folder."""
        return self.groups_root / group / "outputs"

    @property
    def groups_root(self) -> Path:
        return self.root / "groups"
