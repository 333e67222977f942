"""What several servers share in a ZooKeeper. The only room that knows kazoo; the rest sees small interfaces."""
