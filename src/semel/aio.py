"""The client with ``await``: the names of the blocking one."""

from semel.client.aio_consumer import AsyncConsumer as Consumer
from semel.client.aio_consumer import ConsumerRecord
from semel.client.aio_producer import AsyncProducer as Producer
from semel.client.cluster import Cluster
from semel.client.delivery import Delivery, DeliveryReport
from semel.client.tables import StoredRange, TableDelivery

__all__ = [
    "Cluster",
    "Consumer",
    "ConsumerRecord",
    "Delivery",
    "DeliveryReport",
    "Producer",
    "StoredRange",
    "TableDelivery",
]
