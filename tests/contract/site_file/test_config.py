"""`site.toml`: good files read as meant, bad ones refused with one line that says where, what and the mend."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.node.config.site_file import SiteConfig, host_port, is_loopback, load_config, parse_config
from diana.node.config.text import config_text, write_config

_GOOD = 'site = "alpha"\nvo = "lab"\n'


def test_two_lines_are_a_whole_configuration() -> None:
    config = parse_config(_GOOD)
    assert config == SiteConfig(site=SiteId("alpha"), vo="lab")
    assert (config.listen, config.zeroconf, config.settings) == ("127.0.0.1:7400", True, Settings())


def test_every_key_is_read() -> None:
    config = parse_config(
        _GOOD + 'listen = "[::1]:0"\nadvertise = "alpha.example:7400"\npeers = ["b:1", "[::2]:2"]\nzeroconf = false\n'
        'operators = ["root"]\n[settings]\nslots = 8\nspeed = 2\n[users]\nann = "a@lab"\n1000 = ""\n'
    )
    assert (config.listen, config.advertise, config.peers) == ("[::1]:0", "alpha.example:7400", ("b:1", "[::2]:2"))
    assert (config.zeroconf, config.operators, config.users) == (False, ("root",), {"ann": "a@lab", "1000": ""})
    assert (config.settings.slots, config.settings.speed) == (8, 2.0)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("0", ()), ("2", ("0", "1")), ("[1, 3]", ("1", "3")), ('["GPU-8932f937", "0"]', ("GPU-8932f937", "0"))],
)
def test_gpus_are_told_by_their_number_or_by_name(written: str, meant: tuple[str, ...]) -> None:
    config = parse_config(f"{_GOOD}gpus = {written}")
    assert config.gpus == meant
    assert parse_config(config_text(config)) == config


def test_what_an_operator_declares_is_told_by_name_and_number() -> None:
    config = parse_config(f"{_GOOD}[resources]\ntape = 1\nfpga = 2\nidle = 0")
    assert config.resources == {"fpga": 2, "idle": 0, "tape": 1}
    assert parse_config(config_text(config)) == config
    plain = parse_config(_GOOD)
    assert not plain.resources and "\n[resources]" not in config_text(plain)


def test_what_an_operator_says_of_the_site_is_kept_as_texts() -> None:
    said = 'tier = "gold"\npower_kw = 3.5\nracks = 4\nshare = 2.0\nssd = true\nmotto = "für alle"'
    config = parse_config(f"{_GOOD}[properties]\n{said}")
    assert config.settings.properties == {
        "motto": "für alle",
        "power_kw": "3.5",
        "racks": "4",
        "share": "2",
        "ssd": "true",
        "tier": "gold",
    }
    assert parse_config(config_text(config)) == config
    assert "\n[properties]" not in config_text(parse_config(_GOOD))


_BAD = [
    *(
        (f"{_GOOD}[properties]\n{bad}", f"site.toml:properties{told}")
        for bad, told in (
            ("\n".join(f"p{n} = 1" for n in range(17)), ": 17 of them; want at most 16"),
            ("rack = { row = 1 }", ".rack: a table is no text and no finite number; write one"),
            ("racks = ['a', 'b']", ".racks: a list is no text and no finite number; write one"),
            ("power_kw = nan", ".power_kw: nan is no text and no finite number; write one"),
            ("power_kw = -inf", ".power_kw: -inf is no text and no finite number; write one"),
            (f"power_w = 1{'0' * 400}", ".power_w: 401 characters; want at most 100"),
            ("properties = 3", ".properties: a table within itself; write each property on a line"),
            ("size = 3", ".size: a word of the language of requirements; choose another name"),
            ("in = 'a'", ".in: a word of the language of requirements; choose another name"),
            ("rack-no = 3", ".rack-no: no name of a property; want letters, digits and _, no digit first, 40 at most"),
            ("'größe' = 3", ".größe: no name of a property; want letters, digits and _, no digit first, 40 at most"),
            (
                f"{'x' * 41} = 3",
                f".{'x' * 41}: no name of a property; want letters, digits and _, no digit first, 40 at most",
            ),
            ("zeroconf = false", ".zeroconf: unknown key; it belongs above the first [heading] of the file"),
            ("slots = 8", ".slots: unknown key; it belongs under [settings] as settings.slots"),
            (f"long = '{'x' * 101}'", ".long: 101 characters; want at most 100"),
            ('tab = "a\\tb"', ".tab: it holds a character that cannot be printed; remove it"),
            (
                "\n".join(f"p{n} = '{'x' * 90}'" for n in range(6)),
                ": 552 bytes of names and values; they travel to all sites, want at most 512",
            ),
        )
    ),
    (f"properties = 3\n{_GOOD}", "site.toml:properties: 3 is not a table; write [properties]"),
    (
        f"{_GOOD}[settings]\nproperties = {{ tier = 'gold' }}",
        "site.toml:settings.properties: unknown key; write [properties], a table of its own",
    ),
    *(
        (f"{_GOOD}[settings]\ngang_quota = {bad}", f"site.toml:settings.{told}; want 0.001 to 1")
        for bad, told in ((bad, f"gang_quota: {bad} is out of range") for bad in ("0.0", "-1.0", "1.5", "nan"))
    ),
    (
        _GOOD + '[settings]\ngang_quota = "half"',
        "site.toml:settings.gang_quota: 'half' is not a number; write it without quotes",
    ),
    (
        _GOOD + '[settings]\ngang_placement = "cluster-mim"',
        "site.toml:settings.gang_placement: 'cluster-mim': no such placement; did you mean cluster-min? Known here: "
        "close-to-files, cluster-min, flexible-min, grads, turnaround, worst-fit",
    ),
    (
        _GOOD + "[settings]\ngang_placement = 3",
        "site.toml:settings.gang_placement: 3 is not a text; write it in quotes",
    ),
    (_GOOD + "resources = 3", "site.toml:resources: 3 is not a table; write [resources]"),
    (
        _GOOD + '[resources]\nfpga = "2"',
        "site.toml:resources.fpga: '2' is not a whole number; write it without quotes and point",
    ),
    (
        _GOOD + "[resources]\nfpga = 0.5",
        "site.toml:resources.fpga: 0.5 is not a whole number; write it without quotes and point",
    ),
    (
        _GOOD + "[resources]\nfpga = true",
        "site.toml:resources.fpga: true is not a whole number; write it without quotes and point",
    ),
    (_GOOD + "[resources]\nfpga = -1", "site.toml:resources.fpga: -1 is out of range; want 0 to 1000000"),
    (
        _GOOD + "[resources]\nfpga = 1" + "0" * 30,
        "site.toml:resources.fpga: about 2^99 is out of range; want 0 to 1000000",
    ),
    (
        _GOOD + "[resources]\n" + "\n".join(f"thing-{number} = 1" for number in range(17)),
        "site.toml:resources: names 17 resources; want at most 16",
    ),
    (_GOOD + "[resources]\ngpu = 1", "site.toml:resources.gpu: too near to another key; did you mean gpus?"),
    (_GOOD + "[resources]\ncups = 4", "site.toml:resources.cups: too near to another key; did you mean cpus?"),
    (_GOOD + '[resources]\nmem = "4G"', "site.toml:resources.mem: too near to another key; did you mean memory?"),
    (
        _GOOD + "[resources]\ngpus = 2",
        "site.toml:resources.gpus: not declared here; write gpus above the first [heading] of the file",
    ),
    (
        _GOOD + "[resources]\nprocessors = 4",
        "site.toml:resources.processors: not declared here; the processors of a site are its settings.slots",
    ),
    (
        _GOOD + '[resources]\nmemory = "4G"',
        "site.toml:resources.memory: not declared here; the memory that a job may have is settings.memory_bytes",
    ),
    (
        _GOOD + "[resources]\nprocessors = 4\nprocessors = 5\n",
        "site.toml: not TOML: Cannot overwrite a value (at line 5, column 15); mend that line",
    ),
    (
        _GOOD + "[resources]\nroot_jobs = true",
        "site.toml:resources.root_jobs: unknown key; it belongs above the first [heading] of the file",
    ),
    (
        _GOOD + "[resources]\nslots = 4",
        "site.toml:resources.slots: unknown key; it belongs under [settings] as settings.slots",
    ),
    (
        _GOOD + '[resources]\n"a\\nb" = 1',
        "site.toml:resources.a b: no name of a resource; want a small letter, then small letters, digits, - and _, "
        "40 at most",
    ),
    (_GOOD + "[resource]\nfpga = 1", "site.toml:resource: unknown key; did you mean resources?"),
    (
        'site = "alpha"\nvo = "lab"\nkeep_failed_s = -1',
        "site.toml:keep_failed_s: -1 is out of range; want 0 to 1e+09",
    ),
    (_GOOD + "max_grace_s = 0", "site.toml:max_grace_s: 0 is out of range; want 1 to 86400"),
    (_GOOD + "max_grace_s = nan", "site.toml:max_grace_s: nan is out of range; want 1 to 86400"),
    ("site = ?", "site.toml: not TOML: Invalid value (at line 1, column 8); mend that line"),
    ('vo = "lab"', 'site.toml:site: missing; add site = "NAME"'),
    ('site = "alpha"', 'site.toml:vo: missing; add vo = "NAME"'),
    (
        'site = "Alpha"\nvo = "lab"',
        "site.toml:site: 'Alpha' is no name; want 1 to 40 lower-case letters, digits and inner hyphens, a letter first",
    ),
    (
        'site = "alpha"\nvo = "my lab"',
        "site.toml:vo: 'my lab' is no name; want 1 to 40 lower-case letters, digits and inner hyphens, a letter first",
    ),
    ("site = 5\nvo = 'lab'", "site.toml:site: 5 is not a text; write it in quotes"),
    (_GOOD + 'lisen = "x"', "site.toml:lisen: unknown key; did you mean listen?"),
    (_GOOD + "slots = 4", "site.toml:slots: unknown key; it belongs under [settings] as settings.slots"),
    (
        _GOOD + "[run_as]\nroot_jobs = true",
        "site.toml:run_as.root_jobs: unknown key; it belongs above the first [heading] of the file",
    ),
    (
        _GOOD + "[settings]\nslots = 2\nroot_jobs = true",
        "site.toml:settings.root_jobs: unknown key; it belongs above the first [heading] of the file",
    ),
    (_GOOD + "max_processes = 0", "site.toml:max_processes: 0 is out of range; want 16 to 4194304"),
    (_GOOD + "slotz = 4", "site.toml:slotz: unknown key; did you mean settings.slots?"),
    (
        _GOOD + "xyzzy = 4",
        "site.toml:xyzzy: unknown key; "
        "known are advertise, clusters, gpus, keep_failed_s, listen, log_format, machine, maintenance, max_grace_s, "
        "max_processes, notify, operators, peers, pin_cpus, resources, role, root, root_jobs, run_as, run_as_program, "
        "settings, site, software, staging, traces, trust, users, vo, web, witness, zeroconf",
    ),
    (
        _GOOD + '[staging]\nurls = ["https"]',
        "site.toml:staging.urls: https: no URL; want one such as https://host/file or s3://bucket/key",
    ),
    (
        _GOOD + '[staging]\nurls = ["s3://bucket"]',
        'site.toml:staging.urls: s3://bucket: would also match longer names; end it in a slash: "s3://bucket/"',
    ),
    (_GOOD + "gpus = -1", "site.toml:gpus: -1 is out of range; want 0 to 256"),
    (
        _GOOD + 'gpus = "2"',
        'site.toml:gpus: \'2\' is no number of GPUs; write how many, as in 2, or their names, as in ["0", "2"]',
    ),
    (
        _GOOD + "gpus = [0, true]",
        'site.toml:gpus: [0, True] is no number of GPUs; write how many, as in 2, or their names, as in ["0", "2"]',
    ),
    (_GOOD + "gpus = [0, 1, 0]", "site.toml:gpus: '0' is no name of one GPU; want an index or a UUID, each once"),
    (_GOOD + 'gpus = ["0,1"]', "site.toml:gpus: '0,1' is no name of one GPU; want an index or a UUID, each once"),
    (_GOOD + "[staging]\nurl = []", "site.toml:staging.url: unknown key; did you mean staging.urls?"),
    (_GOOD + "[settings]\nslot = 4", "site.toml:settings.slot: unknown key; did you mean settings.slots?"),
    (
        _GOOD + '[settings]\nslots = "4"',
        "site.toml:settings.slots: '4' is not a whole number; write it without quotes and point",
    ),
    (
        _GOOD + "[settings]\nslots = 4.5",
        "site.toml:settings.slots: 4.5 is not a whole number; write it without quotes and point",
    ),
    (
        _GOOD + "[settings]\nslots = true",
        "site.toml:settings.slots: true is not a whole number; write it without quotes and point",
    ),
    (
        _GOOD + "[settings]\nsummary_every_s = 60\nsuspect_after_s = 60",
        "site.toml:settings.suspect_after_s = 60: sites that speak every summary_every_s = 60 would count as lost in "
        "between; want more, as 360, or leave it out",
    ),
    (_GOOD + "[settings]\nslots = -1", "site.toml:settings.slots: -1 is out of range; want 0 to 1e+06"),
    (_GOOD + "[settings]\nspeed = nan", "site.toml:settings.speed: nan is out of range; want 0.001 to 1000"),
    (_GOOD + '[settings]\nspeed = "2"', "site.toml:settings.speed: '2' is not a number; write it without quotes"),
    (
        _GOOD + "[settings]\naccept_remote = 1",
        "site.toml:settings.accept_remote: 1 is not true or false; write it without quotes",
    ),
    (
        _GOOD + '[settings]\npriority_mode = "papr"',
        'site.toml:settings.priority_mode: \'papr\' is not "default" or "paper"',
    ),
    (
        _GOOD + '[settings.quotas]\n"a@lab" = "x"',
        "site.toml:settings.quotas: {'a@lab': 'x'} is not a table of numbers; write NAME = 1.0 under a [heading]",
    ),
    (
        _GOOD + '[settings.quotas]\n"a@lab" = -1',
        "site.toml:settings.quotas.a@lab: -1.0 is out of range; want 1e-06 to 1e+12",
    ),
    (_GOOD + "settings = 4", "site.toml:settings: 4 is not a table; write it under a [heading]"),
    (
        _GOOD + '[traces]\nendpoint = "collector:4317"',
        "site.toml:traces.endpoint: 'collector:4317' is no address of a collector; write \"http://HOST:PORT\"",
    ),
    (
        _GOOD + '[traces]\nendpoint = "http://collector"',
        "site.toml:traces.endpoint: 'http://collector' is no address of a collector; write \"http://HOST:PORT\"",
    ),
    (_GOOD + 'zeroconf = "yes"', "site.toml:zeroconf: 'yes' is not true or false; write it without quotes"),
    (_GOOD + 'peers = "b:1"', 'site.toml:peers: \'b:1\' is not a list of texts; write ["...", "..."]'),
    (_GOOD + "peers = [1]", 'site.toml:peers: [1] is not a list of texts; write ["...", "..."]'),
    (_GOOD + 'peers = ["b"]', "site.toml:peers: 'b' is no address; write \"HOST:PORT\""),
    (_GOOD + 'peers = ["b:0"]', "site.toml:peers: 'b:0' is no address; write \"HOST:PORT\""),
    (_GOOD + 'listen = "7400"', "site.toml:listen: '7400' is no address; write \"HOST:PORT\""),
    (_GOOD + 'listen = "::1:7400"', "site.toml:listen: '::1:7400' is no address; write \"HOST:PORT\""),
    (_GOOD + 'listen = "h:65536"', "site.toml:listen: 'h:65536' is no address; write \"HOST:PORT\""),
    (_GOOD + 'advertise = "h:0"', "site.toml:advertise: 'h:0' is no address; write \"HOST:PORT\""),
    (
        _GOOD + "users = [1]",
        'site.toml:users: [1] is not a table of texts; write NAME = "..." under a [heading]',
    ),
    (
        _GOOD + '[users]\nann = "ann"',
        'site.toml:users.ann: \'ann\' is no principal of this VO; write "NAME@lab" or "" for nobody',
    ),
    (
        _GOOD + '[users]\nann = "ann@other"',
        'site.toml:users.ann: \'ann@other\' is no principal of this VO; write "NAME@lab" or "" for nobody',
    ),
    (
        _GOOD + f'zeroconf = "{"x" * 99}"',
        f"site.toml:zeroconf: '{'x' * 56}... is not true or false; write it without quotes",
    ),
]


@pytest.mark.parametrize(("text", "line"), _BAD)
def test_a_bad_file_is_refused_in_one_line(text: str, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_config(text)
    assert str(caught.value) == line
    assert "\n" not in line


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_config(tmp_path / "site.toml")
    assert str(caught.value) == (
        f"{tmp_path / 'site.toml'}: no such file; "
        "make a site with diana init, or name the node's data directory with --data"
    )


def test_a_file_in_another_encoding_is_told(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_bytes(b'site = "\xe4lpha"\n')
    with pytest.raises(UsageError, match="not UTF-8 at byte 8; save it as UTF-8"):
        load_config(tmp_path / "site.toml")


@pytest.mark.parametrize("listen", ["0.0.0.0:7400", "[::]:7400", "192.0.2.1:7400", "alpha.example:7400"])
def test_without_keys_anything_but_loopback_is_refused(tmp_path: Path, listen: str) -> None:
    path = tmp_path / "site.toml"
    path.write_text(_GOOD + f'listen = "{listen}"\n')
    with pytest.raises(UsageError) as caught:
        load_config(path)
    assert str(caught.value) == (
        f"{tmp_path / 'keys' / 'site.key'}: no such file; put its keys back from a backup made with --keys; or at "
        "another site of the VO that is a signer: diana invite --site alpha --again, then here: diana join - "
        f"--data {tmp_path}"
    )
    (tmp_path / "keys").mkdir()
    for name in ("site.key", "site.pem", "vo.pem"):
        (tmp_path / "keys" / name).write_text("")
    assert load_config(path).listen == listen


@pytest.mark.parametrize("listen", ["127.0.0.1:7400", "127.9.9.9:1", "[::1]:7400", "localhost:7400"])
def test_without_keys_loopback_is_allowed(tmp_path: Path, listen: str) -> None:
    (tmp_path / "site.toml").write_text(_GOOD + f'listen = "{listen}"\n')
    assert load_config(tmp_path / "site.toml").listen == listen
    assert is_loopback(listen)


def test_local_accounts_speak_as_themselves_unless_the_table_says_otherwise() -> None:
    config = parse_config(_GOOD + '[users]\nann = "anna@lab"\nguest = ""\n1007 = "bot@lab"\n')
    assert config.owner_of(1000, "bob") == "bob@lab"
    assert config.owner_of(1001, "ann") == "anna@lab"
    assert config.owner_of(1002, "guest") == ""
    assert config.owner_of(1007, "") == "bot@lab"
    assert config.owner_of(1008, "") == ""


def test_what_is_written_explains_every_key_and_reads_back() -> None:
    text = config_text(SiteConfig(site=SiteId("alpha"), vo="lab"))
    for field in msgspec.structs.fields(Settings):
        if field.name == "properties":
            assert "\n#[properties]\n" in text
            continue
        assert f"\n#{field.name} = " in text or f"\n{field.name} = " in text
    uncommented = "\n".join(
        line.removeprefix("#") if line[:1] == "#" and line[1:2] != " " else line for line in text.split("\n")
    )
    assert parse_config(uncommented) == parse_config(text) == SiteConfig(site=SiteId("alpha"), vo="lab")


_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)


@given(
    operators=st.lists(_NAMES, max_size=3).map(tuple),
    users=st.dictionaries(_NAMES, st.one_of(st.just(""), _NAMES.map(lambda name: f"{name}@lab")), max_size=3),
    zeroconf=st.booleans(),
    slots=st.integers(0, 1_000_000),
    speed=st.floats(0.001, 1000.0),
    keep_s=st.floats(0.0, 1e10),
)
def test_any_configuration_survives_writing_and_reading(
    operators: tuple[str, ...], users: dict[str, str], zeroconf: bool, slots: int, speed: float, keep_s: float
) -> None:
    config = SiteConfig(
        site=SiteId("alpha"),
        vo="lab",
        operators=operators,
        users=users,
        zeroconf=zeroconf,
        settings=Settings(slots=slots, speed=speed, keep_s=keep_s),
    )
    assert parse_config(config_text(config)) == config


def test_every_setting_of_a_site_is_written_and_read_back() -> None:
    """A setting the file does not carry would silently stand at its default."""
    for field in msgspec.structs.fields(Settings):
        told = "[properties]" if field.name == "properties" else f"{field.name} = "
        assert told in config_text(SiteConfig(site=SiteId("alpha"), vo="lab")), field.name
    own = {"os": 'debian "12"', "tier": "gold"}
    settings = Settings(priority_mode="paper", quotas={"a@lab": 1900.0, 'b"@lab': 0.5}, job_threshold=7, properties=own)
    config = SiteConfig(site=SiteId("alpha"), vo="lab", settings=settings)
    assert parse_config(config_text(config)) == config


def test_the_file_is_written_whole_and_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text("old")
    write_config(path, SiteConfig(site=SiteId("alpha"), vo="lab"))
    assert load_config(path).site == "alpha"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["site.toml"]


@pytest.mark.parametrize(
    ("address", "parts"),
    [("h:1", ("h", 1)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:7400", ("::1", 7400))],
)
def test_addresses_are_taken_apart(address: str, parts: tuple[str, int]) -> None:
    assert host_port(address) == parts


@pytest.mark.parametrize("address", ["", ":1", "h", "h:", "h:x", "h:-1", "h:70000", "a b:1", "[x]:1", "h:²"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError):
        host_port(address)


@pytest.mark.parametrize(("uplink", "said"), [(0, 10e6), (4e6, 4e6), (80e6, 10e6)])
def test_planners_do_not_count_on_more_than_the_stager_serves(uplink: float, said: float) -> None:
    config = parse_config(f"{_GOOD}[settings]\nuplink_bytes_per_s = {uplink}\n[staging]\nrate_bytes_per_s = 10000000\n")
    assert config.settings.uplink_bytes_per_s == said


def test_a_member_without_root_looks_for_it_and_one_that_may_not_look_is_refused() -> None:
    member = 'site = "alpha"\nvo = "lab"\nrole = "member"\nmachine = "m1"\n'
    assert parse_config(member).root == ()
    for lacks in (member + "zeroconf = false\n", member.replace("member", "standby")):
        with pytest.raises(UsageError, match=r"root: missing; a (member|standby) dials its site: add root = "):
            parse_config(lacks)
