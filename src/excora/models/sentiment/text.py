"""A BERT-like text encoder from a local checkpoint, by transformers: token numbers in, one vector a token out."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from excora.errors import InputError, MissingExtraError

#: What a configuration says of its file and its origin, not of the network.
_ELSEWHERE = ("_name_or_path", "architectures", "auto_map", "dtype", "torch_dtype", "transformers_version")


class TextEncoder(nn.Module):
    """Token numbers (n, steps) and lengths (n,) to the last hidden states, (n, steps, width); zeros behind the end.

    ``frozen``: nothing of it is trained, and it never has dropout. :meth:`load` reads a checkpoint, :meth:`shaped`
    makes a network of the same shape with random weights, for weights from a run folder.

    >>> shape = {"model_type": "bert", "vocab_size": 9, "hidden_size": 4, "num_attention_heads": 2}
    >>> shape |= {"num_hidden_layers": 1, "intermediate_size": 4, "max_position_embeddings": 6}
    >>> TextEncoder.shaped(shape)(torch.tensor([[5, 7, 0]]), torch.tensor([2])).shape
    torch.Size([1, 3, 4])
    """

    def __init__(self, body: nn.Module, *, frozen: bool) -> None:
        super().__init__()
        if hasattr(body, "pooler"):
            body.pooler = None  # type: ignore[assignment]  # a sentence vector that nobody reads, so that no gradient would reach it
        self.body, self.frozen = body, frozen
        self.requires_grad_(not frozen)
        self.train()

    @classmethod
    def load(cls, folder: str | Path, *, frozen: bool = True) -> Self:
        """From a checkpoint: config.json and model.safetensors; nothing is downloaded, no code of it is run."""
        folder = Path(folder)
        for name in ("config.json", "model.safetensors"):
            if not (folder / name).is_file():
                raise InputError(
                    f"{folder}: a text encoder is a folder with config.json and model.safetensors, {name} is missing"
                )
        library = _transformers()
        try:
            with _quietly(library.utils.logging):
                body = library.AutoModel.from_pretrained(
                    str(folder), local_files_only=True, trust_remote_code=False, use_safetensors=True,
                    dtype=torch.float32,
                )  # fmt: skip
        except Exception as error:  # safetensors and transformers have many ways to say that a file is broken
            raise InputError(f"{folder}: this checkpoint cannot be read: {str(error).splitlines()[0]}") from None
        return cls(body, frozen=frozen)

    @classmethod
    def shaped(cls, config: Any, *, frozen: bool = True) -> Self:
        """From what :attr:`config` gave, also after a way through JSON; it may come from a stranger."""
        cls.depth(config)
        library = _transformers()
        try:
            shape = library.AutoConfig.for_model(**{name: x for name, x in config.items() if name not in _ELSEWHERE})
            body = library.AutoModel.from_config(shape, trust_remote_code=False, dtype=torch.float32)
        except (KeyError, ValueError, TypeError, AttributeError, ImportError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"there is no text encoder of this shape: {first}") from None
        return cls(body, frozen=frozen)

    @staticmethod
    def depth(config: Any) -> int:
        """How many layers a configuration asks for; raises if it is none."""
        layers = config.get("num_hidden_layers") if isinstance(config, dict) else None
        if type(layers) is not int or layers < 0 or not isinstance(config.get("model_type"), str):
            raise InputError(
                "the shape of a text encoder names its model_type and num_hidden_layers, as config.json does"
            )
        return layers

    @property
    def config(self) -> dict[str, Any]:
        """Its shape, in plain values for JSON."""
        values = json.loads(self.body.config.to_json_string(use_diff=False))  # type: ignore[union-attr, operator]
        return {name: x for name, x in values.items() if name not in _ELSEWHERE}

    @property
    def width(self) -> int:
        """Of the vectors."""
        return int(self.body.config.hidden_size)  # type: ignore[union-attr, arg-type]

    def train(self, mode: bool = True) -> Self:
        """A frozen encoder is never in training."""
        return super().train(mode and not self.frozen)

    def forward(self, ids: Tensor, length: Tensor) -> Tensor:
        """The last hidden states."""
        room = getattr(self.body.config, "max_position_embeddings", ids.shape[1])
        if ids.dim() != 2 or ids.shape[1] > room:
            raise InputError(f"text_ids must be (samples, at most {room} tokens), got {tuple(ids.shape)}")
        mask = torch.arange(ids.shape[1], device=ids.device) < length.unsqueeze(1)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            states: Tensor = self.body(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return states.masked_fill(~mask.unsqueeze(2), 0.0)


@contextlib.contextmanager
def _quietly(logging: Any) -> Iterator[None]:
    """Without the bar that the library draws while it reads a file: that takes a moment."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _transformers() -> Any:
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise MissingExtraError("transformers", "sentiment") from error
    return transformers
