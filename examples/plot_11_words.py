"""
Words that carry a sentiment
============================

A review is a bag of word vectors with a score. A few words carry it, most carry nothing, and nobody says which. ``BagRegressor`` with ECA learns to look at
them; the effective weight of each word is its share in the pooled value, and can be printed under it. The vectors are made up as those of a text encoder are
that knows the context: a word that judges judges more or less strongly each time.
"""

import matplotlib.pyplot as plt
import numpy as np

from excora import BagRegressor

rng = np.random.default_rng(0)
JUDGING = ["good", "bad", "moving", "dull"]
FILLERS = ["the", "a", "film", "plot", "actor", "scene", "was", "it", "and", "then", "with", "music", "long", "story"]
vectors = {word: 0.5 * rng.normal(size=12) for word in [*JUDGING, *FILLERS]}
for word in JUDGING:
    vectors[word][0] = 3.0  # one direction says that a word judges


def review():
    """12 words, two of them judging, each with its strength in another direction; the score is the mean strength."""
    text = [*rng.choice(JUDGING, size=2, replace=False), *rng.choice(FILLERS, size=10)]
    rng.shuffle(text)
    bag = np.array([vectors[word] for word in text])
    judges = np.isin(text, JUDGING)
    bag[:, 1] = np.where(judges, rng.normal(size=12), 0.5 * rng.normal(size=12))
    return text, bag, bag[judges, 1].mean()


reviews = [review() for _ in range(400)]
bags, score = [bag for _, bag, _ in reviews], np.array([value for *_, value in reviews])
model = BagRegressor(pool="eca", epochs=15, learning_rate=0.05, layers=0, random_state=0).fit(bags[:320], score[:320])
pcc = np.corrcoef(model.predict(bags[320:]), score[320:])[0, 1]
print(f"PCC on 80 reviews it has not seen: {pcc:.3f}")

# %%
# Three of those reviews, a row each: the darker a word, the more of the prediction comes from it.
figure, axis = plt.subplots(figsize=(10, 2.6))
shown = range(320, 323)
effective = np.array([np.ravel(weights) for _, weights in model.attention([bags[k] for k in shown])])
axis.imshow(np.abs(effective), cmap="Oranges", vmin=0, aspect="auto")
for row, k in enumerate(shown):
    for column, word in enumerate(reviews[k][0]):
        axis.text(column, row, word, ha="center", va="center", color="black")
axis.set(xticks=[], yticks=range(3), yticklabels=[f"score {score[k]:+.1f}" for k in shown])
plt.show()

# %%
# Over all reviews: the mean weight of each word.
total = {word: [] for word in vectors}
for (text, *_), (_, weights) in zip(reviews[320:], model.attention(bags[320:]), strict=True):
    for word, weight in zip(text, np.ravel(weights), strict=True):
        total[word].append(weight)
mean = {word: np.mean(found) for word, found in total.items() if found}
order = sorted(mean, key=mean.get, reverse=True)
print(", ".join(f"{word} {mean[word]:.2f}" for word in order[:6]))

assert pcc > 0.9
assert set(order[:4]) == set(JUDGING)
