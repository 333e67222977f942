"""The proof that a topic holds every input exactly once, in order, and that no producer left a gap.

``checks`` and ``sequences`` decide and are pure; ``identity`` says what a row is; ``read`` feeds them from a
log; ``report`` tells the verdict. Nothing here knows the demo.
"""
