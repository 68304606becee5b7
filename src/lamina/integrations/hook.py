"""`lamina hook CLIENT`: the one program that coding agents call at their hooks.

A person waits for it at every prompt, so it imports nothing but the standard library: it hands the
event to a resident process of the same user over a Unix socket, and starts that process where there
is none. It never blocks or breaks its host: the exit code is 0, and what went wrong is in the log
that `lamina doctor` shows.
"""

from __future__ import annotations

import json
import os
import sys

from lamina._version import __version__

TYPE_CHECKING = False  # as in typing, whose import would take a third of the start
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from lamina.integrations.hook_events import Events

EXAMPLES = """
lamina hooks install claude-code         set it up; this command is for the client to call
echo '{"hook_event_name": "SessionStart", "cwd": "."}' | lamina hook claude-code
"""
CLIENTS = ("claude-code", "codex", "gemini", "opencode", "pi")
LOG = "hooks.log"
_LONGEST_EVENT = 10_000_000  # bytes; transcripts come by path, so an event is a few kilobytes
_LONGEST_LOG = 200_000
_WAITS = 3.0  # seconds that a prompt is held up at most; then the client goes on without us
# Variables that settings are read from; not CLAUDE_CODE_…, which differ from session to session.
_SETTINGS = ("HOME", "LAMINA_", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_DISABLE_", "CLAUDE_COWORK_")
# At these nothing is said, so nobody waits: a client that is leaving would cancel us.
_SILENT = ("Stop", "AfterAgent", "PostCompact", "SessionEnd")
_IDLE = 1_200.0  # seconds after which the resident process ends
_HANGS = 60  # seconds after which one event has the resident process ended, so that a new one comes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Answer one hook event of a coding agent; reads it as JSON from stdin."
    parser.add_argument("client", choices=CLIENTS, help="the agent that calls")


def run(args: argparse.Namespace) -> int:
    return at_once(client=args.client, home=args.home, claude=args.claude)


def at_once(*, client: str, home: str | None = None, claude: bool = False, **_: Any) -> int:
    """Answer the event on stdin, whatever it is."""
    theirs = os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude"
    given = home or os.environ.get("LAMINA_HOME") or (theirs if claude else "~/.lamina")
    place, answer, later = os.path.abspath(os.path.expanduser(given)), None, None
    try:
        data = sys.stdin.buffer.read(_LONGEST_EVENT + 1)
        if len(data) > _LONGEST_EVENT:
            raise ValueError(f"the event is over {_LONGEST_EVENT:,} bytes")
        event: Any = json.loads(data or b"{}")
        asked = {"client": client, "home": place, "claude": claude, "event": event}
        silent = event.get("hook_event_name") in _SILENT
        answer = _by_resident(asked, wait=not silent)
        if answer is None and silent:
            later = asked
        elif answer is None:
            from lamina.integrations.hook_events import Events

            answer = Events().answer(asked)
    except Exception as error:  # noqa: BLE001 - the host goes on, whatever happens here
        log(own_home(place, claude=claude), f"{client}: {type(error).__name__}: {error}")
    sys.stdout.write(json.dumps(answer or {}) + "\n")
    sys.stdout.flush()
    if later is not None:
        _afterwards(later)
    return 0


def _afterwards(asked: dict[str, Any]) -> None:
    """Without a resident process: in a child that nobody waits for."""
    if os.fork():
        return
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        from lamina.integrations.hook_events import Events

        events = Events()
        events.answer(asked)
        events.afterwards()
    except Exception as error:  # noqa: BLE001 - nobody is there to be told
        log(own_home(asked["home"], claude=asked["claude"]), f"{type(error).__name__}: {error}")
    finally:
        os._exit(0)


def own_home(home: str, *, claude: bool) -> str:
    """Where our own files are: in another tool's home a folder of its own, as in the settings."""
    return os.path.join(home, "lamina") if claude else home


def log(home: str, sentence: str) -> None:
    """One line for `lamina doctor`; a log that can't be written is no reason to stop anybody."""
    from time import strftime

    path = os.path.join(home, LOG)
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        keep = os.O_TRUNC if os.path.exists(path) and os.path.getsize(path) > _LONGEST_LOG else 0
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | keep, 0o600)
        line = f"{strftime('%Y-%m-%d %H:%M:%S')} {' '.join(sentence.split())[:1_000]}\n"
        os.write(descriptor, line.encode("utf-8", "replace"))
        os.close(descriptor)
    except OSError:
        pass


# ---- the resident process


def _by_resident(asked: dict[str, Any], *, wait: bool) -> dict[str, Any] | None:
    """Its answer; None where there is none yet, and one is started for the next event."""
    from _socket import AF_UNIX, SOCK_STREAM, socket

    path = socket_path(asked["home"])
    if not path:
        return None
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(_WAITS)
        try:
            connection.connect(path)
        except OSError:
            _start_resident(asked["home"])
            return None
        connection.sendall(json.dumps(asked).encode() + b"\n")
        if not wait:
            return {}
        answer = b""
        while part := connection.recv(65_536):
            answer += part
        return json.loads(answer) if answer else None
    finally:
        connection.close()


def socket_path(home: str) -> str:
    """Where the resident process of this home and version listens: in a folder that nobody else may
    enter. "" if there is no such folder."""
    from binascii import crc32

    folder = os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/lamina-{os.getuid()}"  # noqa: S108
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return ""
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        return ""
    # It has its starter's environment: where that says something else, another process answers.
    said = [pair for pair in sorted(os.environ.items()) if pair[0].startswith(_SETTINGS)]
    asked = repr((home, __version__, said)).encode("utf-8", "surrogatepass")
    path = f"{folder}/lamina-hook-{crc32(asked):08x}.sock"
    return path if len(path) < 100 else ""


def _start_resident(home: str) -> None:
    """In a process of its own, which the client's end does not end."""
    try:
        from subprocess import DEVNULL, Popen

        Popen(
            [sys.executable, "-P", "-m", "lamina.integrations.hook", home],
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        log(home, f"the resident process did not start: {error}")


def reside(home: str) -> None:
    """Answer events until nobody has come for a while. One at a time: they are short."""
    import fcntl
    import signal
    import socket
    from contextlib import suppress

    from lamina.integrations.hook_events import Events

    path = socket_path(home)
    if not path:
        return
    with open(f"{path}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return  # there is one already
        with suppress(FileNotFoundError):
            os.unlink(path)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen(16)
            listening.settimeout(_IDLE)
            try:
                while True:
                    connection, _ = listening.accept()
                    signal.alarm(_HANGS)
                    _serve(connection, home, events := Events())
                    events.afterwards()
                    signal.alarm(0)
            except TimeoutError:
                os.unlink(path)


def _serve(connection: Any, home: str, events: Events) -> None:
    with connection:
        connection.settimeout(5.0)
        claude = False
        try:
            asked: Any = json.loads(connection.makefile("rb").readline(_LONGEST_EVENT + 4_096))
            claude = bool(asked.get("claude"))
            if asked.get("home") == home:
                connection.sendall(json.dumps(events.answer(asked)).encode())
        except ConnectionError:
            pass  # whoever asked has gone on, or did not wait
        except Exception as error:  # noqa: BLE001 - the next event is somebody else's
            log(own_home(home, claude=claude), f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    reside(sys.argv[1])
