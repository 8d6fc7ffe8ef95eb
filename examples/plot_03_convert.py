"""
Convert a Hugging Face model
============================

One call gives the last attention layer of a model of ``transformers`` a gain and a temperature of its own. Its outputs stay what they were until training
moves them, its checkpoints load, and ``undo`` takes everything back.
"""

import matplotlib.pyplot as plt
import torch
from transformers import BertConfig, BertModel

from excora import extrapolate_

torch.manual_seed(0)
config = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
model = BertModel(config).eval()
words = torch.randint(1, 100, (8, 12))
before = model(words).last_hidden_state

conversion = extrapolate_(model)
print(conversion)
print("changed by", (model(words).last_hidden_state - before).abs().max().item())

# %%
# With a gain above 1 the read-out leaves the hull of its values: how far, for each word.
with torch.no_grad():
    for parameter in conversion.parameters():
        parameter.add_(0.5)
moved = (model(words).last_hidden_state - before).norm(dim=-1).detach()
plt.imshow(moved, aspect="auto")
plt.xlabel("word")
plt.ylabel("sentence")
plt.colorbar(label="distance from the softmax model")
plt.show()

conversion.undo()
assert torch.equal(model(words).last_hidden_state, before)
