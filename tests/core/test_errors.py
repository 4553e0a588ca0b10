"""
The error tree: facts as attributes, the builtin beside, and safe travel between processes.
"""

from __future__ import annotations

import copy
import pickle

import pytest

from eventlog import errors
from eventlog.errors import EventLogError

EXAMPLES: dict[type[EventLogError], tuple[EventLogError, type[Exception]]] = {
    type(error): (error, builtin)
    for error, builtin in [
        (errors.ValueRejected("data.x", "is not finite: nan"), ValueError),
        (errors.RedactionFailed("x/a", "data.x", "raised KeyError at hook.py:3"), RuntimeError),
        (errors.InvalidSurface(6, "sources must not be empty"), ValueError),
        (errors.InvalidArgument("limit", "must be an int ≥ 1, not 0"), ValueError),
        (errors.NotPicklable("session", "'s' cannot leave its LiveSessions"), TypeError),
        (errors.CorruptLog("s", "/p", 4, 99, 2, "malformed", "not JSON"), ValueError),
        (errors.HeaderConflict("s", "cwd", "/a", None), ValueError),
        (errors.SequenceConflict("s", 3, 1), ValueError),
        (errors.SessionExists("s"), ValueError),
        (errors.SessionNotFound("s"), KeyError),
        (errors.SessionDeleted("s"), KeyError),
        (errors.UnsupportedFormat(7, [0], None), ValueError),
        (errors.StoreBusy("pid 1", 2.0), TimeoutError),
        (errors.StoreFull("/p"), OSError),
        (errors.StoreUnavailable("/p", "EIO"), OSError),
        (errors.StoreReadOnly("/p"), PermissionError),
        (errors.StoreClosed("/p"), ValueError),
        (errors.MissingExtra("cli", "pip install …"), ImportError),
    ]
}


def test_every_error_has_an_example() -> None:
    """
    The table of this module covers the whole tree.
    """
    named = {getattr(errors, name) for name in errors.__all__}

    assert named - {EventLogError} == set(EXAMPLES)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_errors_are_also_what_a_caller_would_catch(kind: type[EventLogError]) -> None:
    """
    Each error is an EventLogError and the builtin that fits it.
    """
    error, builtin = EXAMPLES[kind]

    assert isinstance(error, EventLogError)
    assert isinstance(error, builtin)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_errors_survive_pickle_and_copy(kind: type[EventLogError]) -> None:
    """
    A copy has the class, the facts and the message of its original.
    """
    error, _ = EXAMPLES[kind]

    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert kind is type(twin)
        assert vars(error) == vars(twin)
        assert str(error) == str(twin)


def test_messages_say_what_and_where() -> None:
    """
    The text of an error is made of its facts, in words.
    """
    error, _ = EXAMPLES[errors.CorruptLog]

    assert "session 's' is damaged (malformed) in /p at line 4, byte 99, seq 2: not JSON" == str(
        error
    )
