# SPDX-License-Identifier: Apache-2.0
"""Who allocates: one class per framework, chosen by the class of the first tensor of a call.

`place` is (kind, index) of a device. `stream` is the handle that the caller passed, or None: the framework's current one. No
method waits for a device.
"""
import contextlib
import functools
import importlib

from fovea import _core

_NAMES = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "f": "float", "i": "int", "u": "uint"}


_HERE = contextlib.nullcontext()


@functools.cache
def name_of(dtype):
    """NumPy's word for a type of Fovea: "float16" of "f16"."""
    return _NAMES.get(dtype) or _NAMES[dtype[0]] + dtype[1:]


def framework_of(tensor_class):
    """The row for a class of tensors, or None."""
    for base in tensor_class.__mro__:
        root = base.__module__.partition(".")[0]
        if root in _FRAMEWORKS:
            return _instance(root)
    return None


@functools.cache
def _instance(root):
    return _FRAMEWORKS[root]()


def _blocks(shape, dtype):
    """The bytes of a tensor of blocks, or None where the type is a plain one."""
    if dtype[0] != "q" and dtype not in ("iq4_nl", "mxfp4"):
        return None
    return shape[:-1] + (_core.dtype_bytes(dtype, shape[-1]),)


class Numpy:
    immutable, host = False, True

    def __init__(self):
        self.np = importlib.import_module("numpy")

    def _dtype(self, dtype):
        name = name_of(dtype)
        if name in ("bfloat16", "float8_e4m3fn"):
            try:
                return getattr(importlib.import_module("ml_dtypes"), name)
            except ImportError:
                raise TypeError(f"NumPy has no {name} without the package ml_dtypes: install it, or give the output") from None
        return name

    def empty(self, shape, dtype, place, stream):
        blocks = _blocks(shape, dtype)
        if blocks:
            return _core.Tensor(self.np.empty(blocks, "uint8"), dtype)
        return self.np.empty(shape, self._dtype(dtype))

    def export(self, array):
        """What DLPack takes in place of the array, and its type: NumPy does not export the types of ml_dtypes."""
        short = {"bfloat16": "bf16", "float8_e4m3fn": "e4m3"}.get(getattr(array.dtype, "name", ""))
        return short and (array.view(f"uint{8 * array.dtype.itemsize}"), short)

    def workspace(self, place, stream, scratch, sync):
        return self.np.empty(scratch, "uint8"), self.np.zeros(sync, "uint8")

    def record(self, tensors, stream, index):
        pass


class Jax(Numpy):
    """On the CPU. Outputs are NumPy arrays until they are written, then arrays of JAX over the same memory."""

    immutable, host = True, False

    def __init__(self):
        super().__init__()
        self.jax = importlib.import_module("jax")

    def empty(self, shape, dtype, place, stream):
        self._refuse_cuda(place)
        align = 64  # what JAX takes without a copy
        dtype = self.np.dtype(self._dtype(dtype))
        size = int(self.np.prod(shape)) * dtype.itemsize
        memory = self.np.empty(size + align, "uint8")
        start = -memory.ctypes.data % align
        return memory[start : start + size].view(dtype).reshape(shape)

    def finish(self, output):
        return self.jax.numpy.asarray(output)

    def export(self, array):
        return None

    def stream(self, place):
        self._refuse_cuda(place)

    @staticmethod
    def _refuse_cuda(place):
        if place[0] != "cpu":
            raise NotImplementedError(
                "arrays of JAX on CUDA: JAX may free them while a kernel of another stream reads them; only its CPU is served"
            )


class Cupy:
    immutable, host = False, False

    def __init__(self):
        self.cupy = importlib.import_module("cupy")
        self.syncs = {}

    def _on(self, place, stream):
        stack = contextlib.ExitStack()
        stack.enter_context(self.cupy.cuda.Device(place[1]))
        if stream is not None:
            stack.enter_context(self.cupy.cuda.ExternalStream(stream, place[1]))
        return stack

    def empty(self, shape, dtype, place, stream):
        with self._on(place, stream):
            return self.cupy.empty(shape, name_of(dtype))

    def export(self, array):
        return None

    def stream(self, place):
        with self._on(place, None):
            return self.cupy.cuda.get_current_stream().ptr

    def workspace(self, place, stream, scratch, sync):
        with self._on(place, stream):
            current = self.cupy.cuda.get_current_stream()
            key = place, current.ptr
            words = self.syncs.get(key)
            if sync and (words is None or words.size < sync or current.is_capturing()):
                words = self.cupy.zeros(max(sync, 1 << 16), "uint8")
                if not current.is_capturing():
                    self.syncs[key] = words
            return self.cupy.empty(scratch, "uint8"), words

    def record(self, tensors, stream, index):
        pass  # CuPy has no such call: memory of another stream is the caller's to keep


class Torch:
    immutable, host = False, False

    def __init__(self):
        self.torch = importlib.import_module("torch")
        self.syncs = {}  # (device, stream): words that every call leaves zero

    def _on(self, place, stream):
        if stream is None or place[0] == "cpu":
            return _HERE
        return self.torch.cuda.stream(self.torch.cuda.ExternalStream(stream, device=place[1]))

    @functools.cache
    def _device(self, place):
        return self.torch.device(*place) if place[0] != "cpu" else self.torch.device("cpu")

    @functools.cache
    def _dtype(self, dtype):
        return getattr(self.torch, name_of(dtype))

    def empty(self, shape, dtype, place, stream):
        blocks = _blocks(shape, dtype)
        with self._on(place, stream):
            if blocks:
                return _core.Tensor(self.torch.empty(blocks, dtype=self.torch.uint8, device=self._device(place)), dtype)
            return self.torch.empty(shape, dtype=self._dtype(dtype), device=self._device(place))

    def export(self, tensor):
        return None

    def stream(self, place):
        return self.torch.cuda.current_stream(place[1]).cuda_stream

    def workspace(self, place, stream, scratch, sync):
        torch, device = self.torch, self._device(place)
        with self._on(place, stream):
            words = self._sync(device, sync) if sync else None
            return torch.empty(scratch, dtype=torch.uint8, device=device), words

    def _sync(self, device, size):
        zeros = functools.partial(self.torch.zeros, max(size, 1 << 16), dtype=self.torch.uint8, device=device)
        if device.type == "cpu":
            return zeros()
        # A graph may be replayed beside other work of the stream it was captured on: it has words of its own.
        with self.torch.cuda.device(device):
            if self.torch.cuda.is_current_stream_capturing():
                return zeros()
        key = device, self.torch.cuda.current_stream(device).cuda_stream
        if key not in self.syncs or self.syncs[key].numel() < size:
            self.syncs[key] = zeros()
        return self.syncs[key]

    def record(self, tensors, stream, index):
        """Memory that was allocated for one stream and is used on another must not be given away before that is done."""
        if self.torch.cuda.current_stream(index).cuda_stream == stream:
            return
        other = self.torch.cuda.ExternalStream(stream, device=index)
        for tensor in tensors:
            tensor.record_stream(other)


_FRAMEWORKS = {"numpy": Numpy, "jax": Jax, "jaxlib": Jax, "cupy": Cupy, "torch": Torch}
