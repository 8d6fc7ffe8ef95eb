"""Matrices whose flow is known."""

from __future__ import annotations

import numpy as np
import pytest

from excora.diagnosis.modality_flow import modality_flow
from excora.errors import InputError

KINDS = ["text"] * 6 + ["audio"] * 4


def test_uniform_attention_of_6_and_4():
    assert modality_flow(np.full((2, 10, 10), 0.1), KINDS).between == pytest.approx(2 * 6 * 4 / 100)


def test_blocks_have_no_flow():
    block = np.zeros((10, 10))
    block[:6, :6], block[6:, 6:] = 1 / 6, 1 / 4
    found = modality_flow(block, KINDS)
    assert found.between == pytest.approx(0.0)
    assert found.used() == {"text": pytest.approx(0.6), "audio": pytest.approx(0.4)}


def test_heads_count_alike_and_signs_do_not_cancel():
    rng = np.random.default_rng(0)
    one, other = rng.dirichlet(np.ones(10), size=(2, 10))
    found = modality_flow(np.stack([one, 5 * other]), KINDS)
    apart = [modality_flow(a, KINDS).between for a in (one, other)]
    assert found.between == pytest.approx(np.mean(apart))
    np.testing.assert_allclose(found.by_head, apart)
    signed = one.copy()
    signed[:, 0] *= -1
    assert modality_flow(signed, KINDS).between == pytest.approx(apart[0])


def test_padding_does_not_count():
    a = np.random.default_rng(1).dirichlet(np.ones(10), size=10)
    mask = np.array([True] * 4 + [False] * 2 + [True] * 3 + [False])
    kept = [kind for kind, there in zip(KINDS, mask, strict=True) if there]
    expected = modality_flow(a[np.ix_(mask, mask)], kept)
    np.testing.assert_allclose(modality_flow(a, KINDS, mask).share, expected.share)


@pytest.mark.parametrize(
    ("attention", "mask"), [(np.ones((3, 3)), None), (np.zeros((10, 10)), None), (np.ones((10, 10)), [True])]
)
def test_bad_input_is_named(attention, mask):
    with pytest.raises(InputError):
        modality_flow(attention, KINDS, mask)
