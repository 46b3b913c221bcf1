"""Checks of lesson 18."""

import numpy as np

from tutorials.course import Checks

lesson = Checks(uses=("minigrad",))

# ---------------------------------------------------------------- second derivatives

hvp = lesson.exercise(
    "hvp",
    hints=(
        "The Hessian's product with v is itself a gradient. Of which single number, made from the gradient "
        "of f?",
        "The gradient of the sum of g * v, with v fixed, is H v. For that, g must have a history.",
        "(g,) = mg.grad(f(x), x, create_graph=True), then mg.grad((g * v).sum(), x)",
    ),
    why="It takes as long as a few gradients, for a matrix that would not fit into memory. Conjugate "
    "gradients, sharpness and influence functions use this product.",
)


@hvp.check("the worked example: x^2 y + y^3 at (1, 2), three directions")
def _(my, rng):
    def f(p):
        return p[0] ** 2 * p[1] + p[1] ** 3

    return [my.hvp(f, np.array([1.0, 2.0]), np.array(v)) for v in ([1.0, 0.0], [0.0, 1.0], [2.0, -1.0])]


@hvp.check("seven numbers, through tanh and products")
def _(my, rng):
    import minigrad as mg

    w = mg.tensor(rng.standard_normal((7, 7)))
    return my.hvp(lambda x: (mg.tanh(w @ x) * x).sum(), rng.standard_normal(7), rng.standard_normal(7))


@hvp.check("one number; v = 0; x and v are unchanged")
def _(my, rng):
    x, v = np.array([0.5]), np.array([0.0])
    found = [my.hvp(lambda x: (x**3).sum(), x, v), my.hvp(lambda x: (x**3).sum(), x, np.array([2.0]))]
    return found, x, v


hvp.wrong(
    "That is H applied to the gradient: differentiating g * g gives 2 H g. Multiply the gradient with v "
    "instead.",
    "(g * v).sum()",
    "(g * g).sum()",
)
hvp.wrong(
    "You differentiate the sum of the gradient, which is H times a vector of ones. v is missing.",
    "(g * v).sum()",
    "g.sum()",
)
hvp.wrong(
    "Without create_graph=True the gradient is a constant without a history.", ", create_graph=True)", ")"
)
hvp.wrong(
    "You return the gradient's part along v, a first derivative. Differentiate that once more.",
    "return h.data",
    "return g.data * v",
)

hessian = lesson.exercise(
    "hessian",
    hints=(
        "The gradient has n numbers. What is the gradient of each of them?",
        "Run one reverse pass for each entry of g, all through the same graph, so keep it "
        "(retain_graph=True). If the gradient has no history, f is linear.",
        "np.stack([mg.grad(gi, x, retain_graph=True)[0].data for gi in g])",
    ),
    why="This takes n reverse passes and n x n numbers: fine for ten parameters, impossible for a million. "
    "That is why hvp exists.",
)


@hessian.check("the worked example")
def _(my, rng):
    return my.hessian(lambda p: p[0] ** 2 * p[1] + p[1] ** 3, np.array([1.0, 2.0]))


@hessian.check("five numbers, not a sum of separate ones")
def _(my, rng):
    import minigrad as mg

    w = mg.tensor(rng.standard_normal((4, 5)))
    return my.hessian(lambda x: (mg.tanh(w @ x) ** 2).sum() * x[0], rng.standard_normal(5))


@hessian.check("a linear function; one that is linear in some of its arguments; a single number")
def _(my, rng):
    x = rng.standard_normal(3)
    functions = (lambda x: (x * np.array([1.0, 2.0, 3.0])).sum(), lambda x: x[0] ** 3 + 5 * x[1])
    return [my.hessian(f, x) for f in functions], my.hessian(lambda x: (x**4).sum(), np.array([2.0]))


hessian.wrong(
    "A linear function's gradient has no history, and differentiating it raises an error. Look at "
    "g.requires_grad first.",
    "if not g.requires_grad:",
    "if False:",
)
hessian.wrong(
    "One reverse pass through g.sum() adds up all rows of H. Take one pass for each entry.",
    "np.stack([mg.grad(gi, x, retain_graph=True)[0].data for gi in g])",
    "np.diag(mg.grad(g.sum(), x)[0].data)",
)
hessian.wrong(
    "That is the outer product of the gradient with itself (Gauss-Newton and Fisher look like it), not the "
    "Hessian.",
    "np.stack([mg.grad(gi, x, retain_graph=True)[0].data for gi in g])",
    "np.outer(g.data, g.data)",
)
hessian.wrong(
    "The first pass through the gradient's graph frees it. Keep it with retain_graph=True for the other "
    "rows.",
    "mg.grad(gi, x, retain_graph=True)",
    "mg.grad(gi, x)",
)

