"""Names of sites given out, the signers that gave them, and the sites made signers (PROMISES 5.2, SPEC U1).

Each signer keeps pages of its own in the VO's ledger, which only grow and which every site holds. So names given out by
one signer are known to the others and outlive its loss and every restart, and 10^4 names are some eighty statements.
Two signers may give out one name within the same seconds: to prevent that would take consensus. It is found later by
those who meet both sites.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from diana.model.ids import SiteId
from diana.model.trust.ledger import MOST_PAGES, NAMED, Signed, Statement, names_in, page_about, signers_in

ON_PAGE = 128
"""Names after which a page is full. Pages are small because each new name sends its page again."""

Kept = Mapping[str, Signed]
"""The ledger: `about` of a statement -> the newest statement about it."""


def pages(kept: Kept, signer: str = "") -> Iterator[Statement]:
    """Pages of all signers, or of one; by signer and number."""
    mine = f"{NAMED}{signer}/" if signer else NAMED
    found = [kept[about].statement for about in kept if about.startswith(mine)]
    return iter(sorted(found, key=lambda page: (page.signer, len(page.about), page.about)))


def given_by(kept: Kept, name: str) -> tuple[SiteId, ...]:
    """Signers that gave out the name, in order."""
    return tuple(dict.fromkeys(page.signer for page in pages(kept) if name in names_in(page)))


def signers(kept: Kept, banned: Iterable[str] = ()) -> tuple[str, ...]:
    """Sites that a page lists as made signers, and those that have signed a page; without the `banned`."""
    found = {page.signer for page in pages(kept)}.union(*(signers_in(page) for page in pages(kept)))
    return tuple(sorted(found - set(banned)))


def additions(
    kept: Kept, signer: SiteId, names: Iterable[str], made: Iterable[str] = (), *, wall_s: float
) -> list[Statement]:
    """Return the pages of `signer` that change when it has given out `names`, of which `made` are signers. Empty:
    nothing is new. ValueError when it has no room for more."""
    books = {_number(page): (set(names_in(page)), set(signers_in(page))) for page in pages(kept, signer)}
    made, changed = set(made), set()
    for name in sorted(set(names) | made):
        at = next((at for at, (on, _) in books.items() if name in on), -1)
        if at < 0:
            at = max(books, default=0)
            at += at in books and len(books[at][0]) >= ON_PAGE
            if at >= MOST_PAGES:
                raise ValueError(f"{signer} has given out {MOST_PAGES * ON_PAGE:,} names; invite at another signer")
        on, signing = books.setdefault(at, (set(), set()))
        if name not in on or (name in made and name not in signing):
            on.add(name)
            signing.update({name} & made)
            changed.add(at)
    return [_page(signer, at, *books[at], wall_s) for at in sorted(changed)]


def united(mine: Statement, other: Statement) -> Statement:
    """Unite two pages of the same number, so that a signer whose journal is an older copy regains the names it gave out
    later."""
    names, made = names_in(mine) | names_in(other), signers_in(mine) | signers_in(other)
    return _page(mine.signer, _number(mine), names, made, max(mine.wall_s, other.wall_s))


def orphaned(kept: Kept, signer: str) -> tuple[set[str], set[str]]:
    """(names, signers made) that only this signer's pages list."""
    mine: tuple[set[str], set[str]] = (set(), set())
    others: tuple[set[str], set[str]] = (set(), set())
    for page in pages(kept):
        names, made = mine if page.signer == signer else others
        names.update(names_in(page))
        made.update(signers_in(page))
    return mine[0] - others[0], mine[1] - others[1]


def _number(page: Statement) -> int:
    return int(page.about.rpartition("/")[2])


def _page(signer: SiteId, at: int, names: Iterable[str], made: Iterable[str], wall_s: float) -> Statement:
    values = {"names": sorted(names), "signers": sorted(made)}
    return Statement(kind="named", about=page_about(signer, at), values=values, wall_s=wall_s, signer=signer)
