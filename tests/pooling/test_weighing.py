"""What the pools by a few numbers of each element share: dropout, keys of their own, the layout of details."""

from __future__ import annotations

import pytest
import torch

from excora.errors import InputError
from excora.pooling.kriging import KrigingPool
from excora.pooling.local_linear import LocalLinearPool
from excora.pooling.sigmoid import SigmoidPool
from excora.pooling.weighing import Keys
from excora.ragged import Ragged
from pooling.samples import DIM, batch

KINDS = [LocalLinearPool, KrigingPool, SigmoidPool]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", ["padded", "masked", "ragged"])
def test_dropout_takes_elements_out_of_the_bag_in_training_alone(kind, layout):
    torch.manual_seed(0)
    pool = kind(DIM, dropout=0.5).double()
    h, mask = batch(bags=30)
    mask[:, 0] = True
    h, mask = (h, mask if layout == "masked" else None) if layout != "ragged" else (Ragged(h[mask], mask.sum(1)), None)
    dropped, whole = pool(h, mask), pool.eval()(h, mask)
    assert (dropped.effective == 0).sum() > (whole.effective == 0).sum() + 20
    real = (
        dropped.weights.sum(1)
        if layout != "ragged"
        else torch.stack([x.sum() for x in dropped.weights.split(h.lengths.tolist())])
    )
    torch.testing.assert_close(real, torch.ones(30).double())


@pytest.mark.parametrize("kind", KINDS)
def test_logits_stand_like_the_weights(kind):
    pool = kind(DIM).double()
    h, mask = batch()
    padded, flat = pool(h, mask), pool(Ragged(h[mask], mask.sum(1)))
    assert padded.details["logits"].shape == padded.weights.shape
    torch.testing.assert_close(flat.details["logits"], padded.details["logits"][mask])


def test_keys_are_the_first_channels_or_learned():
    h = torch.randn(2, 3, DIM)
    assert torch.equal(Keys(DIM, given=2, width=8)(h), h[..., :2])
    learned = Keys(DIM, given=None, width=8)
    assert learned(h).shape == (2, 3, 8)
    assert {name for name, _ in learned.named_parameters()} == {"weight", "query"}
    torch.testing.assert_close(learned(h.bfloat16()), learned(h), rtol=0.05, atol=0.05)
    assert learned(h.bfloat16()).dtype == torch.float32


def test_a_rate_that_is_none_is_refused():
    with pytest.raises(InputError, match="dropout must be in"):
        SigmoidPool(DIM, dropout=1.0)
