from diana.wire.pb import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("version", "sender", "receiver", "generation", "payload", "signature", "kept")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    version: int
    sender: str
    receiver: str
    generation: int
    payload: bytes
    signature: bytes
    kept: bool
    def __init__(self, version: _Optional[int] = ..., sender: _Optional[str] = ..., receiver: _Optional[str] = ..., generation: _Optional[int] = ..., payload: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., kept: _Optional[bool] = ...) -> None: ...

class PeerMessage(_message.Message):
    __slots__ = ("hello", "retry", "summary", "quote_request", "quote", "prepare", "prepared", "refused", "commit", "committed", "abort", "aborted", "lost", "progress", "result", "result_ack", "control", "control_ack", "queue_request", "queue_report", "gossip", "ledger_news", "met", "holdings", "surplus", "work_invited", "room_request", "room_grant", "renew", "renewed", "reserve", "turn_call", "gang_claim", "gang_claimed", "gang_yield", "gang_roster")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    QUOTE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    QUOTE_FIELD_NUMBER: _ClassVar[int]
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    PREPARED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_ACK_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    CONTROL_ACK_FIELD_NUMBER: _ClassVar[int]
    QUEUE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_REPORT_FIELD_NUMBER: _ClassVar[int]
    GOSSIP_FIELD_NUMBER: _ClassVar[int]
    LEDGER_NEWS_FIELD_NUMBER: _ClassVar[int]
    MET_FIELD_NUMBER: _ClassVar[int]
    HOLDINGS_FIELD_NUMBER: _ClassVar[int]
    SURPLUS_FIELD_NUMBER: _ClassVar[int]
    WORK_INVITED_FIELD_NUMBER: _ClassVar[int]
    ROOM_REQUEST_FIELD_NUMBER: _ClassVar[int]
    ROOM_GRANT_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    RESERVE_FIELD_NUMBER: _ClassVar[int]
    TURN_CALL_FIELD_NUMBER: _ClassVar[int]
    GANG_CLAIM_FIELD_NUMBER: _ClassVar[int]
    GANG_CLAIMED_FIELD_NUMBER: _ClassVar[int]
    GANG_YIELD_FIELD_NUMBER: _ClassVar[int]
    GANG_ROSTER_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    retry: Retry
    summary: Summary
    quote_request: QuoteRequest
    quote: Quote
    prepare: Prepare
    prepared: Prepared
    refused: Refused
    commit: Commit
    committed: Committed
    abort: Abort
    aborted: Aborted
    lost: Lost
    progress: Progress
    result: Result
    result_ack: ResultAck
    control: Control
    control_ack: ControlAck
    queue_request: QueueRequest
    queue_report: QueueReport
    gossip: Gossip
    ledger_news: LedgerNews
    met: Met
    holdings: Holdings
    surplus: Surplus
    work_invited: WorkInvited
    room_request: RoomRequest
    room_grant: RoomGrant
    renew: Renew
    renewed: Renewed
    reserve: Reserve
    turn_call: TurnCall
    gang_claim: GangClaim
    gang_claimed: GangClaimed
    gang_yield: GangYield
    gang_roster: GangRoster
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., retry: _Optional[_Union[Retry, _Mapping]] = ..., summary: _Optional[_Union[Summary, _Mapping]] = ..., quote_request: _Optional[_Union[QuoteRequest, _Mapping]] = ..., quote: _Optional[_Union[Quote, _Mapping]] = ..., prepare: _Optional[_Union[Prepare, _Mapping]] = ..., prepared: _Optional[_Union[Prepared, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ..., committed: _Optional[_Union[Committed, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ..., aborted: _Optional[_Union[Aborted, _Mapping]] = ..., lost: _Optional[_Union[Lost, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., result_ack: _Optional[_Union[ResultAck, _Mapping]] = ..., control: _Optional[_Union[Control, _Mapping]] = ..., control_ack: _Optional[_Union[ControlAck, _Mapping]] = ..., queue_request: _Optional[_Union[QueueRequest, _Mapping]] = ..., queue_report: _Optional[_Union[QueueReport, _Mapping]] = ..., gossip: _Optional[_Union[Gossip, _Mapping]] = ..., ledger_news: _Optional[_Union[LedgerNews, _Mapping]] = ..., met: _Optional[_Union[Met, _Mapping]] = ..., holdings: _Optional[_Union[Holdings, _Mapping]] = ..., surplus: _Optional[_Union[Surplus, _Mapping]] = ..., work_invited: _Optional[_Union[WorkInvited, _Mapping]] = ..., room_request: _Optional[_Union[RoomRequest, _Mapping]] = ..., room_grant: _Optional[_Union[RoomGrant, _Mapping]] = ..., renew: _Optional[_Union[Renew, _Mapping]] = ..., renewed: _Optional[_Union[Renewed, _Mapping]] = ..., reserve: _Optional[_Union[Reserve, _Mapping]] = ..., turn_call: _Optional[_Union[TurnCall, _Mapping]] = ..., gang_claim: _Optional[_Union[GangClaim, _Mapping]] = ..., gang_claimed: _Optional[_Union[GangClaimed, _Mapping]] = ..., gang_yield: _Optional[_Union[GangYield, _Mapping]] = ..., gang_roster: _Optional[_Union[GangRoster, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("site", "protocol", "release", "capabilities", "db_uuid", "generation", "boot_nonce", "term", "data_address", "seq", "former", "seal", "begun")
    SITE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    DB_UUID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    BOOT_NONCE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    DATA_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    FORMER_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    site: str
    protocol: int
    release: str
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    db_uuid: str
    generation: int
    boot_nonce: str
    term: int
    data_address: str
    seq: int
    former: _containers.RepeatedScalarFieldContainer[str]
    seal: bytes
    begun: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, site: _Optional[str] = ..., protocol: _Optional[int] = ..., release: _Optional[str] = ..., capabilities: _Optional[_Iterable[str]] = ..., db_uuid: _Optional[str] = ..., generation: _Optional[int] = ..., boot_nonce: _Optional[str] = ..., term: _Optional[int] = ..., data_address: _Optional[str] = ..., seq: _Optional[int] = ..., former: _Optional[_Iterable[str]] = ..., seal: _Optional[bytes] = ..., begun: _Optional[_Iterable[int]] = ...) -> None: ...

class Retry(_message.Message):
    __slots__ = ("after_s",)
    AFTER_S_FIELD_NUMBER: _ClassVar[int]
    after_s: float
    def __init__(self, after_s: _Optional[float] = ...) -> None: ...

class Summary(_message.Message):
    __slots__ = ("site", "generation", "counter", "slots", "free_slots", "speed", "queued_jobs", "running_jobs", "work_ahead_s", "datasets", "accepting", "seq", "links", "address", "via", "release", "protocol", "named_at", "unnamed", "left", "loose", "known", "members", "complete", "ledger", "drained", "machines", "notice", "seal", "memory_bytes", "gpus", "domain", "widest", "resources", "properties", "declares")
    class ResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SITE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_JOBS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_JOBS_FIELD_NUMBER: _ClassVar[int]
    WORK_AHEAD_S_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTING_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VIA_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    NAMED_AT_FIELD_NUMBER: _ClassVar[int]
    UNNAMED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    LOOSE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    WIDEST_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DECLARES_FIELD_NUMBER: _ClassVar[int]
    site: str
    generation: int
    counter: int
    slots: int
    free_slots: int
    speed: float
    queued_jobs: int
    running_jobs: int
    work_ahead_s: float
    datasets: _containers.RepeatedScalarFieldContainer[str]
    accepting: bool
    seq: int
    links: _containers.RepeatedCompositeFieldContainer[LinkEstimate]
    address: str
    via: _containers.RepeatedScalarFieldContainer[str]
    release: str
    protocol: int
    named_at: int
    unnamed: bool
    left: bool
    loose: bool
    known: int
    members: int
    complete: bool
    ledger: str
    drained: str
    machines: int
    notice: str
    seal: bytes
    memory_bytes: int
    gpus: int
    domain: str
    widest: int
    resources: _containers.ScalarMap[str, int]
    properties: _containers.ScalarMap[str, str]
    declares: bool
    def __init__(self, site: _Optional[str] = ..., generation: _Optional[int] = ..., counter: _Optional[int] = ..., slots: _Optional[int] = ..., free_slots: _Optional[int] = ..., speed: _Optional[float] = ..., queued_jobs: _Optional[int] = ..., running_jobs: _Optional[int] = ..., work_ahead_s: _Optional[float] = ..., datasets: _Optional[_Iterable[str]] = ..., accepting: _Optional[bool] = ..., seq: _Optional[int] = ..., links: _Optional[_Iterable[_Union[LinkEstimate, _Mapping]]] = ..., address: _Optional[str] = ..., via: _Optional[_Iterable[str]] = ..., release: _Optional[str] = ..., protocol: _Optional[int] = ..., named_at: _Optional[int] = ..., unnamed: _Optional[bool] = ..., left: _Optional[bool] = ..., loose: _Optional[bool] = ..., known: _Optional[int] = ..., members: _Optional[int] = ..., complete: _Optional[bool] = ..., ledger: _Optional[str] = ..., drained: _Optional[str] = ..., machines: _Optional[int] = ..., notice: _Optional[str] = ..., seal: _Optional[bytes] = ..., memory_bytes: _Optional[int] = ..., gpus: _Optional[int] = ..., domain: _Optional[str] = ..., widest: _Optional[int] = ..., resources: _Optional[_Mapping[str, int]] = ..., properties: _Optional[_Mapping[str, str]] = ..., declares: _Optional[bool] = ...) -> None: ...

class Rumour(_message.Message):
    __slots__ = ("site", "generation", "counter", "state", "by")
    SITE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    site: str
    generation: int
    counter: int
    state: int
    by: str
    def __init__(self, site: _Optional[str] = ..., generation: _Optional[int] = ..., counter: _Optional[int] = ..., state: _Optional[int] = ..., by: _Optional[str] = ...) -> None: ...

class Signed(_message.Message):
    __slots__ = ("payload", "chain", "signature")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    chain: bytes
    signature: bytes
    def __init__(self, payload: _Optional[bytes] = ..., chain: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class LedgerNews(_message.Message):
    __slots__ = ("statements", "asks", "told", "has")
    STATEMENTS_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    HAS_FIELD_NUMBER: _ClassVar[int]
    statements: _containers.RepeatedCompositeFieldContainer[Signed]
    asks: _containers.RepeatedScalarFieldContainer[str]
    told: bool
    has: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, statements: _Optional[_Iterable[_Union[Signed, _Mapping]]] = ..., asks: _Optional[_Iterable[str]] = ..., told: _Optional[bool] = ..., has: _Optional[_Iterable[str]] = ...) -> None: ...

class Gossip(_message.Message):
    __slots__ = ("entries", "ages_s", "rumours", "digest", "asks", "asks_all", "heard_from")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    AGES_S_FIELD_NUMBER: _ClassVar[int]
    RUMOURS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIELD_NUMBER: _ClassVar[int]
    ASKS_ALL_FIELD_NUMBER: _ClassVar[int]
    HEARD_FROM_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[Summary]
    ages_s: _containers.RepeatedScalarFieldContainer[float]
    rumours: _containers.RepeatedCompositeFieldContainer[Rumour]
    digest: _containers.RepeatedCompositeFieldContainer[Rumour]
    asks: _containers.RepeatedScalarFieldContainer[str]
    asks_all: bool
    heard_from: _containers.RepeatedCompositeFieldContainer[HeardFrom]
    def __init__(self, entries: _Optional[_Iterable[_Union[Summary, _Mapping]]] = ..., ages_s: _Optional[_Iterable[float]] = ..., rumours: _Optional[_Iterable[_Union[Rumour, _Mapping]]] = ..., digest: _Optional[_Iterable[_Union[Rumour, _Mapping]]] = ..., asks: _Optional[_Iterable[str]] = ..., asks_all: _Optional[bool] = ..., heard_from: _Optional[_Iterable[_Union[HeardFrom, _Mapping]]] = ...) -> None: ...

class HeardFrom(_message.Message):
    __slots__ = ("sites",)
    SITES_FIELD_NUMBER: _ClassVar[int]
    sites: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sites: _Optional[_Iterable[str]] = ...) -> None: ...

class QuoteRequest(_message.Message):
    __slots__ = ("quote", "processors", "memory_bytes", "jobs", "refs", "gpus", "owner", "template", "work_s", "part", "urls", "raised", "software", "time_limit_s", "behind", "program", "group", "group_work_s", "group_bytes", "scratch_bytes", "coming", "kinds", "begins_before_s", "resources", "components", "offers")
    class ResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    QUOTE_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    REFS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    WORK_S_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    URLS_FIELD_NUMBER: _ClassVar[int]
    RAISED_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GROUP_WORK_S_FIELD_NUMBER: _ClassVar[int]
    GROUP_BYTES_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMING_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    BEGINS_BEFORE_S_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    quote: int
    processors: int
    memory_bytes: int
    jobs: int
    refs: _containers.RepeatedScalarFieldContainer[str]
    gpus: int
    owner: str
    template: str
    work_s: float
    part: int
    urls: _containers.RepeatedScalarFieldContainer[str]
    raised: bool
    software: _containers.RepeatedScalarFieldContainer[str]
    time_limit_s: float
    behind: bool
    program: str
    group: str
    group_work_s: float
    group_bytes: int
    scratch_bytes: int
    coming: bool
    kinds: bool
    begins_before_s: float
    resources: _containers.ScalarMap[str, int]
    components: _containers.RepeatedCompositeFieldContainer[ComponentKind]
    offers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, quote: _Optional[int] = ..., processors: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., jobs: _Optional[int] = ..., refs: _Optional[_Iterable[str]] = ..., gpus: _Optional[int] = ..., owner: _Optional[str] = ..., template: _Optional[str] = ..., work_s: _Optional[float] = ..., part: _Optional[int] = ..., urls: _Optional[_Iterable[str]] = ..., raised: _Optional[bool] = ..., software: _Optional[_Iterable[str]] = ..., time_limit_s: _Optional[float] = ..., behind: _Optional[bool] = ..., program: _Optional[str] = ..., group: _Optional[str] = ..., group_work_s: _Optional[float] = ..., group_bytes: _Optional[int] = ..., scratch_bytes: _Optional[int] = ..., coming: _Optional[bool] = ..., kinds: _Optional[bool] = ..., begins_before_s: _Optional[float] = ..., resources: _Optional[_Mapping[str, int]] = ..., components: _Optional[_Iterable[_Union[ComponentKind, _Mapping]]] = ..., offers: _Optional[_Iterable[str]] = ...) -> None: ...

class ComponentKind(_message.Message):
    __slots__ = ("processors", "amounts")
    class AmountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    AMOUNTS_FIELD_NUMBER: _ClassVar[int]
    processors: int
    amounts: _containers.ScalarMap[str, int]
    def __init__(self, processors: _Optional[int] = ..., amounts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class LinkEstimate(_message.Message):
    __slots__ = ("site", "rtt_s", "bytes_per_s", "jitter_s", "loss", "error", "age_s", "backlog_bytes", "predictor", "samples")
    SITE_FIELD_NUMBER: _ClassVar[int]
    RTT_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    JITTER_S_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    site: str
    rtt_s: float
    bytes_per_s: float
    jitter_s: float
    loss: float
    error: float
    age_s: float
    backlog_bytes: int
    predictor: str
    samples: int
    def __init__(self, site: _Optional[str] = ..., rtt_s: _Optional[float] = ..., bytes_per_s: _Optional[float] = ..., jitter_s: _Optional[float] = ..., loss: _Optional[float] = ..., error: _Optional[float] = ..., age_s: _Optional[float] = ..., backlog_bytes: _Optional[int] = ..., predictor: _Optional[str] = ..., samples: _Optional[int] = ...) -> None: ...

class Quote(_message.Message):
    __slots__ = ("quote", "rejected", "slots", "free_slots", "speed", "work_ahead_s", "files", "unknown_refs", "links", "cached", "run_low_s", "run_s", "run_high_s", "run_mean_s", "runs_seen", "wait_s", "wait_low_s", "wait_high_s", "jobs_ahead", "priority", "queued_jobs", "busy_fraction", "uplink_bytes_per_s", "near_miss", "part", "max_jobs", "reach", "software", "reserves", "startable", "widest", "free_gpus", "memory_bytes", "gpus", "domain", "coming", "kinds", "free", "whole", "unfit", "gang_most", "gang_held", "properties", "offers", "lacks")
    class FreeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class WholeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUOTE_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    WORK_AHEAD_S_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_REFS_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    RUN_LOW_S_FIELD_NUMBER: _ClassVar[int]
    RUN_S_FIELD_NUMBER: _ClassVar[int]
    RUN_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    RUN_MEAN_S_FIELD_NUMBER: _ClassVar[int]
    RUNS_SEEN_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    WAIT_LOW_S_FIELD_NUMBER: _ClassVar[int]
    WAIT_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    JOBS_AHEAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    QUEUED_JOBS_FIELD_NUMBER: _ClassVar[int]
    BUSY_FRACTION_FIELD_NUMBER: _ClassVar[int]
    UPLINK_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    NEAR_MISS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    MAX_JOBS_FIELD_NUMBER: _ClassVar[int]
    REACH_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    RESERVES_FIELD_NUMBER: _ClassVar[int]
    STARTABLE_FIELD_NUMBER: _ClassVar[int]
    WIDEST_FIELD_NUMBER: _ClassVar[int]
    FREE_GPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    COMING_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    UNFIT_FIELD_NUMBER: _ClassVar[int]
    GANG_MOST_FIELD_NUMBER: _ClassVar[int]
    GANG_HELD_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    LACKS_FIELD_NUMBER: _ClassVar[int]
    quote: int
    rejected: str
    slots: int
    free_slots: int
    speed: float
    work_ahead_s: float
    files: _containers.RepeatedCompositeFieldContainer[_common_pb2.DataFile]
    unknown_refs: _containers.RepeatedScalarFieldContainer[str]
    links: _containers.RepeatedCompositeFieldContainer[LinkEstimate]
    cached: _containers.RepeatedCompositeFieldContainer[_common_pb2.DataFile]
    run_low_s: float
    run_s: float
    run_high_s: float
    run_mean_s: float
    runs_seen: int
    wait_s: float
    wait_low_s: float
    wait_high_s: float
    jobs_ahead: int
    priority: float
    queued_jobs: int
    busy_fraction: float
    uplink_bytes_per_s: float
    near_miss: str
    part: int
    max_jobs: int
    reach: _containers.RepeatedScalarFieldContainer[str]
    software: _containers.RepeatedScalarFieldContainer[str]
    reserves: bool
    startable: int
    widest: int
    free_gpus: int
    memory_bytes: int
    gpus: int
    domain: str
    coming: _containers.RepeatedCompositeFieldContainer[ComingRoom]
    kinds: _containers.RepeatedCompositeFieldContainer[MachineKind]
    free: _containers.ScalarMap[str, int]
    whole: _containers.ScalarMap[str, int]
    unfit: _containers.RepeatedScalarFieldContainer[str]
    gang_most: int
    gang_held: int
    properties: _containers.ScalarMap[str, str]
    offers: _containers.RepeatedScalarFieldContainer[str]
    lacks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, quote: _Optional[int] = ..., rejected: _Optional[str] = ..., slots: _Optional[int] = ..., free_slots: _Optional[int] = ..., speed: _Optional[float] = ..., work_ahead_s: _Optional[float] = ..., files: _Optional[_Iterable[_Union[_common_pb2.DataFile, _Mapping]]] = ..., unknown_refs: _Optional[_Iterable[str]] = ..., links: _Optional[_Iterable[_Union[LinkEstimate, _Mapping]]] = ..., cached: _Optional[_Iterable[_Union[_common_pb2.DataFile, _Mapping]]] = ..., run_low_s: _Optional[float] = ..., run_s: _Optional[float] = ..., run_high_s: _Optional[float] = ..., run_mean_s: _Optional[float] = ..., runs_seen: _Optional[int] = ..., wait_s: _Optional[float] = ..., wait_low_s: _Optional[float] = ..., wait_high_s: _Optional[float] = ..., jobs_ahead: _Optional[int] = ..., priority: _Optional[float] = ..., queued_jobs: _Optional[int] = ..., busy_fraction: _Optional[float] = ..., uplink_bytes_per_s: _Optional[float] = ..., near_miss: _Optional[str] = ..., part: _Optional[int] = ..., max_jobs: _Optional[int] = ..., reach: _Optional[_Iterable[str]] = ..., software: _Optional[_Iterable[str]] = ..., reserves: _Optional[bool] = ..., startable: _Optional[int] = ..., widest: _Optional[int] = ..., free_gpus: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., gpus: _Optional[int] = ..., domain: _Optional[str] = ..., coming: _Optional[_Iterable[_Union[ComingRoom, _Mapping]]] = ..., kinds: _Optional[_Iterable[_Union[MachineKind, _Mapping]]] = ..., free: _Optional[_Mapping[str, int]] = ..., whole: _Optional[_Mapping[str, int]] = ..., unfit: _Optional[_Iterable[str]] = ..., gang_most: _Optional[int] = ..., gang_held: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ..., offers: _Optional[_Iterable[str]] = ..., lacks: _Optional[_Iterable[str]] = ...) -> None: ...

class MachineKind(_message.Message):
    __slots__ = ("count", "processors", "speed", "memory_bytes", "gpus", "platform", "idle")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    count: int
    processors: int
    speed: float
    memory_bytes: int
    gpus: int
    platform: str
    idle: int
    def __init__(self, count: _Optional[int] = ..., processors: _Optional[int] = ..., speed: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., gpus: _Optional[int] = ..., platform: _Optional[str] = ..., idle: _Optional[int] = ...) -> None: ...

class ComingRoom(_message.Message):
    __slots__ = ("after_s", "processors", "gpus", "free")
    class FreeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    AFTER_S_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    after_s: float
    processors: int
    gpus: int
    free: _containers.ScalarMap[str, int]
    def __init__(self, after_s: _Optional[float] = ..., processors: _Optional[int] = ..., gpus: _Optional[int] = ..., free: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Authorisation(_message.Message):
    __slots__ = ("owner", "spec_sha256", "group", "expires_wall_s", "signer", "certificate", "signature", "signed_wall_s", "audience", "submission")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SPEC_SHA256_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_WALL_S_FIELD_NUMBER: _ClassVar[int]
    SIGNER_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SIGNED_WALL_S_FIELD_NUMBER: _ClassVar[int]
    AUDIENCE_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    owner: str
    spec_sha256: str
    group: str
    expires_wall_s: float
    signer: str
    certificate: bytes
    signature: bytes
    signed_wall_s: float
    audience: str
    submission: str
    def __init__(self, owner: _Optional[str] = ..., spec_sha256: _Optional[str] = ..., group: _Optional[str] = ..., expires_wall_s: _Optional[float] = ..., signer: _Optional[str] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., signed_wall_s: _Optional[float] = ..., audience: _Optional[str] = ..., submission: _Optional[str] = ...) -> None: ...

class SavedJob(_message.Message):
    __slots__ = ("index", "attempt", "files")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    index: int
    attempt: int
    files: _containers.RepeatedCompositeFieldContainer[SavedFile]
    def __init__(self, index: _Optional[int] = ..., attempt: _Optional[int] = ..., files: _Optional[_Iterable[_Union[SavedFile, _Mapping]]] = ...) -> None: ...

class SavedFile(_message.Message):
    __slots__ = ("path", "size_bytes", "sha256")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    path: str
    size_bytes: int
    sha256: str
    def __init__(self, path: _Optional[str] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class Prepare(_message.Message):
    __slots__ = ("subgroup", "epoch", "indices", "spec", "authorisation", "submitted_s", "files", "sources", "readers", "max_parallel", "attempt_base", "exported", "room", "unguarded", "origin_db_uuid", "origin_seq", "behind", "seal", "offer", "processors", "saved", "memory_bytes", "receipt")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    AUTHORISATION_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_S_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_BASE_FIELD_NUMBER: _ClassVar[int]
    EXPORTED_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    UNGUARDED_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_DB_UUID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_SEQ_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    SAVED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    indices: _common_pb2.IndexSet
    spec: bytes
    authorisation: Authorisation
    submitted_s: float
    files: _containers.RepeatedCompositeFieldContainer[_common_pb2.DataFile]
    sources: _containers.RepeatedCompositeFieldContainer[SiteList]
    readers: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexSet]
    max_parallel: int
    attempt_base: int
    exported: bool
    room: int
    unguarded: bool
    origin_db_uuid: str
    origin_seq: int
    behind: bool
    seal: bytes
    offer: bytes
    processors: int
    saved: _containers.RepeatedCompositeFieldContainer[SavedJob]
    memory_bytes: int
    receipt: bytes
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., indices: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., spec: _Optional[bytes] = ..., authorisation: _Optional[_Union[Authorisation, _Mapping]] = ..., submitted_s: _Optional[float] = ..., files: _Optional[_Iterable[_Union[_common_pb2.DataFile, _Mapping]]] = ..., sources: _Optional[_Iterable[_Union[SiteList, _Mapping]]] = ..., readers: _Optional[_Iterable[_Union[_common_pb2.IndexSet, _Mapping]]] = ..., max_parallel: _Optional[int] = ..., attempt_base: _Optional[int] = ..., exported: _Optional[bool] = ..., room: _Optional[int] = ..., unguarded: _Optional[bool] = ..., origin_db_uuid: _Optional[str] = ..., origin_seq: _Optional[int] = ..., behind: _Optional[bool] = ..., seal: _Optional[bytes] = ..., offer: _Optional[bytes] = ..., processors: _Optional[int] = ..., saved: _Optional[_Iterable[_Union[SavedJob, _Mapping]]] = ..., memory_bytes: _Optional[int] = ..., receipt: _Optional[bytes] = ...) -> None: ...

class Surplus(_message.Message):
    __slots__ = ("groups", "reason", "unfit", "invited")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    UNFIT_FIELD_NUMBER: _ClassVar[int]
    INVITED_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[SurplusGroup]
    reason: str
    unfit: bool
    invited: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, groups: _Optional[_Iterable[_Union[SurplusGroup, _Mapping]]] = ..., reason: _Optional[str] = ..., unfit: _Optional[bool] = ..., invited: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkInvited(_message.Message):
    __slots__ = ("free_slots",)
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    free_slots: int
    def __init__(self, free_slots: _Optional[int] = ...) -> None: ...

class SurplusGroup(_message.Message):
    __slots__ = ("group", "parts", "epochs", "jobs", "priority", "jobs_ahead", "ends_s", "processors_per_s", "data_elsewhere")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    JOBS_AHEAD_FIELD_NUMBER: _ClassVar[int]
    ENDS_S_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_PER_S_FIELD_NUMBER: _ClassVar[int]
    DATA_ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    group: str
    parts: _containers.RepeatedScalarFieldContainer[str]
    epochs: _containers.RepeatedScalarFieldContainer[int]
    jobs: _containers.RepeatedScalarFieldContainer[int]
    priority: float
    jobs_ahead: int
    ends_s: float
    processors_per_s: float
    data_elsewhere: bool
    def __init__(self, group: _Optional[str] = ..., parts: _Optional[_Iterable[str]] = ..., epochs: _Optional[_Iterable[int]] = ..., jobs: _Optional[_Iterable[int]] = ..., priority: _Optional[float] = ..., jobs_ahead: _Optional[int] = ..., ends_s: _Optional[float] = ..., processors_per_s: _Optional[float] = ..., data_elsewhere: _Optional[bool] = ...) -> None: ...

class RoomRequest(_message.Message):
    __slots__ = ("room", "jobs", "gain_s", "processors", "memory_bytes", "gpus", "owner", "template", "work_s", "urls", "software", "behind", "group_work_s", "group_bytes", "scratch_bytes", "time_limit_s", "program", "group", "begins_before_s", "resources")
    class ResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ROOM_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    GAIN_S_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    WORK_S_FIELD_NUMBER: _ClassVar[int]
    URLS_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    GROUP_WORK_S_FIELD_NUMBER: _ClassVar[int]
    GROUP_BYTES_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    BEGINS_BEFORE_S_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    room: int
    jobs: int
    gain_s: float
    processors: int
    memory_bytes: int
    gpus: int
    owner: str
    template: str
    work_s: float
    urls: _containers.RepeatedScalarFieldContainer[str]
    software: _containers.RepeatedScalarFieldContainer[str]
    behind: bool
    group_work_s: float
    group_bytes: int
    scratch_bytes: int
    time_limit_s: float
    program: str
    group: str
    begins_before_s: float
    resources: _containers.ScalarMap[str, int]
    def __init__(self, room: _Optional[int] = ..., jobs: _Optional[int] = ..., gain_s: _Optional[float] = ..., processors: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., gpus: _Optional[int] = ..., owner: _Optional[str] = ..., template: _Optional[str] = ..., work_s: _Optional[float] = ..., urls: _Optional[_Iterable[str]] = ..., software: _Optional[_Iterable[str]] = ..., behind: _Optional[bool] = ..., group_work_s: _Optional[float] = ..., group_bytes: _Optional[int] = ..., scratch_bytes: _Optional[int] = ..., time_limit_s: _Optional[float] = ..., program: _Optional[str] = ..., group: _Optional[str] = ..., begins_before_s: _Optional[float] = ..., resources: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Reserve(_message.Message):
    __slots__ = ("group", "seq", "jobs", "share", "called", "processors", "submitted_s", "stage_s", "memory_bytes", "gpus", "owner", "template", "work_s", "time_limit_s", "urls", "software", "program", "group_work_s", "group_bytes", "scratch_bytes", "begins_before_s", "resources")
    class ResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    CALLED_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_S_FIELD_NUMBER: _ClassVar[int]
    STAGE_S_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    WORK_S_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    URLS_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    GROUP_WORK_S_FIELD_NUMBER: _ClassVar[int]
    GROUP_BYTES_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    BEGINS_BEFORE_S_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    group: str
    seq: int
    jobs: int
    share: int
    called: int
    processors: int
    submitted_s: float
    stage_s: float
    memory_bytes: int
    gpus: int
    owner: str
    template: str
    work_s: float
    time_limit_s: float
    urls: _containers.RepeatedScalarFieldContainer[str]
    software: _containers.RepeatedScalarFieldContainer[str]
    program: str
    group_work_s: float
    group_bytes: int
    scratch_bytes: int
    begins_before_s: float
    resources: _containers.ScalarMap[str, int]
    def __init__(self, group: _Optional[str] = ..., seq: _Optional[int] = ..., jobs: _Optional[int] = ..., share: _Optional[int] = ..., called: _Optional[int] = ..., processors: _Optional[int] = ..., submitted_s: _Optional[float] = ..., stage_s: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., gpus: _Optional[int] = ..., owner: _Optional[str] = ..., template: _Optional[str] = ..., work_s: _Optional[float] = ..., time_limit_s: _Optional[float] = ..., urls: _Optional[_Iterable[str]] = ..., software: _Optional[_Iterable[str]] = ..., program: _Optional[str] = ..., group_work_s: _Optional[float] = ..., group_bytes: _Optional[int] = ..., scratch_bytes: _Optional[int] = ..., begins_before_s: _Optional[float] = ..., resources: _Optional[_Mapping[str, int]] = ...) -> None: ...

class TurnCall(_message.Message):
    __slots__ = ("group", "call", "jobs", "stopped")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    group: str
    call: int
    jobs: int
    stopped: str
    def __init__(self, group: _Optional[str] = ..., call: _Optional[int] = ..., jobs: _Optional[int] = ..., stopped: _Optional[str] = ...) -> None: ...

class RoomGrant(_message.Message):
    __slots__ = ("room", "jobs", "reason")
    ROOM_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    room: int
    jobs: int
    reason: str
    def __init__(self, room: _Optional[int] = ..., jobs: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Prepared(_message.Message):
    __slots__ = ("subgroup", "epoch", "db_uuid", "seq", "seal", "staged")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DB_UUID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    STAGED_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    db_uuid: str
    seq: int
    seal: bytes
    staged: bool
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., db_uuid: _Optional[str] = ..., seq: _Optional[int] = ..., seal: _Optional[bytes] = ..., staged: _Optional[bool] = ...) -> None: ...

class GangClaim(_message.Message):
    __slots__ = ("subgroup", "epoch", "db_uuid", "wait_s", "origin_db_uuid", "origin_seq", "seal", "hold_s", "meet_hosts", "meet_ports")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DB_UUID_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_DB_UUID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_SEQ_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    HOLD_S_FIELD_NUMBER: _ClassVar[int]
    MEET_HOSTS_FIELD_NUMBER: _ClassVar[int]
    MEET_PORTS_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    db_uuid: str
    wait_s: float
    origin_db_uuid: str
    origin_seq: int
    seal: bytes
    hold_s: float
    meet_hosts: _containers.RepeatedScalarFieldContainer[str]
    meet_ports: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., db_uuid: _Optional[str] = ..., wait_s: _Optional[float] = ..., origin_db_uuid: _Optional[str] = ..., origin_seq: _Optional[int] = ..., seal: _Optional[bytes] = ..., hold_s: _Optional[float] = ..., meet_hosts: _Optional[_Iterable[str]] = ..., meet_ports: _Optional[_Iterable[int]] = ...) -> None: ...

class GangClaimed(_message.Message):
    __slots__ = ("subgroup", "epoch", "host", "port", "left_s", "hosts", "looks", "met", "out_of_reach", "made_way")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    LEFT_S_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    LOOKS_FIELD_NUMBER: _ClassVar[int]
    MET_FIELD_NUMBER: _ClassVar[int]
    OUT_OF_REACH_FIELD_NUMBER: _ClassVar[int]
    MADE_WAY_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    host: str
    port: int
    left_s: float
    hosts: _containers.RepeatedScalarFieldContainer[str]
    looks: bool
    met: bool
    out_of_reach: str
    made_way: str
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., left_s: _Optional[float] = ..., hosts: _Optional[_Iterable[str]] = ..., looks: _Optional[bool] = ..., met: _Optional[bool] = ..., out_of_reach: _Optional[str] = ..., made_way: _Optional[str] = ...) -> None: ...

class GangYield(_message.Message):
    __slots__ = ("subgroup", "epoch")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class GangRoster(_message.Message):
    __slots__ = ("subgroup", "epoch", "number", "active")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    number: int
    active: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., number: _Optional[int] = ..., active: _Optional[_Iterable[int]] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("subgroup", "epoch", "reason")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    reason: str
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("subgroup", "epoch", "db_uuid", "origin_db_uuid", "origin_seq", "seal", "hosts", "port", "token", "items")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DB_UUID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_DB_UUID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_SEQ_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    db_uuid: str
    origin_db_uuid: str
    origin_seq: int
    seal: bytes
    hosts: _containers.RepeatedScalarFieldContainer[str]
    port: int
    token: str
    items: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., db_uuid: _Optional[str] = ..., origin_db_uuid: _Optional[str] = ..., origin_seq: _Optional[int] = ..., seal: _Optional[bytes] = ..., hosts: _Optional[_Iterable[str]] = ..., port: _Optional[int] = ..., token: _Optional[str] = ..., items: _Optional[_Iterable[int]] = ...) -> None: ...

class Committed(_message.Message):
    __slots__ = ("subgroup", "epoch")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class Abort(_message.Message):
    __slots__ = ("subgroup", "epoch", "origin_db_uuid", "origin_seq", "seal")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_DB_UUID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_SEQ_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    origin_db_uuid: str
    origin_seq: int
    seal: bytes
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., origin_db_uuid: _Optional[str] = ..., origin_seq: _Optional[int] = ..., seal: _Optional[bytes] = ...) -> None: ...

class Aborted(_message.Message):
    __slots__ = ("subgroup", "epoch", "db_uuid", "seq", "seal", "reason", "unrestored", "unable")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DB_UUID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    UNRESTORED_FIELD_NUMBER: _ClassVar[int]
    UNABLE_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    db_uuid: str
    seq: int
    seal: bytes
    reason: str
    unrestored: bool
    unable: bool
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., db_uuid: _Optional[str] = ..., seq: _Optional[int] = ..., seal: _Optional[bytes] = ..., reason: _Optional[str] = ..., unrestored: _Optional[bool] = ..., unable: _Optional[bool] = ...) -> None: ...

class Lost(_message.Message):
    __slots__ = ("subgroup", "epoch", "db_uuid")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DB_UUID_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    db_uuid: str
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., db_uuid: _Optional[str] = ...) -> None: ...

