# SPDX-License-Identifier: Apache-2.0
"""A client of Tenax, a durable job server.

``Client`` enqueues jobs and asks the server anything else; ``Worker`` runs a function for each job.
Only the standard library is used.
"""

from .client import Client
from .errors import (ApiError, BadRequest, Conflict, ConnectionFailed, Failure, Forbidden,
                     ForeignAnswer, GiveBack, LeaseLost, NotFound, ServerError, StaleToken,
                     TenaxError, Unauthorized, Unprocessable)
from .job import Job
from .worker import Worker

__version__ = "0.1.0"
__all__ = ["ApiError", "BadRequest", "Client", "Conflict", "ConnectionFailed", "Failure",
           "Forbidden", "ForeignAnswer", "GiveBack", "Job", "LeaseLost", "NotFound", "ServerError", "StaleToken",
           "TenaxError", "Unauthorized", "Unprocessable", "Worker"]
