"""Another program's conversation, put through Lamina's layers: what replay, `lamina.wrap` and whatever
else stands between an agent and its model decide by.
"""
