"""Types of the documents that a box and a client exchange: run.json, a manifest, an event, and a hello.

For type checkers alone: nothing is imported from here at run time, and no key is guaranteed. Readers take the keys that
are present, and refuse wrong types at the border (`backends.keeper.decode`, `core.heard`).
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, TypedDict


class Retry(TypedDict, total=False):
    """How often, and after which ends, the next attempt follows automatically."""

    attempts: int
    on: List[str]


class Spec(TypedDict, total=False):
    """run.json: one job with one set of parameters, as its keeper runs it. Times in seconds, digests in hex."""

    schema: str
    run: str
    name: str
    identity: str
    argv: List[str]
    resume_argv: List[str]
    init: str
    setup: str
    setup_digest: str
    envs: Dict[str, str]
    platform_env: Dict[str, Any]
    secrets: Sequence[str]
    outputs: List[str]
    scratch: List[str]
    persist: List[str]
    progress: str
    protect: str
    signal: str
    scheduling: Dict[str, Any]
    site_options: Dict[str, Any]
    code: str
    mounts: Dict[str, str]
    num_nodes: int
    first: int
    resources: Dict[str, Any]
    retry: Retry
    rules: List[Dict[str, Any]]
    after: List[str]
    stall_after_s: Optional[float]
    max_duration_s: Optional[float]
    budget_s: Optional[float]
    grace_s: Optional[float]
    beat_s: Optional[float]
    keeper: str
    train: str
    sweep: str
    early_stop: Dict[str, Any]
    planned: str
    client: str


# One file of a manifest or a snapshot: see `wire.manifest.document`.
FileRow = TypedDict(
    "FileRow",
    {
        "path": str,
        "from": str,
        "bytes": int,
        "sha256": str,
        "role": str,
        "set": str,
        "stat": List[int],
        "changed": bool,
        "sealed": str,
    },
    total=False,
)


class Manifest(TypedDict, total=False):
    """See `wire.manifest.document`."""

    schema: str
    run: str
    attempt: int
    at: str
    files: Sequence[FileRow]
    earlier: Sequence[FileRow]
    gone: Sequence[FileRow]
    missing: Sequence[str]
    refused: Sequence[Mapping[str, str]]
    superseded: int
    removed: int
    unnamed: Sequence[Mapping[str, Any]]
    node: Mapping[str, str]
    digest: str


class Event(TypedDict, total=False):
    """One line of events.jsonl: see `wire.events.KINDS` for the fields of each kind."""

    v: int
    seq: int
    at: str
    kind: str
    attempt: int
    token: Optional[str]
    keeper: Mapping[str, Any]
    boot_id: str
    pid1_start: int
    host: str
    clock_offset: Optional[float]
    limits: Mapping[str, Any]
    oom_kill: Optional[int]
    oom_kill_file: Optional[str]
    uptime_s: float
    kmsg_s: float
    groups: Mapping[str, str]
    cgroup: str
    cpu_stat: str
    room: Mapping[str, int]
    seat: str
    cpus: int
    memory_bytes: int
    writes: bool
    cards: Mapping[str, Any]
    against: Sequence[str]
    faults: Sequence[str]
    nodes: Sequence[Mapping[str, Any]]
    seconds: float
    code: str
    copied: Mapping[str, int]
    setup: Optional[Mapping[str, Any]]
    pid: int
    start: int
    pgid: int
    shim: Mapping[str, int]
    payload_s: float
    pct: int
    spent_s: float
    limit_s: float
    cpu_s: float
    rss_bytes: int
    threads: int
    cgroup_bytes: int
    disk: Mapping[str, Mapping[str, int]]
    gpu: Sequence[Mapping[str, Any]]
    log_bytes: Optional[int]
    log_age_s: Optional[float]
    progress: Mapping[str, Any]
    path: str
    step: Optional[int]
    bytes: int
    write_s: float
    quiet_s: float
    signal: Any
    why: str
    state: str
    rc: Optional[int]
    oom_kill_delta: Optional[int]
    by: str
    detail: str
    text: str
    native: str
    rule: str
    number: int
    action: str
    line: str
    manifest: str
    files: int
    missing: Sequence[str]
    refused: Sequence[Any]
    unnamed: Sequence[str]
    names: Mapping[str, int]


class Hello(TypedDict, total=False):
    """What a box reports about itself: see `box.ops.hello`. `now`, `clock_*`: added by the client that asked."""

    base: str
    box: str
    home: str
    user: str
    host: str
    python: str
    python_version: str
    keeper: str
    cpus: int
    memory_bytes: Optional[int]
    cgroup: Mapping[str, Any]
    oom_kill: Optional[int]
    disks: Mapping[str, Mapping[str, Any]]
    gpus: Sequence[Mapping[str, Any]]
    has: Mapping[str, bool]
    avoid: Sequence[Mapping[str, Any]]
    os: Mapping[str, str]
    argv: Sequence[str]
    lanes: Sequence[Any]
    now: str
    clock_offset_s: Optional[float]
    clock_unsure_s: float
