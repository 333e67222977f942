"""The demonstration: a year of flights through every kind of crash, and the proof that nothing shows.

``data`` reads the flights, ``load`` and ``stream`` are the children that get killed. ``run`` plays the story in
two acts, ``loading`` and ``streaming``, on one ``scene``; ``timeline``, ``lives``, ``verdicts`` and ``sink_journal``
measure, ``proof`` proves, ``summary``, ``report`` and ``plots`` tell it. A program over the public client, the Spark
format and the audit: no back doors.
"""
