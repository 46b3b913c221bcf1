"""detect_anomaly: names the op and the line of the first NaN or inf, forward and backward, and of writes nobody counted."""

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.engine.anomaly import AnomalyError
from models.transformer import Transformer


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def test_the_first_op_that_makes_an_inf_is_named_with_its_line():
    x = mg.tensor([1.0, 0.0], requires_grad=True)
    with (
        mg.detect_anomaly(),
        pytest.raises(
            AnomalyError, match=r"log made an inf at index \(1,\).*test_anomaly.py, line \d+: .*mg.log\(x\)"
        ),
    ):
        (mg.log(x) * 2).sum()


def test_a_gradient_that_is_not_finite_is_named_with_the_line_of_its_forward():
    x = mg.tensor([1.0, 0.0], requires_grad=True)
    with mg.detect_anomaly():
        y = mg.sqrt(x).sum()
        with pytest.raises(AnomalyError, match="backward of sqrt made an inf.*mg.sqrt"):
            y.backward()
    assert x.grad is None


def test_the_nan_of_the_branch_not_chosen_is_found():
    x = mg.tensor([-1.0, 4.0], requires_grad=True)
    with mg.detect_anomaly(), pytest.raises(AnomalyError, match="sqrt made a NaN"):
        mg.where(x > 0, mg.sqrt(x), 0.0).sum()


def test_writes_into_raw_arrays_are_found():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    with mg.detect_anomaly():
        y = (x * x).sum()
        x.data[0] = 5
        with pytest.raises(AnomalyError, match="backward of multiply reads was written into"):
            y.backward()


def test_a_healthy_model_with_masks_raises_nothing():
    model = Transformer(9, d_model=8, num_heads=2, num_layers=1, d_ff=8, max_len=8)
    for mode in (mg.enable_grad(), mg.definitions()):
        with mg.detect_anomaly(), mode:
            logits = model(np.array([[3, 4, 0]]), np.array([[1, 5]]))
            F.cross_entropy(logits.reshape(-1, 9), np.array([5, 2])).backward()


def test_infinities_that_were_given_are_nobodys_fault():
    with mg.detect_anomaly():
        assert np.isinf((mg.tensor([np.inf], requires_grad=True) * 2).data).all()


def test_outside_nothing_is_watched():
    x = mg.tensor([0.0], requires_grad=True)
    assert mg.log(x).node.trace is None
