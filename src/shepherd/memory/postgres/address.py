"""Addresses `postgresql://…`: parameters of libpq, our own ones, and a form without passwords."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
# A replica takes over nothing: if it does not answer soon, the other server is asked.
_OF_REPLICAS = {"connect_timeout": "2", "target_session_attrs": "any"}
# libpq 14 and newer.
_STANDBY_FIRST = "prefer-standby"
_HOST_AND_PORT = re.compile(r"(?P<host>/[^:,]+|\[[0-9A-Fa-f:.]+\]|[^/:,\[\]]+)(?::(?P<port>[0-9]{1,5}))?")
# Parameters of ours, which libpq does not know.
_OURS = ("schema", "failover_timeout", "max_staleness", "replicas")
_SECRETS = ("password", "sslpassword", "oauth_client_secret")


@dataclass(frozen=True)
class Address:
    """The address of a database. `shown` and repr() have no secrets."""

    shown: str
    schema: str | None
    parameters: dict[str, str] = field(repr=False)
    failover_timeout_s: float | None = None
    """Time to wait for a server that has answered before; None: as long as for a lock."""
    max_staleness_s: float | None = None
    """Age of the state that a search may see; None: searches see all that was committed before."""
    replica: dict[str, str] = field(default_factory=dict, repr=False)
    """Parameters by which a replica is reached, if max_staleness_s is given."""

    def of_replica(self) -> Address:
        """Return the address of the replicas; nobody waits for one that is away."""
        shown = _shown(self.replica, self.schema)
        return replace(self, shown=shown, parameters=self.replica, failover_timeout_s=0.0)

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
        # As in libpq, `+` is no blank: it is common in passwords.
        query = parse_qsl(asked.replace("+", "%2B"), keep_blank_values=True)
        ours = {name: [value for key, value in query if key == name] for name in _OURS}
        theirs = urlencode([pair for pair in query if pair[0] not in _OURS], quote_via=quote)
        known = conninfo_to_dict(f"{base}?{theirs}" if theirs else base)
        # Several hosts have several ports.
        ports = [int(port) for port in str(known.get("port") or "").split(",") if port]
    except (psycopg.ProgrammingError, ValueError):
        # libpq's message repeats the address with the password.
        raise UsageError("memory_database: PostgreSQL cannot read this address", hint=_HINT) from None
    if any(not 0 < port < 65536 for port in ports):
        raise UsageError("memory_database: a port is from 1 to 65535", hint=_HINT)
    names = ours["schema"]
    if len(names) > 1 or any(not _is_name(name) for name in names):
        raise UsageError(
            f"memory_database: schema= takes one name of 1 to {_LONGEST_NAME} bytes",
            hint="percent-encode characters such as & and /",
        )
    schema = names[0] if names else None
    parameters = {key: str(value) for key, value in known.items() if value is not None}
    wait_s, staleness_s = (_seconds(name, ours[name]) for name in ("failover_timeout", "max_staleness"))
    defaults = _DEFAULTS
    if _has_several_hosts(parameters):
        defaults = _DEFAULTS | _OF_SEVERAL | ({} if read_only else _TO_WRITE)
        wait_s = _FAILOVER_S if wait_s is None else wait_s
    replica = _of_replica(parameters, ours["replicas"], staleness_s)
    shown = _shown(parameters, schema)
    return Address(shown, schema, {**defaults, **parameters}, wait_s, staleness_s, replica)


def _seconds(name: str, values: list[str]) -> float | None:
    # A replica is never as new as the server that is written to.
    is_wrong = any(not _SECONDS.fullmatch(value) for value in values)
    if len(values) > 1 or is_wrong or (name == "max_staleness" and values and not int(values[0])):
        least = "from 1 to 3600" if name == "max_staleness" else "up to 3600"
        raise UsageError(
            f"memory_database: {name}= takes a number of seconds, {least}", hint=f"for example {name}=30"
        )
    return float(values[0]) if values else None


def _has_several_hosts(parameters: Mapping[str, str]) -> bool:
    return "," in parameters.get("host", parameters.get("hostaddr", ""))


def _of_replica(parameters: Mapping[str, str], named: list[str], staleness_s: float | None) -> dict[str, str]:
    """Return libpq's parameters for replicas: those of replicas=, or the hosts that are standbys."""
    if staleness_s is None:
        if named:
            raise UsageError(
                "memory_database: replicas= needs max_staleness=, the age in seconds that a search may see",
                hint="for example max_staleness=60",
            )
        return {}
    if not named:
        if not _has_several_hosts(parameters):
            raise UsageError(
                "memory_database: max_staleness= needs a replica to read from",
                hint="name the replicas, as in replicas=host:port,host:port",
            )
        first = {"target_session_attrs": _STANDBY_FIRST} if psycopg.pq.version() >= 140000 else {}
        return {**_DEFAULTS, **_OF_REPLICAS, **parameters, **first}
    found = [_HOST_AND_PORT.fullmatch(one) for one in ",".join(named).split(",")]
    places = [(one["host"].strip("[]"), one["port"] or "5432") for one in found if one is not None]
    if len(places) < len(found) or any(not 0 < int(port) < 65536 for _, port in places):
        raise UsageError(
            "memory_database: replicas= takes hosts with their ports, separated by commas",
            hint="for example replicas=two:5432,three:5432",
        )
    other = {key: value for key, value in parameters.items() if key not in ("host", "hostaddr", "port")}
    hosts, ports = (",".join(parts) for parts in zip(*places, strict=True))
    return {**_DEFAULTS, **_OF_REPLICAS, **other, "host": hosts, "port": ports}


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
