"""Data-parallel training with MPI: each process computes its part's gradients, all-reduce adds them up.

    mpiexec -n 2 python -m minigrad.train text --distributed

starts the same program twice. Each process, a *rank*, holds the whole model. All begin with rank 0's weights
and apply the same gradients, and so keep the same weights. Of n predictions in a batch, rank r computes n_r.
The loss is a mean over all n, so its gradient is the sum over r of n_r / n times the gradient of the mean
over r's part. That sum is the all-reduce. Lesson 19 builds it from scratch.
"""

import functools
import hashlib

import numpy as np

from minigrad import random
from minigrad.engine.backward import grad
from minigrad.engine.graph import clock
from minigrad.engine.tensor import Tensor
from minigrad.training.loop import TrainingError, Workers

BUCKET_BYTES = 2**20  # gradients are sent in pieces of about this size: see "Buckets" in lesson 19
CHECK_EVERY = 100  # steps between two checks that all ranks still have the same weights


class Ranks(Workers):
    """`with Ranks(comm) as ranks: loss = ranks.backward(recipe, model, batch)` puts into every rank's `.grad`
    the gradients that recipe.loss(model, batch).backward() would compute in one process, up to rounding.

    Every rank calls it with the whole batch, which depends on the step and the seed only, so no data is sent.
    """

    def __init__(self, comm, bucket_bytes=BUCKET_BYTES, check_every=CHECK_EVERY):
        self.comm, self.rank, self.parts = comm, comm.Get_rank(), comm.Get_size()
        self.bucket_bytes, self.check_every, self.steps = bucket_bytes, check_every, 0
        self._model = self._buckets = None
        self.ended = False  # True once all ranks know that the training has ended
        # two, because collectives on one communicator must begin in the same order on all ranks: see _advance
        self._comms = comm.Dup(), comm.Dup()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for comm in self._comms if kind is None else ():
            comm.Free()

    def backward(self, recipe, model, batch):
        if model is not self._model:
            self.begin(model)
        self._waiting, self._under_way = list(self._buckets), []
        for bucket in self._buckets:
            bucket.clear()
        before = random.get_state()["streams"]
        loss, moved = 0.0, {}
        with random.as_worker(self.rank):
            parts = recipe.shares(batch, self.parts)
            # otherwise the batch has fewer examples than there are ranks, and this rank adds nothing
            if self.rank < len(parts):
                loss = self._backward_part(recipe, model, parts)
                now = random.get_state()["streams"]
                moved = {name: now[name] for name in random.moved_since(before)}
        self._finish()
        return self._exchange(loss, moved)

    def begin(self, model):
        """Copy the weights of rank 0's model to every rank, and lay out the buckets, the last parameters
        first: backward reaches those first."""
        for tensor in model.state_dict().values():
            array = np.ascontiguousarray(tensor.data)
            self.comm.Bcast(array, root=0)
            np.copyto(tensor.data, array)
            tensor.writes[0] = next(clock)
        parameters = [p for p in model.parameters() if p.requires_grad]
        self._model, self._buckets = model, buckets_of(parameters[::-1], self.bucket_bytes, self.parts)
        self._bucket_of = {p: bucket for bucket in self._buckets for p in bucket.slices}

    def stop(self, asked, over):
        """Return True if the training is over or a rank was asked to stop: the same answer on all ranks."""
        self.ended = any(self.comm.allgather(bool(asked or over)))
        return self.ended

    def command(self, command):
        return f"mpiexec -n {self.parts} {command} --distributed"

    def broadcast(self, value):
        """Return rank 0's value, on every rank; None ends the job."""
        value = self.comm.bcast(value, root=0)
        self.ended = value is None
        return value

    def follow(self, training):
        """Perform the same steps as rank 0, which also prints and saves; returns the exit status."""
        for _ in training.rows():
            if self.stop(False, training.over):
                break
        return 0

    # ------------------------------------------------------------ a step

    def _backward_part(self, recipe, model, parts):
        counts = [recipe.count(part) for part in parts]
        if counts[self.rank] == 0:  # the loss would be a mean over nothing
            return 0.0
        weight = counts[self.rank] / sum(counts)
        loss = recipe.loss(model, parts[self.rank]) * weight
        hooks = [p.register_hook(functools.partial(self._ready, p)) for p in self._bucket_of]
        try:
            grad(loss, list(self._bucket_of), allow_unused=True)
        finally:
            for hook in hooks:
                hook.remove()
        return loss.item()

    def _ready(self, parameter, gradient):
        """Hook of a parameter: its gradient is complete, and is sent while the reverse pass continues."""
        self._bucket_of[parameter].put(parameter, gradient.data)
        while self._waiting and self._waiting[0].missing == 0:
            self._send()
        self._advance(wait=False)

    def _send(self):
        """Start sending the first waiting bucket. All ranks send the buckets in the same order."""
        bucket = self._waiting.pop(0)
        summing = self.summing(*self._comms, bucket.flat)
        self._under_way.append((summing, next(summing)))

    def _advance(self, wait):
        """Advance the buckets under way as far as possible, in order: the same order on all ranks."""
        while self._under_way:
            summing, request = self._under_way[0]
            if wait:
                request.Wait()
            elif not request.Test():
                return
            request = next(summing, None)
            self._under_way[:1] = [] if request is None else [(summing, request)]

    def _finish(self):
        while self._waiting:  # buckets with a parameter that this rank did not use
            self._send()
        self._advance(wait=True)
        for bucket in self._buckets:
            bucket.set_gradients()

    def _exchange(self, loss, moved):
        """Return the whole batch's loss. The ranks also exchange the positions of their random streams, so
        that any rank can write a checkpoint of all, and every `check_every` steps a digest of the weights,
        which must be equal."""
        check = self.steps % self.check_every == 0
        self.steps += 1
        values = self.comm.allgather((loss, moved, _digest(self._model) if check else None))
        losses, streams, digests = zip(*values, strict=True)
        for positions in streams:
            random.set_positions(positions)
        if len(set(digests)) > 1:
            others = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
            raise TrainingError(
                f"At step {self.steps} the weights of rank {others[0]} are no longer those of rank 0; "
                "something outside the gradients has changed them, and the ranks would train different "
                "models. Resume from the last checkpoint."
            )
        return sum(losses)


