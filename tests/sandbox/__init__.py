"""What is the sandbox's own: faults, clock, users, log, script. What it shares with a real server is in contract."""
