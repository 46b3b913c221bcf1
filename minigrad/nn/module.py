"""Module: a function with parameters, found by name. Knows nothing of any particular layer.

There is no registration: a module's parameters are whatever Parameters, Modules and buffers its attributes hold.
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
    """A leaf that trains: a Tensor that requires its gradient, and that Modules find among their attributes."""

    def __init__(self, data, requires_grad=True):
        source = as_tensor(data)
        super().__init__(source.data)
        self.writes = source.writes  # the memory is shared, so the count of writes is too
        self.requires_grad_(requires_grad)


class Module:
    """The base of every layer and model: define `forward`, and call the object.

    Assign Parameters and Modules to attributes; `register_buffer` keeps a constant (a mask, a table) with them.
    """

    training = True
    _buffers = ()
    _not_saved = ()

    def forward(self, *args, **kwargs):
        raise NotImplementedError(
            f"{type(self).__name__} must define forward(...), which says what calling it computes."
        )

    def __call__(self, *args, **kwargs):
        if not recording.get() and tracing.get() is None:
            return self.forward(*args, **kwargs)  # nobody will ask which module ran
        before = current_module.get()
        current_module.set(self)
        try:
            return self.forward(*args, **kwargs)
        finally:
            current_module.set(before)

    # -------- finding things

    def named_children(self):
        """(name, module) for each module that is an attribute."""
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, (list, tuple, dict)):
                _refuse_hidden(self, name, value)

    def children(self):
        return (child for _, child in self.named_children())

    def named_modules(self, prefix="", remove_duplicate=True):
        """(path, module) for this module (path "") and all inside, each once, or under each of its names."""
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
        """(path, tensor) for each attribute of that kind, a tensor that stands in two places twice."""
        for path, module in self.named_modules("", remove_duplicate):
            for name, value in vars(module).items():
                saved = name in module._buffers and (kind == "buffer" or name not in module._not_saved)
                if isinstance(value, Parameter) if kind == "parameter" else saved:
                    yield (f"{path}.{name}" if path else name), value

    def named_parameters(self):
        """(path, parameter), each parameter once, under the first name that leads to it."""
        return _each_once(self._named("parameter"))

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self):
        return _each_once(self._named("buffer"))

    def buffers(self):
        return (buffer for _, buffer in self.named_buffers())

    def register_buffer(self, name, tensor, persistent=True):
        """Keep a tensor that is not trained, but moves and, if persistent, is saved with the module."""
        self._buffers = (*self._buffers, name)
        if not persistent:
            self._not_saved = (*self._not_saved, name)
        setattr(self, name, as_tensor(tensor))

    # -------- saving and loading

    def state_dict(self):
        """Every parameter and buffer by name, tied ones once; the tensors share their memory with the module."""
        return {
            name: t.detach()
            for name, t in (*self.named_parameters(), *_each_once(self._named("saved buffer")))
        }

    def load_state_dict(self, state, strict=True):
        """Copy the numbers in. All names, shapes and dtypes are compared first; if anything differs nothing is written.

        strict=False leaves out what is missing or unexpected. Shapes must agree in any case, and floats never become whole numbers.
        """
        # with the other names of tied ones
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

    # -------- changing all at once

    def zero_grad(self):
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    def requires_grad_(self, requires_grad=True):
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def train(self, mode=True):
        """Switch dropout and its like on (or off) here and in all modules inside."""
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self):
        return self.train(False)

    @contextlib.contextmanager
    def evaluating(self):
        """`with model.evaluating():` everything in evaluation for a while, then each module as it was."""
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
        """Another dtype for all floating parameters and buffers: to(minigrad.float64). "cpu" is accepted and changes nothing."""
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
            raise TypeError(f"A module's numbers must be floating point, got dtype {dtype}.")
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

    # -------- how it prints

    def extra_repr(self):
        """What stands between the parentheses of a layer."""
        return ""

    def __repr__(self):
        inner = [f"({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.named_children()]
        extra = self.extra_repr()
        if not inner:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}({extra}\n  " + "\n  ".join(inner) + "\n)"


# names by which a state of PyTorch's or of GPT-2's published weights is known, and what turns it into one of ours
TURNED = {
    "in_proj_weight": "models.torch_states.from_torch(state) turns it into ours; of one attention so does models.attention.from_torch_state(state)",
    "transformer.wte.weight": "models.gpt.from_gpt2_state(state) turns GPT-2's state into ours",
}


def init_stream():
    """Where layers draw their first values from."""
    return random.stream("init")


def _each_once(named):
    seen = set()
    for name, tensor in named:
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor


def _refuse_hidden(module, name, value):
    inside = value.values() if isinstance(value, dict) else value
    if any(isinstance(item, (Module, Parameter)) for item in inside):
        raise TypeError(
            f"{type(module).__name__}.{name} is a plain {type(value).__name__} that holds modules or parameters, which would "
            "not be found and not be trained. Use nn.ModuleList or nn.ModuleDict (for parameters: an attribute each)."
        )


def _mismatch(owner, missing, unexpected, shapes, strict):
    lines = [f"The state does not fit {owner}; nothing was loaded."]
    if missing and strict:
        lines.append("  missing from the state: " + ", ".join(missing))
    if unexpected and strict:
        lines.append("  not known to the module: " + ", ".join(unexpected))
    lines += ["  other shape or dtype: " + line for line in shapes]
    foreign = [turned for name, turned in TURNED.items() if any(given.endswith(name) for given in unexpected)]
    if foreign:
        lines.append(f"  These names are of another library's model; {foreign[0]}.")
    elif strict and not shapes:
        lines.append("  To load what fits, pass strict=False.")
    return "\n".join(lines)
