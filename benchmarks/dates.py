"""The job `dates`: a training step of the default run, the encoder-decoder that reads dates.

Both sides start from the same weights (our model's, at one seed) and see the same batches, built beforehand.
The PyTorch model is in torch_transformer.py.
"""

from functools import partial

from benchmarks.case import Case, Side
from minigrad import manual_seed
from minigrad.machine import keep_freed_memory
from minigrad.nn.utils import clip_grad_norm_
from models.recipes.dates import MAX_LENGTH, VOCABULARY, Dates
from models.recipes.encoder_decoder import PAD

CLIP = 1.0
BATCHES = 64  # batches built beforehand; later steps repeat them
TINY = dict(batch_size=4, d_model=16, layers=1, heads=2, d_ff=32)


def cases(job="dates", tiny=False):
    settings = TINY if tiny else {}
    return [
        Case(job, (
            Side("minigrad", partial(ours, settings)),
            Side("torch", partial(torch_step, settings), "torch"),
            Side("torch fused", partial(torch_step, settings, fused=True), "torch"),
            Side("torch tuned", partial(torch_step, settings, fused=True, tuned=True), "torch"),
        ))
    ]  # fmt: skip


def set_up(settings):
    """Build (recipe, model, optimizer, rate, batches), equal in every process.

    rate(step) is the recipe's schedule.
    """
    manual_seed(0)
    recipe = Dates({**settings, "dropout": 0.0})
    model = recipe.model()
    optimizer, schedule = recipe.optimizer(model)
    batches = [recipe.batch(i) for i in range(BATCHES)]
    return recipe, model, optimizer, lambda step: recipe.settings["lr"] * schedule.factor(step), batches


def set_rate(optimizer, rate):
    """Set the learning rate of a step. Both sides do it like this, because schedulers are not compared."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def ours(settings):
    keep_freed_memory()  # as the trainer does
    recipe, model, optimizer, rate, batches = set_up(settings)
    parameters = list(model.parameters())

    def step(number):
        set_rate(optimizer, rate(number))
        loss = recipe.loss(model, batches[number % BATCHES])
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        return loss.item()

    return step


def torch_step(settings, tuned=False, **how):
    """Build the step of PyTorch eager, as its users write it.

    tuned  True: keep freed memory, as ours does
    how    arguments of its AdamW; without any it updates one tensor at a time
    """
    import torch
    from torch.nn.functional import cross_entropy

    from benchmarks.torch_transformer import Transformer, adamw, weights_of

    if tuned:
        keep_freed_memory()
    recipe, our_model, our_optimizer, rate, batches = set_up(settings)
    s = recipe.settings
    model = Transformer(VOCABULARY, s["d_model"], s["heads"], s["layers"], s["d_ff"], MAX_LENGTH, PAD)
    model.load_state_dict(weights_of(our_model))
    optimizer = adamw(model, our_optimizer, **how)
    parameters = list(model.parameters())
    batches = [(torch.from_numpy(src), torch.from_numpy(tgt)) for src, tgt in batches]

    def step(number):
        set_rate(optimizer, rate(number))
        src, tgt = batches[number % BATCHES]
        logits = model(src, tgt[:, :-1])
        targets = tgt[:, 1:].reshape(-1)
        loss = cross_entropy(
            logits.flatten(0, 1), targets, ignore_index=PAD, label_smoothing=s["label_smoothing"]
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        return loss.item()

    return step
