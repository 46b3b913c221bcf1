"""Module: a function with parameters, found by name.

There is no registration: a module finds Parameters, Modules and buffers among its attributes.
"""

import contextlib

import numpy as np

from minigrad import random
from minigrad.engine.graph import clock
from minigrad.engine.recording import as_tensor
from minigrad.engine.tensor import Tensor
from minigrad.modes import current_module, recording, tracing
from minigrad.ops import NO_GPU


class Parameter(Tensor):
    """A trainable leaf: a Tensor that requires a gradient, and that Modules find among their attributes."""

    def __init__(self, data, requires_grad=True):
        source = as_tensor(data)
        super().__init__(source.data)
        self.writes = source.writes  # shared, because the memory is shared
        self.requires_grad_(requires_grad)


class Module:
    """The base class of layers and models: define `forward`, and call the object.

    Assign Parameters and Modules to attributes. `register_buffer` adds a constant (a mask, a table).
    """

    training = True
    _buffers = ()
    _not_saved = ()

    def forward(self, *args, **kwargs):
        raise NotImplementedError(
            f"{type(self).__name__} must define forward(...), which computes the result of a call."
        )

    def __call__(self, *args, **kwargs):
        if not recording.get() and tracing.get() is None:
            return self.forward(*args, **kwargs)  # nothing reads current_module here
        before = current_module.get()
        current_module.set(self)
        try:
            return self.forward(*args, **kwargs)
        finally:
            current_module.set(before)

    # -------- finding modules and parameters

    def named_children(self):
        """Yield (name, module) for each module that is an attribute."""
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, (list, tuple, dict)):
                _refuse_hidden(self, name, value)

    def children(self):
        return (child for _, child in self.named_children())

    def named_modules(self, prefix="", remove_duplicate=True):
        """Yield (path, module) for this module (path "") and all inside, each once or under each name."""
        seen, stack = set(), [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if id(module) not in seen or not remove_duplicate:
                seen.add(id(module))
                yield path, module
                inner = [
                    (f"{path}.{name}" if path else name, child) for name, child in module.named_children()
                ]
                stack.extend(reversed(inner))

    def modules(self):
        return (module for _, module in self.named_modules())

    def _named(self, kind, remove_duplicate=True):
        """Yield (path, tensor) for each attribute of that kind; a tensor with two paths comes twice."""
        for path, module in self.named_modules("", remove_duplicate):
            for name, value in vars(module).items():
                saved = name in module._buffers and (kind == "buffer" or name not in module._not_saved)
                if isinstance(value, Parameter) if kind == "parameter" else saved:
                    yield (f"{path}.{name}" if path else name), value

    def named_parameters(self):
        """Yield (path, parameter), each parameter once, under its first path."""
        return _without_duplicates(self._named("parameter"))

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self):
        return _without_duplicates(self._named("buffer"))

    def buffers(self):
        return (buffer for _, buffer in self.named_buffers())

    def register_buffer(self, name, tensor, persistent=True):
        """Add a tensor that is not trained, but converted and, if persistent, saved with the module."""
        self._buffers = (*self._buffers, name)
        if not persistent:
            self._not_saved = (*self._not_saved, name)
        setattr(self, name, as_tensor(tensor))

    # -------- saving and loading

    def state_dict(self):
        """Return every parameter and buffer by name, tied ones once; they share memory with the module."""
        buffers = _without_duplicates(self._named("saved buffer"))
        return {name: t.detach() for name, t in (*self.named_parameters(), *buffers)}

    def load_state_dict(self, state, strict=True):
        """Copy a state into the module. Raises RuntimeError, before anything is written, if it does not fit.

        strict=False allows missing and unexpected names. Shapes must always agree, and floats never become
        integers.
        """
        # includes all names of tied parameters
        own = dict((*self._named("parameter", False), *self._named("saved buffer", False)))
        given = {name: as_tensor(value).data for name, value in state.items()}
        covered = {id(own[name]) for name in given if name in own}
        missing = [name for name in self.state_dict() if id(own[name]) not in covered]
        unexpected = [name for name in given if name not in own]
        shapes = [
            f"{name}: the module has {own[name].shape}, the state {array.shape}"
            for name, array in given.items()
            if name in own and own[name].shape != array.shape
        ] + [
            f"{name}: the module has {own[name].dtype}, the state {array.dtype}"
            for name, array in given.items()
            if name in own and not np.can_cast(array.dtype, own[name].dtype, "same_kind")
        ]  # fmt: skip
        if shapes or (strict and (missing or unexpected)):
            raise RuntimeError(_mismatch(type(self).__name__, missing, unexpected, shapes, strict))
        for name, array in given.items():
            if name in own:
                np.copyto(own[name].data, array, casting="same_kind")
                own[name].writes[0] = next(clock)

    # -------- changing all parameters or modules

    def zero_grad(self):
        """Set the gradients of all parameters to None."""
        for parameter in self.parameters():
            parameter.grad = None

    def requires_grad_(self, requires_grad=True):
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def train(self, mode=True):
        """Switch this and all inner modules to training (dropout and so on), or with False to evaluation."""
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self):
        return self.train(False)

    @contextlib.contextmanager
    def evaluating(self):
        """`with model.evaluating():` switch all modules to evaluation, and afterwards back to their modes."""
        before = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            yield self
        finally:
            for module, training in before:
                module.training = training

    def apply(self, fun):
        """Call fun(module) on each module inside, then on this one."""
        for child in self.children():
            child.apply(fun)
        fun(self)
        return self

    def to(self, *args, dtype=None, device=None):
        """Convert all floating parameters and buffers to a dtype: to(minigrad.float64).

        "cpu" changes nothing.
        """
        for arg in args:
            if isinstance(arg, str) and arg.split(":")[0] in ("cpu", "cuda", "mps"):
                device = arg
            else:
                dtype = arg
        if device is not None and str(device) != "cpu":
            self.cuda()
        if dtype is not None:
            self._cast(np.dtype(dtype))
        return self

    def _cast(self, dtype):
        if dtype.kind != "f":
            raise TypeError(f"A module's parameters must be floating point, got dtype {dtype}.")
        for _, tensor in (*self.named_parameters(), *self.named_buffers()):
            if tensor.dtype.kind == "f" and tensor.dtype != dtype:
                tensor.data, tensor.grad = tensor.data.astype(dtype), None

    def float(self):
        return self.to(np.float32)

    def double(self):
        return self.to(np.float64)

    def cpu(self):
        return self

    def cuda(self, *_, **__):
        raise NotImplementedError(NO_GPU)

    # -------- printing

    def extra_repr(self):
        """Return the text between the parentheses of repr(layer)."""
        return ""

    def __repr__(self):
        inner = [f"({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.named_children()]
        extra = self.extra_repr()
        if not inner:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}({extra}\n  " + "\n  ".join(inner) + "\n)"


