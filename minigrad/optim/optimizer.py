"""Optimizers: from gradients to steps. Know parameters as arrays with gradients; nothing of models or losses.

Each updates in place and counts the write, so that a backward through values computed before the step is refused.
"""

import math

import numpy as np

from minigrad._tensor import Tensor
from minigrad.autograd import clock


class Optimizer:
    """Groups of parameters, each with its settings; subclasses say how one parameter moves (`update`).

    params   tensors, or dicts {"params": tensors, setting: value ...} for groups with settings of their own
    """

    def __init__(self, params, defaults):
        self.defaults = defaults
        self.state = {}  # parameter -> what the optimizer remembers of it
        params = list(params)
        if not params:
            raise ValueError("The optimizer got no parameters; is model.parameters() empty, or already used up?")
        self.param_groups = []
        for group in params if isinstance(params[0], dict) else [{"params": params}]:
            self.add_param_group(group)

    def add_param_group(self, group):
        """Let more parameters train, with the settings in the dict `group`, defaults for the rest."""
        unknown = set(group) - set(self.defaults) - {"params"}
        if unknown:
            raise TypeError(f"{type(self).__name__} does not know {', '.join(unknown)}; it knows {', '.join(self.defaults)}.")
        inside = group["params"]
        group = {**self.defaults, **group, "params": [inside] if isinstance(inside, Tensor) else list(inside)}
        have = {id(p) for old in self.param_groups for p in old["params"]}
        for p in group["params"]:
            if not isinstance(p, Tensor) or not p.is_leaf:
                raise TypeError(f"An optimizer moves leaf tensors only, got {type(p).__name__}.")
            if id(p) in have:
                raise ValueError("The same parameter stands twice among the optimizer's parameters; it would move twice a step.")
            have.add(id(p))
        _check(group)
        self.param_groups.append(group)

    def zero_grad(self):
        """Forget the gradients, so that the next backward starts from nothing."""
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None

    def step(self):
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p.data, p.grad.data, self.state.setdefault(p, {}), group)
                    p.writes[0] = next(clock)

    def update(self, x, g, state, group):
        raise NotImplementedError

    def state_dict(self):
        """Settings, and what is remembered of each parameter, by its number in the order of the groups (as PyTorch)."""
        numbers = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        groups, start = [], 0
        for group in self.param_groups:
            count = len(group["params"])
            groups.append({**group, "params": list(range(start, start + count))})
            start += count
        state = {numbers[id(p)]: {k: np.copy(v) if isinstance(v, np.ndarray) else v for k, v in s.items()} for p, s in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Take over settings and memory from `state_dict()` of an optimizer with the same parameters in the same order."""
        params = [p for group in self.param_groups for p in group["params"]]
        sizes = [len(group["params"]) for group in state_dict["param_groups"]]
        if sizes != [len(group["params"]) for group in self.param_groups]:
            raise ValueError(f"The saved optimizer has groups of {sizes} parameters, this one {[len(g['params']) for g in self.param_groups]}.")  # fmt: skip
        fresh = {}
        for number, saved in state_dict["state"].items():
            p = params[int(number)]
            for key, value in saved.items():
                if isinstance(value, np.ndarray) and value.shape != p.shape:
                    raise ValueError(f"The saved {key} of parameter {number} has shape {value.shape}, the parameter {p.shape}.")
            fresh[p] = {k: v.astype(p.dtype) if isinstance(v, np.ndarray) else v for k, v in saved.items()}
        self.state = fresh
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({k: v for k, v in saved.items() if k != "params"})


def _check(group):
    for name in ("lr", "weight_decay", "momentum", "eps"):
        if name in group and not (group[name] >= 0 and math.isfinite(group[name])):
            raise ValueError(f"{name} must be a number that is not negative, got {group[name]}.")
    for beta in group.get("betas", ()):
        if not 0 <= beta < 1:
            raise ValueError(f"betas must be in [0, 1), got {group['betas']}.")


class SGD(Optimizer):
    """x -= lr g, with momentum and weight decay as PyTorch has them.

    momentum m keeps v = m v + g and moves along v; nesterov moves along g + m v (Sutskever et al. 2013).
    """

    def __init__(self, params, lr=1e-3, momentum=0.0, weight_decay=0.0, nesterov=False, dampening=0.0):
        if nesterov and (momentum <= 0 or dampening):
            raise ValueError("Nesterov's step needs a momentum, and no dampening.")
        settings = dict(lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov, dampening=dampening)
        super().__init__(params, settings)

    def update(self, x, g, state, group):
        momentum = group["momentum"]
        if group["weight_decay"]:
            g = g + group["weight_decay"] * x
        if momentum:
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = g.astype(x.dtype)
            else:
                state["momentum_buffer"] *= momentum
                state["momentum_buffer"] += (1 - group["dampening"]) * g
            v = state["momentum_buffer"]
            g = g + momentum * v if group["nesterov"] else v
        x -= group["lr"] * g


class Adam(Optimizer):
    """Kingma & Ba 2015, algorithm 1: steps of about lr, along a running mean of the gradient over the root of that of its square.

    weight_decay is added to the gradient (L2); AdamW decays the parameter itself.
    """

    decoupled = False

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def update(self, x, g, state, group):
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        if not state:
            state.update(step=0, exp_avg=np.zeros_like(x), exp_avg_sq=np.zeros_like(x))
        state["step"] += 1  # t starts at 1: the corrections below divide by 1 - beta^t
        if decay and self.decoupled:
            x *= 1 - lr * decay
        elif decay:
            g = g + decay * x
        m, v, t = state["exp_avg"], state["exp_avg_sq"], state["step"]
        m *= beta1
        m += (1 - beta1) * g
        v *= beta2
        g = g * g
        g *= 1 - beta2
        v += g
        denominator = np.sqrt(v, out=g)
        denominator /= math.sqrt(1 - beta2**t)
        denominator += group["eps"]
        step = np.divide(m, denominator, out=denominator)
        step *= lr / (1 - beta1**t)
        x -= step


class AdamW(Adam):
    """Adam with the decay taken out of the gradient: x -= lr decay x beside each step (Loshchilov & Hutter 2019)."""

    decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, lr, betas, eps, weight_decay)
