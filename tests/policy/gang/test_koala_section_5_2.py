"""The placement queues (Mohamed & Epema, section 5.2; SPEC K4)."""

import itertools
import math

import pytest

from diana.policy.gang.queues import GangLevel, ScanWeights, promoted


def test_the_papers_weights_scan_the_high_queue_twice_before_the_lower_ones():
    assert [level.short for level in ScanWeights(1, 1, 1, 2, 1, 1).round()] == ["SH", "H", "H", "L", "SL"]


def test_higher_queues_are_scanned_as_often_as_their_weight_says():
    levels = [level.short for level in ScanWeights(2, 1, 2, 1, 1, 1).round()]
    assert levels == ["SH", "SH", "H", "SH", "SH", "H", "L", "SL"]


def test_scans_go_round_and_round():
    scans = list(itertools.islice(ScanWeights().scans(), 10))
    assert scans[:5] == scans[5:]


def test_weights_against_the_papers_inequalities_are_doubted_and_not_refused():
    assert len(ScanWeights(1, 2, 1, 2, 1, 1).doubts()) == 2
    assert ScanWeights(1, 1, 2, 1, 1, 1).doubts() == []


@pytest.mark.parametrize(
    ("level", "tries", "per_level", "then"),
    [
        ("low", 2, 3, "low"),
        ("low", 3, 3, "high"),
        ("low", 6, 3, "super-high"),
        ("high", 100, 3, "super-high"),
        ("super-low", 1000, 3, "super-low"),
        ("low", 1000, math.inf, "low"),
    ],
)
def test_a_gang_rises_a_level_after_each_p_tries_and_super_low_never(level, tries, per_level, then):
    assert promoted(GangLevel(level), tries, per_level) == then
