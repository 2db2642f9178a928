"""A scripted Flux (first part: the drain proof)."""

from __future__ import annotations

from fencectl.sandbox.storage import Storage
from fencectl.sandbox.store import Store


class Flux:
    """Does what Flux's controllers do, when told to."""

    def __init__(self, store: Store, storage: Storage) -> None:
        self._store = store
        self._storage = storage
