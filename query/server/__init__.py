"""
A history server for agents: what a model may ask of a store, over the Model Context Protocol.

:mod:`~eventlog.query.server.scope` says which sessions it may see, fixed when the server
starts; :mod:`~eventlog.query.server.tools` are the tools as plain functions of arguments;
:mod:`~eventlog.query.server.serving` speaks the protocol, by the official SDK.
"""

from .scope import Scope
from .tools import Answer, HistoryTools

__all__ = ["Answer", "HistoryTools", "Scope"]
