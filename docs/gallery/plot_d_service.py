"""
A service that keeps learning
=============================

``manyclass serve`` predicts, learns from every correction and adds classes at once. Here a client asks for the topic of
each question and then sends the correct one. Two topics are new to the service. It also has a web page: :doc:`/serve`.
"""

import socket
import sys
import tempfile
from subprocess import DEVNULL, Popen

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import make_pipeline

from manyclass import LabelTreeClassifier, save_pipeline
from manyclass.serve.client import Client

WORDS = {
    "delivery": "parcel late address courier tracking arrive street box",
    "payment": "card charged invoice bank refund price twice paid",
    "account": "password login delete profile name change locked mail",
    "warranty": "repair battery screen stopped months guarantee spare part",
}
TOPICS, rng = list(WORDS), np.random.default_rng(0)


def question(topic):
    return " ".join([*rng.choice(WORDS[topic].split(), 2), *rng.choice(" ".join(WORDS.values()).split(), 2)])


# %%
# Train a model of two topics and start a service on this machine. A hashing vectorizer also has features for new words.
y = TOPICS[:2] * 6
model = make_pipeline(HashingVectorizer(alternate_sign=False), LabelTreeClassifier(random_state=0))
model.fit([question(topic) for topic in y], y)
path = tempfile.mkdtemp() + "/topics.model"
save_pipeline(model, path)
with socket.create_server(("127.0.0.1", 0)) as free:
    port = str(free.getsockname()[1])
service = Popen([sys.executable, "-m", "manyclass", "serve", path, "--port", port], stderr=DEVNULL)

# %%
# With ``wait=True``, the service responds once the row is learned and used in its predictions.
client, right = Client(f"http://127.0.0.1:{port}", retries=20), {topic: [] for topic in TOPICS}
for topic in rng.choice(TOPICS, 400):
    text = question(topic)
    right[topic].append(client.predict(text, k=1)["labels"][0] == topic)
    client.learn(topic, text, wait=True)
service.terminate()

fig, ax = plt.subplots(figsize=(7, 3.5))
for topic, hits in right.items():
    ax.plot(np.convolve(hits, np.ones(20) / 20, "valid"), "-" if topic in TOPICS[:2] else "--", label=topic)
ax.set(xlabel="questions of the topic", ylabel="accuracy of 20 questions", ylim=(0, 1.02), title="dashed: new topics")
ax.legend(loc="lower right")
plt.show()
