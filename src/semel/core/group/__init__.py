"""Consumer groups by the classic protocol: who is a member, who reads what, and how far each group has come.

``records`` are Kafka's, as they lie in ``__consumer_offsets``; ``offsets`` what is committed; ``states`` and ``group``
one group's members; ``membership`` all groups' members, timed; ``groups`` the core that the server drives. The new
protocol (KIP-848) is not there.
"""
