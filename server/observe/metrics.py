"""Every metric's name, in one place: what dashboards and alerts in deploy/ may use.

They count what happens in this process, whichever application in it, so they belong to the module. Times are seconds.
"""

from __future__ import annotations

from server.observe.registry import Registry
from stores.meter import BOUNDS

REGISTRY = Registry()

_TURN = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)
_SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

# --- turns ---------------------------------------------------------------------------------------------------
TURNS = REGISTRY.counter(
    "nonstick_turns_total", "Turns that ended in this worker, by the state of their task.", "state"
)
TURN_SECONDS = REGISTRY.histogram("nonstick_turn_seconds", "From a turn's start to its end.", bounds=_TURN)
QUEUE_SECONDS = REGISTRY.histogram(
    "nonstick_turn_queue_seconds", "From a message's admission to its turn's start.", bounds=_TURN
)
RUNNING = REGISTRY.gauge("nonstick_turns_running", "Turns in flight in this worker.")
ADMISSIONS = REGISTRY.counter(
    "nonstick_admissions_total",
    "Messages that asked to be accepted, by what became of them: admitted, queued, replayed, in_flight (409), reused "
    "(422), or the limit that refused them (429).",
    "reply",
)
CANCEL_SECONDS = REGISTRY.histogram(
    "nonstick_cancel_seconds", "From a cancel to the end of the work, by how it ended: stopped or forced.", "how",
    bounds=_TURN,
)  # fmt: skip
RECOVERIES = REGISTRY.counter(
    "nonstick_turns_recovered_total",
    "Turns taken over: from a dead worker, adopted (an answer of the store was lost), or left by a draining worker.",
    "how",
)
DEATHS = REGISTRY.counter("nonstick_workers_presumed_dead_total", "Workers this one presumed dead.")
REAPED = REGISTRY.counter("nonstick_worker_reaped_total", "Times this worker was presumed dead itself.")
FENCED = REGISTRY.counter(
    "nonstick_fenced_writes_total", "Writes of a turn that was somebody else's by then, refused by the store.", "step"
)

# --- streams and callbacks -----------------------------------------------------------------------------------
STREAMS = REGISTRY.gauge("nonstick_streams_open", "Server-sent event streams open in this worker.")
EVENT_LAG = REGISTRY.histogram(
    "nonstick_event_lag_seconds",
    "From an event's entry in the log to its reading on another worker, by the clocks of worker and store.",
    bounds=_SHORT,
)
PUSHES = REGISTRY.counter(
    "nonstick_push_total", "Attempts to tell callbacks, by outcome: delivered, retry, dead_letter.", "outcome"
)

# --- the door ------------------------------------------------------------------------------------------------
REFUSALS = REGISTRY.counter("nonstick_refusals_total", "Requests answered with an error, by its reason.", "reason")

# --- the store -----------------------------------------------------------------------------------------------
STORE_SECONDS = REGISTRY.histogram(
    "nonstick_store_seconds", "One call of the store, by operation: a script's name, or a command's.", "operation",
    bounds=BOUNDS,
)  # fmt: skip
STORE_FAULTS = REGISTRY.counter(
    "nonstick_store_faults_total",
    "Calls of the store that failed, by kind: connection, timeout, pool (all connections taken), clients, full, disk, "
    "readonly, replicas, loading, busy, cluster, denied, reply (not understood).",
    "kind",
)
RECONNECTS = REGISTRY.counter(
    "nonstick_store_reconnects_total",
    "Connections to the store made anew: the turns' own (commands), for a call that broke off and was repeated (pool), "
    "pub/sub (signals).",
    "which",
)

# --- the process ---------------------------------------------------------------------------------------------
LOOP_LAG = REGISTRY.histogram(
    "nonstick_loop_lag_seconds", "How late the event loop came to a timer; what blocks it delays every turn.",
    bounds=_SHORT,
)  # fmt: skip

# --- of the whole fleet: read from the store when asked, and the same from every replica, so take the max ------------
FLEET = {
    "nonstick_fleet_contexts": "Live contexts of the whole fleet.",
    "nonstick_fleet_contexts_max": "The cap on them (max_contexts); 0 is none.",
    "nonstick_fleet_workers": "Workers of the whole fleet that are known to the store.",
    "nonstick_fleet_dead_letters": "Events for callbacks that were given up on.",
    "nonstick_fleet_undelivered": "Tasks with news for callbacks that nobody serves at the moment.",
    "nonstick_fleet_ready": "Contexts whose queue waits for a worker.",
}
STORE_UP = "nonstick_store_up"
BUILD = "nonstick_build_info"

EXTRA = {
    **FLEET,
    STORE_UP: "Whether the store answered this scrape.",
    BUILD: "The release, as a label.",
}


def names() -> dict[str, str]:
    """Every name that can appear on the page, with its kind."""
    own = {name: metric.kind for name, metric in REGISTRY.metrics.items()}
    return {**own, **dict.fromkeys(EXTRA, "gauge")}