# parameters that identify a state of PyTorch or of GPT-2's published weights -> the function that converts it
CONVERTERS = {
    "in_proj_weight": "models.torch_states.from_torch(state) converts it (for a single attention layer, "
    "models.attention.from_torch_state(state))",
    "transformer.wte.weight": "models.gpt.from_gpt2_state(state) converts GPT-2's state",
}


def init_stream():
    """The random stream of initial values."""
    return random.stream("init")


def _without_duplicates(named):
    seen = set()
    for name, tensor in named:
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor


def _refuse_hidden(module, name, value):
    inside = value.values() if isinstance(value, dict) else value
    if any(isinstance(item, (Module, Parameter)) for item in inside):
        raise TypeError(
            f"{type(module).__name__}.{name} is a plain {type(value).__name__} of modules or parameters, "
            "which would not be found and not be trained. Use nn.ModuleList or nn.ModuleDict (for "
            "parameters: an attribute each)."
        )


def _mismatch(owner, missing, unexpected, shapes, strict):
    lines = [f"The state does not fit {owner}; nothing was loaded."]
    if missing and strict:
        lines.append("  missing from the state: " + ", ".join(missing))
    if unexpected and strict:
        lines.append("  not known to the module: " + ", ".join(unexpected))
    lines += ["  other shape or dtype: " + line for line in shapes]
    foreign = [way for name, way in CONVERTERS.items() if any(given.endswith(name) for given in unexpected)]
    if foreign:
        lines.append(f"  These names belong to another library's model; {foreign[0]}.")
    elif strict and not shapes:
        lines.append("  To load what fits, pass strict=False.")
    return "\n".join(lines)
