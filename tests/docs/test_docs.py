"""The generator of the documentation; tests/docs/test_commands.py tests the commands on its pages."""

import dataclasses
import functools
import inspect
import json
import re
import sys
from typing import Literal

import pytest

import sparring
from sparring import config
from sparring.config.plugins import registry
from sparring.config.plugins.registry import load_part, names_with_line_in_part
from sparring.config.recipe import recipe_names
from sparring.report.explanations import METHOD_SLOTS
from tests.cases import every_case
from tests.docs.loading import ROOT, load

FENCE = "`" * 3


pages = load("tools", "pages")
generate = load("tools", "generate")
build_site = load("tools", "build_site")


@functools.cache
def generated_pages():
    return generate.reference_pages()


@pytest.fixture(scope="module", autouse=True)
def all_pages():
    """Generate the pages before the first test, because this takes two seconds."""
    generated_pages()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a * b, x_t, ``gamma`` < 1", r"a \* b, x_t, `gamma` < 1"),
        ("``a_b * <c>``", "`a_b * <c>`"),
        ("<script>", r"\<script>"),
        ("_not italic_", r"\_not italic\_"),
    ],
)
def test_prose_of_pages_is_shown_as_text_and_not_as_markup(text, expected):
    assert pages.prose(text) == expected
    assert pages.table(("a", "b"), ("x | y", "two\nlines")) == ["| a | b |", "|---|---|", "| x \\| y | two lines |"]


def test_a_docstring_is_split_at_its_headings():
    sections = pages.sections(
        "Summary.\n\nMore.\n\nWhat: one\n    two.\nArgs:\n    gamma: first\n        line.\n    lam: other.\n\nReference: X."
    )
    assert sections[""] == "Summary.\n\nMore."
    assert sections["Reference"] == "X."
    assert pages.option_meanings(sections["Args"]) == {"gamma": "first line.", "lam": "other."}
    sections = pages.sections("Summary.\n\nArgs:\n    gamma: first\n        line.")
    assert pages.option_meanings(sections["Args"]) == {"gamma": "first line."}, "a single entry of several lines"


@every_case("slot", [slot for slot in registry.SLOTS if slot != "environments"])
def test_every_option_of_a_method_is_described(slot):
    for plugin in registry.load_all(slot):
        described = pages.option_meanings(pages.sections(inspect.getdoc(plugin.function) or "").get("Args", ""))
        options = [
            name
            for name, parameter in plugin.options.items()
            if parameter.default is parameter.empty or not callable(parameter.default)
        ]
        assert not [name for name in options if not described.get(name)], plugin.name


@pytest.mark.parametrize("name", names_with_line_in_part("environments", "solver", "ORACLE"))
def test_every_option_of_a_solver_is_described_on_the_page_of_its_game_and_of_its_oracle(name):
    solver = load_part("environments", name, "solver")
    page = generated_pages()[f"docs/methods/environments-{name}.md"].partition("\n## Solver\n")[2]
    described = pages.option_meanings(pages.sections(inspect.getdoc(solver.function)).get("Args", ""))
    assert all(described[option] and f"| `{option}` |" in page for option in solver.options)
    assert f"(environments-{name}.md#solver)" in generated_pages()[f"docs/methods/oracles-{solver.module.ORACLE}.md"]


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("A = R - b, with b the mean.", "A = R - b, with b the mean."),
        ("A = R - b, with b\nthe mean.", "A = R - b, with b\nthe mean."),
        ("\n    A = R - b\n    b = mean R", "```text\nA = R - b\nb = mean R\n```"),
        ("\n    A = R - b\nwith ``b`` the mean.", "```text\nA = R - b\n```\n\nwith `b` the mean."),
        (
            "the sum\n\n    b = sum_i\n          R_i\n\nover i.",
            "the sum\n\n```text\nb = sum_i\n      R_i\n```\n\nover i.",
        ),
    ],
)
def test_equations_are_on_separate_lines(text, page):
    sections = pages.sections(f"Summary.\n\nMathematics: {text}\nShapes: [N].".replace(": \n", ":\n"))
    assert pages.mathematics(sections["Mathematics"]) == page
    assert sections["Shapes"] == "[N]."


