"""Kafka's record batch, version 2: the one form in which records travel, rest and are deduplicated.

Rows
    :mod:`~semel.record.batch` (header, CRC, whole batches), :mod:`~semel.record.records` (what is inside),
    :mod:`~semel.record.varint`, :mod:`~semel.record.control` (transaction markers),
    :mod:`~semel.record.where` (which of them an SQL condition chooses), :mod:`~semel.record.json_values` (what JSON
    in a value is), :mod:`~semel.record.json_sql` (the same for SQL).
Columns
    :mod:`~semel.record.columnar` (to and from Arrow), :mod:`~semel.record.index` (where every field lies).
Both
    :mod:`~semel.record.compression`, :mod:`~semel.record.partitioner`.

Invariant of all decoders: input of any kind gives a value or
:class:`~semel.errors.CorruptRecordBatch`; never another exception, a hang, a read outside of the batch,
or an allocation beyond the bound that :func:`semel.record.compression.decompress` states.
"""
