"""One batch for several processes: each computes the gradients of its part, all-reduce adds them up. Knows recipes and MPI
(through mpi4py); nothing of optimizers, nor of how the processes begin and end (job.py).

    mpiexec -n 2 python -m minigrad.train text --distributed

starts the same program twice. Each process, a *rank*, holds the whole model; all begin with rank 0's weights, apply the same
gradients, and so keep the same weights. Of a batch of n numbers to predict, rank r takes n_r. The loss is a mean over all n,
so its gradient is the sum over r of n_r / n times the gradient of the mean over r's part. That sum is the all-reduce.
Lesson 19 builds it from nothing.
"""

import functools
import hashlib

import numpy as np

from minigrad import random
from minigrad.engine.backward import grad
from minigrad.engine.graph import clock
from minigrad.engine.tensor import Tensor
from minigrad.training.loop import TrainingError, Workers

BUCKET_BYTES = 2**20  # gradients travel in pieces of about this size: see "Buckets" in lesson 19
CHECK_EVERY = 100  # steps between two looks at whether all ranks still have the same weights


class Ranks(Workers):
    """`with Ranks(comm) as ranks: loss = ranks.backward(recipe, model, batch)` leaves in every rank's `.grad` what
    recipe.loss(model, batch).backward() would in one process, to rounding.

    Every rank calls it with the whole batch, which depends on the step and the seed only, so no data travels.
    """

    def __init__(self, comm, bucket_bytes=BUCKET_BYTES, check_every=CHECK_EVERY):
        self.comm, self.rank, self.parts = comm, comm.Get_rank(), comm.Get_size()
        self.bucket_bytes, self.check_every, self.steps = bucket_bytes, check_every, 0
        self._model = self._buckets = None
        self.ended = False  # do all ranks know that the training has ended?
        # Two, because collectives on one communicator must begin in the same order on all ranks; see _push_on.
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
            # else the batch has fewer examples than there are ranks, and this one adds nothing
            if self.rank < len(parts):
                loss = self._backward_part(recipe, model, parts)
                now = random.get_state()["streams"]
                moved = {name: now[name] for name in random.moved_since(before)}
        self._finish()
        return self._exchange(loss, moved)

    def begin(self, model):
        """Give every rank the numbers of rank 0's model, and lay out the buckets, the last parameters first: backward meets
        these first."""
        for tensor in model.state_dict().values():
            array = np.ascontiguousarray(tensor.data)
            self.comm.Bcast(array, root=0)
            np.copyto(tensor.data, array)
            tensor.writes[0] = next(clock)
        parameters = [p for p in model.parameters() if p.requires_grad]
        self._model, self._buckets = model, buckets_of(parameters[::-1], self.bucket_bytes, self.parts)
        self._bucket_of = {p: bucket for bucket in self._buckets for p in bucket.places}

    def stop(self, asked, over):
        """Return whether a rank was asked to stop or the training is over. All ranks call it, and all get the same answer."""
        self.ended = any(self.comm.allgather(bool(asked or over)))
        return self.ended

    def command(self, command):
        return f"mpiexec -n {self.parts} {command} --distributed"

    def hand_on(self, value):
        """Return rank 0's value, on every rank; None ends the job."""
        value = self.comm.bcast(value, root=0)
        self.ended = value is None
        return value

    def follow(self, training):
        """What the others do while rank 0 shows and saves: the same steps, to the same end; returns the exit status."""
        for _ in training.rows():
            if self.stop(False, training.over):
                break
        return 0

    # ------------------------------------------------------------ a step

    def _backward_part(self, recipe, model, parts):
        counts = [recipe.count(part) for part in parts]
        if counts[self.rank] == 0:  # a mean over nothing
            return 0.0
        share = counts[self.rank] / sum(counts)
        loss = recipe.loss(model, parts[self.rank]) * share
        hooks = [p.register_hook(functools.partial(self._ready, p)) for p in self._bucket_of]
        try:
            grad(loss, list(self._bucket_of), allow_unused=True)
        finally:
            for hook in hooks:
                hook.remove()
        return loss.item()

    def _ready(self, parameter, gradient):
        """The parameter's hook: its gradient is complete, and travels while the reverse pass goes on."""
        self._bucket_of[parameter].put(parameter, gradient.data)
        while self._waiting and self._waiting[0].missing == 0:
            self._send()
        self._push_on(wait=False)

    def _send(self):
        """Start the first waiting bucket. Their order is the same on all ranks, whatever order the gradients came in."""
        bucket = self._waiting.pop(0)
        summing = self.summing(*self._comms, bucket.flat)
        self._under_way.append((summing, next(summing)))

    def _push_on(self, wait):
        """Take the buckets under way as far as they will go, the first first, so that all ranks begin in the same order."""
        while self._under_way:
            summing, request = self._under_way[0]
            if wait:
                request.Wait()
            elif not request.Test():
                return
            request = next(summing, None)
            self._under_way[:1] = [] if request is None else [(summing, request)]

    def _finish(self):
        while self._waiting:  # those with a parameter that this rank did not use
            self._send()
        self._push_on(wait=True)
        for bucket in self._buckets:
            bucket.hand_out()

    def _exchange(self, loss, moved):
        """The whole batch's loss. Tell each other, too, where the random streams stand, so that a checkpoint written by any
        rank knows those of all; and now and then whether the weights are still the same."""
        look = self.steps % self.check_every == 0
        self.steps += 1
        told = self.comm.allgather((loss, moved, _digest(self._model) if look else None))
        losses, streams, digests = zip(*told, strict=True)
        for positions in streams:
            random.set_positions(positions)
        if len(set(digests)) > 1:
            others = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
            raise TrainingError(f"At step {self.steps} the weights of rank {others[0]} are no longer those of rank 0; something outside the gradients has changed them, and the ranks would train different models. Resume from the last checkpoint.")  # fmt: skip
        return sum(losses)


