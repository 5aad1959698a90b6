"""The picture: the merged spectrum with the Z where it belongs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

INK, PALE, BLUE, ORANGE = "#1f2933", "#9aa5b1", "#2f6db3", "#d9822b"
Z_MASS = 91.19


def draw(path: Path, low: float, high: float, counts: Sequence[int], jobs_at: Mapping[str, int], note: str) -> None:
    """Write a PNG of the histogram, and beside it how many jobs ran where."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"font.size": 10, "axes.edgecolor": PALE, "text.color": INK, "axes.labelcolor": INK}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), width_ratios=(4, 1), layout="constrained")
        try:
            _spectrum(left, low, high, counts)
            _sites(right, jobs_at)
            figure.suptitle(
                f"Invariant mass of {sum(counts):,} muon pairs", fontsize=14, fontweight="bold", x=0.01, ha="left"
            )
            figure.supxlabel(note, fontsize=8, color=PALE, x=0.01, ha="left")
            figure.savefig(path, dpi=150)
        finally:
            plt.close(figure)


def _spectrum(axes: Any, low: float, high: float, counts: Sequence[int]) -> None:
    width = (high - low) / len(counts)
    edges = [low + k * width for k in range(len(counts) + 1)]
    axes.stairs(counts, edges, fill=True, color=BLUE, alpha=0.25)
    axes.stairs(counts, edges, color=BLUE, linewidth=1.2)
    peak = max((k for k in range(len(counts)) if 80 <= edges[k] <= 100), key=lambda k: counts[k], default=0)
    axes.axvline(Z_MASS, color=ORANGE, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate(
        f"Z boson\n{Z_MASS} GeV",
        xy=(Z_MASS, counts[peak]),
        xytext=(Z_MASS + 6, counts[peak] * 0.93),
        color=ORANGE,
        fontweight="bold",
    )
    axes.set_xlim(low, high)
    axes.set_ylim(0, max(1, *counts) * 1.08)
    axes.set_xlabel("mass of the pair (GeV)")
    axes.set_ylabel(f"pairs per {width:g} GeV")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)


def _sites(axes: Any, jobs_at: Mapping[str, int]) -> None:
    names = list(jobs_at)
    bars = axes.barh(names, [jobs_at[name] for name in names], color=BLUE, alpha=0.75, height=0.6)
    axes.bar_label(bars, padding=3, color=INK)
    axes.invert_yaxis()
    axes.set_title("jobs by site", fontsize=10, loc="left")
    axes.set_xticks([])
    axes.margins(x=0.25)
    axes.tick_params(left=False)
    axes.spines[:].set_visible(False)
