"""Modules that hold modules: in a chain, in a list, by name."""

from minigrad.nn.module import Module


class ModuleList(Module):
    """A list whose modules are found; does not say how they are called."""

    def __init__(self, modules=()):
        for i, module in enumerate(modules):
            setattr(self, str(i), _checked(module))

    def append(self, module):
        setattr(self, str(len(self)), _checked(module))
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
    """Modules in a chain: each is given what the one before gave."""

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
                f"A module cannot be named {name!r} here, because that is a method of ModuleDict; choose another name."
            )
        setattr(self, name, _checked(module))


def _checked(module):
    if not isinstance(module, Module):
        raise TypeError(f"Only modules go in here, got {type(module).__name__}.")
    return module
