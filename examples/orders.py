"""A join that repairs itself: what each customer owes, although prices come late and are corrected afterwards.

docs/examples/orders.md has the picture.
"""

from dataclasses import dataclass
from typing import Any

from semel.flow import source


@dataclass
class Change:
    customer: str
    change: int


def change_of(billed: int, order: Any) -> tuple[int, Change | None]:
    """What an order's new amount adds to the last one that was told; its state is that amount."""
    amount = order.quantity * (order.price or 0)
    return amount, Change(order.customer, amount - billed) if amount != billed else None


orders = source("orders", json="order string, customer string, product string, quantity long")
prices = source("prices", json="product string, price long").as_table("product")

owed = (
    orders.key_by("product")
    .join(prices, how="left", repair=True)  # a new price sends the orders that met an older one once more
    .key_by("order")
    .fold(change_of, init=0)
    .key_by("customer")
    .sum("change", "owed")
    .to("owed")
)


def _owed(rows: Any) -> dict[str, int]:
    return {row["customer"]: row["owed"] for row in rows["owed"]}


ORDERS = [
    {"order": "1", "customer": "ann", "product": "tea", "quantity": 2},
    {"order": "2", "customer": "ann", "product": "cup", "quantity": 1},
    {"order": "3", "customer": "bob", "product": "tea", "quantity": 5},
]


def test_a_price_that_is_corrected_corrects_what_is_owed(run: Any) -> None:
    prices = [{"product": "tea", "price": 4}, {"product": "cup", "price": 9}, {"product": "tea", "price": 3}]
    assert _owed(run(owed, {"orders": ORDERS, "prices": prices})) == {"ann": 2 * 3 + 9, "bob": 5 * 3}


def test_an_order_without_a_price_waits_for_it(run: Any) -> None:
    prices = [{"product": "tea", "price": 4}]
    assert _owed(run(owed, {"orders": ORDERS, "prices": prices})) == {"ann": 8, "bob": 20}
