"""Orders, and prices that are corrected; in the end everybody owes by the last price of each product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from examples.cases import Case, differing
from examples.topics import Given, rows

ORDERS = 400  # of a part
CUSTOMERS = 40
ORDERS_OF_PRODUCT = 20  # a join repairs the last 100 rows of a key


def bought(dice: Random, number: int) -> Sequence[Given]:
    products = [f"p{number}-{place}" for place in range(ORDERS // ORDERS_OF_PRODUCT)]
    found = []
    for place in range(ORDERS):
        order = {"order": f"{number}-{place}", "customer": f"c{dice.randrange(CUSTOMERS)}"}
        order |= {"product": products[place % len(products)], "quantity": dice.randrange(1, 9)}  # type: ignore[dict-item]
        found.append(Given("orders", order))
        if dice.random() < 0.3:
            product = dice.choice(products)
            found.append(Given("prices", {"product": product, "price": dice.randrange(1, 100)}, key=product))
    return found


def wrong(bootstrap: str) -> list[str]:
    prices = {row["product"]: row["price"] for row in rows(bootstrap, "prices")}
    expected: Counter[str] = Counter()
    for order in rows(bootstrap, "orders"):
        expected[order["customer"]] += order["quantity"] * prices.get(order["product"], 0)
    last = {row["customer"]: row["owed"] for row in rows(bootstrap, "owed")}
    return differing("customer", last, expected)


CASE = Case("owed", {"orders": 3, "prices": 2}, bought, wrong)
