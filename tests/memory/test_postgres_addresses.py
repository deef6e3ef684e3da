"""Addresses of PostgreSQL: what libpq gets, what is shown, and what is refused. No server is asked."""

from __future__ import annotations

import pytest

from shepherd.errors import UsageError
from shepherd.memory.postgres.address import parse


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://h/db", "postgresql://h/db"),
        ("postgresql://u:secret@h:5433/db", "postgresql://u@h:5433/db"),
        ("postgresql://u%40x@h/d%2Fb", "postgresql://u%40x@h/d%2Fb"),
        ("postgresql:///db?host=/run/pg", "postgresql:///db?host=/run/pg"),
        ("postgresql://u@/db?host=/run/pg&port=1", "postgresql://u@:1/db?host=/run/pg"),
        ("postgresql:///db?hostaddr=10.0.0.1", "postgresql://10.0.0.1/db"),
        ("postgresql:///db?host=h&hostaddr=10.0.0.1", "postgresql://h/db"),
        ("postgresql://h/db?schema=mine", "postgresql://h/db?schema=mine"),
        ("postgresql://h/db?schema=a%20b%26c&password=secret", "postgresql://h/db?schema=a%20b%26c"),
        ("postgresql://", "postgresql:///"),
        ("postgresql://a:1,b:65535/db", "postgresql://a,b:1,65535/db"),
        ("postgresql:///db?host=/run/a,/run/b", "postgresql:///db?host=/run/a,/run/b"),
    ],
)
def test_an_address_is_shown_without_secrets(url: str, shown: str) -> None:
    address = parse(url)

    assert address.shown == shown
    assert "secret" not in repr(address)


def test_the_host_is_that_of_the_environment_if_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "/run/pg")
    assert parse("postgresql:///db").shown == "postgresql:///db?host=/run/pg"
    monkeypatch.setenv("PGHOST", "far")
    assert parse("postgresql:///db").shown == "postgresql://far/db"
    assert parse("postgresql://near/db").shown == "postgresql://near/db"


def test_parameters_are_libpqs_with_defaults_and_the_schema_is_ours() -> None:
    address = parse("postgresql://u:a+b@h/db?schema=mine&connect_timeout=3&options=-c%20x%3Dy%20z+1")

    assert address.schema == "mine"
    assert parse("postgresql://h/db").schema is None
    assert address.parameters == {
        "user": "u",
        "password": "a+b",
        "host": "h",
        "dbname": "db",
        "connect_timeout": "3",
        "options": "-c x=y z+1",
        "keepalives_idle": "30",
        "keepalives_interval": "5",
        "keepalives_count": "3",
        "tcp_user_timeout": "20000",
        "application_name": "shepherd",
        "client_encoding": "UTF8",
    }


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h:x/db",
        "postgresql://h:0/db",
        "postgresql://h:65536/db",
        "postgresql://a:1,b:65536/db",
        "postgresql://h/db?no_such=1",
        "postgresql://[h/db",
        "postgresql://h/db?schema=a&schema=b",
        "postgresql://h/db?schema=",
        "postgresql://h/db?schema=pg_x",
        "postgresql://h/db?schema=a%00b",
        f"postgresql://h/db?schema={'x' * 64}",
        "postgresql://h/db?failover_timeout=",
        "postgresql://h/db?failover_timeout=soon",
        "postgresql://h/db?failover_timeout=3601",
        "postgresql://h/db?failover_timeout=1&failover_timeout=2",
        f"postgresql://h/db?schema={'%C3%A9' * 32}",
    ],
)
def test_what_cannot_be_an_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UsageError, match=r"^memory_database: ") as caught:
        parse(url.replace("//", "//u:secret@", 1))

    assert "secret" not in f"{caught.value}{caught.value.hint}"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("url", "target", "connect_timeout", "failover_timeout_s"),
    [
        ("postgresql://a/db", None, "10", None),
        ("postgresql://a/db?failover_timeout=60", None, "10", 60),
        ("postgresql://a,b/db", "read-write", "3", 30),
        ("postgresql:///db?host=/run/a,/run/b", "read-write", "3", 30),
        ("postgresql:///db?hostaddr=10.0.0.1,10.0.0.2", "read-write", "3", 30),
        ("postgresql://a,b/db?target_session_attrs=any&connect_timeout=1&failover_timeout=0", "any", "1", 0),
    ],
)
def test_of_several_hosts_the_one_that_can_be_written_is_waited_for(
    url: str, target: str | None, connect_timeout: str, failover_timeout_s: float | None
) -> None:
    address = parse(url)

    assert address.parameters.get("target_session_attrs") == target
    assert address.parameters["connect_timeout"] == connect_timeout
    assert address.failover_timeout_s == failover_timeout_s
    assert "failover_timeout" not in address.parameters
    if "target_session_attrs" not in url:
        assert "target_session_attrs" not in parse(url, read_only=True).parameters