newton_step = lesson.exercise(
    "newton_step",
    hints=(
        "Near x the gradient at x + s is about g + H s. For which s is it zero?",
        "s = -H^{-1} g: solve the system H s = -g.",
        "x - np.linalg.solve(hessian(f, x), g.data)",
    ),
    why="On a quadratic, one step is enough. Every method between this and gradient descent uses a cheaper "
    "guess at H.",
)


@newton_step.check("a quadratic is solved in one step")
def _(my, rng):
    a = rng.standard_normal((3, 3))
    a, b = a @ a.T + np.eye(3), rng.standard_normal(3)
    return my.newton_step(
        lambda x: 0.5 * (x * (a * x).sum(-1)).sum() - (b * x).sum(), rng.standard_normal(3) * 10
    )


@newton_step.check("one step, and three, on Rosenbrock's valley")
def _(my, rng):
    def f(p):
        return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2

    x = np.array([-1.2, 1.0])
    one = my.newton_step(f, x)
    three = my.newton_step(f, my.newton_step(f, one))
    return one, three, x


@newton_step.check("one number: x - f'/f''")
def _(my, rng):
    return my.newton_step(lambda x: (x**4 - 3 * x).sum(), np.array([2.0]))


newton_step.wrong(
    "The sign is wrong: the step is -H^{-1} g, downhill. Yours goes uphill.",
    "return x - np.linalg.solve",
    "return x + np.linalg.solve",
)
newton_step.wrong(
    "That is a step of gradient descent. Newton divides by the curvature: solve with the Hessian.",
    "np.linalg.solve(hessian(f, x), g.data)",
    "g.data",
)
newton_step.wrong(
    "You divide by the diagonal of the Hessian only, which drops the coupling between directions. Solve "
    "with the whole matrix.",
    "np.linalg.solve(hessian(f, x), g.data)",
    "g.data / np.diag(hessian(f, x))",
)
newton_step.wrong(
    "You multiply with the Hessian where you should divide by it: solve H s = g.",
    "np.linalg.solve(hessian(f, x), g.data)",
    "hessian(f, x) @ g.data",
)
newton_step.wrong(
    "That is the step itself. The function returns the new x.", "return x - np.linalg", "return -np.linalg"
)

largest_curvature = lesson.exercise(
    "largest_curvature",
    hints=(
        "What does a multiplication with H do to the components of v along H's eigenvectors?",
        "Each component is multiplied by its eigenvalue, so the largest wins. Divide v by its length each "
        "time, and return v^T H v at the end.",
        "v = hvp(f, x, v); v = v / np.linalg.norm(v) in the loop; at the end v @ hvp(f, x, v)",
    ),
    why="Above a learning rate of 2 divided by this curvature, gradient descent diverges along that "
    "direction.",
)


@largest_curvature.check("curvatures 1, 2 and 5, 60 steps")
def _(my, rng):
    scale = np.array([1.0, 2.0, 5.0])
    return my.largest_curvature(lambda x: 0.5 * (scale * x * x).sum(), rng.standard_normal(3), np.ones(3), 60)


@largest_curvature.check("before it has converged: 0, 1 and 3 steps, from a v of any length")
def _(my, rng):
    scale = np.array([1.0, 3.0, -2.0])
    x, v = rng.standard_normal(3), np.array([2.0, 1.0, 4.0])
    return [my.largest_curvature(lambda x: 0.5 * (scale * x * x).sum(), x, v, steps) for steps in (0, 1, 3)]


@largest_curvature.check("the eigenvalue of largest absolute value is negative; v is unchanged")
def _(my, rng):
    scale, v = np.array([1.0, -6.0]), np.array([1.0, 1.0])
    return my.largest_curvature(lambda x: 0.5 * (scale * x * x).sum(), np.zeros(2), v, 40), v


largest_curvature.wrong(
    "The length of H v is the absolute value of the curvature, without its sign. Take v^T H v.",
    "return v @ hvp(f, x, v)",
    "return np.linalg.norm(hvp(f, x, v))",
)
largest_curvature.wrong(
    "Divide v by its length in each step and before v^T H v. Otherwise the result is scaled by v's squared "
    "length.",
    body="""
for _ in range(steps):
    v = hvp(f, x, v)
return v @ hvp(f, x, v)
""",
)
largest_curvature.wrong(
    "You return the direction. Return the curvature along it, the number v^T H v.",
    "return v @ hvp(f, x, v)",
    "return v",
)
largest_curvature.wrong(
    "One step too many: the loop runs exactly `steps` times.", "range(steps)", "range(steps + 1)"
)

# ---------------------------------------------------------------- a loss with a gradient in it

