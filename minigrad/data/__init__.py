"""From files to numbers: vocabularies. Knows text and token numbers, no models."""

from minigrad.data.characters import Characters
