"""Containers of modules: a chain, a list, a dictionary."""

from minigrad.nn.module import Module


class ModuleList(Module):
    """A list of modules whose parameters are found. It has no forward."""

    def __init__(self, modules=()):
        for i, module in enumerate(modules):
            setattr(self, str(i), _check_module(module))

    def append(self, module):
        setattr(self, str(len(self)), _check_module(module))
        return self

    def extend(self, modules):
        for module in modules:
            self.append(module)
        return self

    def __len__(self):
        return sum(1 for _ in self.named_children())

    def __iter__(self):
        return iter(list(self.children()))

    def __getitem__(self, i):
        inside = list(self)
        if isinstance(i, slice):
            return type(self)(inside[i]) if type(self) is ModuleList else type(self)(*inside[i])
        return inside[i]


class Sequential(ModuleList):
    """A chain of modules: the output of each is the input of the next."""

    def __init__(self, *modules):
        super().__init__(modules)

    def forward(self, x):
        for module in self:
            x = module(x)
        return x


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules=()):
        for name, module in dict(modules).items():
            self[name] = module

    def keys(self):
        return [name for name, _ in self.named_children()]

    def values(self):
        return list(self.children())

    def items(self):
        return list(self.named_children())

    def __len__(self):
        return len(self.keys())

    def __iter__(self):
        return iter(self.keys())

    def __contains__(self, name):
        return name in self.keys()

    def __getitem__(self, name):
        if name not in self:
            raise KeyError(f"There is no module {name!r} here; there are {', '.join(self.keys()) or 'none'}.")
        return getattr(self, name)

    def __setitem__(self, name, module):
        if hasattr(type(self), name):
            raise KeyError(
                f"A module cannot be named {name!r} here, because that is a method of ModuleDict; "
                "choose another name."
            )
        setattr(self, name, _check_module(module))


def _check_module(module):
    if not isinstance(module, Module):
        raise TypeError(f"A container takes only modules, got {type(module).__name__}.")
    return module
