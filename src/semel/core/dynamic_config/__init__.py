"""Settings of brokers and groups that change while the server runs, Kafka's "dynamic configs" (KIP-226, KIP-1043)."""
