"""Passwords that stand in commands: "mysql -psecret", "curl -u name:secret", "zip -P secret"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from shepherd.secret_detection.anchors import Anchored, folded
from shepherd.secret_detection.vocabulary import Secret, is_ordinary

__all__ = ["find"]

_VALUE = r"(?:'(?P<quoted>[^'\n]{3,128})'|\"(?P<doubly>[^\"\n]{3,128})\"|(?P<bare>[^\s'\"|;&<>`]{3,128}))"
# What may stand between a program's name and the option, in the same command.
_GAP = r"(?:[ \t=][^\n|;&]{0,200}?)?\s"
_NAME = r"[\w.@\\-]{1,64}"
_END = r"(?=[\s'\"|;&`)]|$)"
# A program's names, and how its manual says that a password is given. With some programs, the value is
# attached to the option, since without one they ask for it.
_PROGRAMS = (
    (r"mysql\w*|mariadb[\w-]*|7za?|7zr|rar|unrar", r"-(?:h)?p(?=\S)"),
    (r"sshpass", r"-p\s?"),
    (r"curl|wget|https?|xh|smbclient", rf"(?:-u|-a|-U|--user|--auth|--proxy-user)[ =]?['\"]?{_NAME}[:%]"),
    (r"redis-cli", r"(?:-a|--pass)\s"),
    (r"mosquitto_(?:pub|sub|rr)|zip|unzip|sqlcmd|bcp|zipcloak", r"-P\s?"),
    (
        r"mongo(?:sh|dump|restore|import|export|stat)?|(?:docker|podman|helm registry) login|vncviewer"
        r"|x?freerdp\w*",
        r"(?:-p\s?|--password[ =]|/p:)",
    ),
    (r"ldap\w+", r"-w\s?"),
    (r"ssh-keygen", r"-[NP]\s"),
    (r"openssl", r"(?:-k\s|-(?:pass|passin|passout)\spass:)"),
    (
        r"gpg2?|borg|restic|cryptsetup|keytool|jarsigner|svn",
        r"--?(?:passphrase|storepass|keypass|password)[ =]",
    ),
    (r"htpasswd", rf"-\w*b\w*\s(?:\S{{1,128}}\s)?{_NAME}\s"),
    (r"net use", r"(?:[a-z]:\s)?\\\\\S{3,128}\s(?!/)"),
)

# "-pPASSWORD", as manuals write it; "docker run --name mysql -p3306:3306", where the program is an
# argument.
_NO_PASSWORD = re.compile(
    r"(?:my|your|the|a|some|db|root|user)?[_-]?(?:pass(?:word|wd|phrase)?|pwd|secret|token)\d?|[\d.]*:?\d+:\d+",
    re.IGNORECASE,
)


@cache
def _commands() -> Anchored:
    return Anchored(rf"(?<![\w./-])(?:{'|'.join(names for names, _ in _PROGRAMS)})(?=[ \t])")


@cache
def _options() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(rf"(?:{names}){_GAP}{option}{_VALUE}{_END}") for names, option in _PROGRAMS)


def find(text: str) -> Iterator[Secret]:
    """Yield the passwords in commands of programs whose options are known."""
    for command in _commands().finditer(text, folded(text)):
        for option in _options():
            match = option.match(text, command.start())
            if match is None:
                continue
            group = next(name for name in ("quoted", "doubly", "bare") if match[name])
            if not is_ordinary(match[group]) and not _NO_PASSWORD.fullmatch(match[group]):
                yield Secret("password", *match.span(group))
