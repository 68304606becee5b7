"""Lines to a provider: through the user's proxy, which sees no more of them than where they go, or direct;
encrypted by the system's certificates. Touches the network and the environment's words about it.
"""

from __future__ import annotations

import os
import socket
import ssl
from base64 import b64encode
from contextlib import suppress
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

_CONNECTS = 60.0  # seconds in which it must be open
_LONGEST = 8192  # bytes of a line of a proxy's answer
_contexts: dict[str, ssl.SSLContext] = {}  # by the file of certificates besides the system's


def opened(host: str, port: int, *, tls: bool) -> socket.socket:
    """A line that waits for as long as it takes. Raises OSError."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    proxy = _proxy_for(address) if tls else None
    there = (proxy.hostname or "", proxy.port or 80) if proxy else (host, port)
    line = socket.create_connection(there, _CONNECTS)
    try:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if proxy is not None:
            _through(proxy, address, line)
        if tls:
            line = _trusted().wrap_socket(line, server_hostname=host)
        line.settimeout(None)
    except BaseException:
        line.close()
        raise
    return line


def _through(proxy: SplitResult, address: str, line: socket.socket) -> None:
    """Have a proxy connect a line to an address."""
    head = f"CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n"
    if proxy.username:
        who = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
        head += f"Proxy-Authorization: Basic {b64encode(who).decode()}\r\n"
    line.sendall(f"{head}\r\n".encode())
    with line.makefile("rb", buffering=0) as said:  # not one byte of what comes behind
        status = rest = said.readline(_LONGEST)
        while rest.strip():
            rest = said.readline(_LONGEST)
    if not status or not rest:
        raise ConnectionError(f"the proxy {proxy.hostname} hung up")
    if not status.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")):
        said = status.decode("latin-1").strip()
        raise ConnectionError(f'the proxy {proxy.hostname} said "{said}"')


def _proxy_for(address: str) -> SplitResult | None:
    """The proxy that the environment names for it."""
    url = (named := getproxies_environment()).get("https") or named.get("all") or ""
    if not url or proxy_bypass(address):
        return None
    with suppress(ValueError):  # which would repeat a piece of the password
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme == "http" and parts.hostname and parts.port != 0:
            return parts
    raise ConnectionError("the proxy in HTTPS_PROXY is none like http://host:port")


def _trusted() -> ssl.SSLContext:
    """The system's certificates, and those that programs on Node are told to trust besides."""
    more = os.environ.get("NODE_EXTRA_CA_CERTS") or ""
    if more not in _contexts:
        context = ssl.create_default_context()
        with suppress(OSError, ssl.SSLError):
            if more:
                context.load_verify_locations(more)
        _contexts[more] = context
    return _contexts[more]
