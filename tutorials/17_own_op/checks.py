"""Checks of lesson 17."""

import numpy as np

from tutorials.course import Checks

lesson = Checks(uses=("minigrad",))

# ---------------------------------------------------------------- one rule

softplus_rules = lesson.exercise(
    "softplus_rules",
    hints=(
        "exp(y) = 1 + exp(x). What is 1 / (1 + exp(-x)) in terms of y?",
        "exp(x) / (1 + exp(x)) = (exp(y) - 1) / exp(y) = 1 - exp(-y). Written with expm1 it keeps its "
        "digits: -expm1(-y).",
        "return (lambda g, y, _x: ... ,) with g times -np.expm1(-y)",
    ),
    why="A rule that reads its value keeps one array instead of two, since the next op often keeps that "
    "value anyway. The rules of tanh, exp and sigmoid do the same.",
)


@softplus_rules.check("the gradient, with a random g")
def _(my, rng):
    (rule,) = my.softplus_rules()
    x = rng.standard_normal((3, 4)) * 2
    return rule(rng.standard_normal((3, 4)), my.softplus(x), x)


@softplus_rules.check("x of -30, 0 and 800: all digits right, no overflow")
def _(my, rng):
    (rule,) = my.softplus_rules()
    x = np.array([-30.0, 0.0, 800.0, -800.0])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        out = rule(np.array([1e13, 2.0, 3.0, 1.0]), my.softplus(x), x)
    return [float(number) for number in out]


@softplus_rules.check("which arrays the rule reads, and so keeps: (y?, x?)")
def _(my, rng):
    from minigrad.engine.table import Row

    return [bool(reads) for reads in Row(my.softplus, my.softplus_rules()).reads((True,))]


@softplus_rules.check("the second derivative, by the same rule on tensors")
def _(my, rng):
    import minigrad as mg

    x = mg.tensor(rng.standard_normal(5), requires_grad=True)
    with my.trial(my.softplus, *my.softplus_rules()):
        (g,) = mg.grad((my.softplus(x) ** 2).sum(), x, create_graph=True)
        (h,) = mg.grad((g * g).sum(), x)
    return g.data, h.data


softplus_rules.wrong(
    "The slope is right, but the rule reads x, so x must be kept, and exp(-x) overflows at x = -800. "
    "Express it by y.",
    body="return (lambda g, _y, x: g / (1 + np.exp(-x)),)",
)
softplus_rules.wrong(
    "You return the rule itself. Asked for is a tuple of one rule, (rule,): the comma makes it one.",
    body="return lambda g, y, _x: -g * np.expm1(-y)",
)
softplus_rules.wrong(
    "The incoming gradient g is missing: a rule returns g times the slope.",
    "-g * np.expm1(-y)",
    "-np.expm1(-y) + 0 * g",
)
softplus_rules.wrong(
    "For very negative x, exp(-y) is near 1, and 1 - exp(-y) loses digits. np.expm1 does not.",
    "-g * np.expm1(-y)",
    "g * (1 - np.exp(-y))",
)
softplus_rules.wrong(
    "The rule does not read x, so its name must begin with an underscore. Otherwise the engine keeps it.",
    "_x: -g",
    "x: -g",
)
softplus_rules.wrong(
    "The sign: expm1(-y) is negative, the slope of softplus is positive.",
    "-g * np.expm1(-y)",
    "g * np.expm1(-y)",
)

# ---------------------------------------------------------------- several arguments

blend_rules = lesson.exercise(
    "blend_rules",
    hints=(
        "What is the derivative of w x + (1 - w) y with respect to each of the three?",
        "w, 1 - w, and x - y, each times g. Which of the arguments does each rule read?",
        "lambda g, _z, _x, _y, w: g * w, and the others in the same way",
    ),
    why="No rule mentions broadcasting. It is undone in one place for all rules, so nobody can forget it "
    "in the forty-first.",
)


@blend_rules.check("the three gradients, all arguments of one shape")
def _(my, rng):
    x, y, w, g = (rng.standard_normal((3, 3)) for _ in range(4))
    return [rule(g, my.blend(x, y, w), x, y, w) for rule in my.blend_rules()]


@blend_rules.check("y a row, w a single number: through the engine")
def _(my, rng):
    import minigrad as mg

    x, y, w = (mg.tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((3, 4), (4,), ()))
    with my.trial(my.blend, *my.blend_rules()):
        gradients = mg.grad((my.blend(x, y, w) ** 2).sum(), (x, y, w))
    return [g.data for g in gradients]


