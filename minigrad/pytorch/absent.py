"""Names of PyTorch that minigrad does not have, each with what to do instead.

Used by the errors for missing names, and by the page "coming from PyTorch". Loaded only when such an error is
read.
"""

import fnmatch
import importlib.util
import sys

from minigrad.pytorch.moved import MOVED
from minigrad.pytorch.words import did_you_mean

PYTORCHS = {
    "minigrad": "torch", "minigrad.nn": "nn", "minigrad.nn.functional": "F", "minigrad.optim": "optim",
    "minigrad.optim.lr_scheduler": "lr_scheduler", "minigrad.func": "torch.func", "minigrad.linalg": "torch.linalg",
}  # fmt: skip
CPU = "There is one device, the CPU, so this can be left out; .to('cpu') is accepted and does nothing."
NO_GRADIENT = "NumPy's function of that name on x.detach().numpy() computes it, without a gradient."
FLOATS = "Floats are float32 or float64; dtype= also accepts NumPy's dtypes, such as np.int32."
AS_IT_IS = "There is nothing to compile: call the model as it is."
IN_PYTORCH = "models.torch_states.to_torch takes a model to PyTorch (tutorials/outgrowing_numpy.md)."
NO_IMAGES = "minigrad is for sequences: nn.Linear, nn.LSTM and attention; it has no layers for images."
A_MODULE = "Write it as a module of three lines: a forward on tensors; minigrad/nn/activation.py shows how."
ON_BATCHES = (
    "Functions work on whole batches: give x one more axis in front, "
    "or write minigrad.stack([f(x) for x in xs])."
)
THREADS = (
    "python -m minigrad.train --threads 2 divides a batch among threads, "
    "and mpiexec with --distributed among processes."
)

