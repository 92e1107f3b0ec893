"""A foreign recipe may send secrets or write files only to hosts and folders that the user has named."""

import json
import os
import re
from pathlib import Path

import pytest

from sparring.cli.text import escape_controls
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.core.trust import (
    FILES,
    HOSTS,
    PROVIDERS,
    cache_file,
    check_host,
    parse_address,
    trust_file,
    trust_typed,
)


@pytest.fixture(autouse=True)
def without_trusted_hosts_and_folders(monkeypatch, tmp_path):
    """Remove trusted hosts and folders from the environment variables."""
    for name in (HOSTS, FILES):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / "cache"))


def make_endpoint_and_judge(**options):
    options = {"model": "m", **options}
    return [
        registry.bind("players", "endpoint", options),
        lambda: registry.bind("rewards", "llm_judge", options)([], {}),
    ]


@pytest.mark.parametrize(
    "name", ["AWS_SECRET_ACCESS_KEY", "HOME", "GITHUB_TOKEN", "PATH", "_API_KEY", "my_API_KEY", "X_API_KEY\n", "sk-123"]
)
def test_only_a_variable_that_ends_in_api_key_is_sent(name, monkeypatch):
    monkeypatch.setenv(re.sub(r"\W", "", name), "secret-value")
    for make_client in make_endpoint_and_judge(base_url="http://127.0.0.1:1/v1", key_variable=name):
        with pytest.raises(
            ConfigError, match=r"key_variable must be .* ends in _API_KEY .*write key_variable=OPENAI_API_KEY"
        ) as error:
            make_client()
        assert "secret-value" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.example/v1",
        "https://api.openai.com.evil.example/v1",
        "https://api.openai.com:8443/v1",
        "http://api.openai.com/v1",
        "http://127.0.0.1.evil.example",
        "http://169.254.169.254/latest",
        "http://10.0.0.1/v1",
        "http://0x7f000001.evil.example",
        "https://openrouter.ai/api/v1",
    ],
)
def test_a_key_is_not_sent_to_a_host_that_the_user_has_not_named(url, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    for make_client in make_endpoint_and_judge(base_url=url):
        with pytest.raises(ConfigError, match=rf"nothing is sent to .*write {HOSTS}=\S+ before the command"):
            make_client()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1\\@evil.example/v1",
        "http://127.0.0.1\\.evil.example",
        "http://[::1%25x]@evil.example",
        "http://ev\u0131l/",
    ],
)
def test_an_ambiguous_address_is_refused(url):
    with pytest.raises(ConfigError, match=r"not an http address|no user, password"):
        parse_address(url)


def test_the_setting_that_the_error_names_permits_the_host(monkeypatch):
    address, key = parse_address("http://gpu.lan:8000/v1"), "MY_API_KEY"
    with pytest.raises(ConfigError) as error:
        check_host(address, key)
    monkeypatch.setenv(*re.search(rf"({HOSTS})=(\S+)", str(error.value)).groups())
    check_host(address, key)
    monkeypatch.setenv(HOSTS, "other.lan, GPU.lan:8000")
    check_host(address, key)
    with pytest.raises(ConfigError):
        check_host(parse_address("http://gpu.lan:9000/v1"), key)


def test_known_providers_and_plain_file_names_need_no_permission(tmp_path, monkeypatch):
    for key, host in PROVIDERS.items():
        check_host(parse_address(f"https://{host}/v1"), key)
        check_host(parse_address("http://localhost:8000/v1"), key)
        check_host(parse_address("http://[::1]:8000/v1"), key)
        with pytest.raises(ConfigError):
            check_host(parse_address(f"https://{host}/v1"), "OTHER_API_KEY")
    monkeypatch.chdir(tmp_path)
    for make_client in make_endpoint_and_judge(base_url="http://127.0.0.1:1/v1", cache="mine.jsonl"):
        make_client()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "cache" / "answers" / "mine.jsonl"]
    with pytest.raises(ConfigError) as error:
        cache_file("\x1b]0;x\x07.jsonl")
    assert "\x1b" not in escape_controls(error.value) and Path("answers.jsonl").name in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "endpoint model=m base_url=http://gpu.lan:8000/v1 temperature=null",
        "bots.b.base_url=http://gpu.lan:8000/v1",
        "bots={b: {name: endpoint, base_url: 'http://gpu.lan:8000/v1', model: m}}",
    ],
)
def test_a_host_in_a_typed_argument_is_permitted(text):
    trust_typed([None, text, "steps=3"])
    check_host(parse_address("http://gpu.lan:8000/v1"), "MY_API_KEY")
    with pytest.raises(ConfigError):
        check_host(parse_address("http://evil.lan:8000/v1"), "MY_API_KEY")
    assert os.environ[HOSTS] == "gpu.lan:8000"


