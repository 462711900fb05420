"""Background jobs on Valkey and Redis that are never lost."""

from holdfast.app import Holdfast
from holdfast.errors import (
    ArgumentError,
    Cancelled,
    DurabilityUncertain,
    EmbeddedError,
    HoldfastError,
    JobCancelled,
    JobDead,
    JobEnded,
    JobExpired,
    JobNotFound,
    OptionError,
    PayloadError,
    QueueFull,
    ResultTimeout,
    ServerError,
    TimeLimit,
    Unavailable,
    UnknownTask,
    UsageError,
)
from holdfast.tasks.current import current_job
from holdfast.tasks.ends import Cancel, Retry, Snooze
from holdfast.tasks.job import Job
from holdfast.tasks.source import Run
from holdfast.tasks.step import Line, Progress
from holdfast.tasks.task import Task

__all__ = [
    "ArgumentError",
    "Cancel",
    "Cancelled",
    "DurabilityUncertain",
    "EmbeddedError",
    "Holdfast",
    "HoldfastError",
    "Job",
    "JobCancelled",
    "JobDead",
    "JobEnded",
    "JobExpired",
    "JobNotFound",
    "Line",
    "OptionError",
    "PayloadError",
    "Progress",
    "QueueFull",
    "ResultTimeout",
    "Retry",
    "Run",
    "ServerError",
    "Snooze",
    "Task",
    "TimeLimit",
    "Unavailable",
    "UnknownTask",
    "UsageError",
    "current_job",
]
__version__ = "0.1.0"
