"""Eight users talk to one server at once: the small form of bench/test_server.py."""

from __future__ import annotations

from shepherd.memory import Memory
from tests.server import crowd

TURNS = 10
LEARNED_S = 300.0


def test_eight_who_never_pause_each_get_their_own_facts_and_read_each_token_once(serve):
    server = serve("--slots", "4", "--threads", "1")
    users = crowd.eight_users()

    crowd.talk(server, users, TURNS)
    crowd.wait_until_learned(server, users, LEARNED_S)
    crowd.ask_once_more(server, users)

    with Memory(server.database, user_id="local", read_only=True) as memory:
        counts = crowd.check(memory, users)
    assert counts["messages"] == sum(user.turns for user in users) == 8 * (TURNS + 3)
    assert sum(user.re_read for user in users if not user.evictions) == 0
    assert all(user.new > 0 for user in users)
