"""Damage to checkpoint files: by accident, as truncation and flipped bytes, and by malice, as headers and cards that lie.

Every function draws from a `random.Random` and depends on nothing else, so that a seed makes the same damage again.
"""

import struct
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from hostile import DTYPES, NAMES, NUMBERS, change_somewhere, nested, parsed, shape, value, written
from safetensors import SafetensorError

from iclzoo.zoo.storage.card import CARD_FILE
from iclzoo.zoo.storage.checkpoint import fingerprint
from iclzoo.zoo.storage.tensors import described, from_bytes

Files = dict[str, bytes]

# Objects that a careless reader would turn into code.
PICKLE = b"\x80\x04cos\nsystem\n(S'touch x'\ntR."


def damage(files: Files, random: Random) -> Files:
    """Some of a checkpoint's files damaged, one to three times over; in half of the cases, the card's hashes are made to fit."""
    damaged = dict(files)
    for _ in range(random.randint(1, 3)):
        file = random.choice([CARD_FILE, *sorted(damaged)])
        change = random.choice(CARD_CHANGES if file == CARD_FILE else TENSOR_CHANGES)
        damaged[file] = change(damaged[file], random)
    return made_to_fit(damaged) if random.random() < 0.5 else damaged


def made_to_fit(files: Files) -> Files:
    """The same files with the lengths, hashes and tensors they have on the card, where the card can still be read."""
    card = parsed(files[CARD_FILE])
    if not isinstance(card, dict) or not isinstance(card.get("files"), dict):
        return files
    card["files"] |= {name: fingerprint(data) for name, data in files.items() if name != CARD_FILE}
    with suppress(SafetensorError, ValueError, OverflowError):  # what cannot be read has no description
        card["tensors"] = dict(sorted(described(from_bytes(files["model.safetensors"])).items()))
    return {**files, CARD_FILE: written(card)}


# Bytes of any file.


def truncate(data: bytes, random: Random) -> bytes:
    return data[: random.randint(0, len(data))]


def flip(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, 8) if data else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def flip_early(data: bytes, random: Random) -> bytes:
    return flip(data[:64], random) + data[64:]


def splice(data: bytes, random: Random) -> bytes:
    """A stretch cut out, copied elsewhere, or overwritten with one byte."""
    start, end = sorted(random.randint(0, len(data)) for _ in range(2))
    at = random.randint(0, len(data))
    piece = data[start:end]
    return random.choice(
        [
            data[:start] + data[end:],
            data[:at] + piece + data[at:],
            data[:start] + bytes([random.randrange(256)]) * len(piece) + data[end:],
        ]
    )