ABSENT = [  # module, names (* matches any letters), what to do instead
    ("minigrad", "device cuda mps xpu cpu backends accelerator get_default_device set_default_device", CPU),
    ("minigrad", "save load serialization", "minigrad.saving.save_tensors(path, model.state_dict()) writes a safetensors file, and "
     "model.load_state_dict(minigrad.saving.load_tensors(path)) reads one; neither runs code."),
    ("minigrad", "utils", "torch.utils.data is minigrad.data here: DataLoader, Subset, random_split, TextDataset, PairDataset. "
     "torch.utils.checkpoint is minigrad.checkpoint, "
     "and torch.utils.tensorboard the option --tensorboard of minigrad.train."),
    ("minigrad", "Generator default_generator", "generator= takes NumPy's: np.random.default_rng(0); minigrad.manual_seed(0) seeds all others."),
    ("minigrad", "get_rng_state set_rng_state seed", "minigrad.random.get_state() and minigrad.random.set_state(state) save and restore every stream."),
    ("minigrad", "multinomial", "Draw from logits with (logits.numpy() + minigrad.random.stream().gumbel(size=logits.shape)).argmax(-1); "
     "models.decoding.Sampler has temperature, top_k and top_p."),
    ("minigrad", "bernoulli", "Write minigrad.rand(*p.shape) < p."),
    ("minigrad", "normal", "Write minigrad.randn(3, 4) * std + mean."),
    ("minigrad", "autocast amp GradScaler", "Everything computes in the dtype of its tensors, so this can be left out."),
    ("minigrad", "float16 half bfloat16 complex* cfloat cdouble int8 int16 int32 int uint* short quint* qint* float8*", FLOATS),
    ("minigrad", "finfo iinfo dtype promote_types result_type", "Dtypes are NumPy's: np.finfo, np.iinfo, np.dtype, np.result_type."),
    ("minigrad", "FloatTensor DoubleTensor LongTensor BoolTensor IntTensor", "Write minigrad.tensor(data), with dtype= if needed."),
    ("minigrad", "Size", "Shapes are tuples."),
    ("minigrad", "is_tensor", "Write isinstance(x, minigrad.Tensor)."),
    ("minigrad", "is_floating_point is_complex numel is_nonzero", "Ask the tensor: x.dtype.kind is 'f' for floats; x.numel(); bool(x)."),
    ("minigrad", "set_grad_enabled", "Write `with minigrad.no_grad():` or `with minigrad.enable_grad():`."),
    ("minigrad", "set_anomaly_enabled", "Write `with minigrad.detect_anomaly():`."),
    ("minigrad", "compile compiler", AS_IT_IS),
    ("minigrad", "jit fx onnx export hub quantization ao package library", IN_PYTORCH),
    ("minigrad", "vmap", ON_BATCHES),
    ("minigrad", "multiprocessing", THREADS),
    ("minigrad", "profiler", "python -m minigrad.trace counts each step's FLOPs and bytes."),
    ("minigrad", "set_num_threads get_num_threads set_num_interop_threads get_num_interop_threads", "Write `with minigrad.machine.blas_threads(2):`, or set OPENBLAS_NUM_THREADS before Python starts."),
    ("minigrad", "use_deterministic_algorithms are_deterministic_algorithms_enabled", "Runs with the same seed are always equal, so this can be left out."),
    ("minigrad", "set_float32_matmul_precision get_float32_matmul_precision", "float32 always has full precision, so this can be left out."),
    ("minigrad", "set_printoptions", "Tensors print like NumPy's arrays: np.set_printoptions."),
    ("minigrad", "distributions", "Draw with NumPy (minigrad.random.stream() is a np.random.Generator); compose the log density from ops."),
    ("minigrad", "sparse* nested fft stft istft special", "minigrad has dense tensors of real numbers only."),
    ("minigrad", "conv* *_pool* *_pool1d *_pool2d batch_norm group_norm instance_norm", NO_IMAGES),
    ("minigrad", "unique unique_consecutive bincount histc histogram searchsorted quantile nanquantile trapezoid kron isin", NO_GRADIENT),
    ("minigrad", "svd svd_lowrank qr eig lstsq pinverse lu matrix_rank matrix_exp", NO_GRADIENT),
    ("minigrad.nn", "MultiheadAttention", "Use models.attention.MultiHeadAttention, whose only mask is True where a query may attend."),
    ("minigrad.nn", "Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer TransformerDecoderLayer",
     "Use models.transformer.Transformer, and models.blocks.EncoderLayer and DecoderLayer; "
     "models.torch_states.from_torch converts PyTorch's weights."),
    ("minigrad.nn", "BatchNorm* LazyBatchNorm* SyncBatchNorm InstanceNorm* GroupNorm LocalResponseNorm", "Use nn.LayerNorm or nn.RMSNorm, which normalize each row separately."),
    ("minigrad.nn", "Conv* LazyConv* *Pool* *Pool1d *Pool2d *Pool3d Upsample* *Pad1d *Pad2d *Pad3d Dropout2d Dropout3d Fold Unfold Pixel*", NO_IMAGES),
    ("minigrad.nn", "ParameterList ParameterDict", "A module's parameters are its attributes: setattr(self, f'w{i}', nn.Parameter(...)) and getattr(self, f'w{i}')."),
    ("minigrad.nn", "Buffer", "Write self.register_buffer(name, tensor)."),
    ("minigrad.nn", "DataParallel parallel", THREADS),
    ("minigrad.nn", "EmbeddingBag", "Write nn.Embedding(...)(tokens).sum(-2), or .mean(-2)."),
    ("minigrad.nn", "Unflatten", "Write x.unflatten(axis, sizes) in forward."),
    ("minigrad.nn", "LazyLinear", "Give the sizes when you make a layer: nn.Linear(in_features, out_features)."),
    ("minigrad.nn", "Mish SELU CELU GLU PReLU Softmin Softsign Hardswish Hardsigmoid Threshold", A_MODULE),
    ("minigrad.nn.functional", "conv* *_pool* *_pool1d *_pool2d interpolate batch_norm group_norm instance_norm unfold fold pixel_shuffle grid_sample", NO_IMAGES),
    ("minigrad.nn.functional", "multi_head_attention_forward", "Write F.scaled_dot_product_attention, or models.attention.MultiHeadAttention."),
    ("minigrad.nn.functional", "gumbel_softmax", "Write F.softmax((logits + minigrad.tensor(minigrad.random.stream().gumbel(size=logits.shape))) / tau)."),
    ("minigrad.nn.functional", "embedding_bag", "Write F.embedding(tokens, weight).sum(-2), or .mean(-2)."),
    ("minigrad.nn.functional", "mish selu celu glu prelu softmin softsign hardswish hardsigmoid threshold", "Write it as a function of tensors; the engine differentiates it."),
    ("minigrad.optim", "RMSprop Adagrad Adadelta Adamax NAdam RAdam ASGD LBFGS Rprop Adafactor SparseAdam Muon", "There are SGD, Adam and AdamW; subclass optim.Optimizer for another."),
    ("minigrad.optim.lr_scheduler", "OneCycleLR CosineAnnealingWarmRestarts CyclicLR SequentialLR", "WarmupCosineLR(optimizer, warmup_steps, total_steps) rises linearly and falls along a cosine; LambdaLR takes any formula."),
    ("minigrad.optim.lr_scheduler", "ExponentialLR", "Write StepLR(optimizer, 1, gamma)."),
    ("minigrad.optim.lr_scheduler", "LinearLR ConstantLR PolynomialLR MultiStepLR MultiplicativeLR", "Write LambdaLR(optimizer, lambda step: ...), which multiplies the initial rate by the function's value."),
    ("minigrad.optim.lr_scheduler", "ReduceLROnPlateau", "Set the rate yourself: for group in optimizer.param_groups: group['lr'] *= 0.1."),
    ("minigrad.func", "vmap", ON_BATCHES),
    ("minigrad.func", "jacfwd linearize", "minigrad.func.jacrev computes the same Jacobian, and minigrad.func.jvp its product with a vector."),
    ("minigrad.linalg", "svd svdvals qr eig eigh eigvals eigvalsh lstsq pinv matrix_rank matrix_exp lu cond", NO_GRADIENT),
]  # fmt: skip
ON_OBJECTS = [  # methods, which no module's error can name
    ("model.register_forward_hook", "minigrad.viz.trace.trace_forward(model, x) lists every value that a model computes; a tensor's register_hook gets its gradient."),
    ("x.half(), x.bfloat16()", FLOATS),
    ("torch.autograd.Function", "minigrad.defvjp adds a derivative to a NumPy function in one line (lesson 17, tutorials/17_own_op)."),
]  # fmt: skip