class JobSteps(_message.Message):
    __slots__ = ("index", "attempt", "done", "total", "last_s", "mean_s", "own_last_s", "own_mean_s", "roster")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    LAST_S_FIELD_NUMBER: _ClassVar[int]
    MEAN_S_FIELD_NUMBER: _ClassVar[int]
    OWN_LAST_S_FIELD_NUMBER: _ClassVar[int]
    OWN_MEAN_S_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    index: int
    attempt: int
    done: float
    total: float
    last_s: float
    mean_s: float
    own_last_s: float
    own_mean_s: float
    roster: int
    def __init__(self, index: _Optional[int] = ..., attempt: _Optional[int] = ..., done: _Optional[float] = ..., total: _Optional[float] = ..., last_s: _Optional[float] = ..., mean_s: _Optional[float] = ..., own_last_s: _Optional[float] = ..., own_mean_s: _Optional[float] = ..., roster: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("subgroup", "epoch", "counter", "staging", "queued", "running", "held", "claimed", "level", "priority", "note", "db_uuid", "seq", "stopped", "control_seq", "seal", "steps")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    STAGING_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    DB_UUID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    CONTROL_SEQ_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    counter: int
    staging: int
    queued: int
    running: int
    held: _common_pb2.IndexSet
    claimed: int
    level: str
    priority: float
    note: str
    db_uuid: str
    seq: int
    stopped: str
    control_seq: int
    seal: bytes
    steps: _containers.RepeatedCompositeFieldContainer[JobSteps]
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., counter: _Optional[int] = ..., staging: _Optional[int] = ..., queued: _Optional[int] = ..., running: _Optional[int] = ..., held: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., claimed: _Optional[int] = ..., level: _Optional[str] = ..., priority: _Optional[float] = ..., note: _Optional[str] = ..., db_uuid: _Optional[str] = ..., seq: _Optional[int] = ..., stopped: _Optional[str] = ..., control_seq: _Optional[int] = ..., seal: _Optional[bytes] = ..., steps: _Optional[_Iterable[_Union[JobSteps, _Mapping]]] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("subgroup", "epoch", "batch", "facts", "cancelled", "bytes_staged", "revoked", "db_uuid", "seq", "seal")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    BYTES_STAGED_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    DB_UUID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    batch: int
    facts: _common_pb2.Facts
    cancelled: _common_pb2.IndexSet
    bytes_staged: int
    revoked: _common_pb2.IndexSet
    db_uuid: str
    seq: int
    seal: bytes
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., batch: _Optional[int] = ..., facts: _Optional[_Union[_common_pb2.Facts, _Mapping]] = ..., cancelled: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., bytes_staged: _Optional[int] = ..., revoked: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., db_uuid: _Optional[str] = ..., seq: _Optional[int] = ..., seal: _Optional[bytes] = ...) -> None: ...

