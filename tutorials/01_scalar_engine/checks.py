"""Checks of lesson 01."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- numerical_derivative

numerical_derivative = lesson.exercise(
    "numerical_derivative",
    hints=(
        "How far apart are the two points x - h and x + h?",
        "Nudge x up by h and down by h. How far did f move, and over what distance?",
        "(f(up) - f(down)) / (2 * h); mind the brackets around 2 * h.",
    ),
    why=(
        "Nudging needs no theory, so it can test every gradient that theory gives: lesson 04 is built on "
        "this line."
    ),
)


@numerical_derivative.check("x**3 with a wide nudge, where the two sides differ")
def _(my, rng):
    return {
        f"the slope at x = {x}": my.numerical_derivative(lambda x: x**3, x, h=0.1) for x in (0.0, 1.0, -2.0)
    }


@numerical_derivative.check("1/x at a random point with the default h", tolerance=1e-6)
def _(my, rng):
    return my.numerical_derivative(lambda x: 1 / x, rng.uniform(0.5, 2.0))


@numerical_derivative.check("a straight line: its slope, whatever h is")
def _(my, rng):
    return {
        f"the slope with h = {h}": my.numerical_derivative(lambda x: 3 * x - 1, 2.0, h)
        for h in (1.0, 0.5, 0.01)
    }


numerical_derivative.wrong(
    (
        "You nudge to one side only. That is a slope too, but for the same h a less exact one; nudge to both "
        "sides."
    ),
    body="return (f(x + h) - f(x)) / h",
)
numerical_derivative.wrong(
    "From x - h to x + h the distance is 2 * h, not h. Your slope is twice too large.",
    "(2 * h)",
    "h",
)
numerical_derivative.wrong(
    (
        "`/ 2 * h` divides by 2 and then multiplies by h: Python goes from left to right. Put brackets "
        "around the product."
    ),
    "(2 * h)",
    "2 * h",
)
numerical_derivative.wrong(
    (
        "You nudge by h / 2 to each side. That gives a good slope too, but here h is the nudge to each side: "
        "x + h and x - h."
    ),
    body="return (f(x + h / 2) - f(x - h / 2)) / h",
)
numerical_derivative.wrong(
    "The sign is reversed: take the value at the upper point minus the value at the lower one.",
    "f(x + h) - f(x - h)",
    "f(x - h) - f(x + h)",
)

# ---------------------------------------------------------------- by_hand

by_hand = lesson.exercise(
    "by_hand",
    hints=(
        "How often does a occur in the formula for L?",
        (
            "a reaches L through the product and through the tanh. The chain rule adds the contributions of "
            "both paths."
        ),
        "dL/da = b + c * (the slope of tanh at a); dL/db is the factor beside b, dL/dc the factor beside c.",
    ),
    why="The engine does for a million numbers what you did here for three.",
)


@by_hand.check("at a = 0, where tanh is 0 and its slope 1")
def _(my, rng):
    return dict(
        zip(("the gradient dL/da", "the gradient dL/db", "the gradient dL/dc"), my.by_hand(0.0, 2.0, 5.0))
    )


@by_hand.check("at five random points")
def _(my, rng):
    names = ("the gradient dL/da", "the gradient dL/db", "the gradient dL/dc")
    found = [my.by_hand(*map(float, rng.standard_normal(3))) for _ in range(5)]
    return dict(zip(names, [list(column) for column in zip(*found)]))


by_hand.wrong(
    (
        "a occurs twice, and you followed only one of the two paths, the product. Add the contribution of c "
        "* tanh(a)."
    ),
    "b + c * (1 - t * t)",
    "b",
)
by_hand.wrong(
    "a occurs twice, and you followed only one of the two paths, the tanh. Add the contribution of a * b.",
    "b + c * (1 - t * t)",
    "c * (1 - t * t)",
)
by_hand.wrong("The slope of tanh is 1 - tanh², not 1 - tanh.", "t * t", "t")
by_hand.wrong("The slope of tanh is 1 - tanh(a)². You squared a itself.", "t * t", "a * a")
by_hand.wrong(
    (
        "You multiplied the contributions of the two paths from a to L. Slopes multiply along one path; "
        "different paths add up."
    ),
    "b + c *",
    "b * c *",
)

by_hand.wrong(
    "The factor c is missing from dL/da: the contribution of c * tanh(a) is c times the slope of tanh.",
    "b + c * (1 - t * t)",
    "b + (1 - t * t)",
)
by_hand.wrong("The tanh is of a, not of c: c is the factor in front of it.", "math.tanh(a)", "math.tanh(c)")
by_hand.wrong(
    "dL/dc is the factor beside c, and that is tanh(a), not tanh(c).",
    "a, t",
    "a, math.tanh(c)",
)
by_hand.wrong(
    (
        "In dL/dc you took the slope of tanh. c is not inside the tanh but in front of it: its slope is the "
        "other factor."
    ),
    "a, t",
    "a, 1 - t * t",
)
by_hand.wrong("In a * b each factor's slope is the *other* factor, so dL/db is not b.", ", a, t", ", b, t")

# ---------------------------------------------------------------- Value

value = lesson.exercise(
    "Value",
    hints=(
        "Hold one operand still and nudge the other by h. How far does the result move, in units of h?",
        (
            "The new Value's second argument is a pair (parent, slope) for each operand; a slope is a plain "
            "number, so use .data."
        ),
        (
            "__mul__: Value(product, ((self, <data of the other>), (other, <data of self>))). __pow__: n * "
            "data ** (n - 1), and 0.0 if n is 0."
        ),
    ),
    why="These four lines are all the calculus in the engine; the rest of it is an order and a +=.",
)


@value.check("x + y: the value and both slopes")
def _(my, rng):
    def look(y):
        pairs = [
            pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else None
            for pair in getattr(y, "parents", ())
        ]
        kind = (
            "a Value with pairs of a parent and a number"
            if isinstance(y, my.Value)
            else "a plain number, no Value"
        )
        kind = "a Value whose parents are no pairs (parent, slope)" if None in pairs else kind
        kind = (
            "a Value with a slope that is no plain number"
            if any(p and isinstance(p[1], my.Value) for p in pairs)
            else kind
        )
        slopes = [float(pair[1]) for pair in pairs] if kind.endswith("a number") else []
        return {
            "the result": kind,
            "the value": y.data if isinstance(y, my.Value) else None,
            "the slopes": slopes,
            "parents": [p and p[0] for p in pairs],
        }

    x, y = my.Value(3.0), my.Value(-2.0)
    seen = look(x + y)
    seen["the parents are the two operands, in their order"] = all(
        p is v for p, v in zip(seen.pop("parents"), (x, y))
    )
    return seen


@value.check("x * y: the value and both slopes")
def _(my, rng):
    def look(y):
        pairs = [
            pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else None
            for pair in getattr(y, "parents", ())
        ]
        kind = (
            "a Value with pairs of a parent and a number"
            if isinstance(y, my.Value)
            else "a plain number, no Value"
        )
        kind = "a Value whose parents are no pairs (parent, slope)" if None in pairs else kind
        kind = (
            "a Value with a slope that is no plain number"
            if any(p and isinstance(p[1], my.Value) for p in pairs)
            else kind
        )
        slopes = [float(pair[1]) for pair in pairs] if kind.endswith("a number") else []
        return {
            "the result": kind,
            "the value": y.data if isinstance(y, my.Value) else None,
            "the slopes": slopes,
            "parents": [p and p[0] for p in pairs],
        }

    x, y = my.Value(3.0), my.Value(-2.0)
    seen = look(x * y)
    seen["the parents are the two operands, in their order"] = all(
        p is v for p, v in zip(seen.pop("parents"), (x, y))
    )
    return seen


@value.check("x**n for n = 3, 2, 1, -1, 0.5")
def _(my, rng):
    def look(y):
        pairs = [
            pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else None
            for pair in getattr(y, "parents", ())
        ]
        kind = (
            "a Value with pairs of a parent and a number"
            if isinstance(y, my.Value)
            else "a plain number, no Value"
        )
        kind = "a Value whose parents are no pairs (parent, slope)" if None in pairs else kind
        kind = (
            "a Value with a slope that is no plain number"
            if any(p and isinstance(p[1], my.Value) for p in pairs)
            else kind
        )
        slopes = [float(pair[1]) for pair in pairs] if kind.endswith("a number") else []
        return {
            "the result": kind,
            "the value": y.data if isinstance(y, my.Value) else None,
            "the slopes": slopes,
        }

    return {f"for 2.5**{n}": look(my.Value(2.5) ** n) for n in (3, 2, 1, -1, 0.5)}


@value.check("x**0 at 0 and elsewhere, x**1 and x**2 at 0 and at -3")
def _(my, rng):
    def look(y):
        pairs = [
            pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else None
            for pair in getattr(y, "parents", ())
        ]
        kind = (
            "a Value with pairs of a parent and a number"
            if isinstance(y, my.Value)
            else "a plain number, no Value"
        )
        kind = "a Value whose parents are no pairs (parent, slope)" if None in pairs else kind
        kind = (
            "a Value with a slope that is no plain number"
            if any(p and isinstance(p[1], my.Value) for p in pairs)
            else kind
        )
        slopes = [float(pair[1]) for pair in pairs] if kind.endswith("a number") else []
        return {
            "the result": kind,
            "the value": y.data if isinstance(y, my.Value) else None,
            "the slopes": slopes,
        }

    cases = ((0.0, 0), (2.0, 0), (0.0, 1), (0.0, 2), (-3.0, 2))
    return {f"for x**{n} at x = {x}": look(my.Value(x) ** n) for x, n in cases}


@value.check("tanh, near 0 and far out")
def _(my, rng):
    def look(y):
        pairs = [
            pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else None
            for pair in getattr(y, "parents", ())
        ]
        kind = (
            "a Value with pairs of a parent and a number"
            if isinstance(y, my.Value)
            else "a plain number, no Value"
        )
        kind = "a Value whose parents are no pairs (parent, slope)" if None in pairs else kind
        kind = (
            "a Value with a slope that is no plain number"
            if any(p and isinstance(p[1], my.Value) for p in pairs)
            else kind
        )
        slopes = [float(pair[1]) for pair in pairs] if kind.endswith("a number") else []
        return {
            "the result": kind,
            "the value": y.data if isinstance(y, my.Value) else None,
            "the slopes": slopes,
        }

    return {f"for tanh of {x}": look(my.Value(x).tanh()) for x in (0.0, 0.5, -1.5, 20.0)}


@value.check("plain numbers on either side: 2 + x, x + 2, 2 * x, x * 2")
def _(my, rng):
    def look(y):
        pairs = [
            pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else None
            for pair in getattr(y, "parents", ())
        ]
        kind = (
            "a Value with pairs of a parent and a number"
            if isinstance(y, my.Value)
            else "a plain number, no Value"
        )
        kind = "a Value whose parents are no pairs (parent, slope)" if None in pairs else kind
        kind = (
            "a Value with a slope that is no plain number"
            if any(p and isinstance(p[1], my.Value) for p in pairs)
            else kind
        )
        slopes = [float(pair[1]) for pair in pairs] if kind.endswith("a number") else []
        return {
            "the result": kind,
            "the value": y.data if isinstance(y, my.Value) else None,
            "the slopes": sorted(slopes),
        }

    x = my.Value(3.0)
    return {
        "for 2 + x": look(2 + x),
        "for x + 2": look(x + 2),
        "for 2 * x": look(2 * x),
        "for x * 2": look(x * 2),
    }


value.wrong(
    (
        "In a product each factor's slope is the *other* factor. Yours are swapped: nudge self in self * "
        "other and see how far the product moves."
    ),
    "((self, other.data), (other, self.data))",
    "((self, self.data), (other, other.data))",
)
value.wrong(
    "In a sum each operand's slope is 1: (x + h) + y is h more. You gave the operands themselves.",
    "((self, 1.0), (other, 1.0))",
    "((self, self.data), (other, other.data))",
)
value.wrong(
    "The slope of x**n is n * x**(n - 1); the factor n in front is missing.",
    "(self, n * self.data ** (n - 1) if n else 0.0)",
    "(self, self.data ** (n - 1) if n else 0.0)",
)
value.wrong(
    "The slope of x**n has the exponent n - 1: the nudged factor drops out.",
    "n * self.data ** (n - 1)",
    "n * self.data ** n",
)
value.wrong(
    (
        "0.0 ** -1 divides by zero. x**0 is 1 everywhere, so return the slope 0.0 for n = 0 and use the "
        "formula for the rest."
    ),
    "(self, n * self.data ** (n - 1) if n else 0.0)",
    "(self, n * self.data ** (n - 1))",
)
value.wrong(
    "The slope of tanh is 1 - y² with y the *output*. You squared the input.",
    "1 - y * y",
    "1 - self.data * self.data",
)
value.wrong("The slope of tanh is 1 - y², not 1 - y: the square is missing.", "1 - y * y", "1 - y")

value.wrong(
    "In __mul__ your slopes are Values. A slope is a plain number: the other operand's `.data`.",
    "((self, other.data), (other, self.data))",
    "((self, other), (other, self))",
)
value.wrong(
    (
        "In __pow__ you raised self, which is a Value, so the slope is a Value too, and computing it calls "
        "__pow__ again. Use self.data."
    ),
    "n * self.data ** (n - 1)",
    "n * self ** (n - 1)",
)
value.wrong(
    (
        "In __pow__ a comma is missing: ((self, slope)) is the pair itself. A tuple that holds one pair is "
        "written ((self, slope),)."
    ),
    "((self, n * self.data ** (n - 1) if n else 0.0),)",
    "((self, n * self.data ** (n - 1) if n else 0.0))",
)
value.wrong(
    (
        "In tanh a comma is missing: ((self, slope)) is the pair itself. A tuple that holds one pair is "
        "written ((self, slope),)."
    ),
    "((self, 1 - y * y),)",
    "((self, 1 - y * y))",
)
value.wrong(
    "__add__ returns a plain number. Return a new Value that holds it, and its pairs (parent, slope).",
    "Value(self.data + other.data, ((self, 1.0), (other, 1.0)))",
    "self.data + other.data",
)
value.wrong(
    (
        "The sum is right, but the new Value has no parents, so no gradient can go back. Pass the pairs "
        "(parent, slope) as well."
    ),
    "Value(self.data + other.data, ((self, 1.0), (other, 1.0)))",
    "Value(self.data + other.data)",
)

# ---------------------------------------------------------------- newest_first

newest_first = lesson.exercise(
    "newest_first",
    hints=(
        "Which was created first, a Value or its parents?",
        (
            "Collect everything first, in any order, each Value once; then sort by `born`. You may append to "
            "a list while you loop over it."
        ),
        (
            "nodes, seen = [z], {z}; for node in nodes: append the parents that are not in seen. Then "
            "sorted(nodes, key=..., reverse=True)."
        ),
    ),
    why=(
        "If every user of a number comes before it, one pass back is enough; in another order gradients are "
        "silently wrong."
    ),
)


@newest_first.check("a chain of three")
def _(my, rng):
    x = my.Value(1.0)
    y = my.Value(2.0, ((x, 1.0),))
    z = my.Value(3.0, ((y, 1.0),))
    return [node.data for node in my.newest_first(z)]


@newest_first.check("a number used near the result and far from it")
def _(my, rng):
    x = my.Value(1.0)
    y = my.Value(2.0, ((x, 1.0), (x, 1.0)))
    w = my.Value(3.0, ((y, 1.0), (x, 1.0)))
    z = my.Value(4.0, ((y, 1.0), (w, 1.0)))
    return [node.data for node in my.newest_first(z)]


@newest_first.check("sorted by age, not by value; without what z was not computed from")
def _(my, rng):
    x, other = my.Value(9.0), my.Value(5.0)
    y = my.Value(-1.0, ((x, 1.0),))
    later = my.Value(7.0, ((y, 1.0), (other, 1.0)))
    z = my.Value(0.0, ((y, 1.0), (x, 1.0)))
    return {
        "the numbers in your list": [node.data for node in my.newest_first(z)],
        "the grad of the Value left out": later.grad,
    }


@newest_first.check("a leaf alone")
def _(my, rng):
    return [node.data for node in my.newest_first(my.Value(4.0))]


@newest_first.check("12 doublings: 13 nodes, each once, and the parents of each read only a few times")
def _(my, rng):
    asked = []

    class Asked(my.Value):
        @property
        def parents(self):
            asked.append(self)
            return self.pairs

        @parents.setter
        def parents(self, pairs):
            self.pairs = pairs

    z = Asked(0)
    for i in range(12):
        z = Asked(i + 1, ((z, 1.0), (z, 1.0)))
    numbers = [node.data for node in my.newest_first(z)]
    return {
        "the numbers in your list": numbers,
        "the parents of each were read a few times at most": len(asked) <= 13 * 6,
    }


@newest_first.check("a chain of 5,000: no recursion")
def _(my, rng):
    z = my.Value(0)
    for i in range(5000):
        z = my.Value(i + 1, ((z, 1.0),))
    return np.array([node.data for node in my.newest_first(z)])


newest_first.wrong(
    (
        "A function that calls itself for each parent reaches Python's recursion limit at about a thousand. "
        "Use a list and a loop."
    ),
    body="""
