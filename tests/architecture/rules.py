"""The rules of the architecture as functions of source text, so that tests can give each rule a violation."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter

# the modules that may use process-wide generators: ours, and that of the libraries behind bridges
RANDOM_MODULES = ("core.rng", "environments.bridges.base")
ORDER = [
    *("core", "config", "ops", "environments", "models", "play", "methods", "league", "learn"),
    *("measure", "engine", "run", "report", "api", "view", "cli", "interop", "testing"),
]
MATHEMATICS = {
    "numpy",
    "scipy",
    "math",
    "statistics",
    "itertools",
    "functools",
    "collections",
    "dataclasses",
    "typing",
    "__future__",
    "ast",
    "json",
    "re",
}
MATHEMATICS_OWN = ("sparring.ops", "sparring.core.records", "sparring.core.rng")
TORCH_PACKAGES = ("models", "methods.features", "methods.losses", "learn", "engine", "interop")
NO_TORCH = ("models.render",)
SEPARATE = {  # package -> earlier packages that it must not import
    "report": ("engine", "learn", "models.samplers"),
    "methods.credit": ("environments", "models"),
    "methods.losses": ("environments", "models", "play"),
}
TORCH_RNG = {
    "seed",
    "manual_seed",
    "rand",
    "randn",
    "randint",
    "randperm",
    "rand_like",
    "randn_like",
    "normal",
    "bernoulli",
    "multinomial",
}
IN_PLACE_RNG = {"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_", "log_normal_", "cauchy_"}
FIXED_INIT = {"zeros_", "ones_", "constant_", "eye_", "dirac_"}
PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve"}
UNSAFE = {"eval", "exec", "torch.load", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
OPENSPIEL = re.compile(r"pyspiel|open_spiel|\.spiel", re.IGNORECASE)
GAMES = ("Game", "BankGame", "FillIn")  # classes of games over OpenSpiel
METHOD_SLOTS = ("credit", "losses", "rewards", "selection")


@cache
def parsed(source):
    """Return the syntax tree of a source, cached for all rules."""
    return ast.parse(source)


def imports(tree):
    """Yield (module, line) of every import that runs; those under TYPE_CHECKING do not."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped.update(id(child) for child in ast.walk(node))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def within(module, packages):
    """Return whether a module is in one of these packages; names omit ``sparring.``."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def import_cycle(sources):
    """Return a cycle of modules that import each other; imports under TYPE_CHECKING count."""
    graph = {}
    for name, source in sources.items():
        froms = (node for node in ast.walk(parsed(source)) if isinstance(node, ast.ImportFrom))
        imports_by_module = {
            f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in sources else node.module
            for node in froms
            for alias in node.names
        }
        imports_by_module |= {
            alias.name for node in ast.walk(parsed(source)) if isinstance(node, ast.Import) for alias in node.names
        }
        graph[name] = {module for module in imports_by_module if module in sources and module != name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def games_named(path, source):
    """Return the lines that import OpenSpiel's game classes in a module that is not a game of OpenSpiel.

    ``path`` is relative to the package. Other modules use Environment, Searchable or Play (environments/base.py).
    """
    tree = parsed(source)
    is_game = any(
        ast.unparse(base) in GAMES for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases
    )
    if path.startswith("environments/openspiel/") or (path.startswith("environments/") and is_game):
        return []
    froms = ((node.module, node.lineno) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return [f"line {line}: {module}" for module, line in froms if module == "sparring.environments.openspiel.base"]


def layering(module_name, source):
    """Return the imports of a module, named as ``methods.credit.mars``, that the order forbids."""
    package = module_name.partition(".")[0]
    with_torch = within(module_name, TORCH_PACKAGES) and not within(module_name, NO_TORCH)
    other_packages = tuple(name for user, names in SEPARATE.items() if within(module_name, (user,)) for name in names)
    tree = parsed(source)
    relative = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level)
    breaches = [f"line {node.lineno}: relative import; write from sparring..." for node in relative]
    for module, line in imports(tree):
        parts = module.split(".")
        if parts[0] == "torch" and not with_torch:
            breaches.append(f"line {line}: torch in {module_name}")
        if parts[0] != "sparring" or len(parts) < 2 or parts[1] not in ORDER:
            continue
        if ORDER.index(parts[1]) > ORDER.index(package):
            breaches.append(f"line {line}: {package} imports {parts[1]}, which comes after it")
        if within(".".join(parts[1:]), other_packages):
            breaches.append(f"line {line}: {module_name} must not know {'.'.join(parts[1:])}")
    return list(dict.fromkeys(breaches))


def non_mathematical_imports(source):
    """Return the imports of a mathematical module that belong to other packages."""
    breaches = []
    for module, line in imports(parsed(source)):
        top_package, is_ours = module.split(".")[0], module.startswith(MATHEMATICS_OWN)
        if not (is_ours if top_package == "sparring" else top_package in MATHEMATICS):
            breaches.append(f"line {line}: ops imports {module}, which is no mathematics")
    return breaches


def functions(tree):
    """Yield all functions and methods."""
    return (node for node in ast.walk(tree) if isinstance(node, FUNCTION))


def length(node):
    """Return a function's lines without its docstring."""
    docstring = ast.get_docstring(node, clean=False)
    return node.end_lineno - node.lineno + 1 - (docstring.count("\n") + 1 if docstring is not None else 0)