class ResultAck(_message.Message):
    __slots__ = ("subgroup", "epoch", "batch", "outputs_taken", "origin_db_uuid", "origin_seq", "seal")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_TAKEN_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_DB_UUID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_SEQ_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    batch: int
    outputs_taken: bool
    origin_db_uuid: str
    origin_seq: int
    seal: bytes
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., batch: _Optional[int] = ..., outputs_taken: _Optional[bool] = ..., origin_db_uuid: _Optional[str] = ..., origin_seq: _Optional[int] = ..., seal: _Optional[bytes] = ...) -> None: ...

class Control(_message.Message):
    __slots__ = ("subgroup", "epoch", "control_seq", "cancel", "hold", "recall", "export", "anew", "origin_db_uuid", "origin_seq", "seal", "save", "save_seq")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONTROL_SEQ_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    RECALL_FIELD_NUMBER: _ClassVar[int]
    EXPORT_FIELD_NUMBER: _ClassVar[int]
    ANEW_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_DB_UUID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_SEQ_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    SAVE_FIELD_NUMBER: _ClassVar[int]
    SAVE_SEQ_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    control_seq: int
    cancel: _common_pb2.IndexSet
    hold: _common_pb2.IndexSet
    recall: _common_pb2.IndexSet
    export: _common_pb2.IndexSet
    anew: bool
    origin_db_uuid: str
    origin_seq: int
    seal: bytes
    save: _common_pb2.IndexSet
    save_seq: int
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., control_seq: _Optional[int] = ..., cancel: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., hold: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., recall: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., export: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., anew: _Optional[bool] = ..., origin_db_uuid: _Optional[str] = ..., origin_seq: _Optional[int] = ..., seal: _Optional[bytes] = ..., save: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., save_seq: _Optional[int] = ...) -> None: ...