nodes, seen = [], set()

def visit(node):
    if node not in seen:
        seen.add(node)
        for parent, _ in node.parents:
            visit(parent)
        nodes.append(node)

visit(z)
return sorted(nodes, key=lambda node: node.born, reverse=True)
""",
)
newest_first.wrong(
    "Your list begins with the oldest. Backward starts at z, the youngest: reverse the order.",
    ", reverse=True",
    "",
)
newest_first.wrong(
    (
        "You return the nodes in the order in which you met them. A Value that is used both near z and far "
        "from it then comes too early: sort by `born`."
    ),
    "sorted(nodes, key=lambda node: node.born, reverse=True)",
    "nodes",
)
newest_first.wrong(
    "You sort by the numbers themselves. Sort by when each was created: `born`.",
    "node.born",
    "node.data",
)
newest_first.wrong(
    "z itself is missing from your list. Its own gradient, 1, is where backward starts.",
    "sorted(nodes,",
    "sorted(nodes[1:],",
)
newest_first.wrong(
    (
        "A Value that is used twice is in your list twice, and would send its gradient on twice. Keep a set "
        "of those you have seen."
    ),
    "if parent not in seen:",
    "if True:",
)

newest_first.wrong(
    (
        "The list is right, but you walk along every path through the graph: 12 doublings have 4,096 paths, "
        "40 a million million. Keep a set of the Values you have seen, and go on from each only once."
    ),
    body="""
