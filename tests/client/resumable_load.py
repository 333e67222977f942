"""A producer to be killed: ``python resumable_load.py BOOTSTRAP TOPIC IDENTITY ROWS SETTINGS-AS-JSON``."""

import json
import sys

import semel

bootstrap, topic, identity, row_count, settings = sys.argv[1:]
with semel.Producer(
    bootstrap, identity_store=identity, save_interval_ms=20, **json.loads(settings)
) as producer:
    print("resumed", producer.position, flush=True)
    for position, row in producer.resume(range(int(row_count))):
        producer.send(topic, f"{row}", key=f"key-{row % 37}" if row % 3 else None, position=position)
        if row % 500 == 0:
            print(row, flush=True)
    producer.flush()
    print("dropped", producer.rows_dropped, flush=True)