class ControlAck(_message.Message):
    __slots__ = ("subgroup", "epoch", "control_seq")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONTROL_SEQ_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    control_seq: int
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., control_seq: _Optional[int] = ...) -> None: ...

class Met(_message.Message):
    __slots__ = ("boot_nonce", "fell", "asks", "unanswered", "seq", "seal", "evidence", "since")
    BOOT_NONCE_FIELD_NUMBER: _ClassVar[int]
    FELL_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIELD_NUMBER: _ClassVar[int]
    UNANSWERED_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    boot_nonce: str
    fell: bool
    asks: bool
    unanswered: bool
    seq: int
    seal: bytes
    evidence: Evidence
    since: int
    def __init__(self, boot_nonce: _Optional[str] = ..., fell: _Optional[bool] = ..., asks: _Optional[bool] = ..., unanswered: _Optional[bool] = ..., seq: _Optional[int] = ..., seal: _Optional[bytes] = ..., evidence: _Optional[_Union[Evidence, _Mapping]] = ..., since: _Optional[int] = ...) -> None: ...

class Evidence(_message.Message):
    __slots__ = ("db_uuid", "former", "generation", "boot_nonce", "seq", "seal")
    DB_UUID_FIELD_NUMBER: _ClassVar[int]
    FORMER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    BOOT_NONCE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    db_uuid: str
    former: _containers.RepeatedScalarFieldContainer[str]
    generation: int
    boot_nonce: str
    seq: int
    seal: bytes
    def __init__(self, db_uuid: _Optional[str] = ..., former: _Optional[_Iterable[str]] = ..., generation: _Optional[int] = ..., boot_nonce: _Optional[str] = ..., seq: _Optional[int] = ..., seal: _Optional[bytes] = ...) -> None: ...

