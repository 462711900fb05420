"""Plain jobs: a function, its arguments, and what happens when it fails.

`signature` and `envelope` turn a call into bytes and back, `task` is the public noun, `job` what `enqueue` returns,
`ends` what a task may end with, `current` the run that is going on, `step` what it says and brings, `source` what
a worker makes of an entry.
"""
