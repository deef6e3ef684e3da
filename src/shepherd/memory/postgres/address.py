"""Addresses `postgresql://…`: parameters of libpq, our own ones, and a form without passwords."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from shepherd.errors import UsageError

__all__ = ["Address", "parse"]

# Bytes of an identifier in PostgreSQL (NAMEDATALEN - 1); it cuts longer ones, and two could become one.
_LONGEST_NAME = 63
_HINT = "write it like postgresql://user@host:5432/database?schema=name"
# Defaults by which a lost server is noticed within seconds.
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "shepherd",
    "client_encoding": "UTF8",
}
# Several hosts: one of them can be written, and another takes over from it.
_OF_SEVERAL = {"connect_timeout": "3"}
_TO_WRITE = {"target_session_attrs": "read-write"}
_FAILOVER_S = 30.0
_SECONDS = re.compile("[0-9]{1,3}|[12][0-9]{3}|3[0-5][0-9]{2}|3600")
# Parameters of ours, which libpq does not know.
_OURS = ("schema", "failover_timeout")
_SECRETS = ("password", "sslpassword", "oauth_client_secret")


@dataclass(frozen=True)
class Address:
    """The address of a database. `shown` and repr() have no secrets."""

    shown: str
    schema: str | None
    parameters: dict[str, str] = field(repr=False)
    failover_timeout_s: float | None = None
    """Time to wait for a server that has answered before; None: as long as for a lock."""

    def without_secrets(self, text: str) -> str:
        """Return `text` without this address's passwords, in case libpq repeats one."""
        secrets = [self.parameters.get(name) for name in _SECRETS] + [os.environ.get("PGPASSWORD")]
        for secret in secrets:
            if secret and re.search(re.escape(secret), text):
                text = text.replace(secret, "***")
        return text


def parse(url: str, *, read_only: bool = False) -> Address:
    """Parse an address; raise UsageError if it is not one. Of several hosts, a reader takes any.

    All parameters but `_OURS` are libpq's.
    """
    try:
        # urlunsplit would make postgresql:/db of postgresql:///db.
        base, _, asked = url.partition("?")
        query = parse_qsl(asked, keep_blank_values=True)
        names = [value for key, value in query if key == "schema"]
        waits = [value for key, value in query if key == "failover_timeout"]
        # libpq does not read `+` as a blank.
        theirs = urlencode([pair for pair in query if pair[0] not in _OURS], quote_via=quote)
        known = conninfo_to_dict(f"{base}?{theirs}" if theirs else base)
        # Several hosts have several ports.
        ports = [int(port) for port in str(known.get("port") or "").split(",") if port]
    except (psycopg.ProgrammingError, ValueError):
        # libpq's message repeats the address with the password.
        raise UsageError("memory_database: PostgreSQL cannot read this address", hint=_HINT) from None
    if any(not 0 < port < 65536 for port in ports):
        raise UsageError("memory_database: a port is from 1 to 65535", hint=_HINT)
    if len(names) > 1 or any(not _is_name(name) for name in names):
        raise UsageError(
            f"memory_database: schema= takes one name of 1 to {_LONGEST_NAME} bytes",
            hint="percent-encode characters such as & and /",
        )
    if len(waits) > 1 or any(not _SECONDS.fullmatch(wait) for wait in waits):
        raise UsageError(
            "memory_database: failover_timeout= takes a number of seconds, up to 3600",
            hint="for example failover_timeout=30",
        )
    schema = names[0] if names else None
    parameters = {key: str(value) for key, value in known.items() if value is not None}
    wait_s = float(waits[0]) if waits else None
    defaults = _DEFAULTS
    if "," in parameters.get("host", parameters.get("hostaddr", "")):
        defaults = _DEFAULTS | _OF_SEVERAL | ({} if read_only else _TO_WRITE)
        wait_s = _FAILOVER_S if wait_s is None else wait_s
    return Address(_shown(parameters, schema), schema, {**defaults, **parameters}, wait_s)


def _is_name(name: str) -> bool:
    # PostgreSQL reserves names that begin with pg_.
    return 0 < len(name.encode()) <= _LONGEST_NAME and "\0" not in name and not name.startswith("pg_")


def _shown(parameters: dict[str, str], schema: str | None) -> str:
    host = parameters.get("host") or parameters.get("hostaddr") or os.environ.get("PGHOST", "")
    user = f"{quote(parameters['user'], safe='')}@" if parameters.get("user") else ""
    port = f":{parameters['port']}" if parameters.get("port") else ""
    name = quote(parameters.get("dbname", ""), safe="")
    # A socket's folder is in the query, as libpq requires.
    in_query = {"host": host} if host.startswith("/") else {}
    in_query |= {"schema": schema} if schema else {}
    query = f"?{urlencode(in_query, safe='/,', quote_via=quote)}" if in_query else ""
    shown_host = "" if "host" in in_query else host
    return f"postgresql://{user}{shown_host}{port}/{name}{query}"
