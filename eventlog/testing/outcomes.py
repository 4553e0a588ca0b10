"""
What a call came to, in a form in which stores can be compared.
"""

from __future__ import annotations

from collections.abc import Callable

from eventlog.errors import EventLogError

__all__ = ["answer_facts", "outcome"]

# For each error class, the facts that every store must tell alike.
FACTS = {
    "SequenceConflict": ("session_id", "expected", "actual"),
    "HeaderConflict": ("session_id", "field"),
    "InvalidSurface": ("seq",),
    "InvalidArgument": ("name",),
    "SessionNotFound": ("session_id",),
    "SessionDeleted": ("session_id",),
    "UnsupportedFormat": ("found", "seq"),
}


def outcome(call: Callable[..., object], *arguments: object) -> object:
    """
    Return what a call answered, with its type, or the class and facts of its error.

    An error that is none of the library's is raised on: it is a fault in itself.
    """
    try:
        answer = call(*arguments)
    except EventLogError as error:
        return answer_facts(error)
    return answer_facts(answer)


def answer_facts(answer: object) -> object:
    """Return the same of an answer that may be an error, as ``append_many`` gives them."""
    if not isinstance(answer, EventLogError):
        return type(answer), answer
    name = type(answer).__name__
    return (name, *(getattr(answer, fact) for fact in FACTS.get(name, ())))
