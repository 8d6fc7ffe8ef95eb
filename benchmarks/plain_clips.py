"""What a user would write with torch's own layers for the architectures of the sentiment models, at the same sizes.

They have neither the models' extra losses nor their care for what is missing: the least that a step can be.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

Inputs = dict[str, Tensor]


def mean(inputs: Inputs, name: str) -> Tensor:
    """Of the real steps."""
    return inputs[name].sum(1) / inputs[f"{name}_length"].unsqueeze(1)


def last(values: Tensor, length: Tensor) -> Tensor:
    """The last real step."""
    return values[torch.arange(len(length)), length - 1]


def deep(width: int, hidden: int, rate: float) -> nn.Sequential:
    """Three layers behind a norm."""
    layers = [nn.Linear(before, hidden) for before in (width, hidden, hidden)]
    return nn.Sequential(nn.BatchNorm1d(width), nn.Dropout(rate), *(f for one in layers for f in (one, nn.ReLU())))


class LateFusion(nn.Module):
    """LF-DNN."""

    def __init__(self) -> None:
        super().__init__()
        self.audio, self.vision = deep(5, 16, 0.2), deep(20, 128, 0.2)
        self.lstm, self.text = nn.LSTM(768, 128, batch_first=True), nn.Linear(128, 256)
        self.head = nn.Sequential(
            nn.Dropout(0.2), nn.Linear(400, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1)
        )

    def forward(self, inputs: Inputs) -> Tensor:
        """Predictions."""
        text = self.text(last(self.lstm(inputs["text"])[0], inputs["text_length"]))
        heard, seen = self.audio(mean(inputs, "audio")), self.vision(mean(inputs, "vision"))
        found: Tensor = self.head(torch.cat([heard, seen, text], 1))
        return found


class EarlyFusion(nn.Module):
    """EF-LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(50)
        self.lstm = nn.LSTM(793, 128, 4, dropout=0.5, batch_first=True)
        self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 1))

    def forward(self, inputs: Inputs) -> Tensor:
        """Predictions."""
        joined = torch.cat([inputs[name] for name in ("text", "audio", "vision")], 2)
        found: Tensor = self.head(last(self.lstm(self.norm(joined))[0], inputs["text_length"]))
        return found


class Parts(nn.Module):
    """MISA: two packed LSTMs each of audio and vision, six parts through one transformer layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second, self.project = (nn.ModuleDict() for _ in range(4))
        for name, width in (("vision", 20), ("audio", 5)):
            self.first[name] = nn.LSTM(width, width, batch_first=True, bidirectional=True)
            self.norm[name] = nn.LayerNorm(2 * width)
            self.second[name] = nn.LSTM(2 * width, width, batch_first=True, bidirectional=True)
        for name, width in (("text", 768), ("vision", 80), ("audio", 20)):
            self.project[name] = nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.LayerNorm(128))
        self.private = nn.ModuleDict({name: nn.Linear(128, 128) for name in self.project})
        self.shared = nn.Linear(128, 128)
        self.layer = nn.TransformerEncoderLayer(128, 2, 2048, 0.1, batch_first=True)
        self.head = nn.Sequential(nn.Linear(768, 384), nn.Dropout(0.2), nn.ReLU(), nn.Linear(384, 1))

    def forward(self, inputs: Inputs) -> Tensor:
        """Predictions."""
        whole = []
        for name, project in self.project.items():
            if name == "text":
                whole.append(project(mean(inputs, name)))
                continue
            lengths = inputs[f"{name}_length"]
            packed = pack_padded_sequence(inputs[name], lengths, batch_first=True, enforce_sorted=False)
            states, (early, _) = self.first[name](packed)
            normed = self.norm[name](pad_packed_sequence(states, batch_first=True)[0])
            packed = pack_padded_sequence(normed, lengths, batch_first=True, enforce_sorted=False)
            late = self.second[name](packed)[1][0]
            whole.append(project(torch.cat([early, late], 2).transpose(0, 1).flatten(1)))
        private = [torch.sigmoid(self.private[name](x)) for name, x in zip(self.project, whole, strict=True)]
        parts = torch.stack([*private, *(torch.sigmoid(self.shared(x)) for x in whole)], 1)
        found: Tensor = self.head(self.layer(parts).flatten(1))
        return found


class Block(nn.Module):
    """A layer of the transformers of MulT and DLF around nn.MultiheadAttention."""

    def __init__(self, dim: int, rate: float) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, 10, rate, batch_first=True)
        self.norm, self.norm_forward = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.first, self.second = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor, other: Tensor, mask: Tensor, behind: Tensor) -> Tensor:
        """x looks at the other one up to its own moment."""
        keys = self.norm(other)
        x = x + self.attention(
            self.norm(x), keys, keys, key_padding_mask=behind, need_weights=False, attn_mask=mask
        )[0]  # fmt: skip
        return x + self.second(torch.relu(self.first(self.norm_forward(x))))


class Transformers(nn.Module):
    """So many layers of these widths and dropouts, one after another, over the convolved text: MulT's or DLF's."""

    def __init__(self, layers: list[tuple[int, float, int]]) -> None:
        super().__init__()
        self.convolutions = nn.ModuleDict(
            {name: nn.Conv1d(width, 50, 5, bias=False) for name, width in (("text", 768), ("audio", 5), ("vision", 20))}
        )
        self.layers = nn.ModuleList([Block(dim, rate) for dim, rate, count in layers for _ in range(count)])
        self.widths = [dim for dim, _, count in layers for _ in range(count)]
        self.head = nn.Linear(50, 1)

    def forward(self, inputs: Inputs) -> Tensor:
        """A number a clip."""
        x = sum(one(inputs[name].mT).mT for name, one in self.convolutions.items())
        assert isinstance(x, Tensor)
        steps = torch.arange(x.shape[1])
        length = (inputs["text_length"] - 4).clamp_min(1)
        mask, behind = steps.unsqueeze(0) > steps.unsqueeze(1), steps >= length.unsqueeze(1)
        for width, layer in zip(self.widths, self.layers, strict=True):
            y = x if width == 50 else torch.cat([x, x], 2)
            x = layer(y, y, mask, behind)[..., :50]
        found: Tensor = self.head(last(x, length))
        return found


#: (width, dropout of attention, how many) of the layers of each model.
MULT = [(50, 0.3, 8), (50, 0.2, 8), (50, 0.0, 8), (100, 0.3, 12)]
#: Specific parts twice, for what is rebuilt passes them as well; shared ones; memories; views; finals.
DLF = [(50, 0.3, 4), (50, 0.2, 4), (50, 0.0, 4), (50, 0.3, 12), (50, 0.2, 2), (50, 0.0, 2), (50, 0.3, 8)]
