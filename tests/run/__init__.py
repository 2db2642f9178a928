"""The keeper, recoveries, records: what changes a cluster over time, on the sandbox and under a driven clock."""
