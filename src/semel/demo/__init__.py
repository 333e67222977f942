"""The demonstration: a year of flights through every kind of crash, and the proof that nothing shows.

``data`` reads the flights, ``load`` and ``stream`` are the children that get killed, ``timeline`` measures,
``run`` plays the story, ``proof`` proves it, ``report`` and ``plots`` draw it. A program over the public
client, the Spark format and the audit: no back doors.
"""
