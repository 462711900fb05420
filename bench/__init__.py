"""Every figure that this project claims, one command each, beside its limit in the same run.

`python -m bench` runs them all, `python -m bench noop latency` some of them; `--json FILE` keeps the numbers.
"""
