"""Steps of a clip that are hidden in training, those most alike together, and guessed from the rest: a named loss.

After the masked feature regression of Xue et al. (NeurIPS 2021), of which only the abstract was seen. There a token is
hidden with those that attention ties to it most; here with those whose features correlate with its own most, and what
guesses them is the pooled vectors of all modalities. Our reading, labelled as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from excora.functional import at_least_float32
from excora.models.sentiment.parts import Sequence, Streams
from excora.pooling import Pooled
from excora.reduce import Penalty

#: Of the loss, beside that of the prediction.
WEIGHT = 0.1


def alike(sequence: Sequence, seed: Tensor, share: float) -> Tensor:
    """(n, steps): the step ``seed`` (n,) of each clip and those most like it, ``share`` of its steps; one is left.

    Alike: the cosine of x_i - m and x_seed - m, m the mean of the clip's steps. Of equal ones the earlier.

    >>> x = torch.tensor([[[1.0, 0.0], [2.0, 0.1], [-3.0, 0.0], [0.0, 0.0]]])
    >>> alike(Sequence(x, torch.tensor([3])), torch.tensor([0]), 0.6)
    tensor([[ True,  True, False, False]])
    """
    values, mask = at_least_float32(sequence.values.detach()), sequence.mask
    real = mask.unsqueeze(2)
    mean = values.masked_fill(~real, 0.0).sum(1, keepdim=True) / sequence.length.view(-1, 1, 1)
    away = (values - mean).masked_fill(~real, 0.0)
    unit = nn.functional.normalize(away, dim=2)
    place = seed.view(-1, 1, 1).expand(-1, 1, unit.shape[2])
    closeness = (unit * unit.gather(1, place)).sum(2).masked_fill(~mask, -torch.inf)
    closeness = closeness.scatter(1, seed.unsqueeze(1), torch.inf)
    rank = closeness.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    many = (share * sequence.length).ceil().clamp_max(sequence.length - 1)
    return (rank < many.unsqueeze(1)) & mask


class MaskedSteps(nn.Module):
    """Hides ``share`` of the steps of each modality, and guesses them from the pooled vectors, ``total`` numbers.

        loss = 0.1 mean over hidden steps and features of (x - W_m v)^2

    A clip of one step keeps it.
    """

    def __init__(self, streams: Streams, total: int, share: float) -> None:
        super().__init__()
        self.share = share
        self.guess = nn.ModuleDict({name: nn.Linear(total, width) for name, (width, _) in streams.items()})

    def hide(self, sequences: Mapping[str, Sequence]) -> tuple[dict[str, Sequence], dict[str, Tensor]]:
        """Sequences with 0, the mean, in hidden places, and which these are."""
        covered, hidden = {}, {}
        for name, one in sequences.items():
            seed = (torch.rand(len(one.length), device=one.length.device) * one.length).long()
            hidden[name] = alike(one, seed, self.share)
            covered[name] = one._replace(values=one.values.masked_fill(hidden[name].unsqueeze(2), 0.0))
        return covered, hidden

    def loss(
        self, pooled: Mapping[str, Pooled], sequences: Mapping[str, Sequence], hidden: Mapping[str, Tensor]
    ) -> Penalty:
        """Of the hidden steps of all modalities; ``sequences`` as they were."""
        v = torch.cat([pooled[name].value for name in self.guess], 1)
        total, count = v.new_zeros((), dtype=torch.float32), v.new_zeros((), dtype=torch.float32)
        for name, guess in self.guess.items():
            wrong: Any = at_least_float32(guess(v).unsqueeze(1) - sequences[name].values.detach())
            total = total + (wrong.square().mean(2) * hidden[name]).sum()
            count = count + hidden[name].sum()
        return Penalty(WEIGHT * total, count)
