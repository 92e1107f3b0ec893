"""The files of the page: allowed contents, modules of each view, and the exported replay."""

import hashlib
import re
from pathlib import Path

import pytest

import sparring
from sparring.view import static_pages
from tests.cases import every_case

STATIC = Path(sparring.__file__).parent / "view/static"
SCRIPTS = sorted(STATIC.glob("*.js"))
STYLES = sorted(STATIC.glob("*.css"))
CLASSIC_SCRIPTS = {"theme.js"}  # runs before the first paint; all others are modules
FORBIDDEN_CODE = {
    "markup from text": r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|setHTML",
    "a parser": r"DOMParser|document\.write|srcdoc\s*=|\.parseFromString",
    "an event attribute": r"""\.on[a-z]+\s*=[^=]|["']on[a-z]+["']\s*[:,]|setAttribute\(["']on""",
    "a style attribute": r"""style=|setAttribute\(["']style|["']?style["']?:\s|cssText""",
    "script from text": r"\beval\(|new Function|set(Timeout|Interval)\(\s*[\"'`]|javascript:",
    "a global": r"\b(window|globalThis|self)\.\w+\s*=[^=]",
    "another address": r"(?<!www\.w3\.org)(https?:)?//(?!www\.w3\.org/2000/svg)[a-z0-9-]+\.[a-z]",
}
IMPORT = re.compile(r"""\b(?:from|import)\s*\(?\s*["']([^"']+)["']""")


def without_comments(source):
    source = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    return re.sub(r"(?m)^\s*//.*$", "", source)


def forbidden_code(source):
    code = without_comments(source)
    return [name for name, pattern in FORBIDDEN_CODE.items() if re.search(pattern, code)]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("node.innerHTML = text;", "markup from text"),
        ("document.write(text);", "a parser"),
        ("node.onclick = act;", "an event attribute"),
        ('node.setAttribute("style", text);', "a style attribute"),
        ("eval(text);", "script from text"),
        ("window.hit = 1;", "a global"),
        ('fetch("https://example.org/x");', "another address"),
        ('import x from "//cdn.example.org/x.js";', "another address"),
    ],
)
def test_forbidden_code_is_detected(line, name):
    assert name in forbidden_code(line)


@every_case("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_has_no_forbidden_code(path):
    source = path.read_text(encoding="utf-8")
    assert forbidden_code(source) == []
    assert "</script" not in source
    external_imports = [name for name in IMPORT.findall(source) if not re.match(r"\./[\w/.]+\.js$", name)]
    assert external_imports == []
    assert path.name in CLASSIC_SCRIPTS or re.search(r"(?m)^(import|export) ", source)


@every_case("path", [*SCRIPTS, *STYLES], ids=lambda path: path.name)
def test_a_file_is_short(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 1000
    assert [line for line in lines if len(line) > 100] == []


def test_the_scripts_of_an_exported_replay_define_different_names():
    names = [
        word
        for name in (STATIC / "export.list").read_text(encoding="utf-8").split()
        for word in re.findall(
            r"(?m)^(?:export )?(?:async )?(?:function|class|const|let) (\w+)",
            (STATIC / name).read_text(encoding="utf-8"),
        )
    ]
    assert sorted(names) == sorted(set(names))


@every_case("path", SCRIPTS, ids=lambda path: path.name)
def test_every_export_has_a_comment(path):
    source = path.read_text(encoding="utf-8")
    for match in re.finditer(r"(?m)^export (?:async )?(?:function|class) (\w+)", source):
        text_before = source[: match.start()].rstrip()
        assert text_before.endswith("*/"), f"{path.name}: {match[1]} has no comment"


@every_case("path", STYLES, ids=lambda path: path.name)
def test_a_style_sheet_fetches_nothing(path):
    assert re.findall(r"@import|url\(|expression\(", path.read_text(encoding="utf-8")) == []


def test_vendor_files_are_unchanged_and_nothing_is_inline():
    index_page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", index_page) == []
    for address in re.findall(r'(?:src|href)="([^"]+)"', index_page):
        assert address.startswith(("/static/", "?view=", "data:,"))
    scripts = (STATIC / "export.list").read_text().split()
    styles = (STATIC / "export_css.list").read_text().split()
    for name in [*scripts, *styles]:
        assert (STATIC / name).is_file()
    loaded_files = set()
    for name in scripts:  # imported files must come first
        imports = IMPORT.findall((STATIC / name).read_text(encoding="utf-8"))
        assert {imported_file.removeprefix("./") for imported_file in imports} <= loaded_files
        loaded_files.add(name)
    lines = (STATIC / "vendor/uPlot.sha512").read_text(encoding="utf-8").splitlines()
    digests = dict(reversed(line.split("  ")) for line in lines if not line.startswith("#"))
    assert set(digests) == {"uPlot.esm.js", "uPlot.min.css", "uPlot-LICENSE"}
    for name, digest in digests.items():
        assert hashlib.sha512((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest, name


PRELOAD_LINK = re.compile(r'<link rel="modulepreload" href="/static/([\w./-]+)" />')
COMMON_MODULES = {"ahead.js", "main.js", "api.js", "pictures.js", "router.js", "dom.js", "keys.js", "live.js"}


def test_a_view_preloads_the_imports_of_its_modules():
    extra_modules = {"workers.js", "charts.js", "vendor/uPlot.esm.js", "format.js", "lanes.js", "run_choice.js"}
    modules = static_pages.modules("workers")
    assert set(modules) == COMMON_MODULES | extra_modules and len(modules) == len(set(modules))
    assert modules[:6] == ("ahead.js", "main.js", "workers.js", "api.js", "pictures.js", "router.js")
    source = (static_pages.STATIC / "main.js").read_text()
    assert len(static_pages.views()) == source.count("load: () => import(") == 6
    for name, module in static_pages.views().items():
        assert module in static_pages.modules(name)


@pytest.mark.parametrize("view", ["", "nothing", '"><script>', "constructor"])
def test_an_unknown_view_shows_the_table_of_runs(view):
    page = static_pages.app_page({"view": view}).decode()
    assert page == static_pages.app_page({}).decode()
    assert tuple(PRELOAD_LINK.findall(page)) == static_pages.modules("runs")


def test_all_imported_modules_are_linked_by_the_server(open_client, run_folder, tmp_path, monkeypatch):
    answer = open_client(run_folder).get("/?view=curves")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert tuple(PRELOAD_LINK.findall(answer.text)) == static_pages.modules("curves")
    assert static_pages.MARK not in answer.text
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
