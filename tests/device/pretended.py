"""Simulated GPUs: tensors report a GPU as their device but lie in CPU memory.

Torch's ``FakeTensorMode`` says of every operation on which device its results are, and raises where devices are
mixed. It has no values, so that nothing that asks for one can run under it (``float(loss)``, a draw, numpy). And
autograd ends the process over a fake tensor of a GPU where torch was built without one: it asks for the device's
guard. So each operation is done twice here. It is done on fake tensors of the pretended devices, for torch's rules,
and on the tensors themselves, which are on the CPU, for the values. A tensor is on the GPU if its storage is noted.
"""

import contextlib
from types import SimpleNamespace

import torch
from torch import Tensor
from torch._C import DisableTorchFunction
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

CPU, GPU, SECOND = torch.device("cpu"), torch.device("cuda", 0), torch.device("cuda", 1)
GPUS = (GPU, SECOND)  # all simulated GPUs; "cuda" means the first
MOVES = {Tensor.cpu: CPU, Tensor.cuda: GPU}
RULES = {}  # cached result devices of operations; operations that raise are not cached
IN_MEMORY = {Tensor.numpy, Tensor.__array__}  # functions that read the memory of a tensor


def device_of(name):
    device = torch.device(name)
    if device.type == "meta":
        return device
    if device.type not in ("cpu", "cuda") or (device.index or 0) >= len(GPUS):
        raise RuntimeError(f"this machine has no device {device}")
    return GPUS[device.index or 0] if device.type == "cuda" else CPU


def of_all(devices):
    gpus = {device for device in devices if device in GPUS}
    if len(gpus) > 1:
        raise RuntimeError("found two different devices, cuda:0 and cuda:1")
    return next(iter(gpus), CPU)


def leaves_of(nested):
    """Return the leaves of nested tuples, lists and dicts; faster than torch's function."""
    if isinstance(nested, dict):
        nested = nested.values()
    elif not isinstance(nested, (tuple, list)):
        return [nested]
    return [leaf for part in nested for leaf in leaves_of(part)]


class TensorDevices:
    """The device of each tensor, by the storages that are on a GPU."""

    def __init__(self):
        self._noted = {}  # weak references, so that a reused address is not mistaken

    def of(self, tensor):
        with DisableTorchFunction():
            if tensor.device.type != "cpu" or tensor.layout != torch.strided:
                return tensor.device
            return self._noted.get(tensor.untyped_storage()._cdata, (None, CPU))[1]

    def note(self, tensor, device):
        with DisableTorchFunction():
            storage = tensor.untyped_storage()
            if device.type == "cuda" and storage._cdata not in self._noted:
                self._noted[storage._cdata] = StorageWeakRef(storage), device
        return tensor


class FunctionCalls(TorchFunctionMode):
    """Intercepts Python calls of torch: device names, moves between devices, and memory access."""

    def __init__(self, places):
        super().__init__()
        self.places, self.calls = places, []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function == Tensor.device.__get__:
            return self.places.of(args[0])
        if function in IN_MEMORY and self.places.of(args[0]) in GPUS:
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
            )
        if (
            function == Tensor.grad.__set__
            and args[1] is not None
            and self.places.of(args[0]) != self.places.of(args[1])
        ):
            raise RuntimeError("assigned grad has data located on a different device")
        if function in MOVES:
            return self._moved(args[0], MOVES[function])
        if function is Tensor.to:
            return self._to(*args, **kwargs)
        device = kwargs.get("device")
        if device is not None:
            device = device_of(device)
            kwargs["device"] = CPU if device in GPUS else device
        else:
            devices = (self.places.of(tensor) for tensor in leaves_of((args, kwargs)) if isinstance(tensor, Tensor))
            device = of_all(devices)
        with self._inside(device):
            result = function(*args, **kwargs)
        if function is torch.tensor:  # torch.tensor dispatches no operation
            self.places.note(result, device)
        return result

    def _to(self, tensor, *args, **kwargs):
        device = kwargs.pop("device", None)
        if args and isinstance(args[0], Tensor):
            device, args = self.places.of(args[0]), (args[0].dtype, *args[1:])
        elif args and isinstance(args[0], (str, torch.device)):
            device, args = args[0], args[1:]
        elif args and args[0] is None:
            args = args[1:]
        kwargs.pop("non_blocking", None)
        args = tuple(argument for argument in args if not isinstance(argument, bool))
        before = self.places.of(tensor)
        with self._inside(before):
            converted = tensor.to(*args, **kwargs) if args or kwargs else tensor
        return converted if device is None else self._moved(converted, device_of(device))

    def _moved(self, tensor, device):
        if self.places.of(tensor) == device:
            return tensor
        if device.type == "meta":
            return tensor.to(device)
        with self._inside(device):
            return self.places.note(_Copy.apply(tensor, device, self.places), device)

    @contextlib.contextmanager
    def _inside(self, device):
        """Return a context in which torch creates tensors on this device by default."""
        self.calls.append(device)
        try:
            yield
        finally:
            self.calls.pop()