def test_types_are_written_readably():
    assert pages.type_text(Literal["a", "b"]) == "`a` or `b`"
    assert pages.type_text(float | None) == "float or null"
    assert pages.type_text(tuple[str, ...]) == "tuple[str, ...]"
    assert pages.field_type("average", config.LearnerConfig.model_fields["average"]) == "float, at least 0, below 1"
    assert pages.field_type("weight", config.LossConfig.model_fields["weight"]) == "number or schedule"
    assert pages.field_type("losses", config.RunConfig.model_fields["losses"]) == "list of losses"
    assert pages.field_type("bots", config.RunConfig.model_fields["bots"]) == "map from names to players"
    assert pages.field_type("credit", config.RunConfig.model_fields["credit"]) == "advantage estimator"


@every_case("slot", ["environments", *METHOD_SLOTS])
def test_a_page_names_every_option_and_preset_and_its_tests_exist(slot):
    for name in registry.built_in(slot):
        plugin = registry.load(slot, name)
        page = generated_pages()[f"docs/methods/{slot}-{name}.md"]
        assert page.startswith(f"# {name}\n")
        assert "``" not in page.replace("```", "")  # the fence of a sample play
        for option, parameter in plugin.options.items():
            assert (
                callable(parameter.default) and parameter.default is not parameter.empty
            ) or f"| `{option}` |" in page
        assert all(f"| `{preset}` |" in page for preset in plugin.presets)
        assert all((ROOT / path).is_file() for path in re.findall(r"tests/[\w/]+\.py", page)), page


def test_the_page_of_every_estimator_says_its_exact_bias():
    biases = json.loads((ROOT / "tests" / "data" / "exact-bias.json").read_text(encoding="utf-8"))
    for name in registry.built_in("credit"):
        (line,) = (
            line for line in generated_pages()[f"docs/methods/credit-{name}.md"].splitlines() if "**Exact bias" in line
        )
        assert all(
            pages.bias_text(share) in line for estimator, share in biases.items() if estimator.split(":")[0] == name
        )
    assert pages.exact_bias(registry.load("losses", "dpo")) == []
    estimator_without_bias = dataclasses.replace(registry.load("credit", "rloo"), name="new")
    assert pages.exact_bias(estimator_without_bias)[1].endswith("not computed.")
    assert "-23 % (the expected gradient is 0.77 times" in generated_pages()["docs/methods/credit-grpo.md"]
    assert pages.bias_text(1.0) == "none (the expected gradient is the exact one)"
    assert pages.bias_text(0.75) == "-25 % (the expected gradient is 0.75 times the exact one)"
    assert pages.bias_text(-2.0) == "-300 % (the expected gradient is -2 times the exact one, the wrong way)"
    assert pages.bias_text(0) == "-100 % (the expected gradient is 0 times the exact one, no gradient at all)"


def test_the_reference_has_every_key():
    page = generated_pages()["docs/config.md"]
    for section in (
        config.RunConfig,
        config.EnvironmentConfig,
        config.RolloutConfig,
        config.LearnerConfig,
        config.LossConfig,
        config.OpponentConfig,
    ):
        assert all(f"| `{key}` |" in page for key in section.model_fields)
    assert "| `average` | float, at least 0, below 1 | `0.0` |" in page
    assert "| Any |" not in page


def test_the_status_distinguishes_tested_used_and_untested_methods():
    plugin = registry.load("losses", "policy_gradient")
    path, use = "tests/methods/losses/test_policy_losses.py", 'bind("losses", "policy_gradient")'
    assert generate.status(plugin, {path: "", "tests/a.py": use}) == "1 file"
    assert generate.status(plugin, {"tests/a.py": use, "tests/b.py": use}) == "used in 2 files"
    assert generate.status(plugin, {"tests/a.py": "policy_gradient"}) == "none"


