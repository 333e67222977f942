"""Copying topics from cluster to cluster: what is decided, and what stands in the job's journal.

**The plan goes first.** A copy keeps position and identity in one place, a journal on the destination (flows.md, rule
13; the 2012 proposal's MirrorMaker). Its records say *before* anything is sent which of the source's rows come next,
and under which sequences of which producer. So every row that the destination stores names its own place in the
source, by (producer id, epoch, sequence), though it carries nothing but what it had there: keys, values, headers and
timestamps are the source's, and so are whole batches wherever they can stay as they are.

::

    source                 journal                                    destination
    offsets 40..99    ->   NEXT  rows 40..99 are sequences 0..59  ->  batches, sequences 0..59
                           (durable)                                  (stored in that order, or not at all)

**Who comes next** (killed, overtaken, or started on another machine) takes the name's identity with a raised epoch,
appends HELD, reads the journal up to it, shuts the one before out of every partition that the journal names, at its
exact epoch, and looks for the last sequence that is stored there. That sequence says which row of the source was the
last one, whatever was in flight, whatever has been compacted away at either end since, and whoever else writes there.
Then it appends BEGUN, and goes on behind that row.

What can go wrong, and what it comes to:

* Killed between NEXT and the rows, or among them: the rows that are stored are a prefix of the plan; the rest follows.
* Two at once: the journal's order of HELDs says whose records count. The older is refused by the journal, or finds the
  newer HELD in front of its own record, and stops before it sends; what it has in flight is refused at the partitions.
  One that has lost its connection looks whether the job is still its own before it takes it over from itself.
* A broker forgets a name or a producer (Apache Kafka: after a week, after a day): the next HELD has another producer
  id, and the journal's order decides all the same. A holder that stood still for a minute looks before it sends.
* The destination lost rows that it had acknowledged (a leader's folder put back from an older copy): NEXT says how much
  was acknowledged, so this is told. So is a source that lost its end: the last batch's CRC is in the journal.
* The journal alone was put back: an output has rows or fences of the job's own producer at an epoch that it does not
  know. Who goes on by it would double what was copied since; this is told. So is one that was put back under a copy:
  its own HELD is not there, and who held the job before is no newer copy.
* A topic that was deleted and made anew, at either end, is another topic: offsets are held by the topic's id.

:mod:`~semel.core.copy.spans` counts rows in offsets with gaps, :mod:`~semel.core.copy.journal` is what stands there,
:mod:`~semel.core.copy.history` what it adds up to, :mod:`~semel.core.copy.tenure` whether a job is still its own,
:mod:`~semel.core.copy.resume` where the next one goes on, :mod:`~semel.core.copy.translate` what an offset of the
source is at the destination, :mod:`~semel.core.copy.clean` which rows of a doubling writer come,
:mod:`~semel.core.copy.pace` how fast they may.
"""
