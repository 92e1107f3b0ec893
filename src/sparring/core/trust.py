"""Checks which hosts endpoints may have, which keys they get, and where responses are stored.

Recipes, suites and run folders may come from other people. A file of theirs may name an endpoint,
but must not decide where secrets go:

- A key is a variable whose name ends in ``_API_KEY``.
- A host is this machine, the key's provider, or a host that the user named in the environment
  variable ``SPARRING_ENDPOINT_HOSTS`` or by typing ``base_url=`` on the command line.
- A file of responses ends in ``.jsonl``. A file without a path is in ``answers/`` of the cache. A
  path, or a folder above it, must be named by the user in the environment variable
  ``SPARRING_ENDPOINT_FILES`` or by typing ``cache=`` on the command line.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from sparring.core.errors import ConfigError
from sparring.core.files import cache_folder
from sparring.core.foreign_text import check_file_name

HOSTS, FILES = "SPARRING_ENDPOINT_HOSTS", "SPARRING_ENDPOINT_FILES"
ONLINE = "WANDB_MODE"  # with value "online", metrics may be sent; see ``run.sinks.wandb``
RAY = "SPARRING_RAY_ADDRESS"  # trusted clusters of Ray; see ``engine.workers.fleet.ray``
PROVIDERS = {
    "OPENAI_API_KEY": "api.openai.com",
    "ANTHROPIC_API_KEY": "api.anthropic.com",
    "GEMINI_API_KEY": "generativelanguage.googleapis.com",
    "MISTRAL_API_KEY": "api.mistral.ai",
    "DEEPSEEK_API_KEY": "api.deepseek.com",
    "GROQ_API_KEY": "api.groq.com",
    "OPENROUTER_API_KEY": "openrouter.ai",
    "TOGETHER_API_KEY": "api.together.xyz",
    "XAI_API_KEY": "api.x.ai",
}
_KEY_NAME = re.compile(r"[A-Z][A-Z0-9_]*_API_KEY")
_HOST = re.compile(r"[A-Za-z0-9._:-]+")
_TYPED_HOST = re.compile(r"base_url\s*[=:]\s*[\"']?(https?://[^\s\"',}\]]+)")
_TYPED_RAY = re.compile(r"address\s*[=:]\s*[\"']?((?:ray://)?[A-Za-z0-9._\[\]-]+:[0-9]+)")
_TYPED_ONLINE = re.compile(r"(?<!\w)mode\s*[=:]\s*[\"']?online\b")
_TYPED_FILE = re.compile(r"(?<!\w)cache\s*[=:]\s*(?:\"([^\"]+)\"|'([^']+)'|([^\s\"',}\]]+))")


class Address(NamedTuple):
    """The address of an endpoint."""

    scheme: str
    host: str
    port: int | None

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_address(base_url: str) -> Address:
    """Return the parts of an http address.

    Raises:
        ConfigError: the text is not an http address, or holds a secret.
    """
    try:
        parts = urlsplit(base_url)
        host = (
            (parts.hostname or "").lower().rstrip(".")
            if parts.scheme in ("http", "https") and parts.port != 0
            else ""
        )
        # parts.port raises ValueError beyond 65535
        port, has_secret = parts.port, bool(parts.query or parts.fragment)
    except ValueError:
        host, port, has_secret, parts = "", None, False, urlsplit("")
    if has_secret or "@" in base_url:
        raise ConfigError(
            "endpoint: base_url must hold no user, password or query; write the plain address and "
            "name the key by key_variable."
        )
    if not _HOST.fullmatch(host) or re.search(r"[\s\x00-\x1f\\]", base_url):
        raise ConfigError(
            f"endpoint: base_url={base_url!r} is not an http address; write one such as "
            "http://127.0.0.1:8000/v1."
        )
    return Address(parts.scheme, host, port)


def check_host(address: Address, key_variable: str) -> None:
    """Check that requests with the key in a variable may go to an address.

    Raises:
        ConfigError: the variable's name is not a key's name, or the host is not allowed.
    """
    if not _KEY_NAME.fullmatch(key_variable):
        raise ConfigError(
            "endpoint: key_variable must be the name of an environment variable that ends in "
            "_API_KEY (capitals, digits, underscores), never the key; write "
            "key_variable=OPENAI_API_KEY and put the key into the environment."
        )
    is_provider = (
        address.scheme == "https"
        and address.port in (None, 443)
        and PROVIDERS.get(key_variable) == address.host
    )
    if (
        address.is_loopback
        or is_provider
        or named_hosts() & {address.host, f"{address.host}:{address.port}"}
    ):
        return
    raise ConfigError(
        f"endpoint: nothing is sent to {address.host} over {address.scheme}: it is neither this "
        f"machine nor the provider of {key_variable}, and you have not named it. If you trust it "
        f"with this key, write {HOSTS}={address.host} before the command."
    )


def cache_file(cache: str) -> Path:
    """Return the file for endpoints' responses.

    Raises:
        ConfigError: the name does not end in .jsonl, or the user has not named the folder.
    """
    if not cache.endswith(".jsonl"):
        raise ConfigError(
            f"endpoint: cache={cache!r} must end in .jsonl; write for example cache=answers.jsonl."
        )
    path = Path(cache).expanduser()
    if path.name == cache and _is_file_name(cache):
        return cache_folder() / "answers" / cache
    path = path.absolute()
    real_path = Path(os.path.realpath(path))
    trusted_folders = map(os.path.realpath, [*named_files(), cache_folder() / "answers"])
    if any(real_path.is_relative_to(folder) for folder in trusted_folders):
        return path
    raise ConfigError(
        f"endpoint: cache={cache!r} is a path that you have not named, so nothing is written "
        "there. Write a plain name such as "
        f"cache={path.name if _is_file_name(path.name) else 'answers.jsonl'}, which is kept "
        f"in {cache_folder() / 'answers'}, or {FILES}={path.parent} before the command."
    )


def named_hosts() -> set[str]:
    """Return the hosts that the user named, as host or host:port."""
    return {host.strip().lower() for host in os.environ.get(HOSTS, "").split(",")} - {""}


def named_files() -> list[Path]:
    """Return the files and folders that the user named for responses."""
    return [
        Path(path).expanduser().absolute()
        for path in os.environ.get(FILES, "").split(os.pathsep)
        if path
    ]


def trust_typed(texts: Iterable[str | None]) -> None:
    """Trust addresses, files and online modes that the user typed, also in child processes.

    Args:
        texts: arguments of the command line, such as ``bots.b.base_url=http://gpu:8000/v1``.
    """
    for text in (text for text in texts if text):
        for base_url in _TYPED_HOST.findall(text):
            _append_variable(HOSTS, ",", urlsplit(base_url).netloc.lower())
        for address in _TYPED_RAY.findall(text):
            _append_variable(RAY, ",", address)
        if _TYPED_ONLINE.search(text):
            os.environ.setdefault(ONLINE, "online")
        for groups in _TYPED_FILE.findall(text):
            trust_file(Path("".join(groups)))  # exactly one of the groups is not empty


def trust_file(path: Path) -> None:
    """Trust a file for responses, also in child processes."""
    _append_variable(FILES, os.pathsep, str(path.expanduser().absolute()))


def _append_variable(variable: str, separator: str, value: str) -> None:
    entries = [item for item in os.environ.get(variable, "").split(separator) if item]
    os.environ[variable] = separator.join(entries if value in entries else [*entries, value])


def _is_file_name(name: str) -> bool:
    try:
        return bool(check_file_name(name))
    except ValueError:
        return False
