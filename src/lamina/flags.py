"""The reader of flags: once, when a session opens, from the settings and, if the user plugged one in,
from an OpenFeature provider in the domain `lamina`; the process's global provider is never touched.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lamina.config import FLAGS, Config, Flags, Setting
from lamina.config.setting import BadValue, Value
from lamina.errors import SettingsError, installing

if TYPE_CHECKING:
    from openfeature.client import OpenFeatureClient
    from openfeature.provider import FeatureProvider

DOMAIN = "lamina"
# How long a provider may take to come up; after that the session opens without it.
PROVIDER_SECONDS = 5.0


def read(config: Config, provider: FeatureProvider | None = None) -> Flags:
    """The flags now. A provider's word counts unless the setting is managed or given on opening."""
    values: dict[str, Value] = {}
    sources: dict[str, str] = {}
    problems: list[str] = []
    client = _client(provider, problems)
    for name, setting in FLAGS.items():
        source = config.source(setting.name)
        values[name] = config.value(setting.name)
        sources[name] = str(source)
        if client is not None and source.kind not in ("managed", "flag"):
            for value in _provided(client, name, setting, values[name], problems):
                values[name] = value
                sources[name] = f"provider: {client.provider.get_metadata().name}"
    return Flags(MappingProxyType(values), MappingProxyType(sources), tuple(problems))


def _client(provider: FeatureProvider | None, problems: list[str]) -> OpenFeatureClient | None:
    """A client of the provider given, or of the one that the host set for our domain."""
    if provider is None and "openfeature.api" not in sys.modules:
        return None
    try:
        from openfeature import api
    except ImportError as error:
        raise SettingsError(
            f"A flag provider needs the package openfeature-sdk: {installing('openfeature')}."
        ) from error
    if provider is None:
        client = api.get_client(DOMAIN)
        return client if client.provider is not api.get_client().provider else None
    # A domain of its own: another session of the process goes on with its own flags. The registry
    # holds the provider, so no other can get the same id.
    domain = f"{DOMAIN}.{id(provider)}"
    client = api.get_client(domain)
    if client.provider is not provider:
        api.set_provider(provider, domain)
    _wait(client, problems)
    return client


def _wait(client: OpenFeatureClient, problems: list[str]) -> None:
    from openfeature.event import EventDetails, ProviderEvent
    from openfeature.provider import ProviderStatus

    settled = threading.Event()

    def settle(_: EventDetails) -> None:
        settled.set()

    events = (ProviderEvent.PROVIDER_READY, ProviderEvent.PROVIDER_ERROR)
    for event in events:
        client.add_handler(event, settle)
    in_time = settled.wait(PROVIDER_SECONDS)
    for event in events:
        client.remove_handler(event, settle)
    if client.get_provider_status() != ProviderStatus.READY:
        why = "could not start" if in_time else f"was not ready after {PROVIDER_SECONDS:g} s"
        problems.append(f"The flag provider {why}. The settings' values are used.")


def _provided(
    client: OpenFeatureClient, name: str, setting: Setting, default: Value, problems: list[str]
) -> Iterator[Value]:
    """The provider's value, if it has one that the setting can take."""
    from openfeature.exception import ErrorCode

    details = _asked(client, name, setting, default)
    if details.error_code in (ErrorCode.FLAG_NOT_FOUND, ErrorCode.PROVIDER_NOT_READY):
        return
    if details.error_code is not None:
        said = details.error_message or details.error_code
        problems.append(f"The flag provider failed on {name}: {said}.")
        return
    if details.reason == "DEFAULT" and details.value == default:
        return  # it has no opinion of its own
    try:
        yield setting.checked(details.value)
    except BadValue as error:
        problems.append(f"The flag provider's {name} {error}.")


def _asked(client: OpenFeatureClient, name: str, setting: Setting, default: Value) -> Any:
    from openfeature.exception import ErrorCode

    asks: dict[str, Callable[[str, Any], Any]] = {
        "bool": client.get_boolean_details,
        "int": client.get_integer_details,
        "float": client.get_float_details,
        "str": client.get_string_details,
    }
    details = asks.get(setting.kind, client.get_object_details)(name, default)
    if setting.kind == "float" and details.error_code == ErrorCode.TYPE_MISMATCH:
        return client.get_integer_details(name, int(default))  # 24 is a fine number of hours
    return details
