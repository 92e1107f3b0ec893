"""Simulated GPUs: tensors report a GPU as their device but lie in CPU memory.

Torch's ``FakeTensorMode`` computes the device of every result and raises an error if devices are mixed. Fake tensors
have no values, so code that reads a value (``float(loss)``, a random draw, numpy) cannot run with them. In a torch
without GPU support, autograd also ends the process for a fake GPU tensor, because it needs the device's guard. So each
operation runs twice here: on fake tensors of the simulated devices, to apply torch's rules, and on the real CPU
tensors, to compute the values. A tensor counts as a GPU tensor if its storage is registered in ``TensorDevices``.
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
RESULT_DEVICES = {}  # cached result devices of operations; operations that raise are not cached
IN_MEMORY = {Tensor.numpy, Tensor.__array__}  # functions that read the memory of a tensor


def device_of(name):
    device = torch.device(name)
    if device.type == "meta":
        return device
    if device.type not in ("cpu", "cuda") or (device.index or 0) >= len(GPUS):
        raise RuntimeError(f"this machine has no device {device}")
    return GPUS[device.index or 0] if device.type == "cuda" else CPU


def common_gpu_or_cpu(devices):
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
    """The device of each tensor, from the storages registered as GPU memory."""

    def __init__(self):
        self._devices_by_storage = {}  # weak references keep an address from being confused with a later storage

    def of(self, tensor):
        with DisableTorchFunction():
            if tensor.device.type != "cpu" or tensor.layout != torch.strided:
                return tensor.device
            return self._devices_by_storage.get(tensor.untyped_storage()._cdata, (None, CPU))[1]

    def note(self, tensor, device):
        with DisableTorchFunction():
            storage = tensor.untyped_storage()
            if device.type == "cuda" and storage._cdata not in self._devices_by_storage:
                self._devices_by_storage[storage._cdata] = StorageWeakRef(storage), device
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
            return self._move(args[0], MOVES[function])
        if function is Tensor.to:
            return self._to(*args, **kwargs)
        device = kwargs.get("device")
        if device is not None:
            device = device_of(device)
            kwargs["device"] = CPU if device in GPUS else device
        else:
            devices = (self.places.of(tensor) for tensor in leaves_of((args, kwargs)) if isinstance(tensor, Tensor))
            device = common_gpu_or_cpu(devices)
        with self._default_device(device):
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
        source_device = self.places.of(tensor)
        with self._default_device(source_device):
            converted = tensor.to(*args, **kwargs) if args or kwargs else tensor
        return converted if device is None else self._move(converted, device_of(device))

    def _move(self, tensor, device):
        if self.places.of(tensor) == device:
            return tensor
        if device.type == "meta":
            return tensor.to(device)
        with self._default_device(device):
            return self.places.note(_Copy.apply(tensor, device, self.places), device)

    @contextlib.contextmanager
    def _default_device(self, device):
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
            gpu = common_gpu_or_cpu(self.places.of(leaf) for leaf in tensors)
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
            for leaf, result_device in zip(
                results, rule if isinstance(rule, list) else [rule] * len(results), strict=True
            ):
                self.places.note(leaf, result_device)
                self.operations += result_device in GPUS
            return result

    def _devices(self, operation, args, kwargs, flat, device):
        """Return one device per result tensor, or one device for all results; raise an error if devices are mixed."""
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
        if cache_key not in RESULT_DEVICES:
            RESULT_DEVICES[cache_key] = self._devices_by_torch(operation, args, kwargs, tensors)
        return RESULT_DEVICES[cache_key]

    def _devices_by_torch(self, operation, args, kwargs, tensors):
        fakes = {}

        def fake_copy(tensor):
            if id(tensor) not in fakes:
                result_device = self.places.of(tensor)
                fakes[id(tensor)] = torch.empty_strided(
                    tensor.shape, tensor.stride(), dtype=tensor.dtype, device=result_device
                )
            return fakes[id(tensor)]

        with self.fake:
            fake_arguments = tree_map_only(Tensor, fake_copy, (args, kwargs))
            try:
                result = operation(*fake_arguments[0], **fake_arguments[1])
            except Exception as error:
                if "different devices" in str(error) or "same device" in str(error):
                    raise RuntimeError(f"{operation}: {error}") from error
                # the operation needs values, or torch has no rule for fake tensors
                return self._common_device(operation, tensors)
        devices = [leaf.device for leaf in leaves_of(result) if isinstance(leaf, FakeTensor)]
        return devices[0] if len(set(devices)) == 1 else devices  # one device for all results

    def _common_device(self, operation, tensors):
        devices = {self.places.of(tensor) for tensor in tensors if tensor.dim()} or {
            self.places.of(tensor) for tensor in tensors
        }
        if len(devices) > 1 and "index" not in str(operation):
            raise RuntimeError(f"{operation}: found two different devices, cuda:0 and cpu")
        return common_gpu_or_cpu(devices)


@contextlib.contextmanager
def pretended_gpu(monkeypatch):
    """Simulate two GPUs in a context; yield the object that counts operations on them."""
    places = TensorDevices()
    functions = FunctionCalls(places)
    checked = DispatchCheck(places, functions)
    run_backward = torch.autograd._engine_run_backward

    def backward(*args, **kwargs):  # torch calls backward outside the mode, but recomputation needs the mode
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