class Bucket:
    """The gradients of some parameters in one flat array, and behind them a number for each parameter: 1 where this rank has a
    gradient for it, so that a parameter that no rank used is known, and its `.grad` stays None."""

    def __init__(self, parameters, ranks):
        ends = np.cumsum([p.numel() for p in parameters]).tolist()
        self.places = {
            p: (slice(end - p.numel(), end), ends[-1] + i)
            for i, (p, end) in enumerate(zip(parameters, ends, strict=True))
        }
        # rounded up: pieces of one size for all ranks
        self.length = -(-(ends[-1] + len(parameters)) // ranks) * ranks

    def clear(self):
        # anew: the last step's still are somebody's `.grad`
        self.flat = np.zeros(self.length, next(iter(self.places)).dtype)
        self.missing = len(self.places)

    def put(self, parameter, gradient):
        place, flag = self.places[parameter]
        self.flat[place], self.flat[flag] = gradient.ravel(), 1
        self.missing -= 1

    def hand_out(self):
        for p, (place, flag) in self.places.items():
            p.grad = Tensor(self.flat[place].reshape(p.shape)) if self.flat[flag] else None


def buckets_of(parameters, limit, ranks):
    """The parameters in order, in Buckets of one dtype and at most `limit` bytes (or a single parameter)."""
    groups, size = [], 0
    for p in parameters:
        if not groups or p.dtype != groups[-1][0].dtype or size + p.data.nbytes > limit:
            groups.append([])
            size = 0
        groups[-1].append(p)
        size += p.data.nbytes
    return [Bucket(group, ranks) for group in groups]


def sum_over_ranks(scattering, gathering, flat):
    """All-reduce: leaves in `flat`, on every rank, the sum of all ranks' `flat`. A generator of requests: go on when the one
    it gave is complete.

    Rank r adds up piece r of everybody's, in the order of the ranks, and gives its sum to all. So all have the same bits, and
    the same every time: MPI promises this of moving data, but only recommends it of MPI_Allreduce (MPI 4.0, section 6.9.1).
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
