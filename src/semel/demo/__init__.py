"""The demonstration: a year of flights through every kind of crash, and the proof that nothing shows.

``data`` reads the flights; ``load``, ``stream``, ``semel copy`` and ``semel land`` are the children that get killed.
``run`` plays the story in four acts, ``loading``, ``streaming``, ``copying`` and ``landing``, on one ``scene``;
``timeline``, ``lives``, ``verdicts`` and ``sink_journal`` measure, ``proof`` proves, ``summary``, ``report`` and
``plots`` tell it. A program over the public client, the Spark format, the commands and the audit: no back doors.
"""
