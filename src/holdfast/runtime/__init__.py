"""What runs jobs: a supervisor that never runs any, and children that do nothing else.

`worker` puts a worker together, `supervisor` keeps its children alive and their leases fresh, `child` is one process,
`fetcher` its only loop that asks for work, `threads` and `loop` run it, `limits` interrupts what is over time, `slots`
says what had started when a child died, `sweeper` takes back what others left.
"""