gradient_penalty = lesson.exercise(
    "gradient_penalty",
    hints=(
        "Each row's value depends on that row only. How do you get the gradients of all rows with one call?",
        "Differentiate the sum of the critic's values with respect to x. Compute the length of each row "
        "with tensor operations, so that it keeps its history.",
        "(slopes,) = mg.grad(critic(x).sum(), x, create_graph=True); ((mg.sqrt((slopes * slopes).sum(-1)) - "
        "1) ** 2).mean()",
    ),
    why="This is a derivative by the weights of a derivative by the input. create_graph exists for that, "
    "and a detached value makes it silently wrong.",
)


@gradient_penalty.check("its value")
def _(my, rng):
    import minigrad as mg

    w = mg.tensor(rng.standard_normal((3, 4)))
    return float(my.gradient_penalty(lambda x: mg.tanh(x @ w).sum(-1), rng.standard_normal((5, 3))))


@gradient_penalty.check("does the result have a history (requires_grad)?")
def _(my, rng):
    import minigrad as mg

    w = mg.tensor(rng.standard_normal((3, 4)), requires_grad=True)
    penalty = my.gradient_penalty(lambda x: mg.tanh(x @ w).sum(-1), rng.standard_normal((5, 3)))
    return bool(getattr(penalty, "requires_grad", False))


@gradient_penalty.check("its gradient with respect to the critic's weights")
def _(my, rng):
    import minigrad as mg

    w, u = (mg.tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((3, 4), (4,)))
    penalty = my.gradient_penalty(lambda x: mg.tanh(x @ w) @ u, rng.standard_normal((5, 3)))
    return [g.data for g in mg.grad(penalty, (w, u))]


@gradient_penalty.check("a relu critic, a square batch, a single row")
def _(my, rng):
    import minigrad as mg

    w = mg.tensor(rng.standard_normal((3, 3)), requires_grad=True)
    found = []
    for rows in (3, 1):
        penalty = my.gradient_penalty(
            lambda x: mg.relu(x @ w + 1.0).sum(-1), rng.standard_normal((rows, 3)) * 0.3
        )
        found.append((penalty.item(), mg.grad(penalty, w)[0].data))
    return found


gradient_penalty.wrong(
    "The value is right, but it has no gradient for the weights. Use create_graph=True for the slopes, and "
    "no .data.",
    body="""
x = mg.tensor(x, requires_grad=True)
(slopes,) = mg.grad(critic(x).sum(), x)
lengths = np.sqrt((slopes.data**2).sum(-1))
return mg.tensor(((lengths - 1) ** 2).mean())
""",
)
gradient_penalty.wrong(
    "Each row has its own length: sum over the last axis, not over everything.",
    "(slopes * slopes).sum(-1)",
    "(slopes * slopes).sum()",
)
gradient_penalty.wrong(
    "You differentiate the mean of the critic's values, which makes every slope 1/N of what it is. Take the "
    "sum.",
    "critic(x).sum()",
    "critic(x).mean()",
)
gradient_penalty.wrong(
    "The root is missing: the penalty is on the *length* minus 1, and you take the squared length.",
    "mg.sqrt((slopes * slopes).sum(-1))",
    "(slopes * slopes).sum(-1)",
)
gradient_penalty.wrong(
    "Take the mean over the rows, not the sum.", "((lengths - 1) ** 2).mean()", "((lengths - 1) ** 2).sum()"
)

# ---------------------------------------------------------------- forward mode

jvp = lesson.exercise(
    "jvp",
    hints=(
        "J^T g is linear in g. What is the gradient of t . (J^T g) with respect to g?",
        "Compute J^T g with create_graph=True, for a g of zeros that requires a gradient. Multiply with t, "
        "sum, differentiate with respect to g.",
        "(pulled,) = mg.grad(y, x, g, create_graph=True), then mg.grad((pulled * t).sum(), g)",
    ),
    why="It is the transpose of a transpose. It gives forward derivatives to an engine that has only "
    "reverse rules. JAX does the opposite.",
)


@jvp.check("from polar to Cartesian coordinates")
def _(my, rng):
    import minigrad as mg

    def f(p):
        return mg.stack([p[0] * mg.cos(p[1]), p[0] * mg.sin(p[1])])

    return [my.jvp(f, np.array([2.0, 0.5]), np.array(t)) for t in ([1.0, 0.0], [0.0, 1.0], [3.0, -2.0])]


@jvp.check("five numbers in, three out")
def _(my, rng):
    import minigrad as mg

    w = mg.tensor(rng.standard_normal((3, 5)))
    return my.jvp(lambda x: mg.tanh(w @ x) * x[:3], rng.standard_normal(5), rng.standard_normal(5))


