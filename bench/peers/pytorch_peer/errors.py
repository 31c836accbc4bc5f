# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The errors that end a command, with ddpbench's exit codes."""


class PeerError(Exception):
    """A failure with the exit code and the report's word for its kind."""

    exit_code = 1
    kind = "internal"


class UsageError(PeerError):
    """An error in usage, configuration or data."""

    exit_code = 2
    kind = "config"


class UnavailableError(PeerError):
    """Something that the user asked for is not here."""

    exit_code = 3
    kind = "unavailable"


RANK_LOST = 4
INTERRUPTED = 130