class Holding(_message.Message):
    __slots__ = ("subgroup", "epoch", "open", "told", "revoked", "dropped", "over", "control_seq", "cancelled", "held", "recalled", "offered", "offer")
    SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    CONTROL_SEQ_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    RECALLED_FIELD_NUMBER: _ClassVar[int]
    OFFERED_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    subgroup: str
    epoch: int
    open: _common_pb2.IndexSet
    told: _common_pb2.IndexSet
    revoked: _common_pb2.IndexSet
    dropped: bool
    over: bool
    control_seq: int
    cancelled: _common_pb2.IndexSet
    held: _common_pb2.IndexSet
    recalled: _common_pb2.IndexSet
    offered: _common_pb2.IndexSet
    offer: bytes
    def __init__(self, subgroup: _Optional[str] = ..., epoch: _Optional[int] = ..., open: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., told: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., revoked: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., dropped: _Optional[bool] = ..., over: _Optional[bool] = ..., control_seq: _Optional[int] = ..., cancelled: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., held: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., recalled: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., offered: _Optional[_Union[_common_pb2.IndexSet, _Mapping]] = ..., offer: _Optional[bytes] = ...) -> None: ...

class GroupShown(_message.Message):
    __slots__ = ("spec", "receipt")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    spec: bytes
    receipt: bytes
    def __init__(self, spec: _Optional[bytes] = ..., receipt: _Optional[bytes] = ...) -> None: ...