@blend_rules.check("which arrays each rule reads, and so keeps: (the value?, x?, y?, w?)")
def _(my, rng):
    from minigrad.engine.table import Row

    row = Row(my.blend, my.blend_rules())
    return [[bool(reads) for reads in row.reads(tuple(i == j for j in range(3)))] for i in range(3)]


@blend_rules.check("second derivatives: the rules run on tensors")
def _(my, rng):
    import minigrad as mg

    x, y, w = (mg.tensor(rng.standard_normal(3), requires_grad=True) for _ in range(3))
    with my.trial(my.blend, *my.blend_rules()):
        first = mg.grad((my.blend(x, y, w) ** 2).sum(), (x, y, w), create_graph=True)
        second = mg.grad(sum((g * g).sum() for g in first), (x, y, w))
    return [g.data for g in second]


blend_rules.wrong("The rules of x and y are swapped: x is weighted by w, y by 1 - w.", body="""
return (
    lambda g, _z, _x, _y, w: g * (1 - w),
    lambda g, _z, _x, _y, w: g * w,
    lambda g, _z, x, y, _w: g * (x - y),
)
""")  # fmt: skip
blend_rules.wrong(
    "The slope with respect to w is x - y, since (1 - w) y contributes -y. Your sign is the opposite, or y "
    "is missing.",
    "g * (x - y)",
    "g * (y - x)",
)
blend_rules.wrong(
    "w occurs in (1 - w) y as well, so its slope is x - y.",
    "lambda g, _z, x, y, _w: g * (x - y)",
    "lambda g, _z, x, _y, _w: g * x",
)
blend_rules.wrong(
    "The gradients are right, but the rules keep every array: put an underscore before each name the rule "
    "does not read.",
    body="""
return (
    lambda g, z, x, y, w: g * w,
    lambda g, z, x, y, w: g * (1 - w),
    lambda g, z, x, y, w: g * (x - y),
)
""",
)
blend_rules.wrong(
    "You sum over the first axis yourself. Leave that to the engine: only it knows which axes were "
    "stretched.",
    body="""
return (
    lambda g, _z, _x, _y, w: (g * w).sum(axis=0),
    lambda g, _z, _x, _y, w: (g * (1 - w)).sum(axis=0),
    lambda g, _z, x, y, _w: (g * (x - y)).sum(axis=0),
)
""",
)

# ---------------------------------------------------------------- a reduction

log_sum_exp_rules = lesson.exercise(
    "log_sum_exp_rules",
    hints=(
        "What are the shapes of g, y and x? What must you do to g before you can multiply it with an array "
        "of x's shape?",
        "softmax(x) = exp(x - y). Put the axis back into y first, and into g too.",
        "lambda g, y, x, axis=-1: np.expand_dims(g, axis) * np.exp(x - np.expand_dims(y, axis))",
    ),
    why="Rules of reductions are easy to get wrong: without the axis, g broadcasts against the wrong one, "
    "and on a square array there is no error.",
)


@log_sum_exp_rules.check("over the last axis")
def _(my, rng):
    (rule,) = my.log_sum_exp_rules()
    x = rng.standard_normal((3, 4))
    return rule(rng.standard_normal(3), my.log_sum_exp(x), x)


@log_sum_exp_rules.check("a square array, over either axis")
def _(my, rng):
    (rule,) = my.log_sum_exp_rules()
    x, g = rng.standard_normal((3, 3)), rng.standard_normal(3)
    return rule(g, my.log_sum_exp(x, axis=0), x, axis=0), rule(g, my.log_sum_exp(x), x)


@log_sum_exp_rules.check("a batch, over the middle axis; large numbers")
def _(my, rng):
    (rule,) = my.log_sum_exp_rules()
    x = rng.standard_normal((2, 5, 3)) * 1000
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        return rule(rng.standard_normal((2, 3)), my.log_sum_exp(x, axis=1), x, axis=1)


@log_sum_exp_rules.check("the second derivative, by the same rule on tensors")
def _(my, rng):
    import minigrad as mg

    x = mg.tensor(rng.standard_normal((2, 3)), requires_grad=True)
    with my.trial(my.log_sum_exp, *my.log_sum_exp_rules()):
        (g,) = mg.grad((my.log_sum_exp(x, axis=0) ** 2).sum(), x, create_graph=True)
        (h,) = mg.grad((g * g).sum(), x)
    return g.data, h.data


