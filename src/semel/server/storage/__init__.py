"""The log on disk: Kafka's segment files, recovered exactly after any crash, durable before an answer."""
