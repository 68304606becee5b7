"""`lamina team serve` and `lamina team token`: for whoever runs the server."""

from __future__ import annotations

import argparse
import socket
from contextlib import closing
from dataclasses import asdict
from typing import Any

from lamina.cli.options import add_verb, begin_group, count, flag, port
from lamina.cli.terminal import moment, note, out, out_json, out_result, table
from lamina.errors import UsageError, installing
from lamina.machine import serve_until_told
from lamina.team.database import Database
from lamina.team.entries import is_name, is_repository

VERBS = ("serve", "token")
_DB = "where everything is kept: sqlite:///WHOLE/PATH or postgresql://USER@HOST/NAME"


def add_verbs(verbs: Any) -> None:
    serve = add_verb(verbs, "serve", "run a server for teams")
    begin_group(verbs, "running a server")
    serve.add_argument("--db", required=True, help=_DB)
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    serve.add_argument("--port", type=port, default=8321, help="the port (8321); 0: any free one")
    serve.add_argument(
        "--rate", type=count, default=600, help="requests a minute for a token (600)"
    )
    token = add_verb(verbs, "token", "make, list and revoke tokens")
    kinds = token.add_subparsers(dest="token_verb", metavar="VERB", required=True)
    create = add_verb(kinds, "create", "make a token; it is shown once")
    create.add_argument("--name", required=True, help="whose it is: it signs what they write")
    create.add_argument("--tenant", default="default", help="the organisation (default)")
    create.add_argument("--repo", default="*", help='owner/name, "owner/*", or "*" for all (*)')
    flag(create, "--read-only", "allow reading only")
    listing = add_verb(kinds, "list", "list tokens, without the tokens themselves")
    listing.add_argument("--tenant", default="", help="only this organisation's")
    revoke = add_verb(kinds, "revoke", "revoke a token")
    revoke.add_argument("id", help="its id in the list")
    for verb in (create, listing, revoke):
        verb.add_argument("--db", required=True, help=_DB)


def run(args: argparse.Namespace) -> None:
    if args.verb == "serve":
        return _serve(args)
    run_verb = {"create": _create, "list": _list, "revoke": _revoke}[args.token_verb]
    with closing(Database(args.db, new=run_verb is _create)) as database:
        return run_verb(args, database)


def _serve(args: argparse.Namespace) -> None:
    try:
        from lamina.team.server import make_server
    except ImportError as error:
        raise UsageError(
            f"The server needs two more packages. Install them: {installing('team')}."
        ) from error
    with closing(Database(args.db)) as database, _listening(args.host, args.port) as listening:
        host, port = listening.getsockname()[:2]

        def say() -> None:
            if not args.quiet:
                note(f"Serving on http://{host}:{port}. Put TLS in front of it; Ctrl-C stops it.")

        serve_until_told(make_server(database, requests_a_minute=args.rate), listening, say)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        raise UsageError(f"Can't listen on {host}:{port}: {error}. Choose another.") from error


def _create(args: argparse.Namespace, database: Database) -> None:
    for what, word in (("name", args.name), ("tenant", args.tenant)):
        if not is_name(word):
            raise UsageError(f"{word!r} can't be a {what}: use letters, digits and . _ @ -")
    repo = args.repo.lower()
    if repo != "*" and not is_repository(repo.removesuffix("/*") + "/x" * repo.endswith("/*")):
        raise UsageError(
            f'{args.repo!r} is not a repository name: write owner/name, "owner/*" or "*".'
        )
    token, secret = database.create_token(args.tenant, args.name, repo, writes=not args.read_only)
    if args.json:
        out_json({"id": token.id, "token": secret})
        return
    out(secret)
    note(f"Token {token.id} for {token.name}. It is not shown again.")


def _list(args: argparse.Namespace, database: Database) -> None:
    tokens = database.tokens(args.tenant)
    if args.json:
        out_json([asdict(one) for one in tokens])
        return
    rows: list[list[str]] = []
    for one in tokens:
        may, made = "writes" if one.writes else "reads", moment(one.created, day_only=True)
        ended = "revoked" if one.revoked else ""
        rows.append([one.id, one.name, one.tenant, one.repo, may, made, ended])
    shown = table(rows, ["id", "name", "tenant", "repo", "may", "made", ""])
    out(shown) if rows else note("No tokens.")


def _revoke(args: argparse.Namespace, database: Database) -> None:
    if not database.revoke(args.id):
        raise UsageError(f"There is no active token {args.id}. `lamina team token list` shows all.")
    out_result({"revoked": args.id}, f"Revoked {args.id}.", as_json=args.json)
