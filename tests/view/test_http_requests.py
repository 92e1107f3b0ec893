"""Requests refused before any route: attacks from other sites, other users and other host names."""

import pytest

from tests.cases import every_case
from tests.view.run_writer import write_run

SERVER_HOST = {"Host": "127.0.0.1:7460"}
DATA = "/api/runs"
FORGED = {
    "a DNS rebinding name": {"Host": "evil.example:7460"},
    "a name that begins with ours": {"Host": "localhost.evil.example"},
    "a name that ends with ours": {"Host": "evil.localhost"},
    "another address": {"Host": "192.168.1.5:7460"},
    "no host": {"Host": ""},
    "an invalid port": {"Host": "127.0.0.1:80@evil.example"},
    "text after an IPv6 address": {"Host": "[::1]evil.example"},
    "another site": {"Origin": "http://evil.example"},
    "another port of this machine": {"Origin": "http://127.0.0.1:8888"},
    "another name of this machine": {"Origin": "http://localhost:7460"},
    "https": {"Origin": "https://127.0.0.1:7460"},
    "a sandbox": {"Origin": "null"},
    "an empty origin": {"Origin": ""},
    "a cross-site fetch": {"Sec-Fetch-Site": "cross-site"},
    "a fetch of another port": {"Sec-Fetch-Site": "same-site"},
    "a link to data": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
}
HONEST = {
    "loopback": SERVER_HOST,
    "by name": {"Host": "localhost:7460"},
    "IPv6": {"Host": "[::1]:7460"},
    "a tunnel's port": {"Host": "127.0.0.1:9000"},
    "no port": {"Host": "LocalHost"},
    "the page itself": {**SERVER_HOST, "Origin": "http://127.0.0.1:7460", "Sec-Fetch-Site": "same-origin"},
    "typed into the address bar": {**SERVER_HOST, "Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
}


@pytest.fixture(scope="module")
def client(open_client, tmp_path_factory):
    return open_client(write_run(tmp_path_factory.mktemp("runs") / "kuhn"))


@every_case("headers", FORGED.values(), ids=FORGED)
@every_case("path", [DATA, "/static/main.js", "/export/0/10/40.html"])
def test_forged_requests_are_refused(client, headers, path):
    answer = client.get(path, headers=headers)
    assert answer.status_code == 403
    assert set(answer.json()) == {"error"}


@every_case("headers", HONEST.values(), ids=HONEST)
def test_honest_requests_pass(client, headers):
    assert client.get(DATA, headers=headers).status_code == 200


def test_links_open_only_the_page_and_the_token_is_in_the_header(client):
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/?view=replay&run=0", headers=link).status_code == 200
    assert client.get("/", headers={**link, "Sec-Fetch-Mode": "no-cors"}).status_code == 403
    assert client.get("/static/main.js", headers=link).status_code == 403
    del client.headers["Authorization"]
    assert client.get(f"{DATA}?token=right-token").status_code == 401
    assert client.get(DATA, headers={"Cookie": "token=right-token"}).status_code == 401
    client.headers["Authorization"] = "Bearer right-token"
    answer = client.get("/")
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers


@every_case(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Bearer right-toke",
        "Bearer right-token ",
        "bearer right-token",
        "right-token",
        "Basic cmlnaHQ=",
    ],
)
@every_case("path", [DATA, "/api/changes?since=0", "/export/0/10/40.html", "/API/runs", "/static"])
def test_without_the_token_there_is_no_data(client, header, path):
    answer = client.get(path, headers={"Authorization": header})
    assert answer.status_code == 401
    assert "token" in answer.json()["error"]


def test_every_response_has_security_headers_and_request_bodies_are_limited(client):
    answers = [client.get(path) for path in ("/", "/static/main.js", DATA, "/nothing", "/api/runs/99")]
    answers += [client.get(DATA, headers={"Host": "evil"}), client.get(DATA, headers={"Authorization": ""})]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "trusted-types 'none'" in policy
        assert "unsafe" not in policy and "http" not in policy
        assert not [name for name in answer.headers if name.startswith("access-control")]
    headers = {"Content-Type": "application/json", "X-Sparring": "1"}
    assert client.post(DATA, headers=headers).status_code == 405  # no route accepts POST here
    assert client.post(DATA, headers={**headers, "Content-Type": "text/plain"}).status_code == 415
    assert client.post(DATA, headers={"Content-Type": "application/json"}).status_code == 415
    assert client.post(DATA, data={"a": "b"}).status_code == 415
    assert client.post(DATA, headers={**headers, "Origin": "http://evil.example"}).status_code == 403
    assert client.post(DATA, headers=headers, content=b"x" * 65_537).status_code == 413
    assert client.post(DATA, headers={**headers, "Content-Length": "9" * 40}).status_code == 413
    assert client.post(DATA, headers={**headers, "Content-Length": "-1"}).status_code == 400


@every_case("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(client, method):
    assert client.request(method, DATA).status_code == 405


@every_case(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/vendor/../../guard.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/.hidden.js",
        "/static/export.list",
        "/static/vendor",
    ],
)
def test_files_outside_the_page_are_not_found(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert set(answer.json()) == {"error"}


def test_a_file_beside_the_static_folder_is_not_found(client, tmp_path, monkeypatch):
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "page.js").write_text("page")
    (tmp_path / "secret.js").write_text("secret")
    (tmp_path / "static" / "link.js").symlink_to(tmp_path / "secret.js")
    monkeypatch.setattr("sparring.view.app.STATIC", tmp_path / "static")
    assert client.get("/static/page.js").text == "page"
    for name in (
        "%2e%2e/secret.js",
        "..%2fsecret.js",
        "vendor/%2e%2e/%2e%2e/secret.js",
        f"%2f{tmp_path}/secret.js",
        "link.js",
    ):
        assert client.get(f"/static/{name}").status_code == 404


@every_case(
    "path",
    [
        "/api/runs/../../etc",
        "/api/runs/-1",
        "/api/runs/1e3",
        "/api/runs/%2e%2e",
        "/api/runs/kuhn",
        "/api/runs/1",
        "/api/runs/٣",
    ],
)
def test_runs_are_addressed_only_by_numbers(client, path):
    assert client.get(path).status_code == 404


def test_on_other_interfaces_addresses_and_configured_host_names_pass(open_client, run_folder):
    client = open_client(run_folder, hosts=["box.lan"], any_address=True)
    for host in ("box.lan:7460", "192.168.1.5:7460", "[fe80::1]:7460", "localhost"):
        assert client.get(DATA, headers={"Host": host}).status_code == 200
    assert client.get(DATA, headers={"Host": "evil.example"}).status_code == 403