def documented_methods(sources):
    """Return the names of methods that classes in these sources document."""
    classes = [node for source in sources for node in ast.walk(parsed(source)) if isinstance(node, ast.ClassDef)]
    return {
        node.name
        for scope in classes
        for node in scope.body
        if isinstance(node, FUNCTION) and ast.get_docstring(node) is not None
    }


def undocumented(source, interface=frozenset()):
    """Return public functions, classes and methods without a docstring or with missing annotations.

    A method whose name is in ``interface`` needs no docstring, as the interface documents it.
    """
    tree, undocumented_names = parsed(source), []
    if ast.get_docstring(tree) is None and tree.body:
        undocumented_names.append("module has no docstring")
    scopes = [
        tree,
        *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and not node.name.startswith("_")),
    ]
    for scope in scopes:
        for node in scope.body:
            if not isinstance(node, FUNCTION | ast.ClassDef) or node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None and (scope is tree or node.name not in interface):
                undocumented_names.append(f"line {node.lineno}: {node.name} has no docstring")
            if isinstance(node, FUNCTION):
                starred = [argument for argument in (node.args.vararg, node.args.kwarg) if argument is not None]
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *starred]
                bare = [a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls")]
                if bare or node.returns is None:
                    undocumented_names.append(f"line {node.lineno}: {node.name} lacks annotations {bare}")
    return undocumented_names


def aliases(tree):
    """Return local name -> full dotted name of everything imported."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top_name = alias.name.split(".")[0]
                names[alias.asname or top_name] = alias.name if alias.asname else top_name
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return names


def full_name(function, known):
    """Return the called name with the local import name replaced by the full one."""
    head, dot, tail = ast.unparse(function).partition(".")
    return known.get(head, {"np": "numpy", "nn": "torch.nn"}.get(head, head)) + dot + tail


def forbidden_uses(module_name, source):
    """Return uses that are always forbidden."""
    tree, breaches = parsed(source), []
    known = aliases(tree)
    breaches += [
        f"line {line}: unsafe import {module}" for module, line in imports(tree) if module.split(".")[0] in PICKLES
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            breaches.append(f"line {node.lineno}: bare except")
        if isinstance(node, FUNCTION | ast.Lambda):
            breaches += [
                f"line {node.lineno}: mutable default"
                for value in (*node.args.defaults, *node.args.kw_defaults)
                if mutable(value)
            ]
        if isinstance(node, ast.Call):
            breaches += [
                f"line {node.lineno}: {sin}" for sin in forbidden_calls(module_name, full_name(node.func, known), node)
            ]
    return breaches


def mutable(value):
    """Return whether a default is a mutable object, which all calls share."""
    is_constructor = isinstance(value, ast.Call) and ast.unparse(value.func) in (
        "list",
        "dict",
        "set",
        "bytearray",
        "defaultdict",
    )
    return is_constructor or isinstance(
        value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    )


def forbidden_calls(module_name, called, node):
    """Return forbidden features of one call."""
    keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    head, _, tail = called.rpartition(".")
    if called in ("print", "sys.stdout.write", "sys.stderr.write") and not within(module_name, ("cli",)):
        yield f"{called} outside cli"
    if module_name not in RANDOM_MODULES and called.startswith(("random.", "numpy.random.")):
        yield f"global generator {called}"
    torch_draws = (
        (head == "torch" and tail in TORCH_RNG)
        or tail in IN_PLACE_RNG
        or (head == "torch.nn.init" and tail not in FIXED_INIT)
    )
    if torch_draws and "generator" not in keywords:
        yield f"global generator {called}"
    if called in UNSAFE or head in PICKLES:
        yield f"unsafe {called}"
    for keyword in ("shell", "allow_pickle", "trust_remote_code"):
        if keywords.get(keyword) == "True":
            yield f"{keyword}=True"


def named_methods(source, names):
    """Return string literals and imports that name a plug-in; the training loop must not name methods."""
    tree, docstrings = parsed(source), set()
    plugins = {f"sparring.methods.{slot}.{name}" for slot in METHOD_SLOTS for name in names}
    breaches = [f"line {line}: imports {module}" for module, line in imports(tree) if module in plugins]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | FUNCTION) and node.body and isinstance(node.body[0], ast.Expr):
            docstrings.add(id(node.body[0].value))
    strings = (
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docstrings
    )
    return breaches + [f"line {node.lineno}: {node.value!r}" for node in strings if node.value in names]


def openspiel_named(path, text):
    """Return the lines of a file that name OpenSpiel's modules or states, which only its package may.

    ``path`` is relative to the package. Comments, docstrings and files of data count as well.
    """
    if path.startswith("environments/openspiel/"):
        return []
    return [
        f"line {index}: {match[0]}"
        for index, line in enumerate(text.splitlines(), 1)
        if (match := OPENSPIEL.search(line))
    ]


VAGUE = "found one own said told kept given asked shown met held made stood heard drawn paid wanted begun"
VAGUE_CLASSES = (
    "Asked Began Begun Came Compared Ended Found Gathered Heard Held Joined Kept Learned Met Opened Placed Rated Refused "
    "Routed Said Seated Seen Served Shown Sought Spent Spoken Stopped Stored Taken Told Wanted Ahead Alone Aside Here "
    "Elsewhere Together Whole After"
)
PARTICIPLES, NO_CLASS = set(VAGUE.split()), set(VAGUE_CLASSES.split())
FRAGMENT = re.compile(r"(?:[.:)]\s+|\n\s*\n\s*)(It|They|Whose|Of|Its|Which)\b")


def vague_names(source, allowed=frozenset()):
    """Return the variables, parameters and classes whose names are participles.

    ``left`` needs a ``right`` or a ``top`` in its module. ``allowed`` holds names of options.
    """
    names, tree = [], parsed(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name.strip("_") in NO_CLASS:
            names.append((node.lineno, node.name))
        elif isinstance(node, ast.arg):
            names.append((node.lineno, node.arg))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.id))
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs) and node.name:
            names.append((node.lineno, node.name))
    sides = {name.strip("_") for _, name in names}
    refused = (PARTICIPLES | NO_CLASS | (set() if sides & {"right", "top"} else {"left"})) - allowed
    return [f"line {line}: {name}" for line, name in sorted(names) if name.strip("_") in refused]


def fragments(source):
    """Return the lines of docstrings that have a sentence fragment."""
    scopes = (node for node in ast.walk(parsed(source)) if isinstance(node, ast.Module | ast.ClassDef | FUNCTION))
    texts = ((getattr(node, "lineno", 1), (ast.get_docstring(node) or "").partition("\nArgs:")[0]) for node in scopes)
    return [f"line {line}: ... {match[1]}" for line, text in texts if (match := FRAGMENT.search(text))]
