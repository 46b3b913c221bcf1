"""Go on with a run of minigrad's in PyTorch, in several processes that share each batch. Needs torch and transformers; knows the
folder that handover.py wrote, and nothing of minigrad. Where there are graphics cards each process takes one.

    torchrun --standalone --nproc-per-node 2 -m tutorials.outgrowing.ddp FOLDER
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from transformers import GPT2LMHeadModel

DEVICE = (
    torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
)


def loss_at(model, numbers, starts, context):
    """The loss of the windows (B, context) that begin at `starts`."""
    rows = torch.tensor(
        np.array([numbers[start : start + context + 1] for start in starts], np.int64), device=DEVICE
    )
    return cross_entropy(model(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def validation_loss(model, folder, job):
    numbers, places = np.load(folder / "validation.npy"), np.load(folder / "places.npy")
    parts = np.array_split(places, -(-len(places) // 50))
    return np.average(
        [loss_at(model.eval(), numbers, part, job["context"]).item() for part in parts],
        weights=[*map(len, parts)],
    )


def adamw(model, job, memory):
    """AdamW as it was: only matrices are decayed, and what was remembered of each parameter is there."""
    matrices, others = (
        [p for p in model.parameters() if p.ndim > 1],
        [p for p in model.parameters() if p.ndim <= 1],
    )
    optimizer = torch.optim.AdamW(
        [{"params": matrices}, {"params": others, "weight_decay": 0.0}], **job["settings"]
    )
    for name, p in model.named_parameters():
        remembered = {key: memory[f"{key}/{name}"].to(DEVICE) for key in job["memory"]}
        optimizer.state[p] = {"step": torch.tensor(float(job["done"])), **remembered}
    return optimizer


def steps(model, optimizer, job, numbers, starts):
    """Learn from batch after batch, each process from its part; yields what happened at each step."""
    rank, world, parallel = dist.get_rank(), dist.get_world_size(), DistributedDataParallel(model.train())
    for step, lr in enumerate(job["lr"]):
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        loss = loss_at(parallel, numbers, starts[step][rank::world], job["context"])
        loss.backward()  # here each process gets the mean of all gradients
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), job["clip"])
        optimizer.step()
        dist.all_reduce(loss := loss.detach())
        yield {
            "step": job["done"] + step + 1,
            "loss": loss.item() / world,
            "lr": lr,
            "gradient norm": norm.item(),
        }


def main(folder):
    dist.init_process_group("nccl" if DEVICE.type == "cuda" else "gloo")
    job = json.loads((folder / "job.json").read_text())
    if job["batch_size"] % dist.get_world_size():
        sys.exit(
            f"ddp: a batch of {job['batch_size']} needs a number of processes that divides it, not {dist.get_world_size()}."
        )
    model = GPT2LMHeadModel.from_pretrained(folder).to(DEVICE)
    optimizer, before = (
        adamw(model, job, load_file(folder / "optimizer.safetensors")),
        validation_loss(model, folder, job),
    )
    rows = list(
        steps(
            model,
            optimizer,
            job,
            np.load(folder / "training.npy", mmap_mode="r"),
            np.load(folder / "starts.npy"),
        )
    )
    if dist.get_rank() == 0:
        after = validation_loss(model, folder, job)
        print(
            f"PyTorch, {dist.get_world_size()} processes, {len(rows)} steps: validation loss {before:.4f} -> {after:.4f}"
        )
        model.save_pretrained(folder / "after")
        memory = {
            f"{key}/{name}": optimizer.state[p][key].cpu()
            for name, p in model.named_parameters()
            for key in job["memory"]
        }
        save_file(memory, folder / "after" / "optimizer.safetensors")
        (folder / "after" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
