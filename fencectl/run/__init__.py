"""What changes a cluster over time: the keeper of a lease, recoveries, records. Sees ports, never sockets."""
