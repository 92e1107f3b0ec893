"""The laws of the house as functions of source text, so that each can be shown a breach."""

import ast

ORDER = [
    *("types", "errors", "schedule", "rng", "registry", "config", "ops", "games", "render", "models", "samplers", "agents"),
    *("rollout", "roles", "knowledge", "rewards", "oracles", "credit", "features", "losses", "selection", "train", "league"),
    *("evaluate", "run", "engine", "report", "recipes", "cli"),
]
TORCH_ROOMS = {"models", "samplers", "features", "losses", "train", "engine"}
SEPARATE = {"credit": {"games", "models", "samplers"}, "losses": {"games", "models", "samplers", "rollout"}}
GLOBAL_RNG = {"seed", "rand", "randn", "randint", "choice", "normal", "uniform", "shuffle", "permutation", "random", "manual_seed"}


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
            for alias in node.names:
                yield (f"{node.module}.{alias.name}" if node.module == "sparring" else node.module), node.lineno


def layering(room, source):
    """Return the imports of a module in ``room`` that the order forbids."""
    found = []
    for module, line in imports(ast.parse(source)):
        parts = module.split(".")
        if parts[0] == "torch" and room not in TORCH_ROOMS:
            found.append(f"line {line}: torch in {room}")
        if parts[0] != "sparring" or len(parts) < 2 or parts[1] == room or parts[1] not in ORDER:
            continue
        if ORDER.index(parts[1]) > ORDER.index(room):
            found.append(f"line {line}: {room} imports {parts[1]}, which comes after it")
        if parts[1] in SEPARATE.get(room, ()):
            found.append(f"line {line}: {room} must not know {parts[1]}")
    return found


def functions(tree):
    """Yield all functions and methods."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def length(node):
    """Return a function's lines without its docstring."""
    docstring = ast.get_docstring(node, clean=False)
    return node.end_lineno - node.lineno + 1 - (docstring.count("\n") + 1 if docstring is not None else 0)


def undocumented(source):
    """Return public functions, classes and methods without a docstring or with missing annotations."""
    tree, found = ast.parse(source), []
    if ast.get_docstring(tree) is None and tree.body:
        found.append("module has no docstring")
    scopes = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))]
    for scope in scopes:
        for node in scope.body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None:
                found.append(f"line {node.lineno}: {node.name} has no docstring")
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                bare = [a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls")]
                if bare or node.returns is None:
                    found.append(f"line {node.lineno}: {node.name} lacks annotations {bare}")
    return found


def sins(room, source):
    """Return what is refused on sight."""
    found = []
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            found.append(f"line {line}: bare except")
        if isinstance(node, ast.FunctionDef):
            defaults = [*node.args.defaults, *node.args.kw_defaults]
            if any(isinstance(default, ast.List | ast.Dict | ast.Set) for default in defaults):
                found.append(f"line {line}: mutable default in {node.name}")
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called == "print" and room != "cli":
                found.append(f"line {line}: print outside cli")
            head, _, tail = called.rpartition(".")
            if head in ("random", "np.random", "numpy.random") and room != "rng":
                found.append(f"line {line}: global generator {called}")
            keywords = {keyword.arg for keyword in node.keywords}
            if head == "torch" and tail in GLOBAL_RNG and "generator" not in keywords:
                found.append(f"line {line}: global generator {called}")
            if (tail == "load" and head in ("pickle", "torch", "joblib")) or called in ("eval", "exec"):
                found.append(f"line {line}: unsafe {called}")
            if any(keyword.arg == "shell" and ast.unparse(keyword.value) == "True" for keyword in node.keywords):
                found.append(f"line {line}: shell=True")
    return found


def named_methods(source, names):
    """Return string literals that name a plug-in: the loop must not know any method."""
    tree, docstrings = ast.parse(source), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body and isinstance(node.body[0], ast.Expr):
            docstrings.add(id(node.body[0].value))
    strings = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docstrings)
    return [f"line {node.lineno}: {node.value!r}" for node in strings if node.value in names]
