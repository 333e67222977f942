"""The log server: an asyncio shell around decisions that need no socket.

A request's way: ``connection`` cuts a frame from its socket, ``broker`` finds the API's handler, the handler
(``handlers/``, one file an API) asks ``storage`` and the core and returns an :mod:`outcome
<semel.server.outcome>`: an answer, an answer once some partitions are durable (``durability``), or an answer
once there is something to read (``parked``). Handlers know neither sockets nor clocks nor threads, so the
simulator drives the very same code.
"""
