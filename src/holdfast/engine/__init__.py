"""The lease queue: entries in queues, and who holds them. It has never heard of tasks, lanes or flows.

`lua/` has one script a verb, `store` one method a verb, `keys` every key, `states` every state, `model` what
verbs take and answer, `wakeup` the channels that workers listen on.
"""