class _Copy(torch.autograd.Function):
    """A copy to another device whose gradient returns to the original device."""

    @staticmethod
    def forward(ctx, tensor, device, places):
        ctx.back, ctx.places = places.of(tensor), places
        with torch.utils._python_dispatch._disable_current_modes():
            copy = tensor.detach().clone()
        return places.note(copy, device)

    @staticmethod
    def backward(ctx, gradient):
        with torch.utils._python_dispatch._disable_current_modes():
            copy = gradient.detach().clone()
        return ctx.places.note(copy, ctx.back), None, None


class DispatchCheck(TorchDispatchMode):
    """Runs every operation as torch would on the simulated devices, and raises the same errors."""

    def __init__(self, places, functions):
        super().__init__()
        self.places, self.functions, self.fake = places, functions, FakeTensorMode(allow_non_fake_inputs=False)
        self.operations = 0  # number of operations on the GPU

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        with DisableTorchFunction():
            flat = leaves_of((args, kwargs))
            tensors = [leaf for leaf in flat if isinstance(leaf, Tensor)]
            gpu = of_all(self.places.of(leaf) for leaf in tensors)
            on_gpu = gpu in GPUS
            device = (
                self.functions.calls[-1]
                if self.functions.calls
                else gpu
                if on_gpu or torch._C._current_graph_task_id() < 0
                else GPU
            )
            if device.type == "meta" or any(leaf.is_meta for leaf in tensors):
                return operation(*args, **kwargs)
            rule = self._devices(operation, args, kwargs, flat, device)
            if (on_gpu or device in GPUS) and any(isinstance(leaf, torch.Generator) for leaf in flat):
                raise RuntimeError(f"{operation}: Expected a 'cuda' device type for generator but found 'cpu'")
            result = operation(*args, **kwargs)
            results = [leaf for leaf in leaves_of(result) if isinstance(leaf, Tensor)]
            for leaf, where in zip(results, rule if isinstance(rule, list) else [rule] * len(results), strict=True):
                self.places.note(leaf, where)
                self.operations += where in GPUS
            return result

    def _devices(self, operation, args, kwargs, flat, device):
        """Return the device of each tensor that an operation returns, or one for all; raise if devices are mixed."""
        tensors = [leaf for leaf in flat if isinstance(leaf, Tensor)]
        kwargs = {**kwargs, "device": device} if kwargs.get("device") is not None else kwargs
        if not tensors and kwargs.get("device") is None and device in GPUS:
            kwargs = {**kwargs, "device": device}
        # the result devices depend on nothing else, so they are cached
        cache_key = (
            operation,
            device,
            *((self.places.of(leaf), leaf.dim() > 0) if isinstance(leaf, Tensor) else type(leaf) for leaf in flat),
        )
        if cache_key not in RULES:
            RULES[cache_key] = self._devices_by_torch(operation, args, kwargs, tensors)
        return RULES[cache_key]

    def _devices_by_torch(self, operation, args, kwargs, tensors):
        fakes = {}

        def faked(tensor):
            if id(tensor) not in fakes:
                where = self.places.of(tensor)
                fakes[id(tensor)] = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=where)
            return fakes[id(tensor)]

        with self.fake:
            fake_arguments = tree_map_only(Tensor, faked, (args, kwargs))
            try:
                result = operation(*fake_arguments[0], **fake_arguments[1])
            except Exception as error:
                if "different devices" in str(error) or "same device" in str(error):
                    raise RuntimeError(f"{operation}: {error}") from error
                return self._common(operation, tensors)  # the operation needs values or has no fake rule
        devices = [leaf.device for leaf in leaves_of(result) if isinstance(leaf, FakeTensor)]
        return devices[0] if len(set(devices)) == 1 else devices  # one device for all results

    def _common(self, operation, tensors):
        devices = {self.places.of(tensor) for tensor in tensors if tensor.dim()} or {
            self.places.of(tensor) for tensor in tensors
        }
        if len(devices) > 1 and "index" not in str(operation):
            raise RuntimeError(f"{operation}: found two different devices, cuda:0 and cpu")
        return of_all(devices)


@contextlib.contextmanager
def pretended_gpu(monkeypatch):
    """Simulate two GPUs in a context; yield the object that counts operations on them."""
    places = TensorDevices()
    functions = FunctionCalls(places)
    checked = DispatchCheck(places, functions)
    run_backward = torch.autograd._engine_run_backward

    def backward(*args, **kwargs):  # torch calls backward without the mode, which recomputation needs
        with functions:
            return run_backward(*args, **kwargs)

    monkeypatch.setattr(torch.autograd, "_engine_run_backward", backward)
    # recomputed tensors are compared without devices, which torch reads inside its functions
    monkeypatch.setitem(
        checkpoint._allowed_determinism_checks_to_fns, "default", lambda x: {"shape": x.shape, "dtype": x.dtype}
    )
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(GPUS))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=1 << 34))
    with functions, checked:
        yield checked
