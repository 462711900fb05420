"""Background jobs on Valkey and Redis that are never lost."""