@pytest.mark.parametrize(
    "cache", ["notes.txt", ".bashrc", "~/.ssh/authorized_keys", "/dev/null", "answers", "", "x.jsonl/"]
)
def test_the_cache_of_answers_must_be_a_jsonl_file(cache):
    for make_client in make_endpoint_and_judge(base_url="http://127.0.0.1:1/v1", cache=cache):
        with pytest.raises(ConfigError, match=r"must end in \.jsonl"):
            make_client()


@pytest.mark.parametrize(
    "cache",
    [
        "{tmp}/x.jsonl",
        "../x.jsonl",
        "new/folder/x.jsonl",
        "~/x.jsonl",
        "answers/../../x.jsonl",
        "{tmp}/cache/x.jsonl",
        ".x.jsonl",
    ],
)
def test_a_recipe_cannot_choose_the_folder_of_the_cache(cache, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    for make_client in make_endpoint_and_judge(base_url="http://127.0.0.1:1/v1", cache=cache.format(tmp=tmp_path)):
        with pytest.raises(ConfigError, match=rf"a path that you have not named.*a plain name such as.*{FILES}="):
            make_client()
    assert [path.name for path in tmp_path.rglob("*")] == ["here"]


def test_permitted_paths_are_used_but_links_that_leave_them_are_refused(tmp_path, monkeypatch):
    folder = tmp_path / "kept"
    folder.mkdir()
    monkeypatch.setenv(FILES, str(folder))
    assert cache_file(str(folder / "a.jsonl")) == folder / "a.jsonl"
    (folder / "out.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    with pytest.raises(ConfigError, match="have not named"):
        cache_file(str(folder / "out.jsonl"))
    typed_path = tmp_path / "a folder" / "b.jsonl"
    trust_typed([f"endpoint model=m cache='{typed_path}'", f"rewards.0.cache={tmp_path}/c.jsonl"])
    trust_file(tmp_path / "d.jsonl")
    assert (
        cache_file(str(typed_path)) == typed_path
        and cache_file(f"{tmp_path}/c.jsonl")
        and cache_file(f"{tmp_path}/d.jsonl")
    )
    with pytest.raises(ConfigError):
        cache_file(f"{tmp_path}/e.jsonl")


@pytest.mark.parametrize("content", [b"ssh-ed25519 AAAA me@here", b"\xff\xfe", b"{}", b'{"a": 1}\n', b"x\ny\n"])
def test_a_file_that_is_not_a_cache_is_not_changed(tmp_path, monkeypatch, content):
    monkeypatch.setenv(FILES, str(tmp_path))
    path = tmp_path / "keys.jsonl"
    path.write_bytes(content)
    for make_client in make_endpoint_and_judge(base_url="http://127.0.0.1:1/v1", cache=str(path)):
        with pytest.raises(ConfigError, match="is not a file of answers"):
            make_client()
    assert path.read_bytes() == content


def test_a_pipe_is_refused_as_cache_and_a_deeply_nested_line_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setenv(FILES, str(tmp_path))
    os.mkfifo(tmp_path / "pipe.jsonl")
    for make_client in make_endpoint_and_judge(base_url="http://127.0.0.1:1/v1", cache=str(tmp_path / "pipe.jsonl")):
        with pytest.raises(ConfigError, match="not a regular file"):
            make_client()
    monkeypatch.setenv(FILES, str(tmp_path))
    answer = {"request": "0", "text": "bet", "truncated": False, "tokens_in": 1, "tokens_out": 1}
    (tmp_path / "deep.jsonl").write_text(json.dumps(answer) + "\n" + "[" * 100_000 + "\n")
    assert (
        make_endpoint_and_judge(base_url="http://127.0.0.1:1/v1", cache=str(tmp_path / "deep.jsonl"))[0]()
        .account.cache.get("0")
        .text
        == "bet"
    )