nodes = [z]
for node in nodes:
    nodes.extend(parent for parent, _ in node.parents)
return sorted(set(nodes), key=lambda node: node.born, reverse=True)
""",
)
newest_first.wrong(
    (
        "`nodes.sort(...)` sorts the list in place and returns None. Return the list in the next line, or "
        "use sorted(...)."
    ),
    "return sorted(nodes, key=lambda node: node.born, reverse=True)",
    "return nodes.sort(key=lambda node: node.born, reverse=True)",
)

# ---------------------------------------------------------------- backward

backward = lesson.exercise(
    "backward",
    hints=(
        "What is dz/dz? And what must be in a number's grad before it may send to its parents?",
        (
            "Take the nodes newest first. Clear those with parents, set z's to 1.0, then let each send grad "
            "* slope to each parent."
        ),
        "The main loop: for parent, slope in node.parents: parent.grad += node.grad * slope.",
    ),
    why=(
        "This loop is reverse-mode differentiation; PyTorch's, minigrad's and yours differ in what a node "
        "stores, not in the loop."
    ),
)


@backward.check("x * y + x: x is used twice")
def _(my, rng):
    x, y = my.Value(3.0), my.Value(4.0)
    a = my.Value(12.0, ((x, 4.0), (y, 3.0)))
    z = my.Value(15.0, ((a, 1.0), (x, 1.0)))
    my.backward(z)
    return {
        "the grad of x": x.grad,
        "the grad of y": y.grad,
        "the grad of x * y": a.grad,
        "the grad of z": z.grad,
    }


@backward.check("x * x: both factors are the same number")
def _(my, rng):
    x = my.Value(3.0)
    z = my.Value(9.0, ((x, 3.0), (x, 3.0)))
    my.backward(z)
    return {"the grad of x": x.grad}


@backward.check("a number used near the result and far from it: the order matters")
def _(my, rng):
    x = my.Value(3.0)
    y = my.Value(6.0, ((x, 1.0), (x, 1.0)))
    w = my.Value(9.0, ((y, 1.0), (x, 1.0)))
    z = my.Value(15.0, ((y, 1.0), (w, 1.0)))
    my.backward(z)
    return {"the grad of x": x.grad, "the grad of y": y.grad, "the grad of w": w.grad}


@backward.check("backward twice: leaves add up, intermediate gradients start at zero")
def _(my, rng):
    x = my.Value(3.0)
    y = my.Value(9.0, ((x, 3.0), (x, 3.0)))
    z = my.Value(27.0, ((y, 3.0), (x, 9.0)))
    my.backward(z)
    my.backward(z)
    return {
        "the grad of x, a leaf": x.grad,
        "the grad of y, intermediate": y.grad,
        "the grad of z": z.grad,
    }


@backward.check("two results that share a part")
def _(my, rng):
    x = my.Value(2.0)
    y = my.Value(4.0, ((x, 2.0), (x, 2.0)))
    u = my.Value(12.0, ((y, 3.0),))
    v = my.Value(20.0, ((y, 5.0),))
    my.backward(u)
    my.backward(v)
    return {"the grad of x": x.grad}


@backward.check("a chain of 5,000")
def _(my, rng):
    x = my.Value(1.0)
    z = x
    for _ in range(5000):
        z = my.Value(1.0, ((z, 1.0), (x, 2.0)))
    my.backward(z)
    return {"the grad of x": x.grad}


backward.wrong(
    (
        "A number that is used twice gets two contributions, and yours keeps only the last. The chain rule "
        "is a sum: add to the parent's grad."
    ),
    "parent.grad += node.grad * slope",
    "parent.grad = node.grad * slope",
)
backward.wrong(
    "Everything is 0, because z's own gradient is 0. dz/dz is 1.",
    "z.grad += 1.0\n",
    "pass\n",
)
backward.wrong(
    "You go through the nodes oldest first, so each sends before anything has arrived at it. Start at z.",
    body="""
