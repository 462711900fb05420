"""The only room that talks to the server, and the only one that imports `redis`.

A request is a value (`Call`: script, keys, arguments, decoder); `sync` and `aio` are two small drivers that run it.
"""
