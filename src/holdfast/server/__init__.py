"""The embedded server: found, configured, started under a lock, shared by every process of a project.

Its one rule: one server per data directory, and the kernel vouches for it: a server lives as long as the lock it holds.
"""

from holdfast.server.embedded import Embedded, Status

__all__ = ["Embedded", "Status"]
