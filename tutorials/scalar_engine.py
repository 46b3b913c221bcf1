"""Reverse-mode differentiation of single numbers without closures: the second engine of the course. Knows numbers only.

Each result keeps pairs (parent, local derivative): from whom it came, and how fast it changes with each. These are plain numbers,
known as soon as the result is, so nothing has to be left for later: backward is one loop that multiplies and adds.

A result is younger than what it was made from. So backward takes the youngest first, and whenever a number's turn comes,
everything that depends on it has already sent its share. A counter of births does what the sort of a graph does elsewhere,
without recursion: a chain of a million steps is no problem. And since parents never point to children, a graph is gone as soon
as nobody holds it; nothing waits for the garbage collector.

    x, y = Value(2.0), Value(-3.0)
    z = (x * y + x**2).relu() + 1 / x
    z.backward()
    x.grad, y.grad     # dz/dx, dz/dy
"""

from itertools import count
from operator import attrgetter

births = count()


class Value:
    """A number that remembers where it came from. grad: after z.backward() on a later z, dz/d(this)."""

    __slots__ = ("data", "grad", "parents", "born")

    def __init__(self, data, parents=()):
        self.data, self.grad, self.parents, self.born = data, 0.0, parents, next(births)

    def __add__(self, other):
        if isinstance(other, Value):
            return Value(self.data + other.data, ((self, 1.0), (other, 1.0)))
        return Value(self.data + other, ((self, 1.0),))  # a plain number gets no gradient

    def __mul__(self, other):
        if isinstance(other, Value):
            return Value(self.data * other.data, ((self, other.data), (other, self.data)))
        return Value(self.data * other, ((self, other),))

    def __sub__(self, other):
        if isinstance(other, Value):
            return Value(self.data - other.data, ((self, 1.0), (other, -1.0)))
        return Value(self.data - other, ((self, 1.0),))

    def __truediv__(self, other):
        if isinstance(other, Value):
            y = self.data / other.data
            return Value(y, ((self, 1.0 / other.data), (other, -y / other.data)))
        return Value(self.data / other, ((self, 1.0 / other),))

    def __pow__(self, n):
        if isinstance(n, Value):
            raise TypeError("A power's exponent must be a plain number here: x**3, not x**Value(3).")
        return Value(self.data**n, ((self, n * self.data ** (n - 1) if n else 0.0),))

    def relu(self):
        """max(0, x); its derivative at 0 is taken as 0."""
        return Value(self.data, ((self, 1.0),)) if self.data > 0 else Value(0.0, ((self, 0.0),))

    def __neg__(self):
        return Value(-self.data, ((self, -1.0),))

    def __rsub__(self, other):
        return Value(other - self.data, ((self, -1.0),))

    def __rtruediv__(self, other):
        y = other / self.data
        return Value(y, ((self, -y / self.data),))

    __radd__, __rmul__ = __add__, __mul__

    def backward(self):
        """Add d(self)/dx to x.grad for each x that self was made from, by the chain rule: dz/dx = sum of dz/dy * dy/dx."""
        nodes = self.ancestors()
        for node in nodes:
            # what lies between starts anew, as in PyTorch; what was given adds up over several backwards
            if node.parents:
                node.grad = 0.0
        self.grad += 1.0
        for node in nodes:
            g = node.grad
            for parent, slope in node.parents:
                parent.grad += g * slope

    def ancestors(self):
        """Self and everything it was made from, youngest first."""
        nodes, seen = [self], {self}
        for node in nodes:  # grows while it runs
            for parent, _ in node.parents:
                if parent not in seen:
                    seen.add(parent)
                    nodes.append(parent)
        return sorted(nodes, key=attrgetter("born"), reverse=True)

    def __repr__(self):
        return f"Value({self.data}, grad={self.grad})"