log_sum_exp_rules.wrong(
    "g and y lack the axis that was summed, so they broadcast along the wrong axis of x. Put it back with "
    "np.expand_dims(g, axis).",
    body="return (lambda g, y, x, axis=-1: g * np.exp(x - y),)",
)
log_sum_exp_rules.wrong(
    "You always put the axis back as the last one. Use the axis that was passed to the rule.",
    body="return (lambda g, y, x, axis=-1: np.expand_dims(g, -1) * np.exp(x - np.expand_dims(y, -1)),)",
)
log_sum_exp_rules.wrong(
    "You return the rule itself. Asked for is a tuple of one rule, (rule,): the comma makes it one.",
    body="return lambda g, y, x, axis=-1: np.expand_dims(g, axis) * np.exp(x - np.expand_dims(y, axis))",
)
log_sum_exp_rules.wrong(
    "exp(x) overflows for large x. Use the value y: softmax(x) is exp(x - y).",
    body="return (lambda g, y, x, axis=-1: np.expand_dims(g, axis) * np.exp(x) / np.exp(np.expand_dims(y, axis)),)",
)
log_sum_exp_rules.wrong(
    "g is missing: multiply exp(x - y) with the incoming gradient.",
    "np.expand_dims(g, axis) * np.exp",
    "np.exp",
)

# ---------------------------------------------------------------- not the derivative, on purpose

clamp_rules = lesson.exercise(
    "clamp_rules",
    hints=(
        "Without the clamp, what would the gradient of x be?",
        "It is g itself, whatever low and high are. What does a row hold for an argument without a gradient?",
        "return (lambda g, _y, _x, _low, _high: ..., None, None)",
    ),
    why="Networks with rounded or binary weights contain functions whose slope is 0 everywhere. With the "
    "straight-through rule they can be trained. A gradient checker rejects that rule, and should: it "
    "is not the derivative.",
)


@clamp_rules.check("the gradient passes inside and outside")
def _(my, rng):
    rule = my.clamp_rules()[0]
    x = np.array([-3.0, -1.0, 0.2, 1.0, 5.0])
    return rule(rng.standard_normal(5), my.clamp(x, -1.0, 1.0), x, -1.0, 1.0)


@clamp_rules.check("which arguments have a rule")
def _(my, rng):
    return [rule is not None for rule in my.clamp_rules()]


@clamp_rules.check("through the engine, after another op; which arrays are kept")
def _(my, rng):
    import minigrad as mg
    from minigrad.engine.table import Row

    x = mg.tensor(rng.standard_normal((2, 3)) * 3, requires_grad=True)
    with my.trial(my.clamp, *my.clamp_rules()):
        (g,) = mg.grad((my.clamp(x * 2, -1.0, 1.0) ** 2).sum(), x)
    return g.data, [bool(reads) for reads in Row(my.clamp, my.clamp_rules()).reads((True, False, False))]


clamp_rules.wrong(
    "That is the true derivative, which is 0 outside. Straight-through means that the gradient passes "
    "everywhere.",
    "lambda g, _y, _x, _low, _high: g,",
    "lambda g, _y, x, low, high: g * ((x >= low) & (x <= high)),",
)
clamp_rules.wrong(
    "You return one rule. The row needs one entry for each of the three arguments: a tuple of the rule, "
    "None and None.",
    body="return lambda g, _y, _x, _low, _high: g",
)
clamp_rules.wrong(
    "You return the slope 1. A rule returns g times the slope, so here g itself.",
    "_high: g,",
    "_high: np.ones_like(g),",
)
clamp_rules.wrong(
    "low and high are settings without a gradient: their entries in the row are None.",
    "None, None",
    "lambda g, _y, _x, _low, _high: 0 * g, lambda g, _y, _x, _low, _high: 0 * g",
)
clamp_rules.wrong(
    "Without underscores the engine keeps x and y, which this rule never reads.",
    "_y, _x, _low, _high: g",
    "y, x, low, high: g",
)
clamp_rules.wrong("You clamp the gradient. Only the value is clamped; the gradient passes unchanged.",
    "lambda g, _y, _x, _low, _high: g,", "lambda g, _y, _x, low, high: np.clip(g, low / 4, high / 4),")  # fmt: skip

