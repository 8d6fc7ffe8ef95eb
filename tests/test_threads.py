"""one_thread: one inside, and what there was before after it, whatever happens."""

from __future__ import annotations

import pytest
import torch

from excora.threads import one_thread


@pytest.fixture
def two():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two")
def test_one_inside_and_two_again_after_it():
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two")
def test_an_error_gives_the_threads_back():
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert torch.get_num_threads() == 2
