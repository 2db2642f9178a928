"""
What fencectl relies on at the API server, run on the sandbox and on a real kube-apiserver.

The real server is right by definition. Whatever differs is a defect of the sandbox.
"""