class Bucket:
    """The gradients of some parameters in one flat array, followed by a flag for each parameter: 1 if this
    rank has a gradient for it. So the `.grad` of a parameter that no rank used stays None."""

    def __init__(self, parameters, ranks):
        ends = np.cumsum([p.numel() for p in parameters]).tolist()
        self.slices = {
            p: (slice(end - p.numel(), end), ends[-1] + i)
            for i, (p, end) in enumerate(zip(parameters, ends, strict=True))
        }
        # rounded up to a multiple of the ranks: each rank adds up a piece of the same size
        self.length = -(-(ends[-1] + len(parameters)) // ranks) * ranks

    def clear(self):
        # a new array: the last step's is still the `.grad` of some parameters
        self.flat = np.zeros(self.length, next(iter(self.slices)).dtype)
        self.missing = len(self.slices)

    def put(self, parameter, gradient):
        where, flag = self.slices[parameter]
        self.flat[where], self.flat[flag] = gradient.ravel(), 1
        self.missing -= 1

    def set_gradients(self):
        for p, (where, flag) in self.slices.items():
            p.grad = Tensor(self.flat[where].reshape(p.shape)) if self.flat[flag] else None


def buckets_of(parameters, limit, ranks):
    """Group the parameters, in order, into Buckets: one dtype, and at most `limit` bytes or one parameter."""
    groups, size = [], 0
    for p in parameters:
        if not groups or p.dtype != groups[-1][0].dtype or size + p.data.nbytes > limit:
            groups.append([])
            size = 0
        groups[-1].append(p)
        size += p.data.nbytes
    return [Bucket(group, ranks) for group in groups]


def sum_over_ranks(scattering, gathering, flat):
    """All-reduce: put the sum of all ranks' `flat` into `flat`, on every rank. A generator of MPI requests:
    call next() when the last request is complete.

    Rank r adds up piece r of all ranks, in the order of the ranks, and sends the sum to all. So all ranks get
    the same bits, every time. MPI guarantees this for moving data, but only recommends it for MPI_Allreduce
    (MPI 4.0, section 6.9.1).
    """
    size = scattering.Get_size()
    pieces = np.empty((size, flat.size // size), flat.dtype)
    yield scattering.Ialltoall(flat, pieces)
    total = pieces[0]
    for piece in pieces[1:]:
        total += piece
    yield gathering.Iallgather(total, flat)


Ranks.summing = staticmethod(sum_over_ranks)


def _digest(model):
    found = hashlib.blake2b(digest_size=16)
    for tensor in model.state_dict().values():
        found.update(np.ascontiguousarray(tensor.data))
    return found.hexdigest()
