"""The root of every error that this package raises on purpose."""

from __future__ import annotations

__all__ = ["ComposerObsError", "InvalidInputError"]


class ComposerObsError(Exception):
    """Something that the user can act on.

    Every subclass carries a message that says what is wrong, where, and what to do next. The
    command line prints the message alone; a traceback means a fault of ours.

    Example:
        >>> raise ComposerObsError("run folder 'x' does not exist; pass the folder of a run")
        Traceback (most recent call last):
        ...
        composer_obs.errors.ComposerObsError: run folder 'x' does not exist; pass the folder of a run
    """


class InvalidInputError(ComposerObsError):
    """What was asked for cannot be done as it was asked: a wrong name, option, file or folder.

    The command line ends with exit code 2 for these, and with 3 for other errors.
    """
