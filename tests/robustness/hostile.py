"""Names, numbers, shapes and other values that no honest checkpoint holds, and JSON with them in it."""

import json
import re
from random import Random
from typing import Any

NAMES = [
    *("", ".", "..", "../../x", "/etc/passwd", "/dev/zero", "steps/../../x", "steps/5.safetensors", "__metadata__"),
    *("__class__", "__init__", "key", "self", "kind", "a\0b", "\ud800", "x" * 5000, "[/red]", "{0.__class__}", "%s%n"),
    *(
        "$(touch x)",
        "; touch x",
        "num_layers",
        "num_loops",
        "input_dim",
        "attention.W_K",
        "layers.0.W_K",
        "\u202e\u0000",
    ),
]
NUMBERS = [
    *(0, -1, 1, 2, 3, 7, 1000, 10**5, 10**8, 10**9, 10**12, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63)),
    *(10**30, 10**400, 0.0, -0.5, 1e-300, 1e300, float("nan"), float("inf"), float("-inf")),
]
DTYPES = [
    "BOOL",
    "U8",
    "I8",
    "I16",
    "F16",
    "BF16",
    "F32",
    "F64",
    "I64",
    "U64",
    "F8_E4M3",
    "F4",
    "C64",
    "f32",
    "",
    "object",
]

# Levels of JSON: more than `nested` makes, and far fewer than Python follows, for how many it follows depends on the stack at that moment.
DEEPEST = 420


def shape(random: Random) -> list[Any]:
    """A shape that is wrong, or too large, or whose size overflows."""
    return random.choice(
        [
            *(
                [],
                [0],
                [1],
                [-1],
                [4, 4],
                [1] * 100,
                [0, 2**63],
                [0, 2**64 - 1],
                [2**32, 2**32],
                [2**33, 2**33, 0],
                [10**6, 10**6],
            ),
            *([2**64], [1.5], ["4"], [None], [[1]], [10**400], [True], [1] * 33),
            [random.choice(NUMBERS) for _ in range(random.randint(1, 4))],
        ]
    )


def change_somewhere(tree: Any, random: Random) -> Any:
    """`tree` with one entry, at a random place, replaced, renamed, dropped or repeated."""
    if isinstance(tree, dict) and tree and random.random() < 0.85:
        name = random.choice(sorted(tree))
        match random.randrange(8):
            case 0:
                return {entry: v for entry, v in tree.items() if entry != name}
            case 1:
                return {random.choice(NAMES) if entry == name else entry: v for entry, v in tree.items()}
            case 2:
                return tree | {random.choice(NAMES): value(random)}
            case _:
                return tree | {name: change_somewhere(tree[name], random)}
    if isinstance(tree, list) and tree and random.random() < 0.7:
        index = random.randrange(len(tree))
        return [*tree[:index], change_somewhere(tree[index], random), *tree[index + 1 :]]
    return value(random)


def value(random: Random) -> Any:
    """A value that does not belong."""
    return random.choice(
        [random.choice(NUMBERS), random.choice(NAMES), None, True, [], {}, [1, 2], {"kind": "recipe"}, nested(random)]
    )


def nested(random: Random) -> Any:
    """Lists in lists, or objects in objects."""
    inner: Any = 0
    for _ in range(random.choice([5, 50, 300, 400])):
        inner = [inner] if random.random() < 0.5 else {"kind": inner}
    return inner


def parsed(data: bytes) -> Any:
    """What JSON says; nothing where it is not valid, or deeper than `DEEPEST`."""
    try:
        return json.loads(data) if _depth_of_text(data) <= DEEPEST else {}
    except ValueError:
        return {}


def written(tree: Any) -> bytes:
    """A tree as JSON; an empty one where it is deeper than `DEEPEST`."""
    return json.dumps(tree).encode() if _depth_of_tree(tree) <= DEEPEST else b"{}"


def _depth_of_text(data: bytes) -> int:
    depth = deepest = 0
    for bracket in re.findall(rb"[][{}]", re.sub(rb'"(?:[^"\\]|\\.)*"', b"", data, flags=re.DOTALL)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _depth_of_tree(tree: Any) -> int:
    depth, level = 0, [tree]
    while level := [node for node in level if isinstance(node, dict | list)]:
        depth += 1
        level = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]
    return depth
