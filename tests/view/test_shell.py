"""The page itself: links to all modules of a view, read off the modules."""

import re

import pytest

from sparring.view import static_pages

LINK = re.compile(r'<link rel="modulepreload" href="/static/([\w./-]+)" />')
ALWAYS = {"ahead.js", "main.js", "api.js", "pictures.js", "router.js", "dom.js", "keys.js", "live.js"}


def test_a_view_has_what_its_modules_import():
    own = {"workers.js", "charts.js", "vendor/uPlot.esm.js", "format.js", "lanes.js", "run_choice.js"}
    found = static_pages.modules("workers")
    assert set(found) == ALWAYS | own and len(found) == len(set(found))
    assert found[:6] == ("ahead.js", "main.js", "workers.js", "api.js", "pictures.js", "router.js")
    source = (static_pages.STATIC / "main.js").read_text()
    assert len(static_pages.views()) == source.count("load: () => import(") == 6
    for name, module in static_pages.views().items():
        assert module in static_pages.modules(name)


@pytest.mark.parametrize("view", ["", "nothing", '"><script>', "constructor"])
def test_another_word_stands_for_the_table_of_runs(view):
    page = static_pages.shell({"view": view}).decode()
    assert page == static_pages.shell({}).decode()
    assert tuple(LINK.findall(page)) == static_pages.modules("runs")


def test_modules_are_followed_to_the_last_and_once(tmp_path, monkeypatch):
    files = {
        "ahead.js": "/** Nothing. */",
        "main.js": 'const VIEWS = {\n  runs: { title: "A", load: () => import("./a.js") },\n};',
        "a.js": 'import {\n  one,\n  other,\n} from "./b.js";\nimport "./c.js";',
        "b.js": '// import x from "./no.js";\nexport { x } from "./c.js";',
        "c.js": 'import { y } from "./a.js";\nconst text = `import("./no.js")`;',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(static_pages, "STATIC", tmp_path)
    assert static_pages.modules("runs") == ("ahead.js", "main.js", "a.js", "b.js", "c.js")


def test_the_page_of_the_server_has_the_links(opened, run_folder):
    answer = opened(run_folder).get("/?view=curves")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert tuple(LINK.findall(answer.text)) == static_pages.modules("curves")
    assert static_pages.MARK not in answer.text