nodes = newest_first(z)
for node in nodes:
    if node.parents:
        node.grad = 0.0
z.grad += 1.0
for node in reversed(nodes):
    for parent, slope in node.parents:
        parent.grad += node.grad * slope
""",
)
backward.wrong(
    (
        "Each parent gets the slope alone. Multiply it by the gradient that has arrived at the node: slopes "
        "multiply along a path."
    ),
    "node.grad * slope",
    "slope",
)
backward.wrong(
    (
        "The second backward finds old gradients in the intermediate Values and sends them again. First set "
        "grad of every Value with parents to 0.0."
    ),
    body="""
nodes = newest_first(z)
z.grad = 1.0
for node in nodes:
    for parent, slope in node.parents:
        parent.grad += node.grad * slope
""",
)
backward.wrong(
    (
        "You clear the leaves as well. Their gradients should add up over several calls; clear only Values "
        "with parents."
    ),
    "if node.parents:",
    "if True:",
)
backward.wrong(
    (
        "You visit the nodes in the order in which you meet them, so some send before all their users have "
        "sent. Use the order of newest_first."
    ),
    body="""
nodes, seen = [z], {z}
for node in nodes:
    for parent, _ in node.parents:
        if parent not in seen:
            seen.add(parent)
            nodes.append(parent)
    if node.parents:
        node.grad = 0.0
