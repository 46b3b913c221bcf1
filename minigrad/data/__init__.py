"""From files to batches of token ids: vocabularies, text datasets, pairs of sentences, and a DataLoader."""

from minigrad.data.bpe import BPE, Bytes
from minigrad.data.characters import Characters
from minigrad.data.loader import DataLoader, Subset, default_collate, padded, random_split
from minigrad.data.order import Buckets, Shuffled
from minigrad.data.pairs import PairDataset
from minigrad.data.text import TextDataset
from minigrad.data.vocabularies import TOKENS, remembered, vocabulary
