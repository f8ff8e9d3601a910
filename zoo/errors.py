"""The errors users meet: each says what was expected, what came, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches

if not (__package__ or "").startswith("iclzoo."):
    raise ImportError("this folder is imported as iclzoo.zoo: a second copy of its classes would fit nothing")


LONGEST_QUOTE = 300
MOST_NAMES = 20


class ZooError(Exception):
    """Anything a user can put right. The command line prints it on one line."""


class ZooWarning(UserWarning):
    """What a user should know, and nothing that stops the work. The command line prints it on one line."""


class UnknownNameError(ZooError, LookupError):
    """A name that is not in its list."""


class ShapeError(ZooError, ValueError):
    """An array of another shape than the model reads."""


class ArgumentError(ZooError, TypeError):
    """An argument of another kind than the function takes."""


class ContractError(ZooError, TypeError):
    """A model that cannot join the zoo; the message names the clause of the contract it breaks."""


class NotApplicable(ZooError):
    """An instrument has nothing to say of this learner or task; the message says why."""


class ConfigError(ZooError, ValueError):
    """A setting that is misspelt, of the wrong type, or out of range."""


class ExistsError(ZooError, FileExistsError):
    """A path that would be overwritten."""


class PathError(ZooError, ValueError):
    """What no file or folder can be called."""


class NoFileError(ZooError, OSError):
    """A folder, a device or a pipe where a file should be."""


class TooLargeError(ZooError, OSError):
    """A file of more bytes than it can have."""


class WriteError(ZooError, OSError):
    """What the system does not let be written; what was there is untouched."""

    def __str__(self) -> str:
        return f"cannot write to {self.filename}: {self.strerror}"


class HeadError(ZooError, IndexError):
    """An attention head that a layer does not have."""


class CheckpointError(ZooError, ValueError):
    """A checkpoint that cannot be read."""


class NotACheckpointError(CheckpointError):
    """A folder without a card, or a folder where a file should be."""


class MissingFileError(CheckpointError):
    """A file the card lists is not there."""


class MissingStepError(CheckpointError):
    """A point of training that was not kept."""


class EmptyFileError(CheckpointError):
    """A file of no bytes."""


class GitLFSPointerError(CheckpointError):
    """A Git-LFS pointer where the data should be."""


class TruncatedFileError(CheckpointError):
    """A file that ends too early."""


class CorruptFileError(CheckpointError):
    """A file whose content is not what its card recorded."""


class CardError(CheckpointError):
    """A card that is no valid card."""


class MismatchError(CheckpointError):
    """Tensors that do not fit the architecture on the card."""


class PrecisionError(CheckpointError):
    """64-bit tensors while JAX is set to 32 bits."""


class RunError(ZooError):
    """A training run that cannot start, go on, or finish."""


def said_by(error: BaseException) -> str:
    """What another library's error says, as one short line of printable text: it may quote whatever a file holds."""
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(error))
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


def closest(name: object, known: Iterable[str]) -> str:
    """The part of a message that helps with a misspelt name: those most like it, or those there are."""
    known = sorted(known)
    more = [f"and {len(known) - MOST_NAMES} more"] if len(known) > MOST_NAMES else []
    return nearest(name, known) or f"known: {', '.join(known[:MOST_NAMES] + more) or 'none'}"


def nearest(name: object, known: Iterable[str]) -> str:
    """A question for the names most like `name`, whatever the case of letters; empty where there are none."""
    by_letters: dict[str, list[str]] = {}
    for right in known:
        by_letters.setdefault(right.casefold(), []).append(right)
    near = get_close_matches(str(name).casefold(), by_letters, n=3, cutoff=0.5)
    names = [repr(right) for letters in near for right in by_letters[letters]]
    return f"did you mean {' or '.join(names)}?" if names else ""


def enumerated(problems: Iterable[str], limit: int = 8) -> str:
    """The part of a message that lists problems, on one line: the first few in order, and how many more there are."""
    problems = sorted(problems)
    more = [f"and {len(problems) - limit} more"] if len(problems) > limit else []
    return "; ".join([repr(problem[:200])[1:-1] for problem in problems[:limit]] + more)


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """`UnknownNameError` for `name` among `known`, with the closest matches."""
    return UnknownNameError(f"unknown {kind} {name!r:.200}; {closest(name, known)}")
