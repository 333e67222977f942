"""The consumer's decisions: its place in a group, and which member reads which partitions."""
