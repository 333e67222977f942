"""Mutation fuzzing of the decoders: ``python -m fuzz.<target> --runs N --seed S``.

A failure prints the run that repeats it alone. Targets: batches, records, columns, compression, control, requests.
"""
