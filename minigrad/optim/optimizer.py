"""Optimizers: from gradients to steps.

A step updates all parameters in pieces that stay in the processor's cache (flat.py). It works in place and
counts as a write, so that a backward through values computed before it raises an error.
"""

import math
import numbers

import numpy as np

from minigrad.engine.graph import clock
from minigrad.engine.tensor import Tensor
from minigrad.optim.flat import Flat


class Optimizer:
    """Groups of parameters, each with its settings. Subclasses define `remembered` and `update`.

    params   tensors, or dicts {"params": tensors, setting: value ...} for groups with their own settings
    state    parameter -> {"step": its number of steps, name: array in its shape, such as a running mean}
    names    the names of all arrays that optimizers of this class may have in `state`
    """

    names = ()

    def __init__(self, params, defaults):
        self.defaults, self.state = defaults, {}
        self._flats = {}  # (index of the group, dtype) -> Flat
        if isinstance(params, Tensor):
            raise TypeError(
                "An optimizer takes a list of tensors, "
                "such as [x] or model.parameters(); got a tensor itself."
            )
        params = list(params)
        if not params:
            raise ValueError(
                "The optimizer got no parameters; is model.parameters() empty, "
                "or an iterator already used up?"
            )
        self.param_groups = []
        for group in params if isinstance(params[0], dict) else [{"params": params}]:
            self.add_param_group(group)

    def add_param_group(self, group):
        """Add parameters with the settings in the dict `group`, and defaults for the others."""
        unknown = set(group) - set(self.defaults) - {"params"}
        if unknown:
            raise TypeError(
                f"{type(self).__name__} has no setting {', '.join(unknown)}; "
                f"it has {', '.join(self.defaults)}."
            )
        inside = group["params"]
        group = {**self.defaults, **group, "params": [inside] if isinstance(inside, Tensor) else list(inside)}
        have = {id(p) for old in self.param_groups for p in old["params"]}
        for p in group["params"]:
            if not isinstance(p, Tensor) or not p.is_leaf:
                raise TypeError(f"An optimizer updates leaf tensors only, got {type(p).__name__}.")
            if id(p) in have:
                raise ValueError(
                    "The optimizer got the same parameter twice; it would be updated twice in each step."
                )
            have.add(id(p))
        _check(group)
        self.param_groups.append(group)

    def zero_grad(self):
        """Set all gradients to None, so that the next backward does not add to them."""
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None

    def step(self):
        """Update every parameter that has a gradient."""
        for number, group in enumerate(self.param_groups):
            _check_gradients(group["params"])
            for dtype in dict.fromkeys(p.dtype for p in group["params"]):
                flat = self._flat(number, dtype)
                for x, g, part, steps in flat.pieces(self._steps_made):
                    memory = [array[part] for array in flat.memory.values()]
                    self.update(x, -g if group["maximize"] else g, steps + 1, group, *memory)
                self._count(flat)

    def remembered(self, group):
        """Return the names of the arrays in `state` that a group needs."""
        return ()

    def update(self, x, g, t, group, *memory):
        """Update elements x with gradients g in place, in step t (from 1).

        memory: the arrays of `remembered`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define update(x, g, t, group, *memory).")

    def _flat(self, number, dtype):
        """Return the memory of a group's parameters of a dtype; make a new one if something has changed."""
        group = self.param_groups[number]
        params, names = [p for p in group["params"] if p.dtype == dtype], self.remembered(group)
        flat = self._flats.get((number, dtype))
        if flat is None or not flat.fits(params, names, self.state):
            flat = self._flats[number, dtype] = Flat(params, names, self.state)
        return flat

    def _steps_made(self, p):
        state = self.state.get(p, {})
        # PyTorch's SGD saves no count: a state that is not empty means that there was a step
        return int(state.get("step", bool(state)))

    def _count(self, flat):
        """Count a step for the parameters with a gradient."""
        for p in flat.params:
            if p.grad is not None:
                steps = self._steps_made(p) + 1
                if p not in self.state:
                    flat.adopt(p, self.state.setdefault(p, {}))
                self.state[p]["step"] = steps
                p.writes[0] = next(clock)

    def state_dict(self):
        """Return the settings, and each parameter's state by its index over all groups, as in PyTorch."""
        index = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        groups, start = [], 0
        for group in self.param_groups:
            count = len(group["params"])
            groups.append({**group, "params": list(range(start, start + count))})
            start += count
        state = {
            index[id(p)]: {k: np.copy(v) if isinstance(v, np.ndarray) else v for k, v in s.items()}
            for p, s in self.state.items()
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Load the state_dict of an optimizer, ours or PyTorch's, with the same parameters in the same order.

        Raises ValueError, before anything is changed, if it does not fit.
        """
        if not isinstance(state_dict, dict) or not {"state", "param_groups"} <= set(state_dict):
            raise ValueError(
                "This is not the state_dict of an optimizer: it must have state and param_groups."
            )
        params = [p for group in self.param_groups for p in group["params"]]
        sizes = [len(group["params"]) for group in state_dict["param_groups"]]
        if sizes != [len(group["params"]) for group in self.param_groups]:
            own = [len(g["params"]) for g in self.param_groups]
            raise ValueError(f"The saved optimizer has groups of {sizes} parameters, this one {own}.")
        fresh = {}
        for number, saved in state_dict["state"].items():
            if str(number) not in map(str, range(len(params))):
                raise ValueError(
                    f"The saved state has a parameter {number!r}; "
                    f"this optimizer has parameters 0 to {len(params) - 1}."
                )
            fresh[params[int(number)]] = self._memory_of(params[int(number)], number, saved)
        settings = [self._settings_of(saved) for saved in state_dict["param_groups"]]
        self.state, self._flats = fresh, {}
        for group, saved in zip(self.param_groups, settings, strict=True):
            group.update(saved)

    def _settings_of(self, saved):
        """Return a saved group's settings, checked. From JSON pairs come as lists."""
        settings = {k: tuple(v) if isinstance(v, list) else v for k, v in saved.items() if k != "params"}
        _check(settings)
        return settings

    def _memory_of(self, p, number, saved):
        """Return a parameter's saved state: its number of steps, and copies of the arrays in its dtype."""
        found = {}
        for key, value in saved.items():
            if key == "step":
                found[key] = int(value)
                if found[key] < 0:
                    raise ValueError(f"The saved state of parameter {number} has {found[key]} steps.")
            elif value is not None:
                if key not in self.names:
                    raise ValueError(
                        f"The saved state has {key}, which {type(self).__name__} does not use; "
                        f"it uses {' '.join(self.names)}."
                    )
                if np.shape(value) != p.shape:
                    raise ValueError(
                        f"The saved {key} of parameter {number} has shape {tuple(np.shape(value))}, "
                        f"the parameter {p.shape}."
                    )
                found[key] = np.array(value, dtype=p.dtype)
        return found


def _check_gradients(params):
    for p in params:
        if p.grad is not None and (not isinstance(p.grad, Tensor) or p.grad.data.shape != p.data.shape):
            shape = getattr(p.grad, "shape", None)
            raise RuntimeError(
                f"A gradient must be a tensor of its parameter's shape {p.shape}, "
                f"got {type(p.grad).__name__} of shape {shape}."
            )


def _check(group):
    for name in ("lr", "weight_decay", "momentum", "eps"):
        if name in group and not (
            isinstance(group[name], numbers.Real) and group[name] >= 0 and math.isfinite(group[name])
        ):
            raise ValueError(f"{name} must be a number >= 0, got {group[name]}.")
    for beta in group.get("betas", ()):
        if not 0 <= beta < 1:
            raise ValueError(f"betas must be in [0, 1), got {group['betas']}.")


class SGD(Optimizer):
    """x -= lr g, with momentum and weight decay as in PyTorch.

    momentum m keeps v = m v + g and steps along v; nesterov steps along g + m v (Sutskever et al. 2013).
    maximize steps up instead of down.
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        momentum=0.0,
        dampening=0.0,
        weight_decay=0.0,
        nesterov=False,
        *,
        maximize=False,
    ):
        if nesterov and (momentum <= 0 or dampening):
            raise ValueError("Nesterov momentum needs momentum > 0 and no dampening.")
        settings = dict(
            lr=lr,
            momentum=momentum,
            weight_decay=weight_decay,
            nesterov=nesterov,
            dampening=dampening,
            maximize=maximize,
        )
        super().__init__(params, settings)

    names = ("momentum_buffer",)

    def remembered(self, group):
        return self.names if group["momentum"] else ()

    def update(self, x, g, t, group, *memory):
        if group["weight_decay"]:
            g = g + group["weight_decay"] * x
        if group["momentum"]:
            (v,) = memory
            v *= group["momentum"]
            v += g if t == 1 else (1 - group["dampening"]) * g
            g = g + group["momentum"] * v if group["nesterov"] else v
        x -= group["lr"] * g


class Adam(Optimizer):
    """Kingma & Ba 2015, algorithm 1: running mean of the gradient / root of the running mean of its square.

    weight_decay is added to the gradient (L2); AdamW decays the parameter itself. amsgrad divides by the root
    of the largest mean square so far (Reddi et al. 2018). maximize steps up instead of down.
    """

    decoupled = False
    names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.0,
        amsgrad=False,
        *,
        maximize=False,
    ):
        super().__init__(
            params,
            dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize),
        )

    def remembered(self, group):
        return self.names[: 2 + group["amsgrad"]]

    def update(self, x, g, t, group, m, v, *largest):
        """x -= lr m^ / (sqrt(v^) + eps), with m^ = m / (1 - beta1^t) and v^ = v / (1 - beta2^t).

        m = beta1 m + (1 - beta1) g and v = beta2 v + (1 - beta2) g^2 start at 0, which m^ and v^ correct.
        Both corrections are combined here, as the paper advises (section 2).
        """
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        if decay and self.decoupled:
            x *= 1 - lr * decay
        elif decay:
            g = g + decay * x
        scratch = g * (1 - beta1)
        m *= beta1
        m += scratch
        np.multiply(g, g, out=scratch)
        scratch *= 1 - beta2
        v *= beta2
        v += scratch
        if largest:
            v = np.maximum(v, largest[0], out=largest[0])
        correction = math.sqrt(1 - beta2**t)
        root = np.sqrt(v, out=scratch)
        root += group["eps"] * correction
        step = np.divide(m, root, out=root)
        step *= lr * correction / (1 - beta1**t)
        x -= step


class AdamW(Adam):
    """Adam with decoupled weight decay: x -= lr decay x in each step (Loshchilov & Hutter 2019)."""

    decoupled = True

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.01,
        amsgrad=False,
        *,
        maximize=False,
    ):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
