"""Authorisation: which role may do which action. One table, default deny; every client call and peer message asks here
(PROMISES 5.3-5.5)."""

from __future__ import annotations

from enum import StrEnum

from diana.model.trust.principal import Principal, Role


class Action(StrEnum):
    SUBMIT = "submit"
    PLAN = "plan"
    UPLOAD = "upload"
    READ_GROUP = "read-group"
    LIST_GROUPS = "list-groups"
    CANCEL = "cancel"
    HOLD = "hold"
    MOVE = "move"
    """Make waiting jobs run at another site."""
    RELEASE = "release"
    RETRY = "retry"
    DROP = "drop"
    """Have groups that are over forgotten."""
    READ_SITES = "read-sites"
    READ_DATASETS = "read-datasets"
    ADD_DATASET = "add-dataset"
    READ_INFO = "read-info"
    READ_QUEUE = "read-queue"
    ENTER_PAGES = "enter-pages"
    """Get access to the dashboard for a browser or a collector of metrics."""
    STOP = "stop"
    PROMOTE = "promote"
    """Change which of a site's two machines leads."""
    REMOVE_MACHINE = "remove-machine"
    """Give up a machine of the site and the jobs it runs."""
    OPERATE = "operate"
    """Give any order about the site or the VO; each order also needs an action of its own."""
    DRAIN = "drain"
    """Make the site take no new work."""
    RULE_VO = "rule-vo"
    """Ban, lift a ban, set the VO's policy, at a site that is a signer."""
    DIAGNOSE = "diagnose"
    """Make the node check itself for faults."""
    INVITE = "invite"
    """Let a site, machine or user into the VO."""
    QUOTE = "quote"
    """Ask for and give quotes, summaries and the state of the queues."""
    OFFER = "offer"
    """Hand work over: Prepare, Commit, Abort, Control."""
    REPORT = "report"
    """Answer for work handed over: Prepared, Refused, Committed, Aborted, Lost, Progress, Result, ControlAck."""
    ACKNOWLEDGE = "acknowledge"
    """ResultAck."""
    WITNESS = "witness"
    """Read and change the register of the two machines that keep a site's journal; the site's own only."""

    ATTACH = "attach"
    """Take orders as a machine of this site, deliver the outputs of its jobs."""
    FETCH_INPUT = "fetch-input"
    """Read the inputs named in orders given to that machine."""


class Scope(StrEnum):
    ANY = "any"
    OWN = "own"
    """Only things whose `owner` is the principal: its own groups; for peers, transfers they are a party to."""


_USER = {
    Action.SUBMIT: Scope.ANY,
    Action.PLAN: Scope.ANY,
    Action.UPLOAD: Scope.ANY,
    Action.LIST_GROUPS: Scope.ANY,
    Action.READ_SITES: Scope.ANY,
    Action.READ_DATASETS: Scope.ANY,
    Action.READ_INFO: Scope.ANY,
    Action.READ_QUEUE: Scope.ANY,
    Action.ENTER_PAGES: Scope.ANY,
    Action.READ_GROUP: Scope.OWN,
    Action.CANCEL: Scope.OWN,
    Action.HOLD: Scope.OWN,
    Action.MOVE: Scope.OWN,
    Action.RELEASE: Scope.OWN,
    Action.RETRY: Scope.OWN,
    Action.DROP: Scope.OWN,
}

TABLE: dict[Role, dict[Action, Scope]] = {
    Role.USER: _USER,
    Role.OPERATOR: {
        action: Scope.ANY
        for action in (
            *_USER,
            Action.ADD_DATASET,
            Action.STOP,
            Action.PROMOTE,
            Action.REMOVE_MACHINE,
            Action.OPERATE,
            Action.DRAIN,
            Action.RULE_VO,
            Action.DIAGNOSE,
            Action.INVITE,
        )
    },
    Role.PEER: {
        Action.QUOTE: Scope.ANY,
        Action.OFFER: Scope.OWN,
        Action.REPORT: Scope.OWN,
        Action.ACKNOWLEDGE: Scope.OWN,
        Action.WITNESS: Scope.OWN,
    },
    Role.MEMBER: {Action.ATTACH: Scope.OWN, Action.FETCH_INPUT: Scope.OWN},
    Role.NOBODY: {},
}


def authorise(principal: Principal, action: Action, owner: str | None = None) -> str:
    """Return the empty text if allowed, else one line why not.

    `owner` is the owner of the group, or the site that is party to the transfer.
    """
    scope = TABLE[principal.role].get(action)
    who = f"{principal.role} {principal.name}".strip()
    if scope is None:
        operators = principal.role is Role.USER and action in TABLE[Role.OPERATOR]
        return f"{who} may not {action}{'; an operator of the site may' if operators else ''}"
    if scope is Scope.OWN and (not principal.name or owner != principal.name):
        return f"{who} may not {action} what belongs to {owner or 'nobody'}"
    return ""
