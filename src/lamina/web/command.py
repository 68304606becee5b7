"""`lamina ui`: serves the page on 127.0.0.1 and opens it in a browser, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, cast

from lamina.cli.options import config_of, flag, port
from lamina.cli.terminal import note, out, out_json
from lamina.errors import LaminaError, UsageError, installing

if TYPE_CHECKING:
    from lamina.web.server import Server

EXAMPLES = """
lamina ui                        opens your browser
lamina ui --no-open              only prints the address
lamina ui --port 8137
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=port, default=0, help="listen there (any free port)")
    flag(parser, "--no-open", "don't open a browser")


def run(args: argparse.Namespace) -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # waking a second one doubles a query
    config_of(args)  # what is wrong with the options is said before a page is
    server = make_server(args)
    try:  # whoever reads the address may end it at once
        if args.json:
            out_json({"url": server.url, "port": server.port}, pretty=False)
        else:
            out(server.url)
            if not args.quiet:
                note("The address works once, in one browser. Ctrl-C ends the page.")
        sys.stdout.flush()  # whoever waits for the address reads a pipe
        if not args.no_open:
            # Some browsers run in the terminal until they are left, and need answers meanwhile.
            threading.Thread(target=_open, args=(server.url,), daemon=True).start()
        server.serve_forever(cast("float", None))  # sleeps until somebody asks
    except KeyboardInterrupt:
        return
    finally:
        server.server_close()


def make_server(args: argparse.Namespace) -> Server:
    from lamina.web.server import Server

    try:
        from lamina.web.pages import Site
    except ImportError as error:
        raise UsageError(f"The page needs jinja2. Install it: {installing('ui')}.") from error
    try:
        return Server(args.port, partial(Site, args))
    except OSError as error:
        why = f"Can't listen on port {args.port}: {error.strerror}. Give another with --port."
        raise LaminaError(why) from error


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        note("No browser was found. Open the address above in one.")
