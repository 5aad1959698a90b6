"""The matrix of roles and actions, written out (PROMISES 5.3-5.5): default deny, nothing forgotten."""

from __future__ import annotations

import pytest

from diana.model.ids import SiteId
from diana.model.trust.principal import Principal, Role
from diana.policy.trust.authorise import TABLE, Action, authorise

NO, OWN, ANY = "no", "own", "any"

MATRIX: dict[Action, tuple[str, str, str, str, str]] = {
    #                       user operator peer member nobody
    Action.SUBMIT: (ANY, ANY, NO, NO, NO),
    Action.PLAN: (ANY, ANY, NO, NO, NO),
    Action.UPLOAD: (ANY, ANY, NO, NO, NO),
    Action.READ_GROUP: (OWN, ANY, NO, NO, NO),
    Action.LIST_GROUPS: (ANY, ANY, NO, NO, NO),
    Action.CANCEL: (OWN, ANY, NO, NO, NO),
    Action.HOLD: (OWN, ANY, NO, NO, NO),
    Action.MOVE: (OWN, ANY, NO, NO, NO),
    Action.RELEASE: (OWN, ANY, NO, NO, NO),
    Action.RETRY: (OWN, ANY, NO, NO, NO),
    Action.DROP: (OWN, ANY, NO, NO, NO),
    Action.READ_SITES: (ANY, ANY, NO, NO, NO),
    Action.READ_DATASETS: (ANY, ANY, NO, NO, NO),
    Action.ADD_DATASET: (NO, ANY, NO, NO, NO),
    Action.READ_INFO: (ANY, ANY, NO, NO, NO),
    Action.READ_QUEUE: (ANY, ANY, NO, NO, NO),
    Action.ENTER_PAGES: (ANY, ANY, NO, NO, NO),
    Action.STOP: (NO, ANY, NO, NO, NO),
    Action.REMOVE_MACHINE: (NO, ANY, NO, NO, NO),
    Action.PROMOTE: (NO, ANY, NO, NO, NO),
    Action.DIAGNOSE: (NO, ANY, NO, NO, NO),
    Action.INVITE: (NO, ANY, NO, NO, NO),
    Action.OPERATE: (NO, ANY, NO, NO, NO),
    Action.DRAIN: (NO, ANY, NO, NO, NO),
    Action.RULE_VO: (NO, ANY, NO, NO, NO),
    Action.QUOTE: (NO, NO, ANY, NO, NO),
    Action.OFFER: (NO, NO, OWN, NO, NO),
    Action.REPORT: (NO, NO, OWN, NO, NO),
    Action.ACKNOWLEDGE: (NO, NO, OWN, NO, NO),
    Action.WITNESS: (NO, NO, OWN, NO, NO),
    Action.ATTACH: (NO, NO, NO, OWN, NO),
    Action.FETCH_INPUT: (NO, NO, NO, OWN, NO),
}
ROLES = (Role.USER, Role.OPERATOR, Role.PEER, Role.MEMBER, Role.NOBODY)
CASES = [(action, role, row[at]) for action, row in MATRIX.items() for at, role in enumerate(ROLES)]


def test_every_action_and_every_role_stands_in_the_matrix() -> None:
    """A new action without an entry here fails, and so does one that is nobody's to do."""
    assert set(MATRIX) == set(Action)
    assert set(ROLES) == set(Role) == set(TABLE)
    assert all(any(word != NO for word in row) for row in MATRIX.values())


@pytest.mark.parametrize(("action", "role", "word"), CASES)
def test_the_table_is_the_matrix(action: Action, role: Role, word: str) -> None:
    me = Principal(role, "me@vo")
    assert (authorise(me, action, "me@vo") == "") == (word in (OWN, ANY))
    assert (authorise(me, action, "you@vo") == "") == (word == ANY)
    assert (authorise(me, action) == "") == (word == ANY)


def test_a_refusal_names_who_what_and_whose() -> None:
    assert authorise(Principal(Role.NOBODY, ""), Action.SUBMIT) == "nobody may not submit"
    assert authorise(Principal(Role.USER, "eve@vo"), Action.CANCEL, "bob@vo") == (
        "user eve@vo may not cancel what belongs to bob@vo"
    )
    why = authorise(Principal.peer(SiteId("beta")), Action.REPORT, None)
    assert why == "peer beta may not report what belongs to nobody"


@pytest.mark.parametrize("name", ["", "bob@vo "])
def test_a_name_that_is_empty_or_nearly_right_owns_nothing(name: str) -> None:
    assert authorise(Principal(Role.USER, name), Action.READ_GROUP, "bob@vo")
    assert authorise(Principal(Role.USER, ""), Action.READ_GROUP, "")


def test_a_peer_with_a_users_name_is_still_a_peer() -> None:
    assert authorise(Principal(Role.PEER, "alice@vo"), Action.CANCEL, "alice@vo")