# ---------------------------------------------------------------- several values

polar_rules = lesson.exercise(
    "polar_rules",
    hints=(
        "x has an influence on both values. By the chain rule, how do the gradients of radius and angle "
        "give that of x?",
        "Add up over the values: g[0] times dr/dx plus g[1] times d(angle)/dx.",
        "lambda g, z, x, y: g[0] * x / z[0] - g[1] * y / z[0] ** 2, and for y likewise with its own slopes",
    ),
    why="split, topk, LSTM and attention with its weights are all ops with several values.",
)


@polar_rules.check("both gradients, from both values")
def _(my, rng):
    x, y = rng.standard_normal((2, 4)) + 3
    z, g = my.polar(x, y), tuple(rng.standard_normal((2, 4)))
    return [rule(g, z, x, y) for rule in my.polar_rules()]


@polar_rules.check("only the angle is used; points in all four quadrants")
def _(my, rng):
    import minigrad as mg

    x, y = (
        mg.tensor(np.array(values), requires_grad=True)
        for values in ([1.0, -2.0, -0.5, 2.0], [0.5, 1.0, -2.0, -1.0])
    )
    with my.trial(my.polar, *my.polar_rules()):
        gradients = mg.grad(my.polar(x, y)[1].sum(), (x, y))
    return [g.data for g in gradients]


@polar_rules.check("only the radius; its second derivative")
def _(my, rng):
    import minigrad as mg

    x, y = (mg.tensor(rng.standard_normal(3) + 2, requires_grad=True) for _ in range(2))
    with my.trial(my.polar, *my.polar_rules()):
        (g,) = mg.grad(my.polar(x, y)[0].sum(), x, create_graph=True)
        (h,) = mg.grad((g * g).sum(), x)
    return g.data, h.data


polar_rules.wrong("Both values depend on x: add the angle's contribution, with g[1].", body="""
return (lambda g, z, x, y: g[0] * x / z[0], lambda g, z, x, y: g[0] * y / z[0])
""")  # fmt: skip
polar_rules.wrong("The sign of d(angle)/dx is wrong: a point above the axis that moves right turns clockwise.",
    "g[0] * x / z[0] - g[1] * y / z[0] ** 2", "g[0] * x / z[0] + g[1] * y / z[0] ** 2")  # fmt: skip
polar_rules.wrong("The slope of the angle is divided by r squared, not by r.", body="""
return (lambda g, z, x, y: (g[0] * x - g[1] * y) / z[0], lambda g, z, x, y: (g[0] * y + g[1] * x) / z[0])
""")  # fmt: skip
polar_rules.wrong("The two rules are swapped: the first is the rule of x.", body="""
return (
    lambda g, z, x, y: g[0] * y / z[0] + g[1] * x / z[0] ** 2,
    lambda g, z, x, y: g[0] * x / z[0] - g[1] * y / z[0] ** 2,
)
""")  # fmt: skip

# ---------------------------------------------------------------- a kernel

rms_norm_kernel = lesson.exercise(
    "rms_norm_kernel",
    hints=(
        "x[i, j] enters the values of its row in two ways. Which are they?",
        "Directly, and through the scale, which contains the mean of squares: d(scale)/dx[i, j] = -scale^3 "
        "x[i, j] / C.",
        "dx = scale * (h - xhat * (h * xhat).mean(axis=-1, keepdims=True)), h = g * weight; dweight = (g * "
        "xhat).sum(axis=0)",
    ),
    why="Each block of LLaMA contains two RMSNorms. A kernel replaces seven ops with one.",
)


@rms_norm_kernel.check("forward")
def _(my, rng):
    forward, _ = my.rms_norm_kernel()
    return forward(rng.standard_normal((3, 4)), rng.standard_normal(4), 1e-6)[0]


@rms_norm_kernel.check("backward, a square array")
def _(my, rng):
    forward, backward = my.rms_norm_kernel()
    x, weight, g = rng.standard_normal((4, 4)), rng.standard_normal(4), rng.standard_normal((4, 4))
    y, saved = forward(x, weight, 0.1)
    return list(backward(g, y, saved, (True, True, False), x, weight, 0.1))[:2]


