"""What a log's files mean: names, indexes, where to cut after a crash, when to roll, what retention takes."""
