"""
Bags of slide features, with attention on the tissue
====================================================

A slide is a bag of patch features. Its label is the mean of one feature over a lesion; nobody tells the model where that is. The attention that ``BagRegressor``
learns is drawn where the patches lie.
"""

import matplotlib.pyplot as plt
import numpy as np

from excora import BagRegressor

rng = np.random.default_rng(0)


def slide():
    """Patch features (n, 6), their places (n, 2), which belong to the lesion, and the label."""
    places = rng.uniform(0, 10, size=(rng.integers(80, 160), 2))
    lesion = np.linalg.norm(places - rng.uniform(3, 7, size=2), axis=1) < 2.0
    features = rng.normal(size=(len(places), 6))
    features[:, 0] += 4.0 * lesion  # what a lesion looks like
    grade = rng.normal()
    features[lesion, 1] += grade
    return features, places, lesion, grade


slides = [slide() for _ in range(150)]
bags, label = [s[0] for s in slides], np.array([s[3] for s in slides])
model = BagRegressor(pool="eca", epochs=20, learning_rate=0.01, random_state=0).fit(bags[:110], label[:110])
pcc = np.corrcoef(model.predict(bags[110:]), label[110:])[0, 1]
print(f"PCC on 40 slides it has not seen: {pcc:.3f}")

# %%
# The lesion, and where the model looks. Effective weights are the share of each patch in the pooled value; they may be negative.
_, places, lesion, _ = slides[-1]
_, effective = model.attention(bags[-1:])[0]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
left.scatter(*places.T, c=lesion)
left.set_title("lesion")
shown = right.scatter(*places.T, c=np.ravel(effective))
right.set_title("effective attention")
figure.colorbar(shown)
plt.show()

assert pcc > 0.5
assert np.ravel(effective)[lesion].mean() > np.ravel(effective)[~lesion].mean()
