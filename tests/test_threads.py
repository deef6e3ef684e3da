"""A thread whose end can be waited for, also after Ctrl-C and in a forked process."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from shepherd.threads import NativeThread


def test_a_wait_is_to_the_end_although_an_earlier_one_was_interrupted():
    def interrupt(*_):
        raise KeyboardInterrupt

    may_end = threading.Event()
    thread = NativeThread(may_end.wait, 60, name="waits")
    thread.start()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            thread.wait()
    finally:
        signal.signal(signal.SIGALRM, before)

    assert not thread.wait(0.01)
    may_end.set()
    assert thread.wait(60)


def test_it_has_ended_when_its_target_raises(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    thread = NativeThread(int, "no number", name="fails")
    thread.start()

    assert thread.wait(60)


def test_a_forked_process_does_not_wait_for_it():
    may_end = threading.Event()
    thread = NativeThread(may_end.wait, 60, name="waits")
    thread.start()
    child = os.fork()
    if child == 0:
        os._exit(0 if thread.wait(5) else 1)
    _, status = os.waitpid(child, 0)
    may_end.set()

    assert os.waitstatus_to_exitcode(status) == 0
    assert thread.wait(60)
