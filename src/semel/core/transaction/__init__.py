"""Transactions: who may write under which transactional id, and how what was written ends. Log-backed.

A transactional id is a producer id whose epoch rises with each grant, and, from the first partition on, what was
written since the last end. ``__transaction_state`` has one record of each, in Kafka's form.

states          in which a transaction can be, and which may follow which
transaction     one transactional id's
records         what lies in the log
requests        what is asked, and what is answered
transactions    all of them: decide, apply
"""
