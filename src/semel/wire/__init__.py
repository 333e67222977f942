"""Kafka's protocol as bytes: frames and messages, both directions, no sockets and no decisions.

``frames`` cuts headers and primitive fields, ``produce``, ``fetch`` and ``init_producer_id`` are written by
hand (the hot path, and the message that carries semel's own tagged fields), ``messages`` reaches everything
else through kio's generated schemas. ``api`` is the one table of what is served.
"""
