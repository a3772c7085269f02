"""Liststore as an online store of Feast: rows are bags of entities, and lists are lists."""

from .online_store import ListstoreOnlineStore, ListstoreOnlineStoreConfig

__all__ = ["ListstoreOnlineStore", "ListstoreOnlineStoreConfig"]
