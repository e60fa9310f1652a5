"""The life of a device at this gateway: `{(state, event): state}`. Pure.

    pending ──claimed──▶ enrolling ──accepted──▶ enrolled ⇄ offline, inactive
       ▲ put_back ◀─────────┘                      │  └─cloned──▶ conflict
       │                                  forgotten│
       └───── claimed ◀── reenrolling ◀────────────┘   blocked, quarantined: ended by an operator

`offline` and `inactive` are verdicts of this gateway alone: the service never learns of them.
An enrolment is under way in the states of `ENROLS`; in no other is there a job for one.
"""

from typing import Final, Literal, get_args

State = Literal[
    "pending", "enrolling", "enrolled", "offline", "inactive", "reenrolling", "conflict", "blocked", "quarantined"
]
STATES: Final[tuple[State, ...]] = get_args(State)

Event = Literal[
    "contacted",  # it spoke
    "claimed",  # its enrolment is about to be sent
    "put_back",  # the enrolment was not settled, and is to be sent again
    "accepted",  # the service enrolled it
    "refused",  # the service will not enrol it as it is
    "forgotten",  # the service does not know it any more
    "forgotten_again",  # the same, too often
    "recalled",  # it was a mistake that the service did not know it
    "blocked",  # by the service or an operator
    "let_in",  # by an operator: enrol it again
    "cloned",  # two machines speak under its id
    "fell_silent",
    "long_silent",
]
EVENTS: Final[tuple[Event, ...]] = get_args(Event)

ENROLS: Final[frozenset[State]] = frozenset({"pending", "enrolling", "reenrolling"})
KNOWN: Final[frozenset[State]] = frozenset({"enrolled", "offline", "inactive", "conflict"})
"""The service knows them: heartbeats go out."""

_FROM_ANY: Final[dict[Event, State]] = {"blocked": "blocked"}

TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    **{(state, event): after for event, after in _FROM_ANY.items() for state in STATES},
    ("pending", "contacted"): "pending",
    ("enrolling", "contacted"): "enrolling",
    ("enrolled", "contacted"): "enrolled",
    ("offline", "contacted"): "enrolled",
    ("inactive", "contacted"): "enrolled",
    ("reenrolling", "contacted"): "reenrolling",
    ("conflict", "contacted"): "conflict",
    ("quarantined", "contacted"): "quarantined",
    ("blocked", "contacted"): "blocked",
    ("pending", "claimed"): "enrolling",
    ("reenrolling", "claimed"): "enrolling",
    ("enrolling", "claimed"): "enrolling",  # its lease ran out
    ("enrolling", "put_back"): "pending",
    ("pending", "put_back"): "pending",
    ("enrolling", "accepted"): "enrolled",
    ("pending", "accepted"): "enrolled",  # the answer came after the lease ran out
    ("enrolling", "refused"): "quarantined",
    ("pending", "refused"): "quarantined",
    ("enrolled", "forgotten"): "reenrolling",
    ("offline", "forgotten"): "reenrolling",
    ("inactive", "forgotten"): "reenrolling",
    ("conflict", "forgotten"): "reenrolling",
    ("enrolled", "forgotten_again"): "quarantined",
    ("offline", "forgotten_again"): "quarantined",
    ("inactive", "forgotten_again"): "quarantined",
    ("conflict", "forgotten_again"): "quarantined",
    ("enrolled", "refused"): "quarantined",
    ("offline", "refused"): "quarantined",
    ("inactive", "refused"): "quarantined",
    ("conflict", "refused"): "quarantined",
    ("reenrolling", "recalled"): "enrolled",
    ("blocked", "let_in"): "pending",
    ("quarantined", "let_in"): "pending",
    ("enrolled", "let_in"): "pending",
    ("offline", "let_in"): "pending",
    ("inactive", "let_in"): "pending",
    ("conflict", "let_in"): "pending",
    ("reenrolling", "let_in"): "pending",
    ("enrolled", "cloned"): "conflict",
    ("offline", "cloned"): "conflict",
    ("inactive", "cloned"): "conflict",
    ("conflict", "cloned"): "conflict",
    ("enrolled", "fell_silent"): "offline",
    ("enrolled", "long_silent"): "inactive",
    ("offline", "long_silent"): "inactive",
}


class NoSuchTransition(Exception):
    """An event that cannot happen to a device in its state."""


def may(state: State, event: Event) -> bool:
    return (state, event) in TRANSITIONS


def after(state: State, event: Event) -> State:
    """Raises NoSuchTransition."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise NoSuchTransition(f"{event} cannot happen to a device that is {state}") from None
