"""Whether a site may have jobs of a group, by what the job file says of sites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from diana.engine.matching import facts
from diana.engine.messages.messages import Quote
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.job.resources import request_of
from diana.model.job.spec import GroupSpec
from diana.model.learned import equations, fit_key
from diana.model.sketch import Quantiles
from diana.model.views.decision import FailedRequirement
from diana.policy.grads.models import EquationModel, Foreseen, foreseen
from diana.policy.requirements.expressions import Untold
from diana.policy.requirements.group import GroupRequirements, read_kept
from diana.policy.requirements.names import Value


def allowed(spec: GroupSpec, site: SiteId) -> bool:
    """True if the group names the site, or names none, and does not exclude it."""
    return (not spec.sites or site in spec.sites) and site not in spec.not_sites


class Match:
    """The requirements of one group, read once for all sites that are looked at."""

    def __init__(self, core: Context, spec: GroupSpec) -> None:
        self._core, self._spec = core, spec
        self.requirements: GroupRequirements | None = read_kept(spec) if spec.requires else None
        """None: the group has none."""
        self._model: EquationModel | Untold | None = _model(spec) if spec.model and not spec.is_gang else None
        """The model of a gang speaks of its components together (`matching/foreseeing.py`)."""
        self.passed_over: dict[SiteId, str] = {}
        """First condition that a site surely does not meet by its summary, of those that were looked at."""
        self._of_components = any(each.requires for each in spec.components)
        self._request = request_of(spec)

    @property
    def asks(self) -> bool:
        """True if the values of sites matter for the group."""
        return self.requirements is not None or bool(self._spec.model) or self._of_components

    @property
    def picks(self) -> bool:
        """True if few sites may do by what their summaries tell, beside their processors."""
        return self.requirements is not None or bool(self._request.amounts)

    def foretold(self, site: SiteId, values: Mapping[str, Value], past: Quantiles | None) -> Foreseen | Untold | None:
        """Return the run time of one job at a site by the group's model, corrected by past runs, or why the model
        gives none; None: the group has no model."""
        if self._model is None or isinstance(self._model, Untold):
            return self._model
        seconds = self._model.seconds(values, home=site == self._core.site)
        return seconds if isinstance(seconds, Untold) else foreseen(seconds, past)

    def is_home(self, site: SiteId) -> bool:
        """True for this site, to which there is no link."""
        return site == self._core.site

    def may_take(self, site: SiteId) -> bool:
        """True unless the group excludes the site, or the site surely lacks something by its summary."""
        if not allowed(self._spec, site):
            return False
        peer = self._core.view.peers.get(site)
        told = peer.summary if peer is not None and site != self._core.site else None
        return (told is None or facts.may_fit(told, self._request)) and self.may_meet(site)

    def may_meet(self, site: SiteId) -> bool:
        """True unless the site surely does not meet the group's requirements by its summary."""
        if self.requirements is None:
            return True
        if site == self._core.site:
            return self.requirements.may_hold(facts.of_home(self._core))
        peer = self._core.view.peers.get(site)
        if peer is None or peer.summary is None:
            return True
        if lacks := self.requirements.first_lacking(facts.of_summary(peer.summary)):
            self.passed_over[site] = lacks
        return not lacks

    def values(
        self, site: SiteId, quote: Quote, run_s: float, data: tuple[int, Mapping[SiteId, int]]
    ) -> dict[str, Value]:
        """Return the values of a site, and of the link to it, for the expressions of a group that has any. `data`:
        bytes of its inputs, and bytes of them that each site holds."""
        total, at = data
        held: dict[str, Value] = {"site.data_bytes": float(at.get(site, 0)), "group.data_bytes": float(total)}
        return {
            **facts.of_quote(site, quote, run_s),
            **facts.of_resources(self._core, site),
            **held,
            **(facts.of_link(self._core, site) or {}),
        }

    def failed(self, site: SiteId, values: Mapping[str, Value]) -> tuple[FailedRequirement, ...]:
        """Return what does not hold at a site."""
        if self.requirements is None:
            return ()
        return self.requirements.failed(values, home=site == self._core.site)

    def rank(self, values: Mapping[str, Value]) -> float | FailedRequirement | None:
        """Return the rank of a site by its values, or why it has none; None: the group ranks no sites."""
        wants = self.requirements
        if wants is None or wants.rank is None:
            return None
        found = wants.rank.of({**wants.own, **values})
        return wants.rank.lacking(found) if isinstance(found, Untold) else found


def with_model(core: Context, spec: GroupSpec, owner: str) -> GroupSpec:
    """Return the spec with the model that past runs have taught this site, if it asks for one and they do; else as it
    is."""
    if not spec.learned:
        return spec
    terms = core.state.run_fits.terms(fit_key(spec), owner)
    return structs.replace(spec, model=equations(spec, terms)) if terms is not None else spec


def _model(spec: GroupSpec) -> EquationModel | Untold:
    """Read the model of a group that was accepted once; a release that cannot read it says so at each site."""
    try:
        return EquationModel(spec)
    except ValueError as error:
        return Untold(str(error))


def in_words(failed: Iterable[FailedRequirement]) -> str:
    """Say in one line what a site does not meet."""
    texts = [one.text for one in failed]
    return f"does not meet: {texts[0]}{f' (and {len(texts) - 1} more)' * (len(texts) > 1)}"
