"""Reverse-mode differentiation of single numbers without closures: the second engine of the course.

Each result stores pairs (parent, local derivative): what it was computed from, and how fast it changes with
each. Both are known as soon as the result is, so backward is one loop that multiplies and adds.

A result is younger than its parents. Backward visits the youngest first, so when it visits a number,
everything that depends on it has already sent its gradient. A counter of births replaces the topological sort
of other engines, without recursion: a chain of a million steps is no problem. Parents never point to
children, so a graph is freed as soon as nothing refers to it, without waiting for the garbage collector.

    x, y = Value(2.0), Value(-3.0)
    z = (x * y + x**2).relu() + 1 / x
    z.backward()
    x.grad, y.grad     # dz/dx, dz/dy
"""

from itertools import count
from operator import attrgetter

births = count()


class Value:
    """A number with its parents. After z.backward(), its grad is dz/d(this)."""

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
        """max(0, x), with derivative 0 at 0."""
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
        """Add d(self)/dx to x.grad for each ancestor x, by the chain rule: dz/dx = sum of dz/dy * dy/dx."""
        nodes = self.ancestors()
        for node in nodes:
            # as in PyTorch, only leaves add up their gradients over several backwards
            if node.parents:
                node.grad = 0.0
        self.grad += 1.0
        for node in nodes:
            g = node.grad
            for parent, slope in node.parents:
                parent.grad += g * slope

    def ancestors(self):
        """Return self and everything it was computed from, youngest first."""
        nodes, seen = [self], {self}
        for node in nodes:  # grows while it runs
            for parent, _ in node.parents:
                if parent not in seen:
                    seen.add(parent)
                    nodes.append(parent)
        return sorted(nodes, key=attrgetter("born"), reverse=True)

    def __repr__(self):
        return f"Value({self.data}, grad={self.grad})"