class Holdings(_message.Message):
    __slots__ = ("db_uuid", "seq", "part", "parts", "rows", "groups", "more_from")
    DB_UUID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MORE_FROM_FIELD_NUMBER: _ClassVar[int]
    db_uuid: str
    seq: int
    part: int
    parts: int
    rows: _containers.RepeatedCompositeFieldContainer[Holding]
    groups: _containers.RepeatedCompositeFieldContainer[GroupShown]
    more_from: int
    def __init__(self, db_uuid: _Optional[str] = ..., seq: _Optional[int] = ..., part: _Optional[int] = ..., parts: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[Holding, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[GroupShown, _Mapping]]] = ..., more_from: _Optional[int] = ...) -> None: ...

class QueueRequest(_message.Message):
    __slots__ = ("query", "whole", "parts")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    query: int
    whole: bool
    parts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, query: _Optional[int] = ..., whole: _Optional[bool] = ..., parts: _Optional[_Iterable[str]] = ...) -> None: ...

class QueueReport(_message.Message):
    __slots__ = ("query", "queue", "parts")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    query: int
    queue: _common_pb2.QueueView
    parts: _containers.RepeatedCompositeFieldContainer[_common_pb2.Waiting]
    def __init__(self, query: _Optional[int] = ..., queue: _Optional[_Union[_common_pb2.QueueView, _Mapping]] = ..., parts: _Optional[_Iterable[_Union[_common_pb2.Waiting, _Mapping]]] = ...) -> None: ...

class Renew(_message.Message):
    __slots__ = ("generation", "sent_s")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SENT_S_FIELD_NUMBER: _ClassVar[int]
    generation: int
    sent_s: float
    def __init__(self, generation: _Optional[int] = ..., sent_s: _Optional[float] = ...) -> None: ...

class Renewed(_message.Message):
    __slots__ = ("generation", "sent_s", "lease_s")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SENT_S_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    generation: int
    sent_s: float
    lease_s: float
    def __init__(self, generation: _Optional[int] = ..., sent_s: _Optional[float] = ..., lease_s: _Optional[float] = ...) -> None: ...

class SiteList(_message.Message):
    __slots__ = ("sites",)
    SITES_FIELD_NUMBER: _ClassVar[int]
    sites: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sites: _Optional[_Iterable[str]] = ...) -> None: ...
