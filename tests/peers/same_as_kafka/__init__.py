"""The same requests to semel and to a real Apache Kafka, byte for byte, and what both answer side by side.

    python tools/same_as_kafka.py                  # everything, as a table; exits 1 on a difference
    python tools/same_as_kafka.py max_timestamp    # the cases with this in their name

A case is a function in a module of ``cases/`` (one module a theme; they are found by themselves). It is given a
connection to one server, does not know which, and returns what it saw as something plain that prints well::

    @case()
    def delete_records_before_list_offsets(wire: Wire) -> object:
        topic = wire.new_topic()
        wire.produce(topic, b"a", b"b", b"c")
        wire.send("delete_records", 2, topics=[...], timeout=10_000)  # no answer is read yet: pipelined
        wire.send("list_offsets", 6, replica_id=-1, isolation_level=0, topics=[...])
        deleted, listed = wire.receive(), wire.receive()
        return {"offset": listed.topics[0].partitions[0].offset}

``wire.ask(api, version, **fields)`` is both at once. Fields are kio's, that is Kafka's own in snake case, a time in
milliseconds without its ``_ms`` (``timeout``); a field without a default must be given. An answer is kio's dataclass:
``error_code.name`` prints best (kio writes them small), and ``plain(answer)`` is all of it. APIs and versions that
semel does not serve can be asked for as well; a server that hangs up makes ``receive`` raise
:class:`ConnectionClosed`, which a case may take for its observation.

What differs for a good reason says so, and is held to it on both sides::

    @case(because="semel has no share groups", semel="invalid_request", kafka="none")
    def ...

A case whose two sides turn out the same although it explains a difference is a difference, too. Where a part of an
observation is explained and the rest must be the same, write two cases.

Both servers have one node, whose id is 1, and default settings but for ``num.partitions=1`` and
``group.initial.rebalance.delay.ms=0``. Names of topics are the case's own (``new_topic`` makes one, ``name`` gives one
that is not there); what a case sees of the whole server it has to narrow to those. Cases of consumer groups ask through
a ``Group`` (``grouping.py``).
"""

from tests.peers.same_as_kafka.comparing import case
from tests.peers.same_as_kafka.wire import ConnectionClosed, Wire, plain, records

__all__ = ["ConnectionClosed", "Wire", "case", "plain", "records"]