@rms_norm_kernel.check("only the gradients that are needed; None for eps")
def _(my, rng):
    forward, backward = my.rms_norm_kernel()
    x, weight, g = rng.standard_normal((3, 4)), rng.standard_normal(4), rng.standard_normal((3, 4))
    y, saved = forward(x, weight, 1e-6)
    found = [
        backward(g, y, saved, needs, x, weight, 1e-6)
        for needs in ((True, False, False), (False, True, False))
    ]
    return [[d is not None for d in gradients] for gradients in found]


@rms_norm_kernel.check("g, x and weight are unchanged; a row of zeros works")
def _(my, rng):
    forward, backward = my.rms_norm_kernel()
    x, weight, g = rng.standard_normal((3, 4)), rng.standard_normal(4), rng.standard_normal((3, 4))
    x[1] = 0
    y, saved = forward(x, weight, 1e-6)
    found = backward(g, y, saved, (True, True, False), x, weight, 1e-6)
    return g, x, weight, found[0][1]


def rms_norm(x, weight, eps):
    return weight * x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)


@rms_norm_kernel.gradcheck(
    forward=rms_norm, inputs=lambda rng: [rng.standard_normal((3, 5)), rng.standard_normal(5), 1e-3]
)
def _(my, g, x, weight, eps):
    forward, backward = my.rms_norm_kernel()
    y, saved = forward(x, weight, eps)
    return tuple(backward(g, y, saved, (True, True, False), x, weight, eps)[:2])


rms_norm_kernel.wrong(
    "x also enters through the scale, which contains the mean of squares: the second term, xhat mean(h "
    "xhat), is missing.",
    "scale * (h - xhat * (h * xhat).mean(axis=-1, keepdims=True))",
    "scale * h",
)
rms_norm_kernel.wrong(
    "The second term has the mean over the row, not the sum: the mean of squares contains 1/C.",
    "(h * xhat).mean(axis=-1, keepdims=True)",
    "(h * xhat).sum(axis=-1, keepdims=True)",
)
rms_norm_kernel.wrong(
    "xhat is multiplied with weight, so its gradient is h = g * weight.",
    "xhat, h = x * scale, g * weight",
    "xhat, h = x * scale, g",
)
rms_norm_kernel.wrong(
    "The weight is multiplied with xhat, the normalized x, not with x itself.",
    "(g * xhat).sum(axis=0)",
    "(g * x).sum(axis=0)",
)
rms_norm_kernel.wrong(
    "You compute gradients that nobody needs. Where needs is False, return None.",
    body="""
def forward(x, weight, eps):
    scale = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    return x * scale * weight, scale

def backward(g, y, scale, needs, x, weight, eps):
    xhat, h = x * scale, g * weight
    return scale * (h - xhat * (h * xhat).mean(axis=-1, keepdims=True)), (g * xhat).sum(axis=0), None

return forward, backward
""",
)
rms_norm_kernel.wrong(
    "You write into g, which other parts of the graph may share. Make a new array.",
    "xhat, h = x * scale, g * weight",
    "xhat = x * scale; h = g; h *= weight",
)

# ---------------------------------------------------------------- a checker of your own

row_is_right = lesson.exercise(
    "row_is_right",
    hints=(
        "Lesson 04 does this for a function of one argument. What changes with several arguments, and with "
        "a g?",
        "For each element of each argument: shift it by h and by -h, sum g times the difference of the two "
        "values, and divide by 2h. Compare the result with summed_to(rule(g, y, *args), argument's shape).",
        "numeric[place] = (g * (fun(*args[:i], args[i] + step, *args[i + 1:]) - fun(... - step ...))).sum() "
        "/ (2 * h)",
    ),
    why="A row without a sample is a row that nobody has checked. minigrad's tests check the whole table "
    "with such a function. They also put a mistake into each rule and see that it is caught.",
)


@row_is_right.check("right rows, with one and two arguments, some of them stretched")
def _(my, rng):
    rows = [
        (np.tanh, [lambda g, y, x: g * (1 - y * y)], [(3, 2)]),
        (np.multiply, [lambda g, z, x, y: g * y, lambda g, z, x, y: g * x], [(3, 2), (2,)]),
        (np.hypot, [lambda g, z, x, y: g * x / z, lambda g, z, x, y: g * y / z], [(2, 1), (1, 3)]),
        (np.multiply, [None, lambda g, z, x, y: g * x], [(2,), (2,)]),
    ]
    found = []
    for fun, rules, shapes in rows:
        args = [rng.standard_normal(shape) for shape in shapes]
        found.append(bool(my.row_is_right(fun, rules, args, rng.standard_normal(fun(*args).shape))))
    return found


