"""The account of a scenario played on real nodes, as the report the simulator gives: times in the scenario's
seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from diana.client import Client
from diana.model.facts import OUT_OF_MEMORY, Facts, Outcome
from diana.model.ids import SiteId
from diana.sim.load.workload import Submission
from diana.sim.report import report as rp
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import NAMED, unmet
from diana.trial.conduct import TrialOutcome
from diana.trial.ground import Testbed
from diana.trial.happenings import Happenings
from diana.wire.client.messages import ExplainResponse, ResultsChunk

REAL_KEYS = ("groups", "sites", "faults", "expect")
"""Parts of the simulator's report that real nodes can tell."""
_FAULTS_ONLY_SIMULATED = ("seeds", "violations", "digest")


def _outcome(name: str) -> int:
    """Return the outcome of a result as the client spells it; one for want of memory is a failure in facts."""
    return int(Outcome.FAILED if name == OUT_OF_MEMORY.lower() else Outcome[name.upper()])


class _Site:
    """Sums over the jobs that ended at one site."""

    def __init__(self) -> None:
        self.executed = 0
        self.busy_s = 0.0
        self.bytes_in = 0


class Accountant:
    def __init__(self, ground: Testbed, scenario: Scenario, seed: int, ended: TrialOutcome, factor: float) -> None:
        self._ground = ground
        self._scenario = scenario
        self._seed = seed
        self._ended = ended
        self._factor = factor
        self._sites = {spec.name: _Site() for spec in scenario.sites}
        self._doubled = 0
        self._leaders = Happenings(ground, factor)

    def report(self, submissions: Sequence[Submission]) -> rp.Report:
        """Asks the nodes, which must be up, for every result."""
        entries: dict[str, list[Submission]] = {}
        for one in submissions:
            entries.setdefault(one.entry, []).append(one)
        groups = {name: self._entry(some) for name, some in entries.items()}
        report = rp.Report(
            seed=self._seed,
            options={},
            groups=groups,
            sites={name: self._site(name) for name in self._sites},
            network=rp.NetworkReport(sent=0, arrived=0, events=0, simulated_s=self._ended.took_s * self._factor),
            faults=sum(self._ended.happened.values()),
            fault_kinds=dict(sorted(self._ended.happened.items())),
            lost=0,
            doubled=self._doubled,
            stuck=sum(_live(group) for group in groups.values()),
            violations=[],
            digest="",
            unmet=[],
        )
        report.unmet = unmet(self._scenario, report)
        return report

    def _entry(self, submissions: list[Submission]) -> rp.GroupReport:
        first = min(one.submit_s for one in submissions)
        tally, statuses, predicted_s = rp.Tally(first), [], 0.0
        for one in submissions:
            status = self._ended.statuses.get(one.name)
            if one.group is None or status is None:
                return self._refused(one)
            statuses.append(status)
            client = self._leaders.leader(one.site).client
            explained = client.explain(one.group)
            predicted_s = max(predicted_s, explained.predicted_s * self._factor)
            self._count(one, client, tally)
            self._moved(explained)
        return rp.GroupReport(
            group=_named([status.group for status in statuses]),
            state=next((one.state for one in statuses if one.state != "done"), statuses[0].state),
            note="; ".join(one.note for one in statuses if one.note),
            jobs=sum(one.jobs for one in statuses),
            done=sum(one.done for one in statuses),
            failed=sum(one.failed for one in statuses),
            cancelled=sum(one.cancelled for one in statuses),
            held=sum(one.held for one in statuses),
            unreachable=sum(one.unreachable for one in statuses),
            sites=tally.sites(),
            **tally.times(),
            bytes_moved=sum(one.bytes_moved for one in statuses),
            predicted_s=predicted_s,
        )

    def _count(self, one: Submission, client: Client, tally: rp.Tally) -> None:
        seen: Counter[tuple[int, int]] = Counter()
        for chunk in client.result_chunks(str(one.group)):
            facts = self._facts(chunk)
            tally.add(facts, one.first, one.submit_s)
            site = self._sites.setdefault(chunk.site, _Site())
            for index, attempt, started_s, ended_s in zip(
                facts.indices, facts.attempts, facts.started_s, facts.ended_s, strict=True
            ):
                seen[index, attempt] += 1
                if started_s >= 0:
                    site.executed += 1
                    site.busy_s += (ended_s - started_s) * one.work.processors
        self._doubled += sum(times > 1 for times in seen.values())

    def _facts(self, chunk: ResultsChunk) -> Facts:
        """The facts, with times in scenario seconds since the beginning."""

        def scaled(walls_s: tuple[float, ...]) -> list[float]:
            return [(wall_s - self._ended.began_wall_s) * self._factor if wall_s > 0 else -1.0 for wall_s in walls_s]

        return Facts(
            site=SiteId(chunk.site),
            indices=list(chunk.indices),
            attempts=list(chunk.attempts),
            outcomes=[_outcome(name) for name in chunk.outcomes],
            exit_codes=list(chunk.exit_codes),
            started_s=scaled(chunk.started_s),
            ended_s=scaled(chunk.ended_s),
            cpu_s=list(chunk.cpu_s),
            max_rss_bytes=list(chunk.max_rss_bytes),
            log_segments=[],
            log_offsets=[],
            log_lengths=[],
            log_truncated=[],
            signals=list(chunk.signals),
        )

    def _moved(self, explained: ExplainResponse) -> None:
        for part in explained.outcomes:
            self._sites.setdefault(part.site, _Site()).bytes_in += part.bytes_in

    def _site(self, name: str) -> rp.SiteReport:
        spec = next(one for one in self._scenario.sites if one.name == name)
        site, machines = self._sites[name], self._ground.of(name)
        slots = spec.slots + sum(one.slots for one in spec.machines)
        capacity_s = max(1e-9, slots * self._ended.took_s * self._factor)
        return rp.SiteReport(
            slots=slots,
            speed=self._scenario.site_settings(spec).speed,
            executed=site.executed,
            busy_fraction=site.busy_s / capacity_s,
            bytes_in=site.bytes_in,
            boots=sum(machine.boots for machine in machines if machine.role != "member"),
            warnings=sum(machine.warnings() for machine in machines),
        )

    def _refused(self, one: Submission) -> rp.GroupReport:
        return rp.GroupReport(
            group=one.group or "",
            state="refused" if one.refused else "unanswered",
            note=one.refused or one.why,
            jobs=one.work.jobs,
            sites={},
            predicted_s=0.0,
            done=0,
            failed=0,
            cancelled=0,
            held=0,
            unreachable=0,
            bytes_moved=0,
            **rp.Tally(one.submit_s).times(),
        )


def selected(report: rp.Report, keys: tuple[str, ...]) -> dict[str, Any]:
    """The parts of the scenario's report that real nodes can tell, and always what was expected."""
    wanted = [key for key in keys if key in REAL_KEYS]
    chosen = rp.selected([report], [*wanted, *(() if "expect" in wanted else ("expect",))])
    return {key: value for key, value in chosen.items() if key not in _FAULTS_ONLY_SIMULATED}


def _live(group: rp.GroupReport) -> int:
    """Jobs that came to no end; a refusal is an end."""
    if group.state == "refused":
        return 0
    return group.jobs - group.done - group.failed - group.cancelled - group.held


def _named(groups: list[str]) -> str:
    return ",".join(groups) if len(groups) <= NAMED else f"{groups[0]},...,{groups[-1]} ({len(groups)} groups)"