def replace_all(data: bytes, random: Random) -> bytes:
    """Another kind of file altogether."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    return random.choice(
        [
            b"",
            b"\0" * len(data),
            b"\xff" * 64,
            random.randbytes(200),
            PICKLE,
            b"PK\3\4" + data,
            b"<!DOCTYPE html>",
            pointer,
            data * 3,
        ]
    )


BYTE_CHANGES: list[Callable[[bytes, Random], bytes]] = [truncate, flip, flip_early, splice, replace_all]


# The header of a safetensors file.


def lie_about_length(data: bytes, random: Random) -> bytes:
    """Another length of the header."""
    length = random.choice(
        [0, 1, 7, 10**8, 10**8 + 1, 2**31, 2**32, 2**63, 2**64 - 1, len(data), max(0, len(data) - 8)]
    )
    return struct.pack("<Q", length) + data[8:]


def lie_in_header(data: bytes, random: Random) -> bytes:
    """One or more entries of the header changed: dtype, shape, offsets, names, metadata."""
    header, body = _split(data)
    if not isinstance(header, dict):
        return flip(data, random)
    for _ in range(random.randint(1, 3)):
        tensors = [name for name, entry in header.items() if isinstance(entry, dict) and "dtype" in entry]
        name = random.choice(tensors) if tensors else ""
        entry = header[name] if tensors else {}
        match random.randrange(8):
            case 0:
                header[name] = entry | {"dtype": random.choice(DTYPES)}
            case 1:
                header[name] = entry | {"shape": shape(random)}
            case 2:
                header[name] = entry | {"data_offsets": [random.choice([0, 64, len(body), *NUMBERS]) for _ in range(2)]}
            case 3 if tensors:
                header[random.choice(NAMES)] = header.pop(name)
            case 4 if tensors:
                header.pop(name)
            case 5:
                count = random.choice([1, 10, 2000])
                extra = {
                    "dtype": "F32",
                    "shape": random.choice([[0], [0, 2**40], [1]]),
                    "data_offsets": [len(body)] * 2,
                }
                header |= {f"{random.choice(NAMES)}{i}": extra for i in range(count)}
            case 6:
                header["__metadata__"] = random.choice(
                    [{"a": "x" * 10**5}, {n: n for n in NAMES}, {"a": 1}, [], nested(random), None]
                )
            case _:
                header = change_somewhere(header, random)
        if not isinstance(header, dict):
            break
    text = written(header).decode()
    if random.random() < 0.1:  # every entry twice
        text = text[:-1] + ", " + text[1:] if len(text) > 2 else text
    if random.random() < 0.1:
        text += " " * random.choice([1, 7, 8, 10**5])
    return struct.pack("<Q", len(text.encode())) + text.encode() + body


TENSOR_CHANGES = [*BYTE_CHANGES, lie_about_length, lie_in_header, lie_in_header, lie_in_header, lie_in_header]


# The card.


def lie_on_card(data: bytes, random: Random) -> bytes:
    """Entries anywhere on the card changed."""
    card = parsed(data)
    for _ in range(random.randint(1, 3)):
        card = change_somewhere(card, random)
    return written(card)


def lie_in_hyperparameters(data: bytes, random: Random) -> bytes:
    """A hyperparameter, or the model's name, changed: also one that asks for more than any machine has."""
    card = parsed(data)
    if isinstance(card, dict) and isinstance(card.get("hyperparameters"), dict):
        if random.random() < 0.3:
            models = [
                "lsa",
                "recurrent_lsa",
                "deep_lsa",
                "transformer",
                "copying_transformer",
                "sparse_lsa",
                "mlp_lsa",
                "lstm",
            ]
            card["model"] = random.choice([*models, "", "lsaa", "os.system"])
        names = [
            *card["hyperparameters"],
            "num_layers",
            "num_loops",
            "num_heads",
            "head_dim",
            "embed_dim",
            random.choice(NAMES),
        ]
        for _ in range(random.randint(1, 3)):
            card["hyperparameters"][random.choice(names)] = value(random)
    return written(card)


def lie_about_files(data: bytes, random: Random) -> bytes:
    """Names outside the folder, lengths that are wrong, steps that were never kept."""
    card = parsed(data)
    if isinstance(card, dict):
        part = random.choice(["files", "tensors", "steps"])
        if part == "steps":
            card["steps"] = [random.choice([*NUMBERS, 0, 5, True, "0", None]) for _ in range(random.randint(0, 5))]
        elif isinstance(card.get(part), dict):
            entry = random.choice(
                [{"bytes": random.choice(NUMBERS), "sha256": "0" * 64}, "float32[4,4]", value(random)]
            )
            card[part][random.choice([*NAMES, "steps/7.safetensors", "model.safetensors"])] = entry
    return written(card)


def nest_deeply(data: bytes, random: Random) -> bytes:
    """More brackets than a parser can follow, or digits than a number may have, in place of a value."""
    depth = random.choice([500, 900, 2000, 10**5])
    deep = random.choice(
        [b"[" * depth + b"]" * depth, b'{"a":' * depth + b"0" + b"}" * depth, b"[" * depth, b"9" * depth]
    )
    return data.replace(random.choice([b'"description": ""', b"null", b"1", b"[]", b"0"]), deep, 1)


CARD_CHANGES = [
    *(*BYTE_CHANGES, nest_deeply, lie_on_card, lie_on_card, lie_about_files, lie_about_files),
    *(lie_in_hyperparameters, lie_in_hyperparameters, lie_in_hyperparameters),
]


def _split(data: bytes) -> tuple[Any, bytes]:
    """The header of a safetensors file, and what follows it."""
    length = min(int.from_bytes(data[:8], "little"), len(data))
    return parsed(data[8 : 8 + length]), data[8 + length :]