z.grad += 1.0
for node in nodes:
    for parent, slope in node.parents:
        parent.grad += node.grad * slope
""",
)
backward.wrong(
    (
        "You go from node to parent by recursion, once for every path through the graph: shared numbers send "
        "several times, and long chains exceed the recursion limit."
    ),
    body="""
def send(node):
    for parent, slope in node.parents:
        parent.grad += node.grad * slope
        send(parent)

z.grad = 1.0
send(z)
""",
)

# ---------------------------------------------------------------- gradient_step

gradient_step = lesson.exercise(
    "gradient_step",
    hints=(
        "What may the parameters' grad still hold from the step before?",
        (
            "Compute the loss, clear the gradients, run backward, then move each parameter's data against "
            "its gradient."
        ),
        "p.data -= lr * p.grad for each p, after backward(z); return z.data.",
    ),
    why="Training any model, even the largest, is this function in a loop.",
)


@gradient_step.check("one step on (w - 3)^2")
def _(my, rng):
    w = my.Value(0.0)
    before = my.gradient_step([w], lambda: (w + -3.0) ** 2, 0.1)
    return {"the loss it returned": before, "the data of w": w.data}


@gradient_step.check("three steps in a row on a sum of two squares")
def _(my, rng):
    u, v = my.Value(1.0), my.Value(-2.0)
    losses = [my.gradient_step([u, v], lambda: (u * v + 1.0) ** 2 + u * u, 0.05) for _ in range(3)]
    return {"the three losses it returned": losses, "the data of u": u.data, "the data of v": v.data}


@gradient_step.check("old gradients have no effect")
def _(my, rng):
    w = my.Value(1.0)
    w.grad = 100.0
    my.gradient_step([w], lambda: w * w, 0.25)
    return w.data


@gradient_step.check("100 steps find the minimum")
def _(my, rng):
    w = my.Value(0.0)
    for _ in range(100):
        my.gradient_step([w], lambda: (w + -3.0) ** 2, 0.1)
    return w.data


gradient_step.wrong(
    "You go uphill: the loss grows along its gradient, so subtract.",
    "p.data -= lr * p.grad",
    "p.data += lr * p.grad",
)
gradient_step.wrong(
    "The new gradients are added to those of the step before. Set p.grad to 0.0 before backward.",
    body="""