def test_the_page_of_methods_has_every_plugin_under_a_heading_that_its_contents_link():
    page = generated_pages()["docs/methods.md"]
    for slot in METHOD_SLOTS:
        names = registry.built_in(slot)
        title = generate.plural(registry.SLOTS[slot]).capitalize()
        (contents,) = (line for line in page.splitlines() if line.startswith(f"- [{title}]"))
        assert f"(#{title.lower().replace(' ', '-')}): {len(names)}" in contents
        section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        lines = [line for line in section.splitlines() if line.startswith("| [`")]
        assert len(lines) == len(names)
        for name, line in zip(names, lines, strict=True):
            assert line.startswith(f"| [`{name}`](methods/{slot}-{name}.md) | ")


def test_the_page_of_environments_has_every_one():
    page = generated_pages()["docs/environments.md"]
    assert all(f"| [`{name}`](methods/environments-{name}.md) |" in page for name in registry.built_in("environments"))
    assert "| 2, 3 | yes | zero-sum | - | `demo`, `kuhn-tiny`" in page
    solvers = {name: load_part("environments", name, "solver") for name in registry.built_in("environments")}
    linked = {
        (name, oracle) for oracle, name in re.findall(r"\[`(\w+)`\]\(methods/environments-(\w+)\.md#solver\)", page)
    }
    assert linked == {(name, solver.module.ORACLE) for name, solver in solvers.items() if solver is not None} != set()


def test_the_site_copies_linked_files_and_refuses_a_linked_folder(tmp_path):
    (tmp_path / "code.py").touch()
    (tmp_path / "page.md").touch()
    text = (
        f"[a](page.md#part) [b](https://x.y) [c](code.py) {FENCE}\n[d](code.py)\n{FENCE} `[e](code.py)` ![g](gone.svg)"
    )
    assert build_site.linked_files(text, tmp_path) == [tmp_path / "code.py"], "mkdocs reports gone.svg"
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="links the folder"):
        build_site.linked_files("[x](folder)", tmp_path)


def test_a_stale_page_is_noticed_and_mended(tmp_path, monkeypatch):
    page, readme = tmp_path / "docs" / "page.md", tmp_path / "README.md"
    page.parent.mkdir()
    readme.write_text("short")
    expected = {page: "new"}
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "pages", lambda: expected)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["generate.py", *arguments])
        generate.main()

    for change_page in (lambda: None, lambda: page.write_text("old"), page.unlink):
        change_page()
        with pytest.raises(SystemExit, match=r"docs/page\.md.*Run `make docs`"):
            run("--check")
        run()
        run("--check")
    readme.write_text("." * (generate.README_BYTES + 1))
    with pytest.raises(SystemExit, match="and 12,000 at most are wanted"):
        run()


README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("text", "size"), [(README + "x" * generate.README_BYTES, ""), ("é" * 6_001, "12,002 bytes")])
def test_a_longer_readme_is_refused(text, size):
    assert re.match(rf"README\.md has .*{size}.*move some to docs/", generate.too_long(text))
    assert generate.too_long("é" * 6_000) == generate.too_long(README) == ""


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = README.partition("```python\n")[2].partition("```")[0]
    assert len([line for line in code.splitlines() if line]) <= 8 and README.count("\n") <= 130
    assert '"steps=60"' in code
    exec(code.replace('"steps=60"', '"steps=1", "rollout.games_per_step=64"'), {})
    figure, *advantages = capsys.readouterr().out.splitlines()
    assert 0 < float(figure) < 2
    assert advantages


def test_the_environment_of_the_readme_trains(tmp_path, monkeypatch):
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "# matching.py" in block)
    assert len(code.splitlines()) <= 18
    (tmp_path / "matching.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    overrides = ("environments=[matching.matching]", "steps=2", "rollout.games_per_step=32", "threads=1")
    run = sparring.train("kuhn-tiny", *overrides, run="runs/matching")
    assert run.metrics()[-1]["step"] == 2


def test_every_recipe_is_named_by_a_page():
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "studies").glob("*/page.md"), ROOT / "README.md"]
    text = "\n".join([*(page.read_text(encoding="utf-8") for page in pages), *generated_pages().values()])
    assert [name for name in recipe_names() if not re.search(rf"(?<![\w/-]){re.escape(name)}(?![\w/-])", text)] == []
    assert len([*(ROOT / "src").rglob("*.yaml")]) <= 116
