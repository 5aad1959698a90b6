"""`[[maintenance]]` of `site.toml`: read as meant, unrolled week by week, told when anything changed."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from diana.engine.journal.events import CalendarTold, Event
from diana.errors import UsageError
from diana.node.config.maintenance import WEEKS, Announcer, wall_time
from diana.node.config.site_file import parse_config
from diana.node.config.text import config_text

GOOD = """site = "alpha"
vo = "lab"
[[maintenance]]
from = 2031-05-01T08:00:00+02:00
to = "2031-05-01 18:00Z"
reason = "new switches"
[[maintenance]]
weekly = "Saturday 22:00"
hours = 6
zone = "Europe/Berlin"
machines = ["slurm"]
"""


def test_both_kinds_are_read_and_written_back() -> None:
    config = parse_config(GOOD)
    assert parse_config(config_text(config)) == config
    once, weekly = config.maintenance
    (window,) = once.windows(0.0)
    assert (window.from_wall_s, window.to_wall_s) == (
        wall_time("", "2031-05-01T06:00Z"),
        wall_time("", "2031-05-01T18:00Z"),
    )
    assert window.reason == "new switches" and window.machines == ()
    assert weekly.machines == ("slurm",)
    assert not list(once.windows(window.to_wall_s))


@pytest.mark.parametrize(
    "now", ["2031-03-22T21:59+01:00", "2031-03-23T02:00+01:00", "2031-03-19T12:00Z", "2031-10-26T00:30Z"]
)
def test_a_weekly_one_is_told_for_weeks_by_the_clock_of_its_zone_and_while_it_lasts(now: str) -> None:
    wall_s = wall_time("", now)
    windows = list(parse_config(GOOD).maintenance[1].windows(wall_s))
    assert WEEKS <= len(windows) <= WEEKS + 1 and windows == sorted(windows, key=lambda w: w.from_wall_s)
    for window in windows:
        begin = datetime.fromtimestamp(window.from_wall_s, ZoneInfo("Europe/Berlin"))
        assert (begin.weekday(), begin.hour, begin.minute) == (5, 22, 0)
        assert window.to_wall_s - window.from_wall_s == 6 * 3600 and window.to_wall_s > wall_s
    assert windows[0].from_wall_s <= wall_s + 7 * 86400 + 3600


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('from = "2031-05-01T08:00"\nto = "2031-05-02T08:00Z"', "from: '2031-05-01T08:00' has no zone; append Z"),
        ('from = 5\nto = "2031-05-02T08:00Z"', "site.toml:maintenance 1: "),
        ('from = "2031-05-03T08:00Z"\nto = "2031-05-02T08:00Z"', "want a time after from"),
        ('to = "2031-05-02T08:00Z"', "from: '': want a time with its zone"),
        ('reason = "x"', "from: want from and to, or weekly and hours"),
        ('weekly = "someday 22:00"\nhours = 1', 'want a day and a time, such as "sat 22:00"'),
        ('weekly = "sat 25:00"\nhours = 1', 'want a day and a time, such as "sat 22:00"'),
        ('weekly = "sat 22:00"', "hours: 0.0: want more than 0, at most 167"),
        ('weekly = "sat 22:00"\nhours = 1\nzone = "Mars/Base"', "zone: 'Mars/Base': no time zone here"),
        ('weekly = "sat 22:00"\nfrom = "2031-05-01T08:00Z"', "want from and to, or weekly and hours"),
        ('until = "x"', "until: unknown key; known are from, hours, machines, reason, to, weekly, zone"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_in_one_line(table: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_config(f'site = "alpha"\nvo = "lab"\n[[maintenance]]\n{table}\n')
    assert says in str(refused.value) and "\n" not in str(refused.value)
    assert str(refused.value).startswith("site.toml:maintenance 1: ")


def test_the_engine_is_told_anew_when_the_wall_clock_is_set_and_when_a_window_is_over() -> None:
    told: list[Event] = []
    wall = [datetime(2031, 4, 30, tzinfo=UTC).timestamp()]
    announcer = Announcer(parse_config(GOOD).maintenance[:1], lambda: 100.0, told.append, lambda: wall[0])
    for step_s in (0.0, 0.2, 3600.0, 2 * 86400.0):
        wall[0] += step_s
        announcer.tell()
    calls = [event for event in told if isinstance(event, CalendarTold)]
    assert [len(call.windows) for call in calls] == [1, 1, 0]
    assert calls[1].wall_ahead_s - calls[0].wall_ahead_s == pytest.approx(3600.2)
    announcer.use(())
    assert len(told) == 3
