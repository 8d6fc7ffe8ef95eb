"""The ragged batch: bags of any length laid end to end, its way to and from padding, and its walk in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from excora.errors import InputError

#: Numbers in one tile of work on a CPU (4 bytes each: 2 MB). Temporaries stay this small whatever the bags are.
TILE = 1 << 19


@dataclass(frozen=True)
class Ragged:
    """Bags of different lengths: ``values`` (total, ...) holds them end to end, ``lengths`` (bags,) how long each is.

    >>> bags = Ragged.collate([torch.ones(2, 4), torch.zeros(3, 4)])
    >>> bags.values.shape, bags.lengths.tolist()
    (torch.Size([5, 4]), [2, 3])
    >>> padded, mask = bags.pad()
    >>> padded.shape, mask.sum(1).tolist()
    (torch.Size([2, 3, 4]), [2, 3])

    A length of 0 is an empty bag. ``lengths`` live on the CPU: they say how to walk the values.
    """

    values: Tensor
    lengths: Tensor

    def __post_init__(self) -> None:
        lengths = self.lengths
        if lengths.dim() != 1 or lengths.is_floating_point() or lengths.dtype == torch.bool:
            raise InputError(
                f"lengths must be integers of shape (bags,), got {lengths.dtype} of shape {tuple(lengths.shape)}"
            )
        object.__setattr__(self, "lengths", lengths.to("cpu", torch.long))
        if self.values.dim() < 1:
            raise InputError("values must have shape (total, ...), got a scalar; one element needs values[None]")
        if bool((self.lengths < 0).any()) or int(self.lengths.sum()) != self.values.shape[0]:
            raise InputError(
                f"lengths must be >= 0 and sum to the {self.values.shape[0]} rows of values, "
                f"got a sum of {int(self.lengths.sum())} and a smallest of {int(self.lengths.min())}"
            )

    def __len__(self) -> int:
        return self.lengths.shape[0]

    @staticmethod
    def collate(bags: Sequence[Tensor]) -> Ragged:
        """Lay bags of shape (n_i, ...) end to end; usable as the ``collate_fn`` of a DataLoader."""
        if not bags:
            raise InputError("collate needs at least one bag to know the width, got none")
        shapes = {tuple(bag.shape[1:]) for bag in bags}
        if len(shapes) > 1 or any(bag.dim() < 1 for bag in bags):
            raise InputError(f"all bags must have the shape (n_i, ...) with one width, got widths {sorted(shapes)}")
        return Ragged(torch.cat(list(bags)), torch.tensor([bag.shape[0] for bag in bags]))

    @staticmethod
    def from_padded(h: Tensor, mask: Tensor) -> Ragged:
        """The real elements of ``h`` (bags, elements, ...) under ``mask`` (bags, elements), in order."""
        if mask.dtype != torch.bool or mask.shape != h.shape[:2]:
            raise InputError(
                f"mask must be boolean of shape {tuple(h.shape[:2])}, got {mask.dtype} of shape {tuple(mask.shape)}"
            )
        return Ragged(h[mask], mask.sum(1))

    def pad(self) -> tuple[Tensor, Tensor]:
        """``(h, mask)``: zeros behind each bag up to the longest, (bags, elements, ...) and (bags, elements)."""
        longest = int(self.lengths.max()) if len(self) else 0
        mask = (torch.arange(longest) < self.lengths[:, None]).to(self.values.device)
        h = self.values.new_zeros((*mask.shape, *self.values.shape[1:]))
        return h.masked_scatter(mask.view(*mask.shape, *[1] * (h.dim() - 2)), self.values), mask

    def bag_index(self) -> Tensor:
        """The bag of each row of ``values``: (total,), on the device of the values."""
        return torch.repeat_interleave(torch.arange(len(self)), self.lengths).to(self.values.device)

    def to(self, *args: object, **kwargs: object) -> Ragged:
        """The values moved or cast as by :meth:`torch.Tensor.to`."""
        return Ragged(self.values.to(*args, **kwargs), self.lengths)  # type: ignore[call-overload]

    def blocks(self) -> Iterator[Block]:
        """Walk the bags in blocks of about :data:`TILE` numbers, bags of like length together."""
        width = max(self.values[:1].numel(), 1) if self.values.shape[0] else 1
        starts = (self.lengths.cumsum(0) - self.lengths).tolist()
        order = self.lengths.argsort(descending=True, stable=True).tolist()
        lengths = self.lengths.tolist()
        first = 0
        while first < len(order):
            longest = max(lengths[order[first]], 1)
            last = min(first + max(TILE // (longest * width), 1), len(order))
            # Padding at most doubles a block: shorter bags wait for the next one.
            while lengths[order[last - 1]] * 2 < longest and last - first > 1:
                last -= 1
            bags = order[first:last]
            yield _block(bags, [starts[b] for b in bags], [lengths[b] for b in bags], self.values.device)
            first = last
        if not order:  # what comes of no bags still has shapes and types
            yield Block(slice(0, 0), slice(0, 0), (0, 0))


@dataclass(frozen=True)
class Block:
    """Some bags of a flat batch seen as one padded box of shape ``(bags, elements)``.

    ``rows`` says where the elements stand in the flat values: a slice when they are a box already (no copy),
    else an index of shape (bags, elements) with ``mask`` False where it points nowhere.
    """

    bags: slice | Tensor
    rows: slice | Tensor
    shape: tuple[int, int]
    mask: Tensor | None = None

    def load(self, flat: Tensor) -> Tensor:
        """The block's elements as (bags, elements, ...): a view where it can be."""
        picked = flat[self.rows]
        return picked.view(*self.shape, *flat.shape[1:])

    def store(self, flat: Tensor, box: Tensor) -> None:
        """Write ``box`` (bags, elements, ...) to its rows of ``flat``; padding is dropped."""
        if isinstance(self.rows, slice):
            flat[self.rows].view(box.shape).copy_(box)
        else:
            assert self.mask is not None
            flat[self.rows[self.mask]] = box[self.mask].to(flat.dtype)


def _block(bags: list[int], starts: list[int], lengths: list[int], device: torch.device) -> Block:
    index = torch.tensor(bags, device=device)
    if len(bags) == 1:
        return Block(index, slice(starts[0], starts[0] + lengths[0]), (1, lengths[0]))
    position = torch.arange(max(lengths), device=device)
    mask = position < torch.tensor(lengths, device=device)[:, None]
    rows = (torch.tensor(starts, device=device)[:, None] + position).masked_fill(~mask, 0)
    return Block(index, rows, (len(bags), max(lengths)), mask)