def test_a_plus_sign_is_one_in_each_part() -> None:
    address = parse("postgresql://u+v:a+b@h/d+b?password=c+d%2Be&schema=x+y")

    found = address.parameters
    assert (found["user"], found["password"], found["dbname"]) == ("u+v", "c+d+e", "d+b")
    assert address.schema == "x+y"


def test_a_schema_has_up_to_63_bytes() -> None:
    for name in ("a", "x" * 63, "é" * 31):
        assert parse(f"postgresql://h/db?schema={name}").schema == name


def test_passwords_are_hidden_in_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "word")
    address = parse("postgresql://u:se.ret@h/db?sslpassword=tls&oauth_client_secret=o%2B")

    assert address.without_secrets("se.ret, seXret, tls, o+, word, h") == "***, seXret, ***, ***, ***, h"
    monkeypatch.delenv("PGPASSWORD")
    assert parse("postgresql://h/db").without_secrets("word") == "word"


def test_replicas_are_reached_as_the_server_is_but_at_other_hosts() -> None:
    url = "postgresql://u:secret@h:5433/db?schema=mine&sslmode=require"
    address = parse(f"{url}&max_staleness=30&replicas=two,[::1]:7,three:1")
    replicas = address.of_replica()

    assert (address.max_staleness_s, address.parameters["host"]) == (30.0, "h")
    assert (replicas.parameters["host"], replicas.parameters["port"]) == ("two,::1,three", "5432,7,1")
    assert replicas.parameters["sslmode"] == "require"
    assert replicas.parameters["password"] == "secret"
    assert replicas.parameters["target_session_attrs"] == "any"
    assert replicas.failover_timeout_s == 0.0
    assert replicas.shown == "postgresql://u@two,::1,three:5432,7,1/db?schema=mine"
    assert "secret" not in repr(address)


def test_of_several_hosts_those_that_cannot_be_written_are_replicas() -> None:
    address = parse("postgresql://one,two/db?max_staleness=1")

    assert address.parameters["target_session_attrs"] == "read-write"
    assert address.replica["host"] == "one,two"
    assert address.replica["target_session_attrs"] == "prefer-standby"
    assert parse("postgresql://one,two/db").max_staleness_s is None


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("max_staleness=30", "needs a replica to read from"),
        ("replicas=two", "needs max_staleness="),
        ("max_staleness=0&replicas=two", "a number of seconds, from 1 to 3600"),
        ("max_staleness=1.5&replicas=two", "a number of seconds, from 1 to 3600"),
        ("max_staleness=1&max_staleness=2&replicas=two", "a number of seconds, from 1 to 3600"),
        ("max_staleness=30&replicas=", "takes hosts with their ports"),
        ("max_staleness=30&replicas=two:0", "takes hosts with their ports"),
        ("max_staleness=30&replicas=two:65536", "takes hosts with their ports"),
        ("max_staleness=30&replicas=two,,three", "takes hosts with their ports"),
        ("max_staleness=30&replicas=two/db", "takes hosts with their ports"),
    ],
)
def test_replicas_that_cannot_be_meant_are_refused(query: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        parse(f"postgresql://h/db?{query}")

    assert caught.value.hint
