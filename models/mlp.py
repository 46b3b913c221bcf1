"""A multi-layer perceptron: linear maps with something that bends between them. Knows vectors of numbers, no sequences."""

from minigrad import nn

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "gelu": nn.GELU}


class MLP(nn.Sequential):
    """MLP(784, 128, 10): x (..., 784) -> (..., 10) through one hidden layer of 128; as many layers as there are sizes but one."""

    def __init__(self, *sizes, activation="relu", dropout=0.0):
        if len(sizes) < 2:
            raise ValueError(f"An MLP needs at least two sizes, of its input and of its output, got {sizes}.")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}.")
        layers = []
        for before, after in zip(sizes, sizes[1:]):
            layers += [nn.Linear(before, after), ACTIVATIONS[activation](), nn.Dropout(dropout)]
        layers = layers[:-2]  # after the last linear map nothing: logits
        super().__init__(*(layer for layer in layers if not isinstance(layer, nn.Dropout) or dropout))
