"""A multi-layer perceptron: linear maps with an activation between them."""

from minigrad import nn

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "gelu": nn.GELU}


class MLP(nn.Sequential):
    """MLP(784, 128, 10): x (..., 784) -> (..., 10) through a hidden layer of 128. n sizes: n - 1 Linears."""

    def __init__(self, *sizes, activation="relu", dropout=0.0):
        if len(sizes) < 2:
            raise ValueError(f"An MLP needs at least two sizes, its input's and its output's, got {sizes}.")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}.")
        layers = []
        for before, after in zip(sizes, sizes[1:]):
            layers += [nn.Linear(before, after), ACTIVATIONS[activation](), nn.Dropout(dropout)]
        layers = layers[:-2]  # nothing follows the last linear map: its outputs are logits
        super().__init__(*(layer for layer in layers if not isinstance(layer, nn.Dropout) or dropout))
