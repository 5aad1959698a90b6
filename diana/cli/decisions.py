"""A placement decision as text: the sentence, the plan, the cost table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diana.cli import output

if TYPE_CHECKING:
    from diana.wire.client_messages import Decision

HEADER = (
    "SITE", ">TOTAL", ">WAIT", ">STAGE IN", ">RUN", ">STAGE OUT", ">NETWORK", ">BYTES IN", ">SLOTS", ">AHEAD", ">RTT",
    ">RATE", ">AGE",
)  # fmt: skip


def show_decision(decision: Decision) -> None:
    output.heading(decision.reason or f"plan: {decision.plan}")
    whole = output.seconds(decision.whole_s) if decision.whole_s >= 0 else "at no single site"
    split = output.seconds(decision.split_s) if decision.split_s > 0 else "-"
    print(f"whole: {whole}; split: {split}")
    if decision.parts:
        print()
        output.print_table(
            ("PART AT", ">JOBS", ">BYTES IN", ">PREDICTED END"),
            [
                (part.site, f"{part.jobs:,}", output.size(part.bytes_in), output.seconds(part.predicted_end_s))
                for part in decision.parts
            ],
        )
    _show_costs(decision)


def _show_costs(decision: Decision) -> None:
    feasible = [cost for cost in decision.candidates if not cost.rejected]
    rejected = [cost for cost in decision.candidates if cost.rejected]
    if feasible:
        print()
        output.print_table(
            HEADER,
            [
                (
                    cost.site,
                    output.seconds(cost.total_s),
                    output.seconds(cost.wait_s),
                    output.seconds(cost.stage_in_s),
                    output.seconds(cost.run_s),
                    output.seconds(cost.stage_out_s),
                    output.seconds(cost.network_s),
                    output.size(cost.bytes_in),
                    cost.slots,
                    output.seconds(cost.work_ahead_s),
                    output.seconds(cost.rtt_s or -1),
                    output.rate(cost.bytes_per_s),
                    output.seconds(cost.age_s),
                )
                for cost in feasible
            ],
        )
    for cost in rejected:
        print(f"not {cost.site}: {cost.rejected}")
