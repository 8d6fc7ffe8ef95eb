"""The model "graph-mfn", a memory fed by a graph of all subsets of the modalities (Zadeh et al. 2018)."""

from __future__ import annotations

import dataclasses
import itertools

import torch
from torch import Tensor, nn

from excora.models.base import Output, register_model
from excora.models.sentiment.base import PUBLISHED, SentimentModel, SentimentNetwork, SentimentOptions
from excora.models.sentiment.parts import LSTM, Sequence, Streams, aligned
from excora.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphMFNOptions(SentimentOptions):
    """Of the model "graph-mfn"."""

    text_width: int = option(256, "Units of the LSTM over the text.", least=1)
    audio_width: int = option(32, "Units of the LSTM over the audio.", least=1)
    vision_width: int = option(256, "Units of the LSTM over the vision.", least=1)
    node_width: int = option(64, "Width of a node of the graph.", least=1)
    node_hidden: int = option(100, "Hidden units of the networks of the graph.", least=1)
    chat_hidden: int = option(32, "Hidden units between the graph and what it offers to the memory.", least=1)
    memory_width: int = option(300, "Width of the memory.", least=1)
    keep_hidden: int = option(128, "Hidden units of the gate that keeps the memory.", least=1)
    write_hidden: int = option(64, "Hidden units of the gate that writes to the memory.", least=1)
    head_width: int = option(256, "Hidden units of the head.", least=1)
    dropout: float = option(0.5, "Dropout in the gates of the memory, in [0, 1).", least=0, below=1)


def _pair(width: int, hidden: int, out: int) -> nn.Sequential:
    """Two linear layers without anything between, as published."""
    return nn.Sequential(nn.Linear(width, hidden), nn.Linear(hidden, out))


class Graph(nn.Module):
    """Nodes of all subsets of two modalities or more, then of all of them: (…, sum of widths) to (…, node width).

    A node reads its proper subsets, each times an efficacy: node = W_2 (W_1 [e_k s_k] + b_1) + b_2. The last node, tau,
    reads all subsets. The efficacies come from the singletons by three linear layers.
    """

    def __init__(self, widths: list[int], options: GraphMFNOptions) -> None:
        super().__init__()
        self.widths = widths
        every = [set for size in range(1, len(widths) + 1) for set in itertools.combinations(range(len(widths)), size)]
        self.subsets = every[len(widths) :]  #: the nodes but for tau
        size = dict.fromkeys(every, options.node_width) | {(k,): width for k, width in enumerate(widths)}
        #: What each node reads, tau last.
        self.inputs = [[part for part in every if {*part} < {*node}] for node in self.subsets] + [every]
        hidden, out = options.node_hidden, options.node_width
        self.efficacies = nn.Sequential(
            nn.Linear(sum(widths), hidden), nn.Linear(hidden, out), nn.Linear(out, sum(map(len, self.inputs)))
        )
        pairs = [_pair(sum(size[part] for part in parts), hidden, out) for parts in self.inputs]
        self.nodes, self.summary = nn.ModuleList(pairs[:-1]), pairs[-1]
        # DIFF: the published nodes sit in a plain dictionary, where no optimiser finds them: they stay as drawn.
        self.nodes.requires_grad_(not options.reference)

    def forward(self, singletons: Tensor) -> Tensor:
        """tau."""
        parts = singletons.split(self.widths, -1)
        found: dict[tuple[int, ...], Tensor] = {(k,): part for k, part in enumerate(parts)}
        efficacies = iter(self.efficacies(singletons).unbind(-1))
        for node, net, reads in zip([*self.subsets, None], [*self.nodes, self.summary], self.inputs, strict=True):
            value = net(torch.cat([next(efficacies).unsqueeze(-1) * found[part] for part in reads], -1))
            if node is None:
                break
            found[node] = value
        return value


class GraphMFN(SentimentNetwork):
    """An LSTM a modality; at each step the graph offers chat to a memory, which is read at the end.

    memory = keep * memory + write * chat, with gates keep, write = sigmoid(MLP([tau, memory])). Modalities of other
    lengths are brought to the steps of the first. Needs two modalities.

    >>> network = GraphMFN({"text": (6, 5), "audio": (3, 5)}, GraphMFNOptions(text_width=8))
    >>> inputs = {"text": torch.randn(2, 5, 6), "audio": torch.randn(2, 5, 3)}
    >>> inputs |= {"text_length": torch.tensor([5, 2]), "audio_length": torch.tensor([5, 2])}
    >>> network(inputs).prediction.shape
    torch.Size([2, 1])
    """

    def __init__(self, streams: Streams, options: GraphMFNOptions | None = None, targets: int = 1) -> None:
        options = options or GraphMFNOptions()
        super().__init__(streams, options, targets)
        units = {"text": options.text_width, "audio": options.audio_width, "vision": options.vision_width}
        widths = {name: units[name] for name in streams}
        self.lstms = nn.ModuleDict({name: LSTM(streams[name][0], width) for name, width in widths.items()})
        self.singletons = nn.ModuleDict({name: nn.Linear(2 * width, width) for name, width in widths.items()})
        self.graph = Graph([*widths.values()], options)
        out, memory = options.node_width, options.memory_width
        self.chat = nn.Sequential(
            nn.Linear(out, options.chat_hidden), nn.ReLU(), nn.Linear(options.chat_hidden, memory), nn.Tanh()
        )

        def gate(hidden: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Linear(out + memory, hidden), nn.ReLU(), nn.Dropout(options.dropout), nn.Linear(hidden, memory)
            )

        self.keep, self.write = gate(options.keep_hidden), gate(options.write_hidden)
        hidden = options.head_width
        self.head = nn.Sequential(
            nn.Linear(sum(widths.values()) + memory, hidden), nn.ReLU(), nn.Linear(hidden, targets)
        )

    def fuse(self, sequences: dict[str, Sequence]) -> Output:
        """Predictions. Only the memory has to go step by step: the LSTMs do not read it."""
        first = next(iter(sequences.values()))
        states, singletons = [], []
        for name, lstm in self.lstms.items():
            # DIFF: the published model refuses data that are not aligned.
            h = lstm.states(aligned(sequences[name], first).values)  # type: ignore[operator]
            before = nn.functional.pad(h, (0, 0, 1, 0))[:, :-1]
            singletons.append(torch.relu(self.singletons[name](torch.cat([before, h], 2))))
            states.append(h)
        tau = self.graph(torch.cat(singletons, 2))
        chat = self.chat(tau)
        memory, kept = torch.zeros_like(chat[:, 0]), []
        for t in range(tau.shape[1]):
            both = torch.cat([tau[:, t], memory], 1)
            memory = torch.sigmoid(self.keep(both)) * memory + torch.sigmoid(self.write(both)) * chat[:, t]
            kept.append(memory)
        read = first._replace(values=torch.cat([*states, torch.stack(kept, 1)], 2)).last()
        return Output(self.head(read))


@register_model
class GraphMFNModel(SentimentModel):
    """The graph memory fusion network; needs two modalities."""

    name = "graph-mfn"
    says = "a memory fed by a graph of all subsets of the modalities"
    fewest = 2
    Network, Options = GraphMFN, GraphMFNOptions
    small = {  # noqa: RUF012
        "text_width": 6, "audio_width": 4, "vision_width": 5, "node_width": 4, "node_hidden": 5, "chat_hidden": 4,
        "memory_width": 6, "keep_hidden": 5, "write_hidden": 4, "head_width": 6,
    }  # fmt: skip
    recipe = PUBLISHED | {"learning_rate": 2e-3, "weight_decay": 0.005, "batch_size": 32}