@row_is_right.check(
    "wrong rules: scaled by 1.001, the wrong sign, g forgotten, rules swapped, only the second one wrong"
)
def _(my, rng):
    rows = [
        (np.tanh, [lambda g, y, x: 1.001 * g * (1 - y * y)], 1),
        (np.tanh, [lambda g, y, x: -g * (1 - y * y)], 1),
        (np.tanh, [lambda g, y, x: 1 - y * y], 1),
        (np.multiply, [lambda g, z, x, y: g * x, lambda g, z, x, y: g * y], 2),
        (np.multiply, [lambda g, z, x, y: g * y, lambda g, z, x, y: 0 * g], 2),
        (np.multiply, [None, lambda g, z, x, y: 2 * g * x], 2),
    ]
    found = []
    for fun, rules, count in rows:
        args = [rng.standard_normal((2, 3)) for _ in range(count)]
        found.append(bool(my.row_is_right(fun, rules, args, rng.standard_normal((2, 3)))))
    return found


@row_is_right.check("a softmax whose rule gives zeros: only a random g shows it")
def _(my, rng):
    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    g = rng.standard_normal((2, 4))
    right = my.row_is_right(
        softmax, [lambda g, y, x: y * (g - (g * y).sum(-1, keepdims=True))], [rng.standard_normal((2, 4))], g
    )
    wrong = my.row_is_right(softmax, [lambda g, y, x: 0 * g], [rng.standard_normal((2, 4))], g)
    return bool(right), bool(wrong)


@row_is_right.check("a single wrong element among many")
def _(my, rng):
    def rule(g, y, x):
        out = g * (1 - y * y)
        out[1, 2] += 1e-3
        return out

    return bool(my.row_is_right(np.tanh, [rule], [rng.standard_normal((3, 4))], rng.standard_normal((3, 4))))


@row_is_right.check("the arguments are unchanged")
def _(my, rng):
    args = [rng.standard_normal((2, 3)), rng.standard_normal((2, 3))]
    my.row_is_right(
        np.multiply, [lambda g, z, x, y: g * y, lambda g, z, x, y: g * x], args, rng.standard_normal((2, 3))
    )
    return args


row_is_right.wrong(
    "g is missing from the differences. Without it you compare with the gradient of the plain sum, and a "
    "softmax whose rule returns zeros passes.",
    body="""
y, g = fun(*args), np.ones_like(g)
for i, rule in enumerate(rules):
    if rule is None:
        continue
    numeric = np.zeros_like(args[i])
    for place in np.ndindex(args[i].shape):
        step = np.zeros_like(args[i])
        step[place] = h
        ahead, behind = (fun(*args[:i], args[i] + s, *args[i + 1 :]) for s in (step, -step))
        numeric[place] = (ahead - behind).sum() / (2 * h)
    given = summed_to(rule(g, y, *args), args[i].shape)
    if not np.abs(given - numeric).max() <= 1e-6 * max(1, np.abs(numeric).max()):
        return False
return True
""",
)
row_is_right.wrong(
    "You stop after the first argument. The other rules must be right too.",
    body="""
y = fun(*args)
numeric = np.zeros_like(args[0])
for place in np.ndindex(args[0].shape):
    step = np.zeros_like(args[0])
    step[place] = h
    numeric[place] = (g * (fun(args[0] + step, *args[1:]) - fun(args[0] - step, *args[1:]))).sum() / (2 * h)
if rules[0] is None:
    return True
given = summed_to(rules[0](g, y, *args), args[0].shape)
return bool(np.abs(given - numeric).max() <= 1e-6 * max(1, np.abs(numeric).max()))
""",
)
row_is_right.wrong(
    "A rule with a single wrong element is wrong: compare the largest difference, not the mean.",
    "np.abs(given - numeric).max() <= 1e-6",
    "np.abs(given.mean() - numeric.mean()) <= 1e-3",
)
row_is_right.wrong("The difference of f(x + h) and f(x - h) spans 2h: divide by that.", "/ (2 * h)", "/ h")
row_is_right.wrong(
    "Your tolerance is too large: a rule that is wrong by a thousandth passes. In float64, central "
    "differences have far more correct digits.",
    "1e-6 * max(1, np.abs(numeric).max())",
    "1e-2 * max(1, np.abs(numeric).max())",
)