@jvp.check("as many in as out: J, not its transpose")
def _(my, rng):
    import minigrad as mg

    w = mg.tensor(rng.standard_normal((4, 4)))
    return my.jvp(lambda x: mg.exp(w @ x), rng.standard_normal(4) * 0.3, rng.standard_normal(4))


@jvp.check("how often f is called")
def _(my, rng):
    calls = []

    def f(x):
        calls.append(1)
        return x * x

    return my.jvp(f, rng.standard_normal(6), rng.standard_normal(6)), len(calls)


jvp.wrong(
    "That is J^T t, one vjp. It is right only if J is symmetric, and it cannot work if m is not n.",
    body="""
x = mg.tensor(x, requires_grad=True)
y = f(x)
(pulled,) = mg.grad(y, x, mg.tensor(np.resize(t, y.shape)))
return pulled.data
""",
)
jvp.wrong(
    "That is a finite difference: only about half of the digits are right. Use two vjps.",
    body="""
ahead, behind = f(mg.tensor(x + 1e-6 * t)), f(mg.tensor(x - 1e-6 * t))
return (ahead.data - behind.data) / 2e-6 * (1 + 1e-6)
""",
)
jvp.wrong(
    "t is missing: you use a vector of ones instead, so the result is the sum of J's columns.",
    "(pulled * t).sum()",
    "pulled.sum()",
)
jvp.wrong(
    "You differentiate with respect to x at the end. Differentiate with respect to g, in which J^T g is "
    "linear.",
    "(moved,) = mg.grad((pulled * t).sum(), g)",
    "(moved,) = mg.grad((pulled * t).sum() + (x * x).sum(), x)",
)

Dual = lesson.exercise(
    "Dual",
    hints=(
        "What is (a + b eps)(c + d eps), if eps^2 = 0? And what is (a + b eps) / (c + d eps) times (c + d "
        "eps)?",
        "Use the sum, product, quotient and chain rules. The value comes from the operation itself, the "
        "slope from its derivative times the slope inside.",
        "product: self.slope * other.value + self.value * other.slope; exp: math.exp(self.value) * "
        "self.slope",
    ),
    why="That is all of forward mode: no graph, no history. With few inputs and many outputs it is cheaper "
    "than reverse mode.",
)


@Dual.check("sums and products, with plain numbers on either side")
def _(my, rng):
    x, y = my.Dual(3.0, 1.0), my.Dual(-2.0, 0.5)
    return [
        [z.value, z.slope]
        for z in (x + y, x + 4.0, 4.0 + x, x * y, x * 5.0, 5.0 * x, x * x * x, x - y, 1.0 - x)
    ]


@Dual.check("quotients")
def _(my, rng):
    x, y = my.Dual(3.0, 1.0), my.Dual(-2.0, 0.5)
    return [[z.value, z.slope] for z in (x / y, x / 4.0, 4.0 / x, 1.0 / (x * x), y / y)]


@Dual.check("exp and sin")
def _(my, rng):
    x = my.Dual(0.7, 2.0)
    return [[z.value, z.slope] for z in (x.exp(), x.sin(), (x * x).sin(), (x.sin() * 2.0).exp())]


@Dual.check("all together: sin(x^2) / (1 + exp(-x))")
def _(my, rng):
    found = []
    for a in rng.standard_normal(4):
        x = my.Dual(float(a), 1.0)
        z = (x * x).sin() / (1.0 + (-x).exp())
        found.append([z.value, z.slope])
    return found


@Dual.check("the operands are unchanged")
def _(my, rng):
    x, y = my.Dual(3.0, 1.0), my.Dual(2.0, 0.5)
    x + y, x * y, x / y, x.exp(), x.sin()  # noqa: B018
    return x.value, x.slope, y.value, y.slope


Dual.wrong(
    "The slope of a product is not the product of the slopes: it is ad + bc, one factor's slope at a time.",
    "self.slope * other.value + self.value * other.slope",
    "self.slope * other.slope",
)
Dual.wrong(
    "In the quotient the other's slope has a minus sign: (b - value d) / c.",
    "(self.slope - value * other.slope) / other.value",
    "(self.slope + value * other.slope) / other.value",
)
Dual.wrong("The other's slope changes the quotient's slope too, not only its value.",
    "(self.slope - value * other.slope) / other.value", "self.slope / other.value")  # fmt: skip
Dual.wrong(
    "The chain rule is missing: multiply exp's derivative with the slope inside.",
    "value * self.slope)",
    "value)",
)
Dual.wrong(
    "The derivative of sin is cos, not sin.",
    "math.cos(self.value) * self.slope",
    "math.sin(self.value) * self.slope",
)
Dual.wrong("The slope of a sum is the sum of both slopes.", "self.slope + other.slope", "self.slope")