z = loss()
backward(z)
for p in parameters:
    p.data -= lr * p.grad
return z.data
""",
)
gradient_step.wrong(
    (
        "The parameters do not move. Either you clear the gradients after backward: clear them before. Or "
        "you change a copy: change each p.data itself."
    ),
    body="""
z = loss()
backward(z)
for p in parameters:
    p.grad = 0.0
for p in parameters:
    p.data -= lr * p.grad
return z.data
""",
)
gradient_step.wrong(
    "The step size lr is not used. The gradient gives a direction and a slope; lr sets how far to go.",
    "lr * p.grad",
    "p.grad",
)
gradient_step.wrong(
    "You return the loss after the step. Return the loss that was computed before it.",
    "return z.data",
    "return loss().data",
)
gradient_step.wrong(
    "You moved the parameters along their own values, not against their gradients.",
    "lr * p.grad",
    "lr * p.data",
)

gradient_step.wrong(
    "You return the Value. Return the loss as a plain number, its `.data`.",
    "return z.data",
    "return z",
)
gradient_step.wrong(
    (
        "`backward` is a function here, not a method as in z.backward(). It takes the Value that loss() "
        "returned, not the function `loss`."
    ),
    "backward(z)",
    "backward(loss)",
)

# ---------------------------------------------------------------- neuron

neuron = lesson.exercise(
    "neuron",
    hints=(
        "What can the sum start from, so that the bias need not be added at the end?",
        (
            "Walk over weights and inputs side by side; multiply and add with Values, so that their parents "
            "are recorded; squash at the end."
        ),
        "total = bias; for w, x in zip(weights, inputs): total = total + w * x; then total.tanh().",
    ),
    why=(
        "A layer is a row of neurons, and lesson 03 computes a whole layer for a whole batch in one matrix "
        "product."
    ),
)


@neuron.check("value, with random weights and inputs")
def _(my, rng):
    weights = [my.Value(float(w)) for w in rng.standard_normal(4)]
    return my.neuron(weights, my.Value(0.3), [float(x) for x in rng.standard_normal(4)]).data


@neuron.check("gradients of weights, bias and an input")
def _(my, rng):
    weights, bias, x = [my.Value(0.5), my.Value(-1.0)], my.Value(0.25), my.Value(2.0)
    my.backward(my.neuron(weights, bias, [x, 3.0]))
    grads = [weights[0].grad, weights[1].grad, bias.grad, x.grad]
    return dict(
        zip(
            (
                "the grad of weights[0]",
                "the grad of weights[1]",
                "the grad of bias",
                "the grad of the first input",
            ),
            grads,
        )
    )


@neuron.check("no inputs: the bias, squashed")
def _(my, rng):
    return my.neuron([], my.Value(0.7), []).data


@neuron.check("the weights and the bias are unchanged")
def _(my, rng):
    weights, bias = [my.Value(0.5), my.Value(-1.0)], my.Value(0.25)
    my.neuron(weights, bias, [1.0, 2.0])
    return {
        "the data of weights[0]": weights[0].data,
        "the data of weights[1]": weights[1].data,
        "the data of bias": bias.data,
    }


neuron.wrong("The bias is missing from the sum.", "total = bias", "total = as_value(0.0)")
neuron.wrong(
    "The sum is right, but it is not squashed: take tanh of it.",
    "total.tanh()",
    "total",
)
neuron.wrong(
    "You squash each product and then add up. A neuron adds first and squashes the sum.",
    body="""
total = bias
for w, x in zip(weights, inputs, strict=True):
    total = total + (w * x).tanh()
return total
""",
)
neuron.wrong(
    (
        "The value is right, but it was computed with plain numbers (.data), so it has no parents and no "
        "gradient reaches the weights."
    ),
    body="""
total = bias.data
for w, x in zip(weights, inputs, strict=True):
    total = total + w.data * as_value(x).data
return Value(math.tanh(total))
""",
)
neuron.wrong(
    "The bias is added once for each input. Start the sum with it, and add only products after that.",
    "total = total + w * x",
    "total = total + w * x + bias",
)
neuron.wrong(
    "`math.tanh` takes plain numbers. Here tanh is a method of the Value: total.tanh().",
    "total.tanh()",
    "math.tanh(total)",
)
neuron.wrong(
    (
        "You start with the bias itself and change its `data`, so the neuron's bias has another value "
        "afterwards. Make new Values with +."
    ),
    body="""
total = bias
for w, x in zip(weights, inputs, strict=True):
    total.data += (w * x).data
return total.tanh()
""",
)
