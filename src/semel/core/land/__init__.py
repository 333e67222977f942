"""Topics to tables, exactly once: what ``semel land`` decides. (Camus did it for Kafka and HDFS.)

**The law.** A table holds each committed row of its topics once, known by topic id, partition and offset, from where
the job began to the position that the table itself says. *The table is the only truth*: a position is saved in the
same commit as the rows in front of it, as a *mark*, a name with a number. In a Delta table a mark is a ``txn``
action, which outlives the log's checkpoints as custom metadata of a commit does not; a folder of Parquet files has it
in the manifest. The job's marks (:mod:`~semel.core.land.marks`) are its epoch, the topics' ids, for each partition
the offset behind the last row landed and the batch that this came of, and the number of the last file committed.

**How a job runs.**

1. *Fence.* A start reads the epoch and commits it raised by one, with no rows. Every commit names the epoch's mark,
   so that of an older copy meets a mark written since it last looked, and is refused whole: by the conflict check of
   Delta, or because the manifest's number is taken.
2. *Read.* Only then are positions read. What an older copy commits late is in front of the fence, hence read, or
refused.
3. *Clear.* Files of the job with an older epoch and a higher number than the last committed one were never committed,
   and never will be: they are removed. (Before the fence, they could still be committed by who writes them.)
4. *Write.* Rows go into Parquet files, whose names bear the epoch and a number that only rises. They are no rows of the
   table yet.
5. *Commit.* The files are closed and synced; one commit adds all of them and moves the marks.

**How it fails.** Killed in 1: the epoch was raised or not; nothing else. Killed in 2 to 4: the rows since the last
commit are read again, and their files are what the next start clears. Killed in 5: the commit is there, rows and
positions, or nothing of it is. An answer that is lost is looked up in the table, never guessed. Two copies: the older
is refused at its next commit, and told who holds the job. A copy that slept through everything is refused too: its
epoch is an older one for ever.

**What does not fit.** A value that is not of the schema becomes a row of the same table: its columns are null,
``_error`` says why, ``_value`` has its bytes. A second table for such rows would need a commit of its own, and a kill
between the two would have to be told from a loss by comparing positions; a row of one commit cannot be lost or
doubled alone. So is one that no folder can be named by (:mod:`~semel.core.land.fitting`).

**Remembered, and held against.** A topic is its id: one that was made anew, lost its end, or was trimmed in front of
the position is :class:`~semel.errors.DataLoss`, unless the job is told to go on (:mod:`~semel.core.land.starting`).
"""
