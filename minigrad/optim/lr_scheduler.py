"""Learning rate schedules. They read and write an optimizer's param_groups only.

As in PyTorch, a schedule sets the rate of step 0 when it is made. Call scheduler.step() after each
optimizer.step().
"""

import math

from minigrad.engine import errors


class LambdaLR:
    """Multiply each group's initial rate by factor(step)."""

    def __init__(self, optimizer, lr_lambda):
        self.optimizer, self.factor, self.last_epoch = optimizer, lr_lambda, 0
        self.base_lrs = [group["lr"] for group in optimizer.param_groups]
        self._set()

    def _set(self):
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = float(self._rate(base))

    def _rate(self, base):
        return base * self.factor(self.last_epoch)

    def step(self):
        self.last_epoch += 1
        self._set()

    def get_last_lr(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state):
        self.last_epoch, self.base_lrs = state["last_epoch"], list(state["base_lrs"])
        self._set()


class NoamLR(LambdaLR):
    """d_model^-0.5 min(t^-0.5, t warmup^-1.5), t from 1 (Vaswani et al. 2017, equation 3).

    The rate rises linearly and falls as 1/sqrt(t). It multiplies the optimizer's own rate; lr=1 is the
    paper's.
    """

    def __init__(self, optimizer, d_model, warmup_steps=4000):
        if warmup_steps < 1:
            raise ValueError(f"The warmup must have at least one step, got {warmup_steps}.")
        super().__init__(
            optimizer, lambda step: d_model**-0.5 * min((step + 1) ** -0.5, (step + 1) * warmup_steps**-1.5)
        )


class WarmupCosineLR(LambdaLR):
    """Rise linearly over warmup_steps, fall along half a cosine to min_factor at total_steps, then stay."""

    def __init__(self, optimizer, warmup_steps, total_steps, min_factor=0.0):
        if not 0 <= warmup_steps <= total_steps:
            raise ValueError(f"The warmup ({warmup_steps} steps) must fit into the {total_steps} steps.")

        def factor(step):
            if step < warmup_steps:
                return (step + 1) / warmup_steps
            done = min(1.0, (step - warmup_steps) / max(1, total_steps - warmup_steps))
            return min_factor + (1 - min_factor) * 0.5 * (1 + math.cos(math.pi * done))

        super().__init__(optimizer, factor)


class CosineAnnealingLR(LambdaLR):
    """Fall from the initial rate to eta_min at step T_max along half a cosine, then rise again.

    Loshchilov and Hutter 2017.
    """

    def __init__(self, optimizer, T_max, eta_min=0.0):
        if T_max < 1:
            raise ValueError(f"T_max, the number of falling steps, must be at least 1, got {T_max}.")
        self.eta_min = eta_min
        super().__init__(optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / T_max)))

    def _rate(self, base):
        return self.eta_min + (base - self.eta_min) * self.factor(self.last_epoch)


class StepLR(LambdaLR):
    """Multiply the rate by gamma after every step_size steps."""

    def __init__(self, optimizer, step_size, gamma=0.1):
        if step_size < 1:
            raise ValueError(f"The rate must last at least one step, got step_size {step_size}.")
        super().__init__(optimizer, lambda step: gamma ** (step // step_size))


def __getattr__(name):
    raise errors.Missing(__name__, name)
