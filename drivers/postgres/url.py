"""
Where a store is: what libpq is told, and what may be said of it.

A URL can hold secrets: a password, and more in its options. They are in
:attr:`Address.conninfo` and nowhere else; errors, ``repr``, logs and the names of files
have :attr:`Address.location`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import cycle
from typing import Final
from urllib.parse import quote

import psycopg
from attrs import frozen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from eventlog.errors import InvalidArgument
from eventlog.values import shown

__all__ = ["SCHEMA", "Address", "check_options"]

SCHEMA: Final = "eventlog"
NAME_BYTES_MAX: Final = 63

# What libpq is told where the URL says nothing else. A server that is gone without a word
# is noticed within a minute.
DEFAULTS: Final = {
    "connect_timeout": "10",
    "fallback_application_name": "eventlog",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
FORM: Final = "postgresql://USER@HOST:PORT/DATABASE?OPTION=VALUE, with other characters as %XX"

# libpq takes less care where a password's characters should be escaped and are not: what
# follows them would be a host, and be shown.
BARE: Final = re.compile(
    r"postgres(ql)?://([^/?@\s]*@)?(\[[^]/?@\s]*\]|[^]:/?@,[\s]*)(:[0-9]*)?"
    r"(,(\[[^]/?@\s]*\]|[^]:/?@,[\s]*)(:[0-9]*)?)*(/[^?@]*)?(\?|$)"
)


@frozen(repr=False)
class Address:
    """
    A schema of a database.

    Attributes:
        conninfo: What libpq is told, secrets included.

        schema: The schema's name.

        location: The same as a URL without user and secrets, alike however the store was
            named as long as host, port, database and schema are.
    """

    conninfo: str
    schema: str
    location: str

    @classmethod
    def from_url(cls, url: str, schema: str) -> Address:
        """
        Read a URL with the options of libpq. What it leaves open is libpq's to find:
        ``PGHOST`` and the like, ``~/.pgpass``, services.

        Raises:
            InvalidArgument: It is no such URL, or *schema* cannot be a name.
        """
        if BARE.match(url) is None or "\0" in url:
            raise InvalidArgument("url", f"must be {FORM}")
        # What libpq says about a bad URL may quote the password.
        try:
            given = conninfo_to_dict(url)
        except (psycopg.Error, ValueError):
            raise InvalidArgument("url", f"must be {FORM}") from None
        if "replication" in given:
            raise InvalidArgument("url", "must not be one of replication")
        parameters = {name: str(value) for name, value in given.items()}
        parameters = {**DEFAULTS, **parameters, "client_encoding": "utf8"}
        _check_schema(schema)
        return cls(make_conninfo(**parameters), schema, _location(parameters, schema))

    def __repr__(self) -> str:
        return f"<Address {self.location}>"


def check_options(options: Mapping[str, str]) -> None:
    """
    Refuse what libpq does not know.

    Raises:
        InvalidArgument: One of *options* is none of it.
    """
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    for name, value in options.items():
        if name not in known:
            # It may be the rest of a password with a question mark.
            shown_name = repr(name) if name.isidentifier() and "@" not in value else "of such"
            raise InvalidArgument("url", f"postgresql: knows no option {shown_name:.60}")


def _check_schema(schema: object) -> None:
    if type(schema) is not str:
        raise InvalidArgument("schema", f"must be a str, not {type(schema).__name__}")
    try:
        size = len(schema.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= NAME_BYTES_MAX or "\0" in schema:
        raise InvalidArgument("schema", f"must be 1–63 bytes of UTF-8, not {shown(schema)}")
    if schema.startswith("pg_"):
        raise InvalidArgument("schema", f"{schema!r} is of the kind that PostgreSQL keeps")


def _location(given: Mapping[str, str], schema: str) -> str:
    defaults = {
        option.keyword.decode(): option.val.decode()
        for option in Conninfo.get_defaults()
        if option.val is not None
    }
    known = {**defaults, **{name: value for name, value in given.items() if value}}
    hosts = known.get("host", known.get("hostaddr", "")).split(",")
    ports = known.get("port", "5432").split(",")
    places = [f"{_host(host)}:{port}" for host, port in zip(hosts, cycle(ports), strict=False)]
    database = known.get("dbname") or known.get("user", "")
    service = f"&service={quote(known['service'])}" if "service" in known else ""
    return (
        f"postgresql://{','.join(places)}/{quote(database, safe='')}"
        f"?schema={quote(schema, safe='')}{service}"
    )


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else quote(host, safe="")
