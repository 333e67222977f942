"""Side by side with Apache Kafka and Spark's Kafka connector, in one run: ``python -m bench [--quick]``."""
