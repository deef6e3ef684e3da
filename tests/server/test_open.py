"""`shepherd serve --open` shows the page to the person who started it."""

from __future__ import annotations

import os

import pytest


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_browser_gets_the_address_of_the_page(host, serve, tmp_path):
    told = tmp_path / "told"
    os.mkfifo(told)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {told}\n')
    browser.chmod(0o755)

    server = serve("--open", "--host", host, BROWSER=str(browser))

    with told.open() as opened:  # waits for the browser
        assert opened.readline().strip() == f"{server.url}/"
    with server.http() as client:
        assert client.get("/").text.startswith("<!doctype html>")