def message(place, name):
    """Return the error message for `name`, which the module `place` does not have."""
    if f"{place}.{name}" in MOVED:
        return f"{place}.{name} is {MOVED[f'{place}.{name}']} now."
    missing = f"{place} has no {name!r}"
    for where, names, advice in ABSENT:
        if where == place and any(fnmatch.fnmatchcase(name, one) for one in names.split()):
            return f"{missing}. {advice}"
    module = sys.modules[place]
    if hasattr(module, "__path__") and importlib.util.find_spec(f"{place}.{name}"):
        return f"{missing} until it is imported: import {place}.{name}"
    near = did_you_mean(name, [one for one in dir(module) if not one.startswith("_")])
    return f"{missing}{near or '; tutorials/coming_from_pytorch.md lists what is absent'}."


def as_markdown():
    """Return the table of absent names of the page tutorials/coming_from_pytorch.md."""
    rows = [
        (", ".join(f"`{PYTORCHS[place]}.{name}`" for name in names.split()), advice)
        for place, names, advice in ABSENT
    ]
    rows += [(f"`{what}`", advice) for what, advice in ON_OBJECTS]
    return "\n".join(
        [
            "| not here | instead |",
            "| --- | --- |",
            *(f"| {what} | {advice} |" for what, advice in rows),
        ]
    )
