"""Bags with a share of contaminated elements: what softmax, elliptical and ECA pooling keep of their correlation.

    python -m checks.contaminated

Trained on clean bags of the plateau's kind (one direction says which elements count, another what they say), then
tested with a share of elements whose other channels are blown up ten times. Five seeds, equal budget, no tuning.
"""

from __future__ import annotations

import torch
from torch import nn

from excora.losses import JointLoss
from excora.pooling import make_pool

DIM, ELEMENTS, BAGS, STEPS = 16, 20, 2000, 400
POOLS = ("mean", "softmax", "elliptical", "eca")
SHARES = (0.0, 0.05, 0.2)


def bags(count: int, seed: int, share: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Elements whose channel 0 marks them and channel 1 carries the label's part."""
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(count, ELEMENTS, DIM, generator=generator)
    y = (torch.softmax(2 * h[..., 0], 1) * h[..., 1]).sum(1) + 0.05 * torch.randn(count, generator=generator)
    dirty = torch.rand(count, ELEMENTS, 1, generator=generator) < share
    h[..., 2:] = torch.where(dirty, 10 * h[..., 2:], h[..., 2:])
    return h, y


def trained(name: str, seed: int) -> nn.Module:
    """Pool and linear head, Adam on MSE + correlation."""
    torch.manual_seed(seed)
    pool, head = make_pool(name, DIM), nn.Linear(DIM, 1)
    model = nn.ModuleList([pool, head])
    optimizer, loss = torch.optim.Adam(model.parameters(), lr=0.02), JointLoss()
    h, y = bags(BAGS, seed, 0.0)
    for step in range(STEPS):
        part = torch.arange(step * 200, step * 200 + 200) % BAGS
        pooled = pool(h[part])
        optimizer.zero_grad()
        loss(head(pooled.value), y[part].unsqueeze(1), penalty=pooled.penalty).backward()
        optimizer.step()
    return model.eval()


def main() -> None:
    """Print mean and spread of the correlation on clean and on dirty bags."""
    print("pool        " + "".join(f"  {share:.0%} dirty      " for share in SHARES))
    for name in POOLS:
        found = []
        for seed in range(5):
            pool, head = trained(name, seed)
            with torch.no_grad():
                tests = [bags(4000, 100 + seed, share) for share in SHARES]
                found.append([torch.corrcoef(torch.stack([head(pool(h).value)[:, 0], y]))[0, 1] for h, y in tests])
        r = torch.tensor(found)
        print(f"{name:12s}" + "".join(f"  {m:.3f} +- {s:.3f}" for m, s in zip(r.mean(0), r.std(0), strict=True)))


if __name__ == "__main__":
    main()
